"""What a VerticalPodAutoscaler means: defaults, aliases, precedence."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.manifests import boosted, policy, requirements, vpa
from trellis.api.kinds.vpa import RecommenderSelector, VerticalPodAutoscaler
from trellis.api.resolve import (
    BoostKind,
    ChangeRequirement,
    EffectiveVpa,
    UpdateMode,
    is_applied_to_pods,
    resolve_vpa,
    selects_recommender,
)
from trellis.base.quantities import Quantity

DEFAULT_60S = {"cpu": {"type": "Factor", "factor": 3, "duration": "60s"}}


def meaning(document: dict[str, Any]) -> EffectiveVpa:
    return resolve_vpa(msgspec.convert(document, VerticalPodAutoscaler))


@pytest.mark.req("CR-22")
def test_an_absent_policy_leaves_every_field_at_its_default() -> None:
    plain = meaning(vpa())
    assert plain.mode is UpdateMode.RECREATE
    assert plain.min_replicas is None
    assert plain.requirements == ()
    assert plain.warnings == ()
    container = plain.get_container("any")
    assert container.is_scaled
    assert container.controlled == ("cpu", "memory")
    assert container.scales_limits
    assert container.min_allowed == {}
    assert container.max_allowed == {}
    assert container.boost is None


@pytest.mark.parametrize(
    ("written", "mode"),
    [
        ("Off", UpdateMode.OFF),
        ("Initial", UpdateMode.INITIAL),
        ("Recreate", UpdateMode.RECREATE),
        ("InPlaceOrRecreate", UpdateMode.IN_PLACE_OR_RECREATE),
        ("InPlace", UpdateMode.IN_PLACE),
        ("InPlaceOnly", UpdateMode.IN_PLACE),
        ("Auto", UpdateMode.RECREATE),
        (None, UpdateMode.RECREATE),
    ],
)
@pytest.mark.req("AR-23", "SB-51")
def test_modes_and_their_aliases(written: str | None, mode: UpdateMode) -> None:
    assert meaning(vpa(updatePolicy={"updateMode": written})).mode is mode


def test_an_unknown_mode_acts_on_nothing_and_warns() -> None:
    effective = meaning(vpa(updatePolicy={"updateMode": "Teleport"}))
    assert effective.mode is UpdateMode.OFF
    assert "treated as Off" in str(effective.warnings[0])


def test_deprecated_mode_is_among_the_warnings() -> None:
    (warning,) = meaning(vpa(updatePolicy={"updateMode": "Auto"})).warnings
    assert warning.reason.code == "Deprecated"


# Which recommender serves it


@pytest.mark.req("CR-02", "CR-10")
@pytest.mark.parametrize("recommenders", [None, [], [{"name": "default"}]])
def test_only_default_serves_objects_that_name_no_recommender(recommenders: Any) -> None:
    effective = meaning(vpa(recommenders=recommenders))
    assert effective.recommender == "default"
    assert effective.is_served_by("default")
    assert not effective.is_served_by("weekly")


@pytest.mark.req("CR-09")
@pytest.mark.parametrize("other", ["Weekly", "weekly ", "week", "default", ""])
def test_names_of_recommenders_compare_letter_for_letter(other: str) -> None:
    effective = meaning(vpa(recommenders=[{"name": "weekly"}]))
    assert effective.is_served_by("weekly")
    assert not effective.is_served_by(other)


@pytest.mark.req("CR-06")
def test_recommenders_match_in_lists_of_any_length() -> None:
    both = [RecommenderSelector("a"), RecommenderSelector("b")]
    assert selects_recommender(both, "a")
    assert selects_recommender(both, "b")
    assert not selects_recommender(both, "default")


@pytest.mark.req("CR-11")
@given(st.sampled_from([None, "default", "a", "b"]), st.sets(st.sampled_from(["default", "a", "b"])))
def test_at_most_one_running_recommender_serves_an_object(named: str | None, running: set[str]) -> None:
    effective = meaning(vpa(recommenders=[{"name": named}] if named else None))
    assert {name for name in running if effective.is_served_by(name)} == running & {named or "default"}


@pytest.mark.req("CR-19")
def test_a_label_selects_no_recommender() -> None:
    document = vpa()
    document["metadata"]["labels"] = {"recommender": "weekly"}
    assert meaning(document).recommender == "default"


@pytest.mark.req("CR-07")
def test_parameters_reach_the_recommender_that_serves_the_object() -> None:
    effective = meaning(vpa(recommenders=[{"name": "weekly", "parameters": {"percentile": "0.95"}}]))
    assert effective.parameters == {"percentile": "0.95"}


# Requirements


@pytest.mark.req("AR-02")
def test_resources_are_read_in_either_spelling() -> None:
    (requirement,) = meaning(
        requirements({"resources": ["CPU", "Memory"], "changeRequirement": "TargetLowerThanOrEqualToRequests"})
    ).requirements
    assert requirement.resources == {"cpu", "memory"}
    assert requirement.change is ChangeRequirement.LOWER_OR_EQUAL


def test_eviction_requirements_apply_only_to_eviction() -> None:
    up = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
    theirs = meaning(vpa(updatePolicy={"updateMode": "Recreate", "evictionRequirements": [up]}))
    ours = meaning(requirements(up))
    assert theirs.requirements == ours.requirements
    assert theirs.requirements_for_eviction_only
    assert not ours.requirements_for_eviction_only


def test_a_requirement_of_a_newer_version_is_never_satisfied() -> None:
    (requirement,) = meaning(requirements({"resources": ["cpu"], "changeRequirement": "TargetPrime"})).requirements
    assert requirement.change is ChangeRequirement.NEVER


# Boost


@pytest.mark.req("SB-05")
def test_the_pods_boost_is_every_containers_default() -> None:
    effective = meaning(boosted(type="Factor", factor=3))
    for name in ("app", "sidecar"):
        boost = effective.get_container(name).boost
        assert boost is not None
        assert (boost.kind, boost.factor) == (BoostKind.FACTOR, 3)


@pytest.mark.req("SB-06")
def test_a_containers_boost_replaces_the_pods_boost_entirely() -> None:
    own = {"cpu": {"type": "Quantity", "quantity": "500m"}}
    document = policy(startupBoost=own)
    document["spec"]["startupBoost"] = DEFAULT_60S
    boost = meaning(document).get_container("app").boost
    assert boost is not None
    assert (boost.kind, boost.quantity) == (BoostKind.QUANTITY, Quantity.parse("500m"))
    assert boost.duration.total_seconds() == 0
    other = meaning(document).get_container("other").boost
    assert other is not None
    assert other.duration.total_seconds() == 60


@pytest.mark.req("SB-07")
def test_a_boost_without_cpu_switches_the_default_off() -> None:
    document = policy(startupBoost={})
    document["spec"]["startupBoost"] = DEFAULT_60S
    assert meaning(document).get_container("app").boost is None
    assert meaning(document).get_container("other").boost is not None
    assert meaning(vpa(startupBoost={})).get_container("app").boost is None


@pytest.mark.req("SB-24", "SB-54")
def test_a_factor_of_one_is_no_boost() -> None:
    document = policy(startupBoost={"cpu": {"type": "Factor", "factor": 1}})
    document["spec"]["startupBoost"] = {"cpu": {"type": "Factor", "factor": 2}}
    assert meaning(document).get_container("app").boost is None
    other = meaning(document).get_container("other").boost
    assert other is not None
    assert other.factor == 2


def test_a_quantity_of_zero_is_no_boost() -> None:
    assert meaning(boosted(type="Quantity", quantity="0")).get_container("app").boost is None


@pytest.mark.req("SB-14")
def test_the_boost_duration_defaults_to_zero_in_either_field() -> None:
    def seconds(**cpu: Any) -> float:
        boost = meaning(boosted(type="Factor", factor=2, **cpu)).get_container("app").boost
        assert boost is not None
        return boost.duration.total_seconds()

    assert seconds() == 0
    assert seconds(duration="1m30s") == 90
    assert seconds(durationSeconds=45) == 45


def test_without_give_up_after_a_boost_never_expires_before_ready() -> None:
    never = meaning(boosted(type="Factor", factor=2)).get_container("app").boost
    later = meaning(boosted(type="Factor", factor=2, giveUpAfterSeconds=300)).get_container("app").boost
    assert never is not None
    assert never.give_up_after is None
    assert later is not None
    assert later.give_up_after is not None
    assert later.give_up_after.total_seconds() == 300


@pytest.mark.req("SB-26")
def test_a_boost_in_a_named_policy_applies_only_to_that_container() -> None:
    effective = meaning(policy(startupBoost={"cpu": {"type": "Factor", "factor": 2}}))
    assert effective.get_container("app").boost is not None
    assert effective.get_container("other").boost is None


@pytest.mark.req("SB-25")
def test_boost_depends_on_neither_mode_nor_controlled_resources() -> None:
    boost = {"cpu": {"type": "Factor", "factor": 2}}
    for fields in ({"mode": "Off"}, {"controlledResources": ["memory"]}, {"maxAllowed": {"cpu": "1m"}}):
        assert meaning(policy(startupBoost=boost, **fields)).get_container("app").boost is not None
    off = vpa(updatePolicy={"updateMode": "Off"}, startupBoost=boost)
    assert meaning(off).get_container("app").boost is not None


# Container policies


def test_a_named_policy_takes_precedence_over_the_wildcard() -> None:
    policies = [
        {"containerName": "*", "mode": "Off"},
        {"containerName": "app", "controlledValues": "RequestsOnly", "controlledResources": ["memory"]},
    ]
    effective = meaning(vpa(resourcePolicy={"containerPolicies": policies}))
    assert not effective.get_container("other").is_scaled
    assert effective.get_container("app").is_scaled
    assert effective.get_container("app").controlled == ("memory",)
    assert not effective.get_container("app").scales_limits


def test_of_two_policies_for_one_name_the_first_counts_and_of_two_stars_the_last() -> None:
    policies = [
        {"containerName": "app", "mode": "Off"},
        {"containerName": "app"},
        {"containerName": "*"},
        {"containerName": "*", "mode": "Off"},
    ]
    effective = meaning(vpa(resourcePolicy={"containerPolicies": policies}))
    assert not effective.get_container("app").is_scaled
    assert not effective.get_container("other").is_scaled


def test_unreadable_stored_amounts_are_ignored() -> None:
    app = meaning(policy(minAllowed={"cpu": "lots", "memory": "1Gi"})).get_container("app")
    assert app.min_allowed == {"memory": Quantity.parse("1Gi")}


@pytest.mark.parametrize(
    "mode", [None, "Off", "Initial", "Recreate", "Auto", "InPlaceOrRecreate", "InPlace", "Whenever"]
)
def test_the_acting_vpa_is_one_with_an_acting_mode(mode: str | None) -> None:
    written = [{"updatePolicy": {"updateMode": mode}}] if mode is not None else [{}, {"updatePolicy": {}}]
    for spec in written:
        converted = msgspec.convert(vpa(**spec), VerticalPodAutoscaler)
        assert is_applied_to_pods(converted) is (resolve_vpa(converted).mode is not UpdateMode.OFF)
