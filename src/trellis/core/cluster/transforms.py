"""Transforms: what is kept of each object in the cluster state.

A cluster has a hundred thousand pods and half as many old ReplicaSets, and decisions read few of their bytes. What the
pods of one workload have alike is stored once. Bytes a pod, of 20,000 pods of 2,000 workloads:

| slice | bytes | read by |
|---|---|---|
| as decoded | 7,800 | |
| `PodTransform(resizes=True)` | 1,500 | everything that plans resizes, and all below |
| `PodTransform()` | 1,150 | everything that places pods on nodes |
| summary (`core.buffers.pod_summaries`) | 520 | Buffers |

The slices of a kind are ordered: a wider one has everything that a narrower one has. A process that runs several
components keeps the widest that one of them needs; a component alone keeps the narrowest that serves it. Where a
component reads another form of an object (`ObservedPod`), that is made from the wider slice by a projection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final, TypeVar

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.meta import (
    Condition,
    KubeObject,
    LabelSelector,
    ManagedFieldsEntry,
    ObjectMeta,
    OwnerReference,
    PodMeta,
)
from trellis.api.kube.observed_pods import (
    ObservedPod,
    ObservedPodMeta,
    ObservedPodSpec,
    ObservedPodStatus,
    observe_conditions,
    observe_container_statuses,
    observe_pod_spec,
)
from trellis.api.kube.observed_workloads import (
    CountedReplicationController,
    CountedWorkload,
    ObservedObject,
    ObservedWorkload,
    OwnedMeta,
    SelectingSpec,
)
from trellis.api.kube.pods import (
    POD_SCHEDULED,
    READY,
    RESIZE_IN_PROGRESS,
    RESIZE_PENDING,
    Container,
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from trellis.api.kube.scaling import HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec
from trellis.api.kube.slices import NOTHING, Labels
from trellis.api.kube.workloads import (
    DaemonSet,
    DaemonSetSpec,
    DaemonSetStatus,
    Deployment,
    DeploymentSpec,
    Job,
    JobSpec,
    ReplicaSet,
    ReplicatedSpec,
    ReplicatedStatus,
    ReplicationController,
    ReplicationControllerSpec,
    StatefulSet,
    StatefulSetSpec,
)

W = TypeVar("W", bound=ObservedObject)

# Fields of a spec that pods of one workload have alike, each of them on its own: some have volumes of their own.
_SHARED_SPEC_FIELDS: Final = (
    "volumes",
    "init_containers",
    "containers",
    "node_selector",
    "affinity",
    "tolerations",
    "overhead",
    "topology_spread_constraints",
    "resource_claims",
    "resources",
)
_RESIZED: Final = ("cpu", "memory")
# Workloads whose last pod is remembered.
_MAX_WORKLOADS: Final = 8_192
_NO_STATE: Final = ContainerState()
_NO_SPEC: Final = SelectingSpec()


class PodTransform:
    """Keeps of a pod what it requests of a node, its controller, and what forbids its eviction.

    With `resizes` it also keeps what plans of resizes read: times, and the statuses of all containers. Without it, only
    statuses of containers that have something else than their spec requests are kept: they are being resized.
    """

    def __init__(self, keeps_annotation: Callable[[str], bool], *, resizes: bool = False) -> None:
        self._keeps_annotation = keeps_annotation
        self._resizes = resizes
        # The last pod of each workload, by the UID of the controller.
        self._last: dict[str, Pod] = {}

    def __call__(self, pod: Pod) -> Pod:
        owner = pod.metadata.controller
        like = self._last.get(owner.uid) if owner is not None else None
        status = self._status(pod, like) if self._resizes else _placement_status(pod)
        cut = Pod(self._metadata(pod.metadata, owner, like), _spec(pod.spec, like), status)
        if owner is not None:
            if len(self._last) >= _MAX_WORKLOADS:
                self._last.clear()
            self._last[owner.uid] = cut
        return cut

    def _metadata(self, metadata: PodMeta, owner: OwnerReference | None, like: Pod | None) -> PodMeta:
        labels: Labels = {intern(key): intern(value) for key, value in metadata.labels.items()} or NOTHING
        remaining = {key: value for key, value in metadata.annotations.items() if self._keeps_annotation(key)}
        annotations: Labels = remaining or NOTHING
        owners: tuple[OwnerReference, ...] = (owner,) if owner is not None else ()
        if like is not None:
            labels = _share_equal(labels, like.metadata.labels)
            annotations = _share_equal(annotations, like.metadata.annotations)
            owners = _share_equal(owners, like.metadata.owner_references)
        return PodMeta(
            name=metadata.name,
            namespace=intern(metadata.namespace),
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            generation=metadata.generation,
            creation_timestamp=metadata.creation_timestamp,
            deletion_timestamp=metadata.deletion_timestamp,
            labels=labels,
            annotations=annotations,
            owner_references=owners,
            managed_fields=metadata.managed_fields if self._resizes else (),
        )

    @staticmethod
    def _status(pod: Pod, like: Pod | None) -> PodStatus:
        status = pod.status
        init_statuses = tuple(map(_cut_container_status, status.init_container_statuses))
        statuses = tuple(map(_cut_container_status, status.container_statuses))
        allocated, resources = status.allocated_resources, status.resources
        if like is not None:
            init_statuses = _share_equal(init_statuses, like.status.init_container_statuses)
            statuses = _share_equal(statuses, like.status.container_statuses)
            allocated = _share_equal(allocated, like.status.allocated_resources)
            resources = _share_equal(resources, like.status.resources)
        return PodStatus(
            phase=intern(status.phase),
            conditions=tuple(_cut_conditions(status.conditions)),
            nominated_node_name=intern(status.nominated_node_name),
            start_time=status.start_time,
            init_container_statuses=init_statuses,
            container_statuses=statuses,
            allocated_resources=allocated,
            resource_claim_statuses=status.resource_claim_statuses,
            resources=resources,
        )


T = TypeVar("T")


def _share_equal(value: T, stored: T) -> T:
    """The equal value that is stored already, if it is equal."""
    return stored if stored == value else value


def _spec(spec: PodSpec, like: Pod | None) -> PodSpec:
    shared: dict[str, Any] = {}
    if like is not None:
        shared = {
            field: stored
            for field in _SHARED_SPEC_FIELDS
            if (stored := getattr(like.spec, field)) == getattr(spec, field)
        }
    return msgspec.structs.replace(
        spec,
        **shared,
        node_name=intern(spec.node_name),
        restart_policy=intern(spec.restart_policy),
        scheduler_name=intern(spec.scheduler_name),
        priority_class_name=intern(spec.priority_class_name),
    )


def _cut_conditions(conditions: tuple[Condition, ...]) -> Iterator[Condition]:
    for condition in conditions:
        if condition.type == POD_SCHEDULED:
            yield _untimed_condition(condition.type, condition.status, condition.reason)
        elif condition.type in (READY, RESIZE_PENDING, RESIZE_IN_PROGRESS):
            yield Condition(
                type=intern(condition.type),
                status=intern(condition.status),
                last_transition_time=condition.last_transition_time,
                reason=intern(condition.reason),
            )


@lru_cache(maxsize=64)
def _untimed_condition(type_: str, status: str, reason: str) -> Condition:
    return Condition(type=type_, status=status, reason=reason)


def _cut_container_status(status: ContainerStatus) -> ContainerStatus:
    return ContainerStatus(
        name=status.name,
        # When a container was started matters only if it had ended before.
        state=status.state if status.last_state.terminated is not None else _terminated_state(status.state),
        last_state=_terminated_state(status.last_state),
        allocated_resources=status.allocated_resources,
        resources=status.resources,
    )


def _terminated_state(state: ContainerState) -> ContainerState:
    return _NO_STATE if state.terminated is None else ContainerState(terminated=state.terminated)


def _placement_status(pod: Pod) -> PodStatus:
    status, is_sized = pod.status, pod.spec.resources is not None
    return PodStatus(
        phase=intern(status.phase),
        conditions=tuple(
            _untimed_condition(condition.type, condition.status, condition.reason)
            for condition in status.conditions
            if condition.type in (POD_SCHEDULED, READY, RESIZE_PENDING)
        ),
        nominated_node_name=intern(status.nominated_node_name),
        resource_claim_statuses=status.resource_claim_statuses,
        init_container_statuses=_resizing(pod.spec.init_containers, status.init_container_statuses),
        container_statuses=_resizing(pod.spec.containers, status.container_statuses),
        allocated_resources=status.allocated_resources if is_sized else NOTHING,
        resources=status.resources if is_sized else None,
    )


def _resizing(containers: tuple[Container, ...], statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
    """The statuses of containers that have something else than their spec requests."""
    specs = {container.name: container for container in containers}
    return tuple(
        ContainerStatus(name=status.name, allocated_resources=status.allocated_resources, resources=status.resources)
        for status in statuses
        if status.resources is not None and status.name in specs and not _is_as_requested(specs[status.name], status)
    )


def _is_as_requested(container: Container, status: ContainerStatus) -> bool:
    requests, allocated = container.resources.requests, status.allocated_resources
    enforced = status.resources.requests if status.resources is not None else NOTHING
    return all(
        requests.get(name) == enforced.get(name) and allocated.get(name) in {None, requests.get(name)}
        for name in _RESIZED
    )


class ObservedPodProjection:
    """Makes of a pod that was cut by `PodTransform(resizes=True)` what the recommender reads of it.

    What the pods of one workload share is shared by what is made of them: 400 bytes a pod instead of 2,600.
    """

    def __init__(self) -> None:
        # The last pod of each workload and what was made of it, by the UID of the controller.
        self._last: dict[str, tuple[Pod, ObservedPod]] = {}

    def __call__(self, pod: Pod) -> ObservedPod:
        owner = pod.metadata.controller
        like = self._last.get(owner.uid) if owner is not None else None
        observed = ObservedPod(_observe_metadata(pod.metadata), _observe_spec(pod, like), _observe_status(pod, like))
        if owner is not None:
            if len(self._last) >= _MAX_WORKLOADS:
                self._last.clear()
            self._last[owner.uid] = (pod, observed)
        return observed


def _observe_metadata(metadata: PodMeta) -> ObservedPodMeta:
    return ObservedPodMeta(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        owner_references=metadata.owner_references,
        generation=metadata.generation,
        creation_timestamp=metadata.creation_timestamp,
        deletion_timestamp=metadata.deletion_timestamp,
        labels=metadata.labels,
        managed_fields=metadata.managed_fields,
    )


def _observe_spec(pod: Pod, like: tuple[Pod, ObservedPod] | None) -> ObservedPodSpec:
    if like is not None:
        last, observed = like[0].spec, like[1].spec
        if last.containers is pod.spec.containers and last.init_containers is pod.spec.init_containers:
            return observed
    return observe_pod_spec(pod.spec)


def _observe_status(pod: Pod, like: tuple[Pod, ObservedPod] | None) -> ObservedPodStatus:
    status = pod.status
    if like is not None and _has_same_statuses(status, like[0].status):
        init_statuses, statuses = like[1].status.init_container_statuses, like[1].status.container_statuses
    else:
        init_statuses = observe_container_statuses(status.init_container_statuses)
        statuses = observe_container_statuses(status.container_statuses)
    return ObservedPodStatus(status.phase, status.start_time, observe_conditions(status), init_statuses, statuses)


def _has_same_statuses(status: PodStatus, last: PodStatus) -> bool:
    return (
        status.container_statuses is last.container_statuses
        and status.init_container_statuses is last.init_container_statuses
    )


class OwnerTransform:
    """Keeps the controller of a workload, and its selector only if it has no controller: then it may be a target.

    The webhook caches all workloads of a cluster and reads of most of them their controller alone: 300 bytes of a
    ReplicaSet instead of 900. Lists are sorted by name, so that the ReplicaSets of a Deployment follow each other: what
    they have in common with the one before is stored once.
    """

    def __init__(self) -> None:
        self._owners: tuple[OwnerReference, ...] = ()

    def __call__(self, workload: W) -> W:
        metadata = workload.metadata
        controller = metadata.controller
        reduced = OwnedMeta(
            name=metadata.name,
            namespace=intern(metadata.namespace),
            owner_references=self._shared(controller) if controller is not None else (),
        )
        if isinstance(workload, ObservedWorkload):
            spec = _NO_SPEC if controller is not None else SelectingSpec(_intern_selector(workload.spec.selector))
            return msgspec.structs.replace(workload, metadata=reduced, spec=spec)
        return msgspec.structs.replace(workload, metadata=reduced)

    def _shared(self, controller: OwnerReference) -> tuple[OwnerReference, ...]:
        last = self._owners[0] if self._owners else None
        if last is None or (last.name, last.kind, last.api_version) != (
            controller.name,
            controller.kind,
            controller.api_version,
        ):
            self._owners = (_cut_owner(controller),)
        return self._owners


def transform_counted_workload(
    workload: CountedWorkload | CountedReplicationController,
) -> CountedWorkload | CountedReplicationController:
    """Store text of a workload once that others have as well."""
    metadata = msgspec.structs.replace(workload.metadata, namespace=intern(workload.metadata.namespace))
    if isinstance(workload, CountedReplicationController):
        return msgspec.structs.replace(workload, metadata=metadata)
    spec = msgspec.structs.replace(workload.spec, selector=_intern_selector(workload.spec.selector))
    return msgspec.structs.replace(workload, metadata=metadata, spec=spec)


def transform_workload(workload: KubeObject) -> KubeObject:
    """Cut the template of a workload, but for the labels of a CronJob's pods, and its status, but for its count."""
    metadata = _cut_workload_metadata(workload.metadata)
    match workload:
        case Deployment():
            return Deployment(metadata, DeploymentSpec(selector=workload.spec.selector), _count(workload.status))
        case ReplicaSet():
            spec = ReplicatedSpec(workload.spec.replicas, workload.spec.selector)
            return ReplicaSet(metadata, spec, _count(workload.status))
        case StatefulSet():
            return StatefulSet(
                metadata, StatefulSetSpec(workload.spec.replicas, workload.spec.selector), _count(workload.status)
            )
        case DaemonSet():
            count = DaemonSetStatus(desired_number_scheduled=workload.status.desired_number_scheduled)
            return DaemonSet(metadata, DaemonSetSpec(workload.spec.selector), count)
        case ReplicationController():
            plain_spec = ReplicationControllerSpec(workload.spec.replicas, workload.spec.selector)
            return ReplicationController(metadata, plain_spec, _count(workload.status))
        case Job():
            return Job(metadata, JobSpec(parallelism=workload.spec.parallelism, selector=workload.spec.selector))
        case _:
            return msgspec.structs.replace(workload, metadata=metadata)


