"""Workloads of components: what keeps their pods from being ready, said with the remedy."""

from __future__ import annotations

import pytest

from support.installations.facts import broken, installation, lease, pod, upstream, workload
from trellis.base.reasons import Reason
from trellis.diagnosis.checks import deployments
from trellis.diagnosis.checks.deployments import check_deployments
from trellis.diagnosis.findings import ClusterFinding, Level
from trellis.diagnosis.installation import ComponentWorkload, ContainerRun, Installation
from trellis.diagnosis.unread import Unread

IMAGE = "registry.example/trellis:0.1.O"


def check(*workloads: ComponentWorkload) -> tuple[ClusterFinding, ...]:
    return check_deployments(Installation(workloads), is_required=True).findings


def only(*workloads: ComponentWorkload) -> ClusterFinding:
    (finding,) = check(*workloads)
    return finding


def test_ready_workloads_give_no_finding() -> None:
    result = check_deployments(installation(), is_required=True)
    assert (result.findings, result.summary) == ((), "3 Deployments, 3 of 3 replicas ready")


def test_a_cluster_without_components_is_not_installed() -> None:
    finding = only()
    assert finding.reason is deployments.NOT_INSTALLED
    assert finding.action.startswith("trellis install")


def test_before_an_installation_nothing_is_missing() -> None:
    result = check_deployments(Installation(), is_required=False)
    assert (result.level, result.summary) == (Level.OK, "none installed yet")


def test_unreadable_deployments_are_not_taken_for_missing_ones() -> None:
    unread = Unread("Deployments", "may not be read", "list", "deployments.apps", is_forbidden=True)
    result = check_deployments(Installation((), (), (unread,)), is_required=True)
    assert (result.findings, result.unknown[0].is_essential) == ((), True)


def test_components_outside_of_the_cluster_are_known_by_their_leases() -> None:
    result = check_deployments(Installation((), (lease("recommender"),)), is_required=True)
    assert result.findings == ()


def test_a_rollout_that_does_not_get_on_is_found_while_old_pods_are_ready() -> None:
    finding = only(workload("updater", stuck='ReplicaSet "vpa-updater-7b" has timed out progressing.'))
    assert (finding.reason, "timed out progressing" in finding.message) == (deployments.ROLLOUT_STUCK, True)
    assert "kubectl rollout undo -n kube-system deployment/vpa-updater" in finding.action


@pytest.mark.parametrize("waiting", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"])
def test_a_wrong_image_is_named_with_the_command_that_corrects_it(waiting: str) -> None:
    container = ContainerRun("updater", IMAGE, is_ready=False, waiting=waiting, waiting_message="not found")
    finding = only(broken("updater", container))
    assert finding.reason is deployments.IMAGE_NOT_PULLED
    assert finding.message == f"image {IMAGE} cannot be pulled ({waiting}): not found"
    assert "kubectl set image -n kube-system deployment/vpa-updater updater=IMAGE" in finding.action


def test_a_crash_is_shown_with_the_last_error_and_its_log() -> None:
    container = ContainerRun(
        "updater", is_ready=False, waiting="CrashLoopBackOff", exit_code=2, restarts=5, last_error="trellis: --x: bad"
    )
    finding = only(broken("updater", container))
    assert (finding.reason, finding.subject) == (deployments.COMPONENT_CRASHES, "kube-system/vpa-updater")
    assert finding.message == "ends with exit status 2; 5 restarts: trellis: --x: bad"
    assert finding.action.endswith("-c updater --previous")


def test_a_container_that_restarts_again_and_again_crashes_also_between_back_offs() -> None:
    restarted = broken("updater", ContainerRun("updater", is_ready=False, exit_code=1, restarts=3))
    assert only(restarted).reason is deployments.COMPONENT_CRASHES
    started = broken("updater", ContainerRun("updater", is_ready=False, restarts=1))
    assert only(started).reason is deployments.NO_REPLICA_READY


def test_a_kill_for_lack_of_memory_suggests_more_memory() -> None:
    container = ContainerRun(
        "updater", is_ready=False, waiting="CrashLoopBackOff", exit_code=137, exit_reason="OOMKilled", restarts=4
    )
    finding = only(broken("updater", container))
    assert "killed for lack of memory" in finding.message
    assert "--limits=memory=" in finding.action


def test_a_configuration_that_is_missing_is_named() -> None:
    container = ContainerRun(
        "updater", is_ready=False, waiting="CreateContainerConfigError", waiting_message='configmap "x" not found'
    )
    finding = only(broken("updater", container))
    assert (finding.reason, 'configmap "x" not found' in finding.message) == (deployments.CONTAINER_NOT_CREATED, True)


@pytest.mark.parametrize(
    ("changed", "reason", "words"),
    [
        (workload("updater", ready=0, failure="exceeded quota: small", pods=()), deployments.PODS_REFUSED, "small"),
        (
            workload("updater", ready=0, pods=(pod("updater", is_ready=False, unscheduled="0/3 nodes", page=None),)),
            deployments.POD_UNSCHEDULABLE,
            "0/3 nodes",
        ),
        (workload("updater", ready=0, pods=()), deployments.NO_REPLICA_READY, "no replica is ready"),
        (workload("updater", wanted=2, ready=1), deployments.REPLICAS_NOT_READY, "1 of 2 replicas are ready"),
        (workload("updater", wanted=0, ready=0, pods=()), deployments.SCALED_TO_ZERO, "0 replicas"),
    ],
)
def test_what_keeps_pods_from_running_is_found(changed: ComponentWorkload, reason: Reason, words: str) -> None:
    finding = only(changed)
    assert finding.reason is reason
    assert words in finding.message
    assert finding.action


def test_a_rollout_that_does_not_get_on_is_found_while_the_pod_before_it_is_ready() -> None:
    container = ContainerRun("updater", IMAGE, is_ready=False, waiting="ImagePullBackOff")
    pods = (pod("updater"), pod("updater", "new12", is_ready=False, containers=(container,), page=None))
    assert only(workload("updater", pods=pods)).reason is deployments.IMAGE_NOT_PULLED


def test_the_same_cause_in_two_pods_of_a_workload_is_one_finding() -> None:
    container = ContainerRun("updater", IMAGE, is_ready=False, waiting="ImagePullBackOff")
    pods = tuple(pod("updater", suffix, is_ready=False, containers=(container,), page=None) for suffix in "ab")
    assert len(check(workload("updater", wanted=2, ready=0, pods=pods))) == 1


def test_different_versions_of_trellis_are_found_and_those_of_upstream_are_its_own() -> None:
    mixed = (workload("recommender"), workload("updater", version="0.2.0"))
    assert only(*mixed).reason is deployments.VERSIONS_DIFFER
    assert check(workload("recommender"), upstream("updater")) == ()
