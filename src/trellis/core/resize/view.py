"""Views: the state of a workload and its pods that a plan is made from, as frozen values.

No plan reads anything newer. A pod is read into what decisions need of it: the resources in its spec, the resources in
force, the progress of a resize, which containers are down, when it became Ready, and out-of-memory kills.

The kubelet reports a resize in two conditions (Kubernetes 1.33), with the time: so nothing has to be remembered, and a
pod of the same name does not inherit the past of another. Before the kubelet reports anything, the spec asks for
resources that are not in force.

A container that ended and will be restarted is down: in its crash back-off the kubelet reports it as `terminated`, and
as `waiting` only when the back-off ends. A container that never ran yet is not down: nothing of the pod's cgroups was
made for an older size. A container that has ended for good (in a Job, or an init container) is not awaited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from trellis.api.kube.meta import Condition, KubeObject
from trellis.api.kube.observed_pods import OOM_KILLED
from trellis.api.kube.pods import (
    READY,
    RESIZE_IN_PROGRESS,
    RESIZE_PENDING,
    Container,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    ResourceRequirements,
)
from trellis.api.kube.slices import Quantities
from trellis.api.kube.workloads import DaemonSet, ReplicaSet, ReplicationController, StatefulSet
from trellis.core.boost.annotation import is_boosted
from trellis.core.cluster.pod_annotations import OBSERVED_CONTAINERS_ANNOTATION
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.resize.actions import ControllerKey, PodRef
from trellis.core.resize.disruption_budget import HourlyAllowance
from trellis.core.resize.freeze import Freeze
from trellis.core.resize.state.attempts import WorkloadAttempts
from trellis.core.resize.update_need import ContainerResource
from trellis.core.sizing.governors import Governor
from trellis.core.sizing.shapes import ContainerList, ContainerShape, PodShape

_INFEASIBLE = "Infeasible"
_ERROR = "Error"


class ResizeState(StrEnum):
    """The state of a resize by the kubelet. An unknown reason counts as deferred."""

    NONE = "None"
    PROPOSED = "Proposed"
    DEFERRED = "Deferred"
    INFEASIBLE = "Infeasible"
    IN_PROGRESS = "InProgress"
    FAILING = "Failing"


class ResizeStatus(msgspec.Struct, frozen=True):
    """The state and its transition time in seconds since 1970; None if unknown."""

    state: ResizeState = ResizeState.NONE
    since: float | None = None


def read_resources_in_force(pod: Pod) -> dict[str, ResourceRequirements]:
    """The resources in force by container, as the kubelet reports them; without containers that it does not report.

    Where the pod has resources of its own, kubelet 1.36 reports the pod's limit for a container that has none. Such a
    limit is left out, or a resize in proportion to it would give the container a limit of its own.
    """
    status, spec = pod.status, pod.spec
    in_force = {
        container.name: container.resources
        for container in (*status.container_statuses, *status.init_container_statuses)
        # A runtime that cannot tell reports an empty one.
        if container.resources is not None and (container.resources.requests or container.resources.limits)
    }
    if spec.resources is None:
        return in_force
    own_limits = {container.name: container.resources.limits for container in (*spec.containers, *spec.init_containers)}
    return {
        name: _remove_inherited_limits(resources, own_limits.get(name, resources.limits))
        for name, resources in in_force.items()
    }


def _remove_inherited_limits(resources: ResourceRequirements, own_limits: Quantities) -> ResourceRequirements:
    limits = {name: amount for name, amount in resources.limits.items() if name in own_limits}
    return msgspec.structs.replace(resources, limits=limits)


def read_resize_status(pod: Pod, in_force: PodShape) -> ResizeStatus:
    """Read the progress of a resize; `in_force` is the pod's shape with the resources in force."""
    for condition in pod.status.conditions:
        if condition.type == RESIZE_PENDING and condition.status == "True":
            return ResizeStatus(_read_pending_state(condition), _read_transition_time(condition))
    for condition in pod.status.conditions:
        if condition.type == RESIZE_IN_PROGRESS and condition.status == "True":
            failing = condition.reason == _ERROR
            return ResizeStatus(
                ResizeState.FAILING if failing else ResizeState.IN_PROGRESS, _read_transition_time(condition)
            )
    if any(_differs_from_spec(container) for container in in_force.containers):
        return ResizeStatus(ResizeState.PROPOSED)
    return ResizeStatus()


def _read_pending_state(condition: Condition) -> ResizeState:
    return ResizeState.INFEASIBLE if condition.reason == _INFEASIBLE else ResizeState.DEFERRED


