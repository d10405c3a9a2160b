"""Pods with a container that is down: they are not resized, and a resize that was missed is written once more."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.json_patch import apply_patch
from support.worlds.resizes import NOW, Document, container, decided, governor, list_decisions, pair, running, time
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.recommend.capping.limit_ranges import ResourceRange
from trellis.core.resize.actions import EvictPod, ResizePod
from trellis.core.resize.plan import UpdatePlan
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import WorkloadAttempts, find_useless_eviction, record_eviction

MIB = 1 << 20
UIDS = frozenset({"uid-web-1-a", "uid-web-1-z"})
SAME = {"app": {"cpu": "500m", "memory": "300Mi"}}
HIGHER = [{"resources": ["memory"], "changeRequirement": "TargetHigherThanRequests"}]
LOWER = [{"resources": ["memory"], "changeRequirement": "TargetLowerThanRequests"}]


def down(pod: Document, ago: float) -> Document:
    """The same pod, whose first container ended so long ago."""
    document = copy.deepcopy(pod)
    times = {"startedAt": time(NOW - ago - 5), "finishedAt": time(NOW - ago)}
    document["status"]["containerStatuses"][0]["state"] = {
        "terminated": {"reason": "OOMKilled", "exitCode": 137, **times}
    }
    return document


def restarted(pod: Document, ago: float) -> Document:
    """The same pod, whose first container was restarted so long ago."""
    document = down(pod, ago + 20)
    status = document["status"]["containerStatuses"][0]
    status["lastState"] = status.pop("state")
    status["state"] = {"running": {"startedAt": time(NOW - ago)}}
    return document


def pod(**more: Any) -> Document:
    resources: dict[str, Any] = {"memory": "300Mi", "limits": {"memory": "300Mi"}, **more}
    return running("web-1-a", container(**resources))


def changed(plan: UpdatePlan, document: Document) -> Document:
    """The resources of the pod's containers after the one resize of a plan."""
    (action,) = [candidate for candidate in plan.actions if candidate.pod.name == "web-1-a"]
    assert isinstance(action, ResizePod)
    patched = apply_patch(document, action.patch)
    return {container["name"]: container["resources"] for container in patched["spec"]["containers"]}


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_a_pod_waits_for_its_container_before_it_is_resized(mode: str) -> None:
    plan = decided(governor(mode), *pair(down(pod(), 20)))
    assert list_decisions(plan) == [("Wait", "ContainerDown")] * 2
    assert {verdict.details for verdict in plan.decisions} == {"app"}
    assert list_decisions(decided(governor(mode), *pair(restarted(pod(), 5))))[0] == ("Resize", "ResizeInPlace")


def test_a_pod_whose_container_stays_down_is_evicted_where_the_mode_allows_it() -> None:
    soon, late = pair(down(pod(), 59)), pair(down(pod(), 60))
    assert list_decisions(decided(governor("InPlaceOrRecreate"), *soon))[0] == ("Wait", "ContainerDown")
    assert decided(governor("InPlaceOrRecreate"), *soon).requeue_at == NOW + 1
    assert list_decisions(decided(governor("InPlaceOrRecreate"), *late))[0] == ("Evict", "ContainerDownTooLong")
    assert list_decisions(decided(governor("InPlace"), *late))[0] == ("Wait", "ContainerDown")
    assert decided(governor("InPlace"), *soon).requeue_at is None
    assert decided(governor("InPlace"), *late).requeue_at is None
    patient = UpdateSettings(down_patience=120)
    assert list_decisions(decided(governor("InPlaceOrRecreate"), *late, settings=patient))[0] == (
        "Wait",
        "ContainerDown",
    )


def test_a_container_that_is_down_keeps_no_pod_from_an_eviction_that_is_due_anyway() -> None:
    assert list_decisions(decided(governor("Recreate"), *pair(down(pod(), 1))))[0] == ("Evict", "EvictToRecreate")


def test_a_resize_is_not_written_in_the_second_of_a_start() -> None:
    """Times are whole seconds: it could not be told from one that was written before the start."""
    early = decided(governor("InPlace"), *pair(restarted(pod(), 0)), now=NOW + 0.4)
    assert list_decisions(early)[0] == ("Wait", "ContainerDown")
    assert early.requeue_at == NOW + 1
    assert list_decisions(decided(governor("InPlace"), *pair(restarted(pod(), 0)), now=NOW + 1))[0][0] == "Resize"


def test_a_pod_that_needs_nothing_is_left_alone_while_its_container_is_down() -> None:
    assert (
        list_decisions(decided(governor("InPlace", SAME), *pair(down(pod(), 600))))
        == [("Leave", "SizeAsRecommended")] * 2
    )


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_a_missed_resize_is_repeated_with_a_real_change(mode: str) -> None:
    document = restarted(pod(), 5)
    plan = decided(governor(mode, SAME), *pair(document), missed_resizes=UIDS)
    assert list_decisions(plan)[0] == ("Resize", "ResizeInPlace")
    need = plan.decisions[0].need
    assert need is not None
    assert need.reason.code == "ResizeMissed"
    app = changed(plan, document)["app"]
    assert app == {"requests": {"cpu": "501m", "memory": "301Mi"}, "limits": {"memory": "301Mi"}}


