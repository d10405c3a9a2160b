"""Checks workloads of components: ready replicas, pods that do not start and why, and versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trellis.base.reasons import Reason, Severity
from trellis.base.wording import pluralize
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding
from trellis.diagnosis.installation import ComponentPod, ComponentWorkload, ContainerRun, Installation

NOT_INSTALLED = Reason("NotInstalled", "The cluster runs no component of Trellis or of upstream's VPA.", Severity.ERROR)
NO_REPLICA_READY = Reason("NoReplicaReady", "No replica of a component is ready.", Severity.ERROR)
REPLICAS_NOT_READY = Reason("ReplicasNotReady", "Some replicas of a component are not ready.", Severity.WARNING)
SCALED_TO_ZERO = Reason("ComponentScaledToZero", "A component has 0 replicas.", Severity.WARNING)
IMAGE_NOT_PULLED = Reason("ImageNotPulled", "The image of a component cannot be pulled.", Severity.ERROR)
COMPONENT_CRASHES = Reason("ComponentCrashes", "A component exits again and again.", Severity.ERROR)
PODS_REFUSED = Reason(
    "PodsRefused",
    "The pods of a component are refused: by a quota, a LimitRange, PodSecurity or a webhook.",
    Severity.ERROR,
)
POD_UNSCHEDULABLE = Reason("ComponentUnschedulable", "A pod of a component fits on no node.", Severity.ERROR)
CONTAINER_NOT_CREATED = Reason(
    "ContainerNotCreated", "The container of a component cannot be created from its configuration.", Severity.ERROR
)
ROLLOUT_STUCK = Reason(
    "RolloutStuck",
    "The rollout of a component does not get on: old pods work, new ones are not ready.",
    Severity.WARNING,
)
VERSIONS_DIFFER = Reason("VersionsDiffer", "Components of Trellis run in different versions.", Severity.WARNING)

INSTALL: Final = "trellis install --image IMAGE | kubectl apply --server-side -f -"
_PULL_REASONS: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CREATE_REASONS: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_CRASH: Final = "CrashLoopBackOff"
# Restarts from which a container that is not ready is taken to crash, also between two back-offs.
_MANY_RESTARTS: Final = 3
_OUT_OF_MEMORY: Final = "OOMKilled"


def check_deployments(installation: Installation, *, is_required: bool) -> ClusterCheck:
    """The workloads. `is_required` is whether an installation is expected, and not only prepared."""
    name = "components"
    # What is known of workloads says enough, also where other namespaces may not be read.
    essential = not installation.workloads
    unknown = tuple(unread.to_unknown(is_essential=essential) for unread in installation.unread)
    held = any(lease.holder for lease in installation.leases)
    if not installation.workloads:
        if held or not installation.is_known:
            return ClusterCheck(name, "Leases only: no Deployment was found", (), unknown)
        if not is_required:
            return ClusterCheck(name, "none installed yet", (), unknown)
        missing = ClusterFinding(NOT_INSTALLED, "cluster", "neither Trellis nor upstream's VPA is installed", INSTALL)
        return ClusterCheck(name, "", (missing,), unknown)
    findings = [finding for workload in installation.workloads for finding in _check_workload(workload)]
    findings += _compare_versions(installation)
    ready, wanted = (sum(getattr(item, field) for item in installation.workloads) for field in ("ready", "wanted"))
    count = pluralize(len(installation.workloads), "Deployment")
    return ClusterCheck(name, f"{count}, {ready} of {wanted} replicas ready", tuple(findings), unknown)


def _check_workload(workload: ComponentWorkload) -> Iterator[ClusterFinding]:
    about = f"-n {workload.namespace} deployment/{workload.name}"
    if not workload.wanted:
        yield ClusterFinding(
            SCALED_TO_ZERO, workload.label, "has 0 replicas: it does nothing", f"kubectl scale {about} --replicas=1"
        )
        return
    # Also of a rollout that does not get on, while the pods before it are ready.
    causes = list(dict.fromkeys(_find_causes(workload)))
    yield from causes
    if not causes and workload.ready >= workload.wanted and workload.stuck:
        yield ClusterFinding(
            ROLLOUT_STUCK,
            workload.label,
            f"its rollout does not get on: {workload.stuck}",
            f"kubectl describe {about}; to go back: kubectl rollout undo {about}",
        )
    if not causes and workload.ready < workload.wanted:
        nothing = workload.ready == 0
        yield ClusterFinding(
            NO_REPLICA_READY if nothing else REPLICAS_NOT_READY,
            workload.label,
            "no replica is ready" if nothing else f"{workload.ready} of {workload.wanted} replicas are ready",
            f"kubectl describe {about}",
        )


def _find_causes(workload: ComponentWorkload) -> Iterator[ClusterFinding]:
    """Why pods are not ready, each cause once however many pods have it."""
    if workload.failure:
        yield ClusterFinding(
            PODS_REFUSED,
            workload.label,
            f"pods cannot be created: {workload.failure}",
            "change the quota, LimitRange, namespace label or webhook that the message names",
        )
    for pod in workload.list_pods():
        if pod.unscheduled:
            yield ClusterFinding(
                POD_UNSCHEDULABLE,
                workload.label,
                f"a pod fits on no node: {pod.unscheduled}",
                f"add a node, or lower its requests: kubectl describe pod -n {workload.namespace} {pod.name}",
            )
        for container in pod.containers:
            yield from _check_container(workload, pod, container)


def _check_container(
    workload: ComponentWorkload, pod: ComponentPod, container: ContainerRun
) -> Iterator[ClusterFinding]:
    describe = f"kubectl describe pod -n {workload.namespace} {pod.name}"
    if container.waiting in _PULL_REASONS:
        yield ClusterFinding(
            IMAGE_NOT_PULLED,
            workload.label,
            f"image {container.image} cannot be pulled ({container.waiting})"
            + (f": {container.waiting_message}" if container.waiting_message else ""),
            f"correct name, tag and pull secret: kubectl set image -n {workload.namespace} "
            f"deployment/{workload.name} {container.name}=IMAGE",
        )
    elif container.waiting in _CREATE_REASONS:
        message = container.waiting_message or container.waiting
        yield ClusterFinding(CONTAINER_NOT_CREATED, workload.label, f"cannot be created: {message}", describe)
    elif container.waiting == _CRASH or (not container.is_ready and container.restarts >= _MANY_RESTARTS):
        yield _describe_crash(workload, pod, container)


def _describe_crash(workload: ComponentWorkload, pod: ComponentPod, container: ContainerRun) -> ClusterFinding:
    if container.exit_reason == _OUT_OF_MEMORY:
        return ClusterFinding(
            COMPONENT_CRASHES,
            workload.label,
            f"is killed for lack of memory; {pluralize(container.restarts, 'restart')}",
            f"raise its memory limit: kubectl set resources -n {workload.namespace} deployment/{workload.name} "
            "--limits=memory=2Gi",
        )
    ended = "" if container.exit_code is None else f" with exit status {container.exit_code}"
    message = f"ends{ended}; {pluralize(container.restarts, 'restart')}"
    logs = f"kubectl logs -n {workload.namespace} {pod.name} -c {container.name} --previous"
    if container.last_error:
        return ClusterFinding(COMPONENT_CRASHES, workload.label, f"{message}: {container.last_error}", logs)
    return ClusterFinding(COMPONENT_CRASHES, workload.label, message, logs)


def _compare_versions(installation: Installation) -> Iterator[ClusterFinding]:
    ours = [workload for workload in installation.workloads if workload.is_ours and workload.version]
    versions = sorted({workload.version for workload in ours})
    if len(versions) > 1:
        listed = ", ".join(f"{workload.name} {workload.version}" for workload in ours)
        yield ClusterFinding(VERSIONS_DIFFER, "components", f"run in {len(versions)} versions: {listed}", "upgrade all")