def _count(status: ReplicatedStatus) -> ReplicatedStatus:
    return _replicated_status(status.replicas)


@lru_cache(maxsize=256)
def _replicated_status(replicas: int) -> ReplicatedStatus:
    return ReplicatedStatus(replicas=replicas)


def transform_hpa(hpa: HorizontalPodAutoscaler) -> HorizontalPodAutoscaler:
    """Keep the target of an HPA and the metrics by which it scales by a resource."""
    metrics = tuple(metric for metric in hpa.spec.metrics if metric.resource or metric.container_resource)
    spec = HorizontalPodAutoscalerSpec(scale_target_ref=hpa.spec.scale_target_ref, metrics=metrics)
    return HorizontalPodAutoscaler(_cut_metadata(hpa.metadata), spec)


class AnnotationTransform:
    """Keeps the name of an object, and its annotations of these keys."""

    def __init__(self, *keys: str) -> None:
        self._keys = keys

    def __call__(self, stored: KubeObject) -> KubeObject:
        return KubeObject(_cut_metadata(stored.metadata, select_annotations(stored.metadata, self._keys)))


def select_annotations(metadata: ObjectMeta, keys: tuple[str, ...]) -> Labels:
    """The annotations of these keys."""
    return {key: metadata.annotations[key] for key in keys if key in metadata.annotations} or NOTHING


