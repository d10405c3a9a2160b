"""Resize, evict, wait or leave: the table has one answer for every case, and plans follow it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from support.json_patch import apply_patch
from support.worlds.resizes import (
    NOW,
    Document,
    container,
    decided,
    governor,
    in_force,
    list_decisions,
    pair,
    resizing,
    running,
)
from trellis.api.resolve import UpdateMode
from trellis.core.resize.actions import DecisionKind, EvictPod, ResizePod
from trellis.core.resize.resize_or_evict import DECISION_TABLE, ResizeProspect, ResizeStage, look_up_decision
from trellis.core.resize.settings import HpaConflict, UpdateSettings
from trellis.core.resize.state.attempts import PodAttempts, WorkloadAttempts

MODES = (UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE)
MINUTE = 60.0


def test_the_table_has_exactly_one_line_for_every_case() -> None:
    cases = [
        (row.mode, stage, prospect) for row in DECISION_TABLE for stage in row.stages for prospect in row.prospects
    ]
    assert sorted(cases) == sorted(product(MODES, ResizeStage, ResizeProspect))


@pytest.mark.req("AR-23")
def test_in_place_never_evicts_and_recreate_never_resizes() -> None:
    for stage, prospect in product(ResizeStage, ResizeProspect):
        assert look_up_decision(UpdateMode.IN_PLACE, stage, prospect).kind is not DecisionKind.EVICT
        assert look_up_decision(UpdateMode.RECREATE, stage, prospect).kind is not DecisionKind.RESIZE


def pod(cpu: str = "500m", **more: Any) -> Document:
    return running("web-1-a", container(cpu=cpu, **more))


def first(mode: str, *pods: Document, targets: Any = None, **more: Any) -> tuple[str, str]:
    return list_decisions(decided(governor(mode, targets), *pods, **more))[0]


@pytest.mark.req("AR-21", "AR-22")
def test_what_can_be_resized_is_not_evicted() -> None:
    for targets in ({"app": {"cpu": "1"}}, {"app": {"cpu": "200m"}}):
        plan = decided(governor("InPlaceOrRecreate", targets), *pair(pod()))
        assert list_decisions(plan) == [("Resize", "ResizeInPlace"), ("Wait", "EvictionToleranceExhausted")]


CASES = [
    ("PodResizePending", "Deferred", 4 * MINUTE, "Wait ResizeDeferred", "Wait ResizeDeferred"),
    ("PodResizePending", "Deferred", 5 * MINUTE, "Evict ResizeDeferredTooLong", "Wait ResizeDeferred"),
    ("PodResizePending", "Infeasible", 0.0, "Evict EvictInfeasible", "Leave ResizeInfeasible"),
    ("PodResizePending", "SomethingNew", 0.0, "Wait ResizeDeferred", "Wait ResizeDeferred"),
    ("PodResizeInProgress", "", 59 * MINUTE, "Wait ResizeUnderWay", "Wait ResizeUnderWay"),
    ("PodResizeInProgress", "", 60 * MINUTE, "Evict ResizeStuck", "Wait ResizeUnderWay"),
    ("PodResizeInProgress", "Error", 0.0, "Evict ResizeFailed", "Wait ResizeFailing"),
]


@pytest.mark.req("AR-21", "AR-23")
@pytest.mark.parametrize(("type_", "reason", "since", "both", "only"), CASES)
def test_the_state_of_a_resize_decides_what_follows(
    type_: str, reason: str, since: float, both: str, only: str
) -> None:
    asked = resizing(pod("1"), type_, reason, since, cpu="500m")
    assert " ".join(first("InPlaceOrRecreate", *pair(asked))) == both
    assert " ".join(first("InPlace", *pair(asked))) == only


def test_patience_ends_at_a_known_time() -> None:
    deferred = resizing(pod("1"), "PodResizePending", "Deferred", 4 * MINUTE, cpu="500m")
    assert decided(governor("InPlaceOrRecreate"), *pair(deferred)).requeue_at == NOW + MINUTE
    asked = in_force(pod("1"), cpu="500m")
    remembered = WorkloadAttempts({"uid-web-1-a": PodAttempts(resized_at=NOW - 10)})
    assert decided(governor("InPlaceOrRecreate"), *pair(asked), attempts=remembered).requeue_at == NOW + 3590
    late = WorkloadAttempts({f"uid-web-1-{name}": PodAttempts(resized_at=NOW - 3600) for name in "az"})
    assert first("InPlaceOrRecreate", *pair(asked), attempts=late) == ("Evict", "ResizeStuck")


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
def test_another_recommendation_is_tried_while_a_resize_waits(mode: str) -> None:
    deferred = resizing(pod("1"), "PodResizePending", "Deferred", MINUTE, cpu="500m")
    plan = decided(governor(mode, {"app": {"cpu": "700m"}}), *pair(deferred))
    assert list_decisions(plan)[0] == ("Resize", "ResizeInPlace")
    (resize, *_) = plan.actions
    assert isinstance(resize, ResizePod)
    after = apply_patch(deferred, resize.patch)
    assert after["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "700m"


@pytest.mark.parametrize("mode", ["InPlace", "InPlaceOrRecreate"])
def test_an_infeasible_resize_is_retried_only_when_less_is_recommended(mode: str) -> None:
    infeasible = resizing(pod("2"), "PodResizePending", "Infeasible", MINUTE, cpu="500m")
    assert first(mode, *pair(infeasible), targets={"app": {"cpu": "1"}})[0] == "Resize"
    assert first(mode, *pair(infeasible), targets={"app": {"cpu": "4"}})[0] != "Resize"


def test_a_small_change_causes_no_other_resize_while_one_is_deferred() -> None:
    deferred = resizing(pod("1"), "PodResizePending", "Deferred", MINUTE, cpu="500m")
    assert first("InPlace", *pair(deferred), targets={"app": {"cpu": "1050m"}}) == ("Wait", "ResizeDeferred")


def test_an_outdated_resize_is_reverted_and_no_pod_is_evicted_for_it() -> None:
    targets = {"app": {"cpu": "500m"}}
    deferred = resizing(pod("1"), "PodResizePending", "Deferred", MINUTE, cpu="500m")
    assert first("InPlaceOrRecreate", *pair(deferred), targets=targets)[0] == "Resize"
    overdue = resizing(pod("1"), "PodResizePending", "Deferred", 10 * MINUTE, cpu="500m")
    assert first("InPlaceOrRecreate", *pair(overdue), targets=targets) == ("Leave", "SizeAsRecommended")


def test_what_the_server_refused_is_remembered_until_less_is_wanted_or_the_node_is_another() -> None:
    node = {"cpu": 4000, "memory": 2**34}
    known = WorkloadAttempts(
        {"uid-web-1-a": PodAttempts(refused={"app": {"cpu": 1000, "memory": 2**30}}, refusing_node=node)}
    )
    here: dict[str, Any] = {"attempts": known, "node_allocatable": {"n1": node}}
    assert first("InPlace", *pair(pod()), **here) == ("Leave", "ResizeRefused")
    assert first("InPlaceOrRecreate", *pair(pod()), **here) == ("Evict", "EvictRefused")
    assert first("InPlace", *pair(pod()), targets={"app": {"cpu": "800m"}}, **here)[0] == "Resize"
    larger = {"attempts": known, "node_allocatable": {"n1": {**node, "cpu": 8000}}}
    assert first("InPlace", *pair(pod()), **larger)[0] == "Resize"


def guaranteed() -> Document:
    return pod(limits={"cpu": "500m", "memory": "1Gi"})


ONLY_REQUESTS = {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}


@pytest.mark.parametrize(
    ("mode", "answer"),
    [("InPlace", "Leave NotPossibleInPlace"), ("InPlaceOrRecreate", "Evict EvictNotPossibleInPlace")],
)
def test_a_resize_keeps_the_class_of_the_pod_and_a_new_pod_need_not(mode: str, answer: str) -> None:
    plan = decided(governor(mode, {"app": {"cpu": "200m"}}, resourcePolicy=ONLY_REQUESTS), *pair(guaranteed()))
    assert " ".join(list_decisions(plan)[0]) == answer


def test_a_pod_that_is_as_near_as_it_can_be_is_not_evicted_for_the_rest() -> None:
    policy = {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}
    near = running("web-1-a", container(cpu="999m", memory="1Gi", limits={"cpu": "1", "memory": "1Gi"}))
    plan = decided(governor("InPlaceOrRecreate", {"app": {"cpu": "1"}}, 0.0, resourcePolicy=policy), *pair(near))
    assert list_decisions(plan)[0] == ("Leave", "ClosestPossibleSize")


OLD = UpdateSettings(lowers_memory_limits=False)
LESS = {"app": {"cpu": "1", "memory": "512Mi"}}


def resized(before: Document, settings: UpdateSettings) -> Any:
    plan = decided(governor("InPlaceOrRecreate", LESS), *pair(before), settings=settings)
    (resize, *_) = plan.actions
    assert isinstance(resize, ResizePod)
    return apply_patch(before, resize.patch)["spec"]["containers"][0]["resources"]


def test_a_memory_limit_goes_down_where_the_server_lets_it_or_the_container_restarts() -> None:
    limited = pod(limits={"cpu": "1", "memory": "2Gi"})
    assert resized(limited, UpdateSettings())["limits"] == {"cpu": "2", "memory": "1Gi"}
    assert resized(limited, OLD) == {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    }
    restarting = pod(limits={"cpu": "1", "memory": "2Gi"}, restarts=("memory",))
    assert resized(restarting, OLD)["limits"]["memory"] == "1Gi"


def test_what_only_a_new_pod_can_have_is_worth_an_eviction_where_the_mode_evicts() -> None:
    limited = pod("1", limits={"cpu": "2", "memory": "2Gi"})
    assert first("InPlaceOrRecreate", *pair(limited), targets=LESS, settings=OLD)[0] == "Evict"
    assert first("InPlace", *pair(limited), targets=LESS, settings=OLD) == ("Leave", "NotPossibleInPlace")


def test_pods_that_cannot_be_resized_at_all_are_evicted_or_left() -> None:
    windows = running("web-1-a", container(), os={"name": "windows"})
    assert first("InPlaceOrRecreate", *pair(windows))[0] == "Evict"
    assert first("InPlace", *pair(windows))[0] == "Leave"
    before_133 = UpdateSettings(resizes=False)
    assert first("InPlaceOrRecreate", *pair(pod()), settings=before_133) == ("Evict", "EvictToRecreate")
    assert first("InPlace", *pair(pod()), settings=before_133) == ("Leave", "InPlaceNotServed")
    assert first("InPlace", *pair(pod()), settings=UpdateSettings(in_place=False)) == ("Leave", "InPlaceGateOff")


def test_a_pod_that_has_not_started_is_not_resized_but_may_go() -> None:
    pending = pair(running("web-1-a", container(), phase="Pending"))
    assert first("InPlace", *pending) == ("Wait", "PodPending")
    assert [way for way, _ in list_decisions(decided(governor("Recreate"), *pending))] == ["Evict", "Evict"]


def test_a_patch_holds_what_it_was_made_for() -> None:
    plan = decided(governor("InPlace"), *pair(pod()))
    (resize, *_) = plan.actions
    assert isinstance(resize, ResizePod)
    assert [(op.path, op.value) for op in resize.patch if op.op == "test"] == [
        ("/metadata/uid", "uid-web-1-a"),
        ("/spec/containers/0/name", "app"),
        ("/spec/containers/0/resources/requests/cpu", "500m"),
    ]


def test_an_eviction_names_the_pod_and_what_it_had() -> None:
    (evict,) = decided(governor("Recreate"), *pair(pod())).actions
    assert isinstance(evict, EvictPod)
    assert (evict.pod.namespace, evict.pod.uid) == ("shop", "uid-web-1-a")
    assert evict.requests == {"app": {"cpu": 500, "memory": 2**30}}


def test_a_successor_that_would_not_fit_is_warned_of_or_kept_from_coming() -> None:
    asked: list[Any] = []

    def fits(_: Any, wanted: Any) -> bool:
        asked.append(wanted)
        return False

    warned = decided(governor("Recreate"), *pair(pod()), check_fit=fits)
    assert [warning.code for warning in warned.decisions[0].warnings] == ["WouldNotFit"]
    assert asked == [{"app": {"cpu": 1000, "memory": 2**30}}]
    plan = decided(governor("Recreate"), *pair(pod()), check_fit=fits, settings=UpdateSettings(require_fit=True))
    assert list_decisions(plan) == [("Leave", "WouldNotFit")] * 2
    unknown = UpdateSettings(require_fit=True)
    assert first("Recreate", *pair(pod()), check_fit=lambda *_: None, settings=unknown)[0] == "Evict"
    assert first("InPlace", *pair(pod()), check_fit=fits, settings=unknown)[0] == "Resize"


def test_an_hpa_on_the_same_resource_is_warned_of_and_its_resource_left_alone_on_demand() -> None:
    hold = UpdateSettings(hpa_conflict=HpaConflict.HOLD)
    both = {"app": {"cpu": "1", "memory": "2Gi"}}
    warned = decided(governor("InPlace", both), *pair(pod()), hpa_resources=frozenset({"cpu"}))
    assert [warning.code for warning in warned.decisions[0].warnings] == ["HpaConflict"]
    held = decided(governor("InPlace", both), *pair(pod()), hpa_resources=frozenset({"cpu"}), settings=hold)
    (resize, *_) = held.actions
    assert isinstance(resize, ResizePod)
    after = apply_patch(pod(), resize.patch)["spec"]["containers"][0]["resources"]["requests"]
    assert after == {"cpu": "500m", "memory": "2Gi"}
    nothing = decided(governor("InPlace"), *pair(pod()), hpa_resources=frozenset({"cpu"}), settings=hold)
    assert list_decisions(nothing) == [("Leave", "HeldForHpa")] * 2
    other = {"containerPolicies": [{"containerName": "*", "controlledResources": ["memory"]}]}
    apart = decided(governor("InPlace", both, resourcePolicy=other), *pair(pod()), hpa_resources=frozenset({"cpu"}))
    assert apart.decisions[0].warnings == ()
