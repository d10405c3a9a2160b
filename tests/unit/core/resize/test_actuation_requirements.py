"""Actuation requirements: what they permit by eviction and in place, and what a plan makes of that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_patch import apply_patch
from support.worlds.resizes import Document, container, decided, governor, list_decisions, pair, resizing, running
from trellis.api.resolve import ChangeRequirement, EffectiveVpa
from trellis.core.recommend.amounts import parse_amounts
from trellis.core.resize.actions import EvictPod, ResizePod
from trellis.core.resize.update_need import RequestComparison, permits_eviction, permits_resize, satisfies_change

HIGHER, AT_LEAST = "TargetHigherThanRequests", "TargetHigherThanOrEqualToRequests"
LOWER, AT_MOST = "TargetLowerThanRequests", "TargetLowerThanOrEqualToRequests"
GI = 1024**3


def asking(*pairs: tuple[list[str], str], mode: str = "Recreate", field: str = "actuationRequirements") -> Any:
    entries = [{"resources": names, "changeRequirement": change} for names, change in pairs]
    return {"mode": mode, "policy": {field: entries}}


def vpa(*pairs: tuple[list[str], str], **more: Any) -> EffectiveVpa:
    return governor(**asking(*pairs, **more)).vpa


def of(cpu: tuple[int, int], memory: tuple[int, int] = (GI, GI), name: str = "app") -> RequestComparison:
    """Requests and targets."""
    return RequestComparison(name, {"cpu": cpu[1], "memory": memory[1]}, {"cpu": cpu[0], "memory": memory[0]})


@pytest.mark.req("AR-05")
@pytest.mark.parametrize(
    ("change", "answers"),
    [
        (ChangeRequirement.HIGHER, (True, False, False)),
        (ChangeRequirement.HIGHER_OR_EQUAL, (True, True, False)),
        (ChangeRequirement.LOWER, (False, False, True)),
        (ChangeRequirement.LOWER_OR_EQUAL, (False, True, True)),
        (ChangeRequirement.NEVER, (False, False, False)),
    ],
)
def test_the_four_comparisons(change: ChangeRequirement, answers: tuple[bool, ...]) -> None:
    assert tuple(satisfies_change(change, target, 500) for target in (600, 500, 400)) == answers


@pytest.mark.req("AR-04")
def test_a_missing_request_counts_as_zero_and_a_missing_target_as_the_request() -> None:
    higher, lower = vpa((["cpu"], HIGHER)), vpa((["cpu"], LOWER))
    missing = RequestComparison("app", {"cpu": 100}, {})
    assert permits_eviction(higher, [missing])
    assert not permits_eviction(lower, [missing])
    nothing_recommended = RequestComparison("app", {"memory": 2}, {"cpu": 500, "memory": 1})
    assert permits_eviction(vpa((["cpu"], AT_LEAST)), [nothing_recommended])
    assert not permits_eviction(higher, [nothing_recommended])


@pytest.mark.req("AR-06", "AR-07", "AR-15", "AR-24")
@pytest.mark.parametrize(
    ("pairs", "changed", "allowed"),
    [
        ([(["cpu", "memory"], HIGHER)], of((500, 600), (GI, GI // 2)), True),
        ([(["cpu"], HIGHER), (["memory"], HIGHER)], of((500, 600)), False),
        ([(["cpu"], HIGHER), (["memory"], HIGHER)], of((500, 600), (GI, 2 * GI)), True),
        ([(["cpu"], HIGHER), (["memory"], AT_MOST)], of((500, 600)), True),
        ([(["cpu"], HIGHER), (["memory"], AT_MOST)], of((500, 600), (GI, 2 * GI)), False),
        ([], of((500, 400)), True),
    ],
)
def test_eviction_wants_all_requirements_and_each_any_of_its_resources(
    pairs: list[tuple[list[str], str]], changed: RequestComparison, allowed: bool
) -> None:
    assert permits_eviction(vpa(*pairs), [changed]) is allowed


@pytest.mark.req("AR-08")
def test_one_container_that_satisfies_all_is_enough_and_two_that_share_them_are_not() -> None:
    both = vpa((["cpu"], HIGHER), (["memory"], HIGHER))
    grows, shrinks = of((500, 600), (GI, 2 * GI)), of((500, 400), name="mesh")
    assert permits_eviction(both, [shrinks, grows])
    assert not permits_eviction(both, [of((500, 600)), of((500, 500), (GI, 2 * GI), "mesh")])


@pytest.mark.req("AR-10", "AR-11", "AR-12")
def test_in_place_each_resource_compares_itself() -> None:
    either = vpa((["cpu", "memory"], HIGHER))
    assert permits_resize(either, "cpu", 600, 500)
    assert not permits_resize(either, "memory", GI // 2, GI)
    assert permits_resize(vpa((["cpu"], HIGHER)), "memory", GI // 2, GI)


def test_upstreams_spelling_governs_eviction_alone() -> None:
    alias = vpa((["cpu"], HIGHER), field="evictionRequirements")
    assert permits_resize(alias, "cpu", 400, 500)
    assert not permits_eviction(alias, [of((500, 400))])


def pod(cpu: str = "500m", memory: str = "1Gi", **more: Any) -> Document:
    return running("web-1-a", container(cpu=cpu, memory=memory, **more))


def targets(cpu: str, memory: str) -> dict[str, dict[str, str]]:
    return {"app": {"cpu": cpu, "memory": memory}}


@pytest.mark.req("AR-10", "AR-11", "AR-12", "AR-25")
@pytest.mark.parametrize("restarts", [(), ("cpu", "memory")])
@pytest.mark.parametrize(
    ("pairs", "target", "requests"),
    [
        ([(["cpu"], HIGHER), (["memory"], HIGHER)], targets("1", "512Mi"), {"cpu": "1", "memory": "1Gi"}),
        ([(["cpu", "memory"], HIGHER)], targets("1", "512Mi"), {"cpu": "1", "memory": "1Gi"}),
        ([(["cpu"], HIGHER)], targets("250m", "2Gi"), {"cpu": "500m", "memory": "2Gi"}),
        ([(["cpu"], HIGHER), (["memory"], AT_MOST)], targets("1", "512Mi"), {"cpu": "1", "memory": "512Mi"}),
        ([], targets("1", "512Mi"), {"cpu": "1", "memory": "512Mi"}),
    ],
)
def test_a_resize_applies_what_is_permitted_and_leaves_the_rest(
    pairs: list[tuple[list[str], str]], target: Any, requests: dict[str, str], restarts: tuple[str, ...]
) -> None:
    before = pair(pod(restarts=restarts))
    plan = decided(governor(**asking(*pairs, mode="InPlace"), targets=target), *before)
    (resize,) = plan.actions
    assert isinstance(resize, ResizePod)
    assert resize.restarts is bool(restarts)
    after = apply_patch(before[0], resize.patch)
    assert after["spec"]["containers"][0]["resources"]["requests"] == requests


@pytest.mark.req("AR-13", "AR-21")
@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
def test_a_change_that_requirements_forbid_causes_no_action(mode: str) -> None:
    both = asking((["cpu"], HIGHER), (["memory"], HIGHER), mode=mode)
    plan = decided(governor(**both, targets=targets("250m", "512Mi")), *pair(pod()))
    assert not plan.actions
    assert list_decisions(plan) == [("Leave", "RequirementsForbidResize")] * 2


FAILED = [
    ("PodResizePending", "Infeasible", 0.0, "EvictInfeasible"),
    ("PodResizePending", "Deferred", 300.0, "ResizeDeferredTooLong"),
    ("PodResizeInProgress", "", 3600.0, "ResizeStuck"),
    ("PodResizeInProgress", "Error", 0.0, "ResizeFailed"),
]


@pytest.mark.req("AR-21")
@pytest.mark.parametrize(("type_", "reason", "since", "evicted"), FAILED)
def test_a_resize_that_failed_ends_in_an_eviction_only_if_all_requirements_hold(
    type_: str, reason: str, since: float, evicted: str
) -> None:
    both = asking((["cpu"], HIGHER), (["memory"], HIGHER), mode="InPlaceOrRecreate")
    for memory, expected in (("1Gi", ("Leave", "RequirementsForbidEviction")), ("2Gi", ("Evict", evicted))):
        asked = resizing(pod("1", memory), type_, reason, since, cpu="500m", memory="1Gi")
        plan = decided(governor(**both, targets=targets("1", memory)), *pair(asked))
        assert list_decisions(plan)[0] == expected
        assert len(plan.actions) == (expected[0] == "Evict")


@pytest.mark.req("AR-07", "AR-20")
def test_requirements_gate_the_eviction_of_recreate() -> None:
    both = asking((["cpu"], HIGHER), (["memory"], HIGHER))
    refused = decided(governor(**both, targets=targets("1", "1Gi")), *pair(pod()))
    assert list_decisions(refused) == [("Leave", "RequirementsForbidEviction")] * 2
    allowed = decided(governor(**both, targets=targets("1", "2Gi")), *pair(pod()))
    assert ("Evict", "EvictToRecreate") in list_decisions(allowed)


@pytest.mark.req("AR-18")
def test_off_and_initial_touch_no_running_pod_whatever_is_required() -> None:
    initial = governor(**asking((["cpu"], HIGHER), mode="Initial"), targets=targets("2", "2Gi"))
    assert list_decisions(decided(initial, *pair(pod()))) == [("Leave", "ModeDoesNotUpdatePods")] * 2
    boost: dict[str, Any] = {"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}}
    off = governor(**asking((["cpu"], HIGHER), mode="Off"), **boost)
    assert list_decisions(decided(off, *pair(pod()))) == [("Leave", "ModeDoesNotUpdatePods")] * 2


@pytest.mark.req("AR-16")
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
@pytest.mark.parametrize("target", [targets("1", "2Gi"), targets("250m", "512Mi"), targets("1", "512Mi")])
def test_without_requirements_every_direction_is_acted_upon(mode: str, target: Any) -> None:
    before = pair(pod())
    (action,) = decided(governor(mode, target), *before).actions
    if mode == "Recreate":
        assert isinstance(action, EvictPod)
        return
    assert isinstance(action, ResizePod)
    after = apply_patch(before[0], action.patch)["spec"]["containers"][0]["resources"]["requests"]
    assert parse_amounts(after) == parse_amounts(target["app"])


AMOUNTS = st.sampled_from(["100m", "400m", "500m", "600m", "2"])
MEMORY = st.sampled_from(["256Mi", "900Mi", "1Gi", "1100Mi", "4Gi"])


@pytest.mark.req("AR-14")
@given(AMOUNTS, MEMORY, AMOUNTS, MEMORY, st.sampled_from(["Recreate", "InPlace", "InPlaceOrRecreate"]))
def test_up_but_never_down(cpu: str, memory: str, cpu_target: str, memory_target: str, mode: str) -> None:
    never_down = asking((["cpu"], AT_LEAST), (["memory"], AT_LEAST), mode=mode)
    before = pair(pod(cpu, memory))
    plan = decided(governor(**never_down, targets=targets(cpu_target, memory_target)), *before)
    for verdict in plan.decisions:
        if verdict.kind.value == "Evict":
            (lacking,) = verdict.need.containers if verdict.need else ()
            assert all(lacking.targets[name] >= lacking.requests[name] for name in lacking.requests)
    written = before[0]["spec"]["containers"][0]["resources"]["requests"]
    for action in plan.actions:
        if isinstance(action, ResizePod):
            after = apply_patch(before[0], action.patch)["spec"]["containers"][0]["resources"]["requests"]
            assert all(parse_amounts(after)[name] >= amount for name, amount in parse_amounts(written).items())