def _cut_workload_metadata(metadata: ObjectMeta) -> ObjectMeta:
    """With the generation, which shows that the template may have changed."""
    return msgspec.structs.replace(_cut_metadata(metadata), generation=metadata.generation)


def _cut_metadata(metadata: ObjectMeta, annotations: Labels = NOTHING) -> ObjectMeta:
    controller = metadata.controller
    return ObjectMeta(
        name=metadata.name,
        namespace=intern(metadata.namespace),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        annotations=annotations,
        owner_references=(_cut_owner(controller),) if controller is not None else (),
    )


def _cut_owner(controller: OwnerReference) -> OwnerReference:
    return OwnerReference(
        intern(controller.api_version), intern(controller.kind), intern(controller.name), controller=True
    )


def _intern_selector(selector: LabelSelector | None) -> LabelSelector | None:
    """The same with keys that all selectors share: `app` is text of its own in each of ten thousand otherwise."""
    if selector is None or not selector.match_labels:
        return selector
    labels = {intern(key): value for key, value in selector.match_labels.items()}
    return msgspec.structs.replace(selector, match_labels=labels)


class ManagedMeta(ObjectMeta, frozen=True):
    """Metadata with the fields that each manager owns."""

    managed_fields: tuple[ManagedFieldsEntry, ...] = ()


