"""Views: what is known of a workload and its pods when its plan is made, as frozen values.

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
from trellis.api.kube.workloads import DaemonSet, ReplicaSet, ReplicationController, StatefulSet
from trellis.core.boost.annotation import is_boosted
from trellis.core.cluster.pod_annotations import OBSERVED_CONTAINERS_ANNOTATION
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.resize.actions import ControllerKey, PodRef
from trellis.core.resize.disruption_budget import HourlyAllowance
from trellis.core.resize.eligibility import ContainerResource
from trellis.core.resize.freeze import Freeze
from trellis.core.resize.state.attempts import WorkloadAttempts
from trellis.core.sizing.governors import Governor
from trellis.core.sizing.shapes import ContainerList, ContainerShape, PodShape

_INFEASIBLE = "Infeasible"
_ERROR = "Error"


class ResizeState(StrEnum):
    """What the kubelet says. A reason that we do not know is one more way to say later."""

    NONE = "None"
    PROPOSED = "Proposed"
    DEFERRED = "Deferred"
    INFEASIBLE = "Infeasible"
    IN_PROGRESS = "InProgress"
    FAILING = "Failing"


class ResizeStatus(msgspec.Struct, frozen=True):
    """The state and since when, as seconds since 1970; None if that is unknown."""

    state: ResizeState = ResizeState.NONE
    since: float | None = None


def read_resources_in_force(pod: Pod) -> dict[str, ResourceRequirements]:
    """What the kubelet says that containers have now, by name; without those of which it says nothing."""
    status = pod.status
    return {
        container.name: container.resources
        for container in (*status.container_statuses, *status.init_container_statuses)
        # A runtime that cannot tell reports an empty one.
        if container.resources is not None and (container.resources.requests or container.resources.limits)
    }


def read_resize_status(pod: Pod, in_force: PodShape) -> ResizeStatus:
    """How far the resize is; `in_force` is the pod's shape with the resources in force."""
    for condition in pod.status.conditions:
        if condition.type == RESIZE_PENDING and condition.status == "True":
            return ResizeStatus(_pending(condition), _since(condition))
    for condition in pod.status.conditions:
        if condition.type == RESIZE_IN_PROGRESS and condition.status == "True":
            failing = condition.reason == _ERROR
            return ResizeStatus(ResizeState.FAILING if failing else ResizeState.IN_PROGRESS, _since(condition))
    if any(_differs(container) for container in in_force.containers):
        return ResizeStatus(ResizeState.PROPOSED)
    return ResizeStatus()


def _pending(condition: Condition) -> ResizeState:
    return ResizeState.INFEASIBLE if condition.reason == _INFEASIBLE else ResizeState.DEFERRED


def _since(condition: Condition) -> float | None:
    changed = condition.last_transition_time
    return changed.timestamp() if changed is not None else None


def _differs(container: ContainerShape) -> bool:
    has, declared = container, container.declared
    if declared is None:
        return False
    return any(has.requests.get(name) != amount for name, amount in declared.requests.items()) or any(
        has.limits.get(name) != amount for name, amount in declared.limits.items()
    )


# Times in a status are whole seconds. A resize written in the second of a start could have come before it.
_SECOND: Final = 1.0


class Downtime(msgspec.Struct, frozen=True):
    """`since` is when the container that is down for the longest ended, `restarted` when the last one came back."""

    since: float | None = None
    restarted: float | None = None
    containers: tuple[str, ...] = ()

    def is_settling(self, now: float) -> bool:
        """Whether a container was restarted in this very second."""
        return self.restarted is not None and self.restarted <= now < self.restarted + _SECOND

    @property
    def settled(self) -> float | None:
        """When a restarted container counts as running."""
        return self.restarted + _SECOND if self.restarted is not None else None


_ALL_UP: Final = Downtime()


def read_downtime(pod: Pod) -> Downtime:
    """Which containers are down."""
    ended: list[tuple[str, float]] = []
    restarted: float | None = None
    for container, status, is_sidecar in _long_running(pod):
        state, last = status.state, status.last_state.terminated
        if state.terminated is not None or (state.running is None and last is not None):
            end = state.terminated or last
            if end is not None and (is_sidecar or _comes_back(pod, container, end)):
                ended.append((status.name, end.finished_at.timestamp() if end.finished_at is not None else 0.0))
        elif last is not None and state.running is not None and state.running.started_at is not None:
            restarted = max(restarted or 0.0, state.running.started_at.timestamp())
    if not ended and restarted is None:
        return _ALL_UP
    return Downtime(min(at for _, at in ended) if ended else None, restarted, tuple(name for name, _ in ended))


def _comes_back(pod: Pod, container: Container, end: ContainerStateTerminated) -> bool:
    """Whether the kubelet restarts a container; one may have a policy of its own (Kubernetes 1.34)."""
    match container.restart_policy or pod.spec.restart_policy:
        case "Never":
            return False
        case "OnFailure":
            return end.exit_code != 0
        case _:
            return True


def _long_running(pod: Pod) -> Iterator[tuple[Container, ContainerStatus, bool]]:
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


_NOTHING: Final[frozenset[ContainerResource]] = frozenset()
_PENDING, _FINISHED = "Pending", frozenset({"Succeeded", "Failed"})

# Whether the successor of a pod would fit some node, if its containers requested this; None if unknown.
FitCheck: TypeAlias = Callable[[Pod, Mapping[str, ResourceAmounts]], bool | None]


