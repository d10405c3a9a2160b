"""The end of a boost: resize first, annotation second, delayed by nothing, and never an eviction."""

from __future__ import annotations

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
    killed,
    list_decisions,
    resizing,
    running,
    time,
)
from trellis.core.boost.annotation import annotation_key
from trellis.core.cluster.write_results import WriteResult
from trellis.core.resize.actions import ResizePod, UnmarkPod
from trellis.core.resize.freeze import Freeze, FreezeScope
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import ActionResult, WorkloadAttempts, record_result

MEMORY = '{"requests":{"cpu":"500m","memory":"1Gi"},"limits":{}}'
TARGET = {"app": {"cpu": "600m", "memory": "1Gi"}}


def boosting(mode: str = "Recreate", duration: str = "0s", targets: Any = None, **spec: Any) -> Any:
    cpu = {"type": "Factor", "factor": 2, "duration": duration}
    return governor(mode, TARGET if targets is None else targets, startupBoost={"cpu": cpu}, **spec)


def boosted(cpu: str = "1", *more: Document, names: tuple[str, ...] = ("app",), **fields: Any) -> Document:
    marks = {annotation_key(name): MEMORY for name in names}
    return running("web-1-a", container(cpu=cpu), *more, annotations=marks, **fields)


def cpu_of(pod: Document, place: int = 0) -> str:
    request: str = pod["spec"]["containers"][place]["resources"]["requests"]["cpu"]
    return request


def resized(pod: Document, plan: Any) -> Document:
    (resize,) = plan.actions
    assert isinstance(resize, ResizePod)
    assert resize.unboosts
    changed: Document = apply_patch(pod, resize.patch)
    return changed