class ManagedBuffer(Buffer, frozen=True):
    """A Buffer, and by field manager the leaves it owns of `Provisioned` and `lastFullyProvisioned`.

    Two components may write these status fields, one at a time. `managedFields` is read of Buffers alone.
    """

    metadata: ManagedMeta = ManagedMeta()
    owners: Mapping[str, tuple[str, ...]] = {}


_PROVISIONED: Final = 'k:{"type":"Provisioned"}'
_LAST_FULL: Final = "f:lastFullyProvisioned"


def transform_buffer(buffer: Buffer) -> Buffer:
    """Find the owners of the status fields of a Buffer, and drop `managedFields`."""
    if not isinstance(buffer, ManagedBuffer):
        return buffer
    owners = {
        entry.manager: leaves
        for entry in buffer.metadata.managed_fields
        if entry.subresource == "status" and (leaves := tuple(_owned_leaves(entry.fields_v1)))
    }
    metadata = msgspec.structs.replace(buffer.metadata, managed_fields=())
    return msgspec.structs.replace(buffer, metadata=metadata, owners=owners)


def owned_status_fields(buffer: Buffer, manager: str) -> frozenset[str]:
    """The leaves that a field manager owns."""
    return frozenset(buffer.owners.get(manager, ())) if isinstance(buffer, ManagedBuffer) else frozenset()


def _owned_leaves(fields: Mapping[str, Any]) -> Iterator[str]:
    status = fields.get("f:status", {})
    yield from (name for name in status.get("f:conditions", {}).get(_PROVISIONED, {}) if name != ".")
    if _LAST_FULL in status:
        yield _LAST_FULL