def _read_transition_time(condition: Condition) -> float | None:
    changed = condition.last_transition_time
    return changed.timestamp() if changed is not None else None


def _differs_from_spec(container: ContainerShape) -> bool:
    declared = container.declared
    if declared is None:
        return False
    return any(container.requests.get(name) != amount for name, amount in declared.requests.items()) or any(
        container.limits.get(name) != amount for name, amount in declared.limits.items()
    )


# Times in a status are whole seconds. A resize written in the second of a start could have come before it.
_SECOND: Final = 1.0


class Downtime(msgspec.Struct, frozen=True):
    """Containers that are down. `since` is when the first of them ended, `restarted_at` when the last one restarted."""

    since: float | None = None
    restarted_at: float | None = None
    containers: tuple[str, ...] = ()

    def is_just_restarted(self, now: float) -> bool:
        """Whether a container was restarted within this second."""
        return self.restarted_at is not None and self.restarted_at <= now < self.restarted_at + _SECOND

    @property
    def running_from(self) -> float | None:
        """When a restarted container counts as running."""
        return self.restarted_at + _SECOND if self.restarted_at is not None else None


_NO_DOWNTIME: Final = Downtime()


def read_downtime(pod: Pod) -> Downtime:
    """Which containers are down."""
    ended: list[tuple[str, float]] = []
    restarted_at: float | None = None
    for container, status, is_sidecar in _iter_long_running(pod):
        state, last = status.state, status.last_state.terminated
        if state.terminated is not None or (state.running is None and last is not None):
            end = state.terminated or last
            if end is not None and (is_sidecar or _will_restart(pod, container, end)):
                ended.append((status.name, end.finished_at.timestamp() if end.finished_at is not None else 0.0))
        elif last is not None and state.running is not None and state.running.started_at is not None:
            restarted_at = max(restarted_at or 0.0, state.running.started_at.timestamp())
    if not ended and restarted_at is None:
        return _NO_DOWNTIME
    return Downtime(min(at for _, at in ended) if ended else None, restarted_at, tuple(name for name, _ in ended))


def _will_restart(pod: Pod, container: Container, end: ContainerStateTerminated) -> bool:
    """Whether the kubelet restarts a container; one may have a policy of its own (Kubernetes 1.34)."""
    match container.restart_policy or pod.spec.restart_policy:
        case "Never":
            return False
        case "OnFailure":
            return end.exit_code != 0
        case _:
            return True


def _iter_long_running(pod: Pod) -> Iterator[tuple[Container, ContainerStatus, bool]]:
    """Containers and native sidecars with their statuses."""
    if pod.status.container_statuses:
        containers = {container.name: container for container in pod.spec.containers}
        yield from (
            (containers[container_status.name], container_status, False)
            for container_status in pod.status.container_statuses
            if container_status.name in containers
        )
    if pod.status.init_container_statuses:
        sidecars = {container.name: container for container in pod.spec.init_containers if container.is_sidecar}
        yield from (
            (sidecars[container_status.name], container_status, True)
            for container_status in pod.status.init_container_statuses
            if container_status.name in sidecars
        )


_NO_RESOURCES: Final[frozenset[ContainerResource]] = frozenset()
_PENDING, _FINISHED = "Pending", frozenset({"Succeeded", "Failed"})

# Whether the successor of a pod would fit some node with these requests by container; None if unknown.
FitCheck: TypeAlias = Callable[[Pod, Mapping[str, ResourceAmounts]], bool | None]


class ObservedOomKill(msgspec.Struct, frozen=True):
    """An out-of-memory kill of a container: how long it had run, and when it was killed."""

    run_seconds: float
    time: float


