"""Conditions: which are true, their messages, and their transition times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from support.worlds.vpas import DAY, MINUTE, NAMESPACE, Stub, World
from trellis.base.times import format_time
from trellis.core.recommend.state.condition_types import CONDITION_TYPES


def text_of(time: float) -> str:
    return format_time(datetime.fromtimestamp(time, UTC))


def stub_world() -> tuple[World, Stub]:
    stub = Stub("default", (500, 1000, 2000))
    shop = World(stub)
    shop.apply()
    shop.run_pods()
    shop.run()
    return shop, stub


def test_conditions_are_sorted_and_carry_the_generation() -> None:
    shop, _ = stub_world()
    shop.set_state(rivals=("older", "oldest"), fetching_history=True, problem="no")
    shop.run()
    listed = shop.status()["conditions"]
    assert [condition["type"] for condition in listed] == sorted(condition["type"] for condition in listed)
    assert {condition["observedGeneration"] for condition in listed} == {1}
    assert shop.true_conditions() == {
        "RecommendationProvided",
        "ConfigUnsupported",
        "ConflictingVPA",
        "FetchingHistory",
    }


@pytest.mark.parametrize(
    "policies",
    [
        [{"containerName": "*", "mode": "Off"}],
        [{"containerName": "app", "mode": "Off"}, {"containerName": "proxy", "controlledResources": []}],
    ],
)
def test_without_containers_to_size_the_condition_has_the_reason_nothing_to_size(
    policies: list[dict[str, object]],
) -> None:
    shop = World()
    shop.apply(resourcePolicy={"containerPolicies": policies})
    shop.run_pods("web", "app", "proxy")
    shop.ingest_usage(1.0, 1e9, minutes=2)
    shop.run()
    provided = shop.conditions()["RecommendationProvided"]
    assert (provided["status"], provided["reason"]) == ("False", "NothingToSize")
    shop.apply(resourcePolicy={"containerPolicies": policies[:1]} if len(policies) > 1 else {})
    shop.run()
    assert shop.conditions()["RecommendationProvided"]["status"] == "True"


def test_the_time_of_a_transition_moves_only_with_the_status() -> None:
    shop, _ = stub_world()
    began = shop.now
    shop.now += DAY
    shop.set_state(problem="first")
    shop.run()
    reported_at = shop.now
    shop.now += DAY
    shop.set_state(problem="second")
    shop.restart()
    shop.run()
    provided, config = shop.conditions()["RecommendationProvided"], shop.conditions()["ConfigUnsupported"]
    assert config["message"] == "second"
    assert (provided["lastTransitionTime"], config["lastTransitionTime"]) == (text_of(began), text_of(reported_at))
    shop.set_state(problem="")
    shop.run()
    assert "ConfigUnsupported" not in shop.conditions()
    shop.set_state(problem="again")
    shop.run()
    assert shop.conditions()["ConfigUnsupported"]["lastTransitionTime"] == text_of(shop.now)


def test_a_younger_vpa_reports_the_governing_vpa() -> None:
    shop, _ = stub_world()
    shop.set_state(rivals=("older",))
    shop.run()
    condition = shop.conditions()["ConflictingVPA"]
    assert condition["message"] == (
        "pods that this object matches are governed by an older VerticalPodAutoscaler: older"
    )
    assert condition["reason"] == "OlderVPAGoverns"
    shop.set_state(rivals=())
    shop.run()
    assert "ConflictingVPA" not in shop.conditions()


def test_fetching_history_is_a_condition_while_it_lasts() -> None:
    shop, _ = stub_world()
    shop.set_state(fetching_history=True)
    shop.run()
    assert shop.conditions()["FetchingHistory"]["status"] == "True"
    shop.set_state(fetching_history=False)
    shop.run()
    assert "FetchingHistory" not in shop.conditions()


def test_low_confidence_has_the_length_of_history_in_its_message() -> None:
    shop = World()
    shop.apply()
    shop.run_pods()
    shop.ingest_usage(minutes=10)
    shop.run()
    condition = shop.conditions()["LowConfidence"]
    assert condition["status"] == "True"
    assert condition["message"] == "container app has a history of 10 samples over 9m0s"


def test_low_confidence_ends_with_enough_history_and_a_changed_message_alone_is_not_written() -> None:
    shop, stub = stub_world()
    stub.confidence = 0.25
    shop.run()
    assert "LowConfidence" in shop.true_conditions()
    shop.ingest_usage(minutes=3)
    stub.confidence = 0.5
    assert shop.run() == []
    stub.confidence = 1.0
    shop.run()
    assert "LowConfidence" not in shop.conditions()


def test_the_container_with_the_least_history_is_named() -> None:
    shop = World()
    shop.apply()
    shop.run_pods("web", "app")
    shop.ingest_usage(minutes=5)
    shop.run_pods("web", "app", "late")
    shop.ingest_usage(minutes=2)
    shop.run()
    assert "container late has a history of 2 samples" in shop.conditions()["LowConfidence"]["message"]


def test_a_recommender_without_a_notion_of_confidence_is_not_unsure() -> None:
    shop, _ = stub_world()
    assert shop.true_conditions() == {"RecommendationProvided"}


def test_conditions_of_others_are_dropped_with_the_next_write_but_cause_none() -> None:
    shop, _ = stub_world()
    shop.status()["conditions"].append({"type": "Blessed", "status": "True"})
    shop.status()["conditions"].append({"type": "ConfigDeprecated", "status": "True"})
    shop.store("web", shop.stored["web"])
    assert shop.run() == []
    shop.set_state(rivals=("older",))
    shop.run()
    assert shop.true_conditions() == {"RecommendationProvided", "ConflictingVPA"}


def test_an_own_condition_that_does_not_hold_is_removed() -> None:
    shop, _ = stub_world()
    shop.status()["conditions"].append({"type": "LowConfidence", "status": "True"})
    shop.store("web", shop.stored["web"])
    shop.run()
    assert shop.true_conditions() == {"RecommendationProvided"}


def test_deprecated_configuration_is_never_reported() -> None:
    assert "ConfigDeprecated" not in CONDITION_TYPES.values()


@pytest.mark.req("CR-07")
def test_a_bad_parameter_affects_one_vpa_only() -> None:
    shop = World()
    for name, parameters in (("web", {}), ("bad", {"target-cpu-percentile": "90"}), ("odd", {"percentile": "0.9"})):
        shop.apply(name, recommenders=[{"name": "default"}])
        shop.run_pods(name)
        shop.ingest_usage(vpa=name, minutes=2)
        shop.run()
        shop.apply(name, recommenders=[{"name": "default", "parameters": parameters}])
    before = shop.advice("bad")
    shop.now += MINUTE
    result = shop.decide()
    assert {(parameter.namespace, parameter.vpa) for parameter in result.bad_parameters} == {
        (NAMESPACE, "bad"),
        (NAMESPACE, "odd"),
    }
    shop.run()
    condition = shop.conditions("bad")["ConfigUnsupported"]
    assert condition["message"] == (
        'spec.recommenders[0].parameters[target-cpu-percentile]: Invalid value: "90": must be at most 1'
    )
    assert condition["reason"] == "BadParameters"
    assert "no such parameter" in shop.conditions("odd")["ConfigUnsupported"]["message"]
    assert shop.advice("bad") == before
    assert shop.true_conditions("bad") == {"RecommendationProvided", "ConfigUnsupported", "LowConfidence"}
    assert "ConfigUnsupported" not in shop.conditions("web")
    shop.ingest_usage(4.0, vpa="web")
    assert [write.name for write in shop.run()] == ["web"]


@pytest.mark.req("CR-07", "CR-23")
def test_parameters_reach_the_recommender_and_can_differ_from_vpa_to_vpa() -> None:
    shop = World()
    shop.apply("plain")
    shop.apply("tight", recommenders=[{"name": "default", "parameters": {"recommendation-margin-fraction": "0"}}])
    for name in ("plain", "tight"):
        shop.run_pods(name)
        shop.ingest_usage(vpa=name, minutes=2)
    shop.run()
    assert shop.target("plain")["cpu"] == "1168m"
    assert shop.target("tight")["cpu"] == "1016m"
    assert len(shop.vpa_store.groups) == 2
    shop.apply("tight")
    shop.run()
    assert shop.target("tight")["cpu"] == "1168m"
    assert len(shop.vpa_store.groups) == 1


def test_a_bad_parameter_and_a_missing_target_are_both_in_the_message() -> None:
    shop = World()
    shop.apply(recommenders=[{"name": "default", "parameters": {"x": "y"}}])
    shop.set_state(problem="Cannot read targetRef")
    shop.run()
    message = shop.conditions()["ConfigUnsupported"]["message"]
    assert message.startswith("Cannot read targetRef; spec.recommenders[0].parameters[x]")


def test_a_vpa_in_mode_off_names_the_acting_vpa() -> None:
    shop, _ = stub_world()
    shop.set_state(rivals=("young",), is_outranked=True)
    shop.run()
    condition = shop.conditions()["ConflictingVPA"]
    assert (
        condition["message"]
        == "pods that this object matches are governed by a VerticalPodAutoscaler that is not in mode Off: young"
    )
    assert condition["reason"] == "ActingVPAGoverns"