def test_only_limits_are_nudged_where_they_are_above_requests() -> None:
    document = restarted(pod(limits={"cpu": "1", "memory": "600Mi"}), 5)
    app = changed(decided(governor("InPlace", SAME), *pair(document), missed_resizes=UIDS), document)["app"]
    assert app["requests"] == {"cpu": "500m", "memory": "300Mi"}
    assert app["limits"] == {"cpu": "1001m", "memory": "601Mi"}


def test_another_resize_makes_up_for_a_missed_one_and_what_it_leaves_out_is_nudged() -> None:
    more = {"app": {"cpu": "500m", "memory": "600Mi"}}
    document = restarted(pod(), 5)
    app = changed(decided(governor("InPlace", more), *pair(document), missed_resizes=UIDS), document)["app"]
    assert app["requests"] == {"cpu": "501m", "memory": "600Mi"}
    assert app["limits"] == {"memory": "600Mi"}


def test_a_nudged_pod_that_missed_that_too_goes_back_to_the_recommended_size() -> None:
    document = restarted(pod(cpu="501m", memory="301Mi", limits={"memory": "301Mi"}), 5)
    app = changed(decided(governor("InPlace", SAME), *pair(document), missed_resizes=UIDS), document)["app"]
    assert app == {"requests": {"cpu": "500m", "memory": "300Mi"}, "limits": {"memory": "300Mi"}}


@pytest.mark.parametrize(("requirements", "memory"), [(HIGHER, "301Mi"), (LOWER, "299Mi")])
def test_a_nudge_goes_in_the_direction_that_requirements_permit(requirements: list[Document], memory: str) -> None:
    ruling = governor("InPlace", SAME, policy={"actuationRequirements": requirements})
    document = restarted(pod(), 5)
    app = changed(decided(ruling, *pair(document), missed_resizes=UIDS), document)["app"]
    assert app["limits"] == {"memory": memory}


def test_a_nudge_stays_below_the_policys_and_the_namespaces_maximum() -> None:
    policy = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"memory": "300Mi"}}]}
    document = restarted(pod(), 5)
    plan = decided(governor("InPlace", SAME, resourcePolicy=policy), *pair(document), missed_resizes=UIDS)
    assert changed(plan, document)["app"]["limits"] == {"memory": "299Mi"}
    most = {"memory": 300 * MIB}
    for limits in (NamespaceLimits(ResourceRange(most=most)), NamespaceLimits(pod=ResourceRange(most=most))):
        plan = decided(governor("InPlace", SAME), *pair(document), missed_resizes=UIDS, limits=limits)
        assert changed(plan, document)["app"]["limits"] == {"memory": "299Mi"}


def test_the_container_that_would_restart_for_a_nudge_is_the_last_choice() -> None:
    both = {name: {"cpu": "500m", "memory": "300Mi"} for name in ("app", "mesh")}
    amounts: dict[str, Any] = {"memory": "300Mi", "limits": {"memory": "300Mi"}}
    document = restarted(
        running("web-1-a", container("app", restarts=("memory", "cpu"), **amounts), container("mesh", **amounts)), 5
    )
    plan = decided(governor("InPlace", both), *pair(document), missed_resizes=UIDS)
    after = changed(plan, document)
    assert after["app"]["limits"] == {"memory": "300Mi"}
    assert after["mesh"]["limits"] == {"memory": "301Mi"}
    assert not any(action.restarts for action in plan.actions if isinstance(action, ResizePod))


def test_limits_that_belong_to_the_user_are_not_nudged() -> None:
    policy = {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}
    document = restarted(pod(limits={"cpu": "1", "memory": "600Mi"}), 5)
    plan = decided(governor("InPlace", SAME, resourcePolicy=policy), *pair(document), missed_resizes=UIDS)
    assert not plan.actions


def test_a_pod_that_missed_a_resize_and_does_not_come_up_is_evicted_and_that_is_no_eviction_loop() -> None:
    document = down(pod(), 60)
    plan = decided(governor("InPlaceOrRecreate", SAME), *pair(document), missed_resizes=UIDS)
    assert list_decisions(plan)[0] == ("Evict", "ContainerDownTooLong")
    (action,) = plan.actions
    assert isinstance(action, EvictPod)
    known = record_eviction((), action, NOW)
    requests = {"app": {"cpu": 500, "memory": 300 * MIB}}
    assert find_useless_eviction(known, "uid-new", requests, NOW + 5) is None
    assert (
        list_decisions(decided(governor("InPlaceOrRecreate", SAME), *pair(down(pod(), 5)), missed_resizes=UIDS))[0][0]
        == "Wait"
    )


def test_requirements_that_are_not_met_keep_such_a_pod_from_eviction() -> None:
    ruling = governor("InPlaceOrRecreate", SAME, policy={"actuationRequirements": HIGHER})
    plan = decided(ruling, *pair(down(pod(), 60)), missed_resizes=UIDS, attempts=WorkloadAttempts())
    assert list_decisions(plan) == [("Leave", "RequirementsForbidEviction")] * 2