class ObservedOomKill(msgspec.Struct, frozen=True):
    """A container ran out of memory: how long it had run, and when that was."""

    ran: float
    at: float


class PodView(msgspec.Struct, frozen=True):
    """One pod. Times are seconds since 1970; `kills` are out-of-memory kills by container, as far as the pod tells.

    `unobserved` are the resources of containers that admission did not see, and so did not size. A pod without a Ready
    condition is neither `ready` nor `unready`. `downtime` says which containers are down.
    """

    pod: Pod
    ref: PodRef
    group: ControllerKey | None
    in_spec: PodShape
    in_force: PodShape
    resize: ResizeStatus
    kills: Mapping[str, tuple[ObservedOomKill, ...]]
    unobserved: frozenset[ContainerResource]
    boosted: bool
    ready: bool
    unready: bool
    ready_since: float
    started: float | None
    created: float | None
    downtime: Downtime = Downtime()

    @classmethod
    def of(cls, pod: Pod) -> PodView:
        """Read a pod."""
        metadata, status = pod.metadata, pod.status
        controller = metadata.controller
        in_spec = PodShape.of(pod.spec)
        reported = read_resources_in_force(pod)
        in_force = in_spec.with_resources(reported) if reported else in_spec
        ready = status.condition(READY)
        changed = ready.last_transition_time if ready is not None else None
        return cls(
            pod=pod,
            ref=PodRef(metadata.namespace, metadata.name, metadata.uid),
            group=ControllerKey(controller.kind, controller.name) if controller is not None else None,
            in_spec=in_spec,
            in_force=in_force,
            resize=read_resize_status(pod, in_force),
            kills=_kills(pod),
            unobserved=_unobserved(in_spec, _observed(metadata.annotations.get(OBSERVED_CONTAINERS_ANNOTATION))),
            boosted=is_boosted(metadata.annotations),
            ready=ready is not None and ready.status == "True",
            unready=ready is not None and ready.status != "True",
            ready_since=changed.timestamp() if changed is not None else math.inf,
            started=status.start_time.timestamp() if status.start_time is not None else None,
            created=metadata.creation_timestamp.timestamp() if metadata.creation_timestamp is not None else None,
            downtime=read_downtime(pod),
        )

    @property
    def pending(self) -> bool:
        """Whether it has not started yet."""
        return self.pod.status.phase == _PENDING

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.pod.status.phase in _FINISHED

    @property
    def over(self) -> bool:
        """Whether it is going, or has ended."""
        return is_inactive(self.pod)

    @property
    def node(self) -> str:
        """The node it runs on, if it has one."""
        return self.pod.spec.node_name


class WorkloadView(msgspec.Struct, frozen=True):
    """All that a plan is made from.

    `configured` is how many pods a controller should have; one that is not in it has as many as it should. `hpa` are
    the resources by whose utilization an HPA scales the workload. `nodes` is what nodes offer, by name. `missed` are
    the uids of pods whose last resize was written while a container was down.
    """

    governor: Governor
    pods: tuple[PodView, ...]
    configured: Mapping[ControllerKey, int] = {}
    limits: NamespaceLimits = NamespaceLimits()
    attempts: WorkloadAttempts = WorkloadAttempts()
    frozen: Freeze | None = None
    hpa: frozenset[str] = frozenset()
    left: HourlyAllowance = HourlyAllowance()
    nodes: Mapping[str, ResourceAmounts] = {}
    fits: FitCheck | None = None
    missed: frozenset[str] = frozenset()

    @property
    def is_governed(self) -> bool:
        """Whether some object governs the pods; otherwise there is nothing but boosts to take back."""
        return self.governor.is_object


def is_inactive(pod: Pod) -> bool:
    """Whether a pod is going, or has ended."""
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in _FINISHED


def read_configured_replicas(controller: KubeObject) -> int | None:
    """How many pods a controller should have; None if its kind does not say."""
    match controller:
        case ReplicaSet() | StatefulSet() | ReplicationController():
            replicas = controller.spec.replicas
            return 1 if replicas is None else replicas
        case DaemonSet():
            return controller.status.desired_number_scheduled
        case _:
            return None


def _observed(text: str | None) -> frozenset[str] | None:
    """The containers that admission saw; one that cannot be read says nothing."""
    names = [name.strip() for name in text.split(",")] if text else []
    return frozenset(names) if names and all(names) else None


def _unobserved(shape: PodShape, observed: frozenset[str] | None) -> frozenset[ContainerResource]:
    """Admission names ordinary containers alone, and no native sidecars."""
    if observed is None:
        return _NOTHING
    left_out = [
        container.name
        for container in shape.containers
        if container.place is ContainerList.CONTAINERS and container.name not in observed
    ]
    return frozenset((name, resource) for name in left_out for resource in RESOURCES) if left_out else _NOTHING


def _kills(pod: Pod) -> dict[str, tuple[ObservedOomKill, ...]]:
    kills: dict[str, tuple[ObservedOomKill, ...]] = {}
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        for ended in _endings(status):
            if ended.reason == OOM_KILLED and ended.started_at is not None and ended.finished_at is not None:
                ran = (ended.finished_at - ended.started_at).total_seconds()
                kills[status.name] = (*kills.get(status.name, ()), ObservedOomKill(ran, ended.finished_at.timestamp()))
    return kills


def _endings(status: ContainerStatus) -> tuple[ContainerStateTerminated, ...]:
    states = (status.last_state, status.state)
    return tuple(state.terminated for state in states if state.terminated is not None)
