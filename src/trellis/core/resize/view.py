"""Views: what is known of a workload and its pods when its plan is made, as frozen values.

No plan reads anything newer. A pod is read into what decisions need of it: the resources in its spec, the resources in
force, the progress of a resize, when it became Ready, and out-of-memory kills.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.observed_pods import OOM_KILLED
from trellis.api.kube.pods import READY, ContainerStateTerminated, ContainerStatus, Pod
from trellis.api.kube.workloads import DaemonSet, ReplicaSet, ReplicationController, StatefulSet
from trellis.core.boost.annotation import is_boosted
from trellis.core.cluster.pod_annotations import OBSERVED_CONTAINERS_ANNOTATION
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.resize.disruption_budget import HourlyAllowance
from trellis.core.resize.eligibility import ContainerResource
from trellis.core.resize.freeze import Freeze
from trellis.core.resize.in_place.status import (
    Downtime,
    ResizeStatus,
    read_downtime,
    read_resize_status,
    read_resources_in_force,
)
from trellis.core.resize.pod_decisions import ControllerKey, PodRef
from trellis.core.resize.state.attempts import WorkloadAttempts
from trellis.core.sizing.governors import Governor
from trellis.core.sizing.shapes import ContainerList, PodShape

_NOTHING: Final[frozenset[ContainerResource]] = frozenset()
_PENDING, _FINISHED = "Pending", frozenset({"Succeeded", "Failed"})

# Whether the successor of a pod would fit some node, if its containers requested this; None if nobody can say.
FitCheck: TypeAlias = Callable[[Pod, Mapping[str, ResourceAmounts]], bool | None]


class ObservedOomKill(msgspec.Struct, frozen=True):
    """A container ran out of memory: how long it had run, and when that was."""

    ran: float
    at: float


class PodView(msgspec.Struct, frozen=True):
    """One pod. Times are seconds since 1970; `kills` are out-of-memory kills by container, as far as the pod tells.

    What admission did not see it did not size: those are `unobserved`.
    Nobody has said yet whether a pod is Ready that neither is `ready` nor `unready`. `downtime` says which containers
    are down.
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
        """What a pod says."""
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
        each.name for each in shape.containers if each.place is ContainerList.CONTAINERS and each.name not in observed
    ]
    return frozenset((name, resource) for name in left_out for resource in RESOURCES) if left_out else _NOTHING


def _kills(pod: Pod) -> dict[str, tuple[ObservedOomKill, ...]]:
    found: dict[str, tuple[ObservedOomKill, ...]] = {}
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        for ended in _endings(status):
            if ended.reason == OOM_KILLED and ended.started_at is not None and ended.finished_at is not None:
                ran = (ended.finished_at - ended.started_at).total_seconds()
                found[status.name] = (*found.get(status.name, ()), ObservedOomKill(ran, ended.finished_at.timestamp()))
    return found


def _endings(status: ContainerStatus) -> tuple[ContainerStateTerminated, ...]:
    states = (status.last_state, status.state)
    return tuple(state.terminated for state in states if state.terminated is not None)