@pytest.mark.req("SB-27", "SB-31", "SB-33", "SB-34")
@pytest.mark.parametrize(
    ("mode", "cpu"),
    [
        ("Auto", "600m"),
        ("Recreate", "600m"),
        ("InPlaceOrRecreate", "600m"),
        ("InPlace", "600m"),
        ("Initial", "600m"),
        ("Off", "500m"),
    ],
)
def test_a_single_replica_is_unboosted_whatever_minimum_and_requirements_say(mode: str, cpu: str) -> None:
    asked = [{"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}]
    policy = {"minReplicas": 3, "actuationRequirements": asked}
    plan = decided(boosting(mode, policy=policy), boosted())
    assert list_decisions(plan) == [("Unboost", "UnboostResized")]
    assert cpu_of(resized(boosted(), plan)) == cpu


@pytest.mark.req("SB-32", "SB-37")
def test_the_recommendation_of_the_moment_counts_and_without_one_the_spec() -> None:
    above = decided(boosting(targets={"app": {"cpu": "1500m"}}), boosted())
    assert cpu_of(resized(boosted(), above)) == "1500m"
    none = decided(boosting(targets={}), boosted())
    assert cpu_of(resized(boosted(), none)) == "500m"


@pytest.mark.req("SB-40")
def test_an_unboost_resizes_first_then_removes_the_annotation_and_repeats_neither() -> None:
    asked = resized(boosted(), decided(boosting(), boosted()))
    waiting = decided(boosting(), in_force(asked, cpu="1"))
    assert list_decisions(waiting) == [("Wait", "UnboostAwaited")]
    assert waiting.actions == ()
    lowered = boosted("600m")
    finishing = decided(boosting(), lowered)
    assert list_decisions(finishing) == [("Unboost", "UnboostFinished")]
    (unmark,) = finishing.actions
    assert isinstance(unmark, UnmarkPod)
    done = apply_patch(lowered, unmark.patch)
    assert done["metadata"]["annotations"] == {"vpaInPlaceUpdated": "true"}
    assert list_decisions(decided(boosting(), done)) == [("Leave", "SizeAsRecommended")]


@pytest.mark.req("SB-38")
@pytest.mark.parametrize(
    ("mode", "way"), [("Recreate", "Evict"), ("InPlaceOrRecreate", "Resize"), ("InPlace", "Resize")]
)
def test_after_its_boost_a_pod_is_updated_as_usual(mode: str, way: str) -> None:
    far = boosting(mode, targets={"app": {"cpu": "2", "memory": "2Gi"}})
    (unmark,) = decided(boosting(mode), boosted("600m")).actions
    assert isinstance(unmark, UnmarkPod)
    after = apply_patch(boosted("600m"), unmark.patch)
    other = running("web-1-b", container(cpu="2", memory="2Gi"))
    assert list_decisions(decided(far, after, other))[0][0] == way


@pytest.mark.req("SB-02")
@pytest.mark.parametrize("mode", ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace"])
@pytest.mark.parametrize("ready", [{"ready": False}, {"ready_for": 0.0}, {}], ids=["not ready", "just ready", "ready"])
def test_a_running_pod_is_not_boosted_when_it_restarts_or_is_not_ready(mode: str, ready: Document) -> None:
    pod = running("web-1-a", container(cpu="600m"), **ready)
    ended = {"reason": "Error", "exitCode": 1, "finishedAt": time(NOW - 6)}
    pod["status"]["containerStatuses"][0] |= {
        "restartCount": 1,
        "state": {"running": {"startedAt": time(NOW - 5)}},
        "lastState": {"terminated": ended},
    }
    plan = decided(boosting(mode, "60s"), pod, running("web-1-b", container(cpu="600m")))
    assert plan.actions == ()
    assert {way for way, _ in list_decisions(plan)} == {"Leave"}


@pytest.mark.req("SB-28", "SB-29")
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
def test_a_boosted_pod_gets_no_other_change(mode: str) -> None:
    far = {"app": {"cpu": "8", "memory": "8Gi"}}
    held = decided(boosting(mode, "60s", far), boosted(ready_for=20.0), boosted(ready=False))
    assert held.actions == ()
    assert list_decisions(held) == [("Leave", "BoostUntilDuration"), ("Leave", "BoostUntilReady")]
    assert held.requeue_at == NOW + 40


@pytest.mark.req("SB-28")
@pytest.mark.parametrize(("mode", "way"), [("Recreate", "Evict"), ("InPlaceOrRecreate", "Evict"), ("InPlace", "Leave")])
def test_a_kill_lifts_the_hold_in_modes_that_evict(mode: str, way: str) -> None:
    more = {"app": {"cpu": "600m", "memory": "2Gi"}}
    dying = killed(boosted(ready=False), 30)
    other = running("web-1-b", container(cpu="600m", memory="2Gi"))
    assert list_decisions(decided(boosting(mode, "60s", more), dying, other))[0][0] == way


def test_a_kill_does_not_make_the_boost_itself_a_reason() -> None:
    dying = killed(boosted(ready=False), 30)
    other = running("web-1-b", container(cpu="600m"))
    assert list_decisions(decided(boosting(duration="60s"), dying, other))[0] == ("Leave", "SizeAsRecommended")


@pytest.mark.req("SB-39")
def test_each_container_has_its_own_time() -> None:
    policies = [
        {
            "containerName": "mesh",
            "startupBoost": {"cpu": {"type": "Factor", "factor": 2, "duration": "60s"}},
        }
    ]
    both = {"app": {"cpu": "600m"}, "mesh": {"cpu": "300m"}}
    pod = boosted("1", container("mesh", cpu="1"), names=("app", "mesh"), ready_for=20.0)
    plan = decided(boosting(targets=both, resourcePolicy={"containerPolicies": policies}), pod)
    after = resized(pod, plan)
    assert (cpu_of(after), cpu_of(after, 1)) == ("600m", "1")
    assert plan.requeue_at == NOW + 40


@pytest.mark.req("SB-40")
@pytest.mark.parametrize("reason", ["Deferred", "Infeasible"])
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
def test_a_boost_that_the_node_does_not_take_back_never_costs_the_pod(mode: str, reason: str) -> None:
    asked = resized(boosted(), decided(boosting(mode), boosted()))
    failing = resizing(asked, "PodResizePending", reason, 7200.0, cpu="1")
    other = running("web-1-b", container(cpu="600m"))
    plan = decided(boosting(mode), failing, other)
    assert plan.actions == ()
    assert list_decisions(plan)[0] == ("Wait", "UnboostFailing")


@pytest.mark.req("SB-40")
@pytest.mark.parametrize(
    "result", [WriteResult.FAILED, WriteResult.INFEASIBLE, WriteResult.INVALID, WriteResult.FORBIDDEN]
)
def test_an_unboost_that_fails_is_tried_again_with_growing_pauses(result: WriteResult) -> None:
    attempts, at, pauses = WorkloadAttempts(), NOW, []
    for _ in range(4):
        plan = decided(boosting("InPlaceOrRecreate"), boosted(), attempts=attempts, now=at)
        (action,) = plan.actions
        attempts = record_result(attempts, ActionResult(action, result), at, UpdateSettings())
        waiting = decided(boosting("InPlaceOrRecreate"), boosted(), attempts=attempts, now=at)
        assert list_decisions(waiting) == [("Wait", "UnboostRetried")]
        assert waiting.requeue_at is not None
        pauses.append(waiting.requeue_at - at)
        at = waiting.requeue_at
    assert pauses == [2.0, 4.0, 8.0, 16.0]


def test_a_boost_is_taken_back_only_when_the_container_runs() -> None:
    pod = boosted()
    ended = {"reason": "Error", "exitCode": 1, "finishedAt": time(NOW - 600)}
    pod["status"]["containerStatuses"][0]["state"] = {"terminated": ended}
    plan = decided(boosting(), pod)
    assert list_decisions(plan) == [("Wait", "ContainerDown")]
    pod["status"]["containerStatuses"][0] |= {
        "state": {"running": {"startedAt": time(NOW - 5)}},
        "lastState": {"terminated": ended},
    }
    assert cpu_of(resized(pod, decided(boosting(), pod))) == "600m"


@pytest.mark.req("SB-45")
@pytest.mark.parametrize("mode", ["Off", "Initial"])
def test_with_the_gate_off_no_pod_is_unboosted(mode: str) -> None:
    off = UpdateSettings(startup_boost=False)
    plan = decided(boosting(mode), boosted(), settings=off)
    assert (list_decisions(plan), plan.actions) == ([("Leave", "ModeDoesNotUpdatePods")], ())
    assert list_decisions(decided(boosting(mode), boosted())) == [("Unboost", "UnboostResized")]


@pytest.mark.req("SB-45")
@pytest.mark.parametrize("mode", ["Recreate", "InPlaceOrRecreate", "InPlace"])
def test_with_the_gate_off_a_boosted_pod_is_updated_as_any_other_and_keeps_its_mark(mode: str) -> None:
    off = UpdateSettings(startup_boost=False)
    right = decided(boosting(mode, targets={"app": {"cpu": "1", "memory": "1Gi"}}), boosted(), settings=off)
    assert (list_decisions(right), right.actions) == ([("Leave", "SizeAsRecommended")], ())
    far = decided(boosting(mode), boosted(), running("web-1-b", container(cpu="600m")), settings=off)
    (action,) = far.actions
    assert not isinstance(action, UnmarkPod)
    assert not (isinstance(action, ResizePod) and action.unboosts)


def test_where_pods_cannot_be_resized_a_boost_stays() -> None:
    old = UpdateSettings(resizes=False)
    assert list_decisions(decided(boosting(), boosted(), settings=old)) == [("Wait", "UnboostNotServed")]


def test_unboosts_go_before_everything_else() -> None:
    needy = running("web-1-0", container(cpu="100m"))
    plan = decided(boosting("InPlace"), needy, boosted())
    first, second = plan.actions
    assert isinstance(first, ResizePod)
    assert first.unboosts
    assert second.pod.name == "web-1-0"


def test_a_boost_with_an_unreadable_annotation_is_only_unmarked() -> None:
    odd = running("web-1-a", container(cpu="1"), annotations={annotation_key("app"): "not JSON"})
    plan = decided(boosting(targets={}), odd)
    assert [type(action) for action in plan.actions] == [UnmarkPod]


def test_a_freeze_stops_unboosts_too_and_names_its_author() -> None:
    plan = decided(boosting(), boosted(), freeze=Freeze("alice", FreezeScope.CLUSTER, "incident 17"))
    assert list_decisions(plan) == [("Leave", "Frozen")]
    assert plan.decisions[0].details == "the cluster is frozen by alice: incident 17"
