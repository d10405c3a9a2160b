"""What a boosted container goes back to, in every mode, without ever changing the class of its pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.manifests import vpa
from support.worlds.boosts import Life, container, effective, end, limit_range, pod, start, with_memory
from trellis.api.kube.pods import PodSpec, ResourceRequirements
from trellis.api.resolve import EffectiveVpa
from trellis.core.boost.annotation import annotation_key, read_pre_boost_resources
from trellis.core.boost.phases import determine_boost_phases
from trellis.core.boost.unboosted_size import UnboostedContainer, unboost_containers
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.shapes import PodShape

READY = 100.0


def factor(number: int = 2, **spec: Any) -> EffectiveVpa:
    return effective(vpa(startupBoost={"cpu": {"type": "Factor", "factor": number}}, **spec))


def quantity(text: str, **spec: Any) -> EffectiveVpa:
    return effective(vpa(startupBoost={"cpu": {"type": "Quantity", "quantity": text}}, **spec))


def mode(name: str) -> dict[str, Any]:
    return {"updatePolicy": {"updateMode": name}}


def app_policy(**fields: Any) -> dict[str, Any]:
    return {"resourcePolicy": {"containerPolicies": [{"containerName": "app", **fields}]}}


def ended(life: Life, meaning: EffectiveVpa, targets: dict[str, Any] | None = None, **more: Any) -> Life:
    return end(life, meaning, targets, now=READY, ready_since=READY, **more)


def reasons(life: Life) -> list[str]:
    return [container.reason.code for container in life.ended]


# To the recommendation


@pytest.mark.req("SB-31", "SB-33")
@pytest.mark.parametrize("name", ["Auto", "Recreate", "InPlaceOrRecreate", "Initial", "InPlace", "InPlaceOnly"])
def test_a_boost_ends_with_the_recommendation_of_that_moment(name: str) -> None:
    meaning = factor(**mode(name))
    began = start(pod(), meaning, {"app": "400m"})
    after = ended(began, meaning, {"app": "600m"})
    assert (began.cpu(), after.cpu(), after.annotations) == ((800, None), (600, None), {})
    assert reasons(after) == ["UnboostedToRecommendation"]


@pytest.mark.req("SB-32")
def test_the_recommendation_is_applied_even_if_it_is_above_the_boost() -> None:
    began = start(pod(), factor())
    assert began.cpu() == (1000, None)
    assert ended(began, factor(), {"app": "1500m"}).cpu() == (1500, None)


@pytest.mark.req("SB-38")
@pytest.mark.parametrize(
    ("target", "gets"), [("100m", 250), ("350m", 350), ("900m", 500)], ids=["minimum", "within", "maximum"]
)
def test_what_it_ends_with_is_capped_as_any_other(target: str, gets: int) -> None:
    meaning = factor(**app_policy(minAllowed={"cpu": "250m"}, maxAllowed={"cpu": "500m"}))
    assert ended(start(pod(), meaning, {"app": "400m"}), meaning, {"app": target}).cpu() == (gets, None)


@pytest.mark.req("SB-38")
def test_what_it_ends_with_fits_a_limit_range() -> None:
    began = start(pod(container("500m", "500m")), factor(3))
    assert began.cpu() == (1500, 1500)
    most = limit_range("Container", max={"cpu": "1"})
    assert ended(began, factor(3), {"app": "3"}, limits=most).cpu() == (1000, 1000)
    least = limit_range("Container", min={"cpu": "700m"})
    assert ended(began, factor(3), {"app": "200m"}, limits=least).cpu() == (700, 700)


def test_the_limit_goes_back_to_the_proportion_its_author_wrote() -> None:
    meaning = quantity("500m")
    began = start(pod(container("500m", "1")), meaning)
    assert began.cpu() == (1000, 1500)
    assert ended(began, meaning, {"app": "600m"}).cpu() == (600, 1200)


def test_a_limit_that_was_raised_goes_back_though_limits_are_no_longer_controlled() -> None:
    began = start(pod(container("500m", "1")), factor())
    assert began.cpu() == (1000, 2000)
    after = ended(began, factor(**app_policy(controlledValues="RequestsOnly")), {"app": "600m"})
    assert after.cpu() == (600, 1000)


@pytest.mark.req("SB-03")
def test_the_end_of_a_boost_leaves_memory_alone() -> None:
    came = pod(with_memory(container("500m", "1"), "1Gi", "2Gi"))
    began = start(came, factor(), {"app": {"cpu": "400m", "memory": "512Mi"}})
    after = ended(began, factor(), {"app": {"cpu": "600m", "memory": "700Mi"}})
    assert began.memory() == after.memory() == (512 << 20, 1024 << 20)
    assert [(unboosted.requests, unboosted.limits) for unboosted in after.ended] == [({"cpu": 600}, {"cpu": 1200})]


# To what the pod spec asked for


@pytest.mark.req("SB-34")
def test_in_mode_off_request_and_limit_go_back_to_those_of_the_pod_spec() -> None:
    meaning = factor(3, **mode("Off"))
    began = start(pod(container("500m", "1")), meaning, {"app": "800m"})
    after = ended(began, meaning, {"app": "800m"})
    assert (began.cpu(), after.cpu()) == ((1500, 3000), (500, 1000))
    assert reasons(after) == ["UnboostedToSpec"]


@pytest.mark.req("SB-35")
def test_a_container_in_mode_off_goes_back_to_its_spec_and_its_neighbours_to_the_recommendation() -> None:
    meaning = factor(2, **app_policy(mode="Off"))
    began = start(pod(container(), container(name="proxy")), meaning, {"app": "800m", "proxy": "300m"})
    assert (began.cpu("app"), began.cpu("proxy")) == ((1000, None), (600, None))
    after = ended(began, meaning, {"app": "800m", "proxy": "350m"})
    assert (after.cpu("app"), after.cpu("proxy")) == ((500, None), (350, None))


@pytest.mark.req("SB-36")
def test_where_cpu_is_not_controlled_it_goes_back_to_the_spec_though_memory_is_recommended() -> None:
    meaning = factor(2, **app_policy(controlledResources=["memory"]))
    target = {"app": {"cpu": "800m", "memory": "300Mi"}}
    began = start(pod(with_memory(container(), "200Mi")), meaning, target)
    assert (began.cpu(), began.memory()) == ((1000, None), (300 << 20, None))
    after = ended(began, meaning, target)
    assert (after.cpu(), after.annotations) == ((500, None), {})


@pytest.mark.req("SB-37")
@pytest.mark.parametrize("name", ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace"])
def test_without_a_recommendation_it_goes_back_to_the_spec_in_every_mode(name: str) -> None:
    meaning = factor(**mode(name))
    began = start(pod(container("500m", "1")), meaning, {"app": "400m"})
    assert ended(began, meaning).cpu() == (500, 1000)


def test_a_container_that_asked_for_nothing_keeps_the_least_request_there_is() -> None:
    began = start(pod(container(None)), factor(), {"app": "300m"})
    assert (began.cpu(), ended(began, factor()).cpu()) == ((600, None), (1, None))


# When


@pytest.mark.req("SB-39")
def test_containers_with_different_durations_end_each_at_its_own_time() -> None:
    spec = app_policy(startupBoost={"cpu": {"type": "Factor", "factor": 2}})
    default = {"cpu": {"type": "Factor", "factor": 2, "duration": "60s"}}
    meaning = effective(vpa(startupBoost=default, **spec))
    began = start(pod(container(), container(name="proxy")), meaning)
    first = end(began, meaning, now=READY, ready_since=READY)
    assert (first.cpu("app"), first.cpu("proxy")) == ((500, None), (1000, None))
    assert first.phases.next_transition == READY + 60
    second = end(first, meaning, now=READY + 60, ready_since=READY)
    assert (second.cpu("app"), second.cpu("proxy"), second.annotations) == ((500, None), (500, None), {})


@pytest.mark.req("SB-29")
def test_a_pod_that_is_given_up_goes_back_as_any_other() -> None:
    meaning = effective(vpa(startupBoost={"cpu": {"type": "Factor", "factor": 2, "giveUpAfterSeconds": 60}}))
    began = start(pod(), meaning, {"app": "400m"})
    assert end(began, meaning, {"app": "450m"}, now=59.0, ready_since=None).cpu() == (800, None)
    assert end(began, meaning, {"app": "450m"}, now=60.0, ready_since=None).cpu() == (450, None)


@pytest.mark.req("SB-02", "SB-45")
def test_nothing_is_raised_or_lowered_outside_of_a_boost() -> None:
    plain = pod(container("500m"))
    assert ended(plain, factor(4), {"app": "400m"}).ended == ()
    began = start(plain, factor())
    assert ended(began, factor(), enabled=False).cpu() == (1000, None)


@pytest.mark.req("SB-27")
def test_neither_replicas_nor_requirements_hold_back_the_end_of_a_boost() -> None:
    higher = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
    policy = {"updateMode": "Recreate", "minReplicas": 2, "actuationRequirements": [higher]}
    meaning = factor(updatePolicy=policy)
    began = start(pod(), meaning, {"app": "400m"})
    assert (began.cpu(), ended(began, meaning, {"app": "400m"}).cpu()) == ((800, None), (400, None))


@pytest.mark.req("SB-40")
@pytest.mark.parametrize("name", ["Recreate", "InPlaceOrRecreate", "InPlace"])
def test_a_resize_that_failed_is_due_again_and_nothing_else_is_done_to_the_pod(name: str) -> None:
    meaning = factor(**mode(name))
    began = start(pod(), meaning)
    for hours in range(1, 25):
        again = end(began, meaning, now=READY + 3600 * hours, ready_since=READY)
        assert [(unboosted.requests, unboosted.changes_spec) for unboosted in again.ended] == [({"cpu": 500}, True)]
        assert again.phases.blocks_changes(meaning.mode, oom_killed=False)


def test_a_boost_that_was_removed_from_the_vpa_ends_all_the_same() -> None:
    assert ended(start(pod(), factor()), effective(vpa())).cpu() == (500, None)


# A pod that has it already, or cannot tell


def one(life: Life, meaning: EffectiveVpa, in_force: dict[str, str] | None = None) -> UnboostedContainer:
    shape = PodShape.from_spec(msgspec.convert(life.spec, PodSpec))
    if in_force is not None:
        shape = shape.with_resources({"app": ResourceRequirements(requests=in_force)})
    due = determine_boost_phases(life.annotations, meaning, READY, ready=True, ready_since=0.0, started=0.0)
    memory = read_pre_boost_resources(life.annotations)
    (container,) = unboost_containers(
        shape, (), meaning, applies=True, limits=NamespaceLimits(), phases=due, pre_boost=memory
    )
    return container


def test_an_unboost_in_the_spec_is_not_repeated_and_one_in_force_is_finished() -> None:
    began = start(pod(), factor())
    assert (one(began, factor()).changes_spec, one(began, factor()).is_in_force) == (True, False)
    resized = Life(pod().spec, began.annotations)
    waiting = one(resized, factor(), in_force={"cpu": "1"})
    assert (waiting.changes_spec, waiting.is_in_force) == (False, False)
    assert (one(resized, factor()).changes_spec, one(resized, factor()).is_in_force) == (False, True)


@pytest.mark.parametrize("text", ["", "{", '{"requests":{"cpu":"lots"}}'])
def test_without_a_recorded_request_a_container_keeps_its_cpu_and_this_is_reported(text: str) -> None:
    began = start(pod(), factor())
    began.annotations[annotation_key("app")] = text
    after = ended(began, factor())
    assert (after.cpu(), after.annotations, reasons(after)) == ((1000, None), {}, ["UnboostUnknown"])
    assert after.ended[0].reason.severity == "warning"
    assert ended(began, factor(), {"app": "600m"}).cpu() == (600, None)


def test_a_mark_for_a_container_that_the_pod_does_not_have_is_removed() -> None:
    plain = pod()
    plain.annotations = {annotation_key("gone"): "{}"}
    after = ended(plain, factor(), {"gone": "1"})
    assert (after.cpu(), after.annotations, reasons(after)) == ((500, None), {}, ["UnboostUnknown"])


# The class of the pod


def test_pre_boost_resources_do_not_make_a_pod_guaranteed() -> None:
    came = pod(with_memory(container("500m", "500m"), "1Gi", "1Gi"))
    only_requests = factor(2, **app_policy(controlledValues="RequestsOnly"))
    began = start(came, only_requests, {"app": {"cpu": "300m", "memory": "1Gi"}})
    assert (began.cpu(), began.shape.qos) == ((499, 500), "Burstable")
    after = ended(began, factor(2, **mode("Off")))
    assert (after.cpu(), after.shape.qos) == ((499, 500), "Burstable")


def test_a_request_of_one_millicore_has_its_limit_moved_instead() -> None:
    came = pod(with_memory(container("1m", "2m"), "1Gi", "1Gi"))
    began = start(came, factor())
    began.annotations[annotation_key("app")] = '{"requests":{"cpu":"1m"},"limits":{"cpu":"1m"}}'
    after = ended(began, factor())
    assert (after.cpu(), after.shape.qos) == ((1, 2), "Burstable")


def test_pre_boost_resources_do_not_make_a_guaranteed_pod_burstable() -> None:
    came = pod(with_memory(container("500m", "500m"), "1Gi", "1Gi"))
    began = start(came, factor())
    began.annotations[annotation_key("app")] = '{"requests":{"cpu":"200m"},"limits":{"cpu":"300m"}}'
    after = ended(began, factor())
    assert (after.cpu(), after.shape.qos) == ((300, 300), "Guaranteed")


MILLI = st.integers(1, 3000)


@st.composite
def lives(draw: st.DrawFn) -> tuple[Life, EffectiveVpa, EffectiveVpa, dict[str, Any], dict[str, Any]]:
    """A pod, the VPA and targets at its start, and those at its end."""
    names = ["app", "proxy"][: draw(st.integers(1, 2))]
    made = []
    for name in names:
        request, above = draw(st.none() | MILLI), draw(st.none() | st.integers(0, 1000))
        limit = None if above is None else f"{(request or 1) + above}m"
        one = container(None if request is None else f"{request}m", limit, name=name)
        made.append(with_memory(one, "100Mi", draw(st.sampled_from([None, "100Mi", "200Mi"]))))

    def targets() -> dict[str, Any]:
        return {name: {"cpu": f"{draw(MILLI)}m", "memory": "150Mi"} for name in names if draw(st.booleans())}

    def meaning() -> EffectiveVpa:
        values = draw(st.sampled_from(["RequestsAndLimits", "RequestsOnly"]))
        controlled = draw(st.sampled_from([["cpu", "memory"], ["memory"], ["cpu"]]))
        every = {"containerName": "*", "controlledValues": values, "controlledResources": controlled}
        boost = draw(st.sampled_from([{"type": "Factor", "factor": 3}, {"type": "Quantity", "quantity": "700m"}]))
        spec = mode(draw(st.sampled_from(["Off", "Recreate"]))) | {
            "resourcePolicy": {"containerPolicies": [every]},
            "startupBoost": {"cpu": boost},
        }
        return effective(vpa(**spec))

    return pod(*made), meaning(), meaning(), targets(), targets()


@given(lives())
def test_the_end_of_a_boost_can_always_be_had_by_a_resize(
    case: tuple[Life, EffectiveVpa, EffectiveVpa, dict[str, Any], dict[str, Any]],
) -> None:
    came, at_start, at_end, first, second = case
    began = start(came, at_start, first)
    after = ended(began, at_end, second)
    assert after.annotations == {}
    assert after.shape.qos is began.shape.qos
    for container_shape in began.shape.containers:
        (request, limit), (had, had_limit) = after.cpu(container_shape.name), began.cpu(container_shape.name)
        assert (limit is None, request is None) == (had_limit is None, had is None)
        assert limit is None or (request or 0) <= limit
        assert after.memory(container_shape.name) == began.memory(container_shape.name)
        if f"vpaCpuStartupBoost/{container_shape.name}" not in began.annotations:
            assert after.cpu(container_shape.name) == began.cpu(container_shape.name)
    again = ended(Life(after.spec, began.annotations), at_end, second)
    assert [unboosted.changes_spec for unboosted in again.ended] == [False] * len(again.ended)