class PodView(msgspec.Struct, frozen=True):
    """One pod. Times are seconds since 1970; `oom_kills` are those in its status, by container.

    `unobserved` are the resources of containers that admission did not observe, and so did not size. A pod without a
    Ready condition is neither `ready` nor `unready`. `downtime` says which containers are down.
    """

    pod: Pod
    ref: PodRef
    controller: ControllerKey | None
    in_spec: PodShape
    in_force: PodShape
    resize: ResizeStatus
    oom_kills: Mapping[str, tuple[ObservedOomKill, ...]]
    unobserved: frozenset[ContainerResource]
    boosted: bool
    ready: bool
    unready: bool
    ready_since: float
    started: float | None
    created: float | None
    downtime: Downtime = Downtime()

    @classmethod
    def from_pod(cls, pod: Pod) -> PodView:
        """Read a pod."""
        metadata, status = pod.metadata, pod.status
        controller = metadata.controller
        in_spec = PodShape.from_spec(pod.spec)
        reported = read_resources_in_force(pod)
        in_force = in_spec.with_resources(reported) if reported else in_spec
        ready = status.find_condition(READY)
        changed = ready.last_transition_time if ready is not None else None
        return cls(
            pod=pod,
            ref=PodRef(metadata.namespace, metadata.name, metadata.uid),
            controller=ControllerKey(controller.kind, controller.name) if controller is not None else None,
            in_spec=in_spec,
            in_force=in_force,
            resize=read_resize_status(pod, in_force),
            oom_kills=_read_oom_kills(pod),
            unobserved=_find_unobserved(
                in_spec, _parse_observed_containers(metadata.annotations.get(OBSERVED_CONTAINERS_ANNOTATION))
            ),
            boosted=is_boosted(metadata.annotations),
            ready=ready is not None and ready.status == "True",
            unready=ready is not None and ready.status != "True",
            ready_since=changed.timestamp() if changed is not None else math.inf,
            started=status.start_time.timestamp() if status.start_time is not None else None,
            created=metadata.creation_timestamp.timestamp() if metadata.creation_timestamp is not None else None,
            downtime=read_downtime(pod),
        )

    @property
    def is_pending(self) -> bool:
        """Whether it has not started yet."""
        return self.pod.status.phase == _PENDING

    @property
    def is_finished(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.pod.status.phase in _FINISHED

    @property
    def is_inactive(self) -> bool:
        """Whether it is terminating, or has ended."""
        return is_inactive(self.pod)

    @property
    def node(self) -> str:
        """The node it runs on, if it has one."""
        return self.pod.spec.node_name


class WorkloadView(msgspec.Struct, frozen=True):
    """The input of a plan.

    A controller that is not in `configured_replicas` counts as complete. `hpa_resources` are the resources by whose
    utilization an HPA scales the workload. `missed_resizes` are the uids of pods whose last resize was written while a
    container was down.
    """

    governor: Governor
    pods: tuple[PodView, ...]
    configured_replicas: Mapping[ControllerKey, int] = {}
    limits: NamespaceLimits = NamespaceLimits()
    attempts: WorkloadAttempts = WorkloadAttempts()
    freeze: Freeze | None = None
    hpa_resources: frozenset[str] = frozenset()
    hourly_allowance: HourlyAllowance = HourlyAllowance()
    node_allocatable: Mapping[str, ResourceAmounts] = {}
    check_fit: FitCheck | None = None
    missed_resizes: frozenset[str] = frozenset()

    @property
    def is_governed(self) -> bool:
        """Whether an object governs the pods; otherwise the plan only ends boosts."""
        return self.governor.is_object


def is_inactive(pod: Pod) -> bool:
    """Whether a pod is terminating, or has ended."""
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in _FINISHED


def read_configured_replicas(controller: KubeObject) -> int | None:
    """The configured replicas of a controller; None if its kind has none."""
    match controller:
        case ReplicaSet() | StatefulSet() | ReplicationController():
            replicas = controller.spec.replicas
            return 1 if replicas is None else replicas
        case DaemonSet():
            return controller.status.desired_number_scheduled
        case _:
            return None


def _parse_observed_containers(text: str | None) -> frozenset[str] | None:
    """The containers that admission observed; None if the annotation cannot be read."""
    names = [name.strip() for name in text.split(",")] if text else []
    return frozenset(names) if names and all(names) else None


def _find_unobserved(shape: PodShape, observed: frozenset[str] | None) -> frozenset[ContainerResource]:
    """Resources of ordinary containers that admission did not observe; it lists no native sidecars."""
    if observed is None:
        return _NO_RESOURCES
    unobserved = [
        container.name
        for container in shape.containers
        if container.place is ContainerList.CONTAINERS and container.name not in observed
    ]
    return frozenset((name, resource) for name in unobserved for resource in RESOURCES) if unobserved else _NO_RESOURCES


def _read_oom_kills(pod: Pod) -> dict[str, tuple[ObservedOomKill, ...]]:
    kills: dict[str, tuple[ObservedOomKill, ...]] = {}
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        for terminated in _list_terminations(status):
            if (
                terminated.reason == OOM_KILLED
                and terminated.started_at is not None
                and terminated.finished_at is not None
            ):
                run_seconds = (terminated.finished_at - terminated.started_at).total_seconds()
                kills[status.name] = (
                    *kills.get(status.name, ()),
                    ObservedOomKill(run_seconds, terminated.finished_at.timestamp()),
                )
    return kills


def _list_terminations(status: ContainerStatus) -> tuple[ContainerStateTerminated, ...]:
    states = (status.last_state, status.state)
    return tuple(state.terminated for state in states if state.terminated is not None)
