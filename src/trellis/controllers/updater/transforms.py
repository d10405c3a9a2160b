"""Transforms of the updater's informers: they keep of each object what plans read, and who owns it.

A cluster has a hundred thousand pods and half as many old ReplicaSets, and the updater reads few of their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import intern
from typing import Final, TypeVar

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.meta import KubeObject, ObjectMeta, OwnerReference, PodMeta
from trellis.api.kube.pods import (
    READY,
    RESIZE_IN_PROGRESS,
    RESIZE_PENDING,
    ContainerState,
    ContainerStatus,
    Pod,
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
from trellis.api.registry import HVPA, VPA
from trellis.core.boost.annotation import ANNOTATION_PREFIX
from trellis.core.cluster.pod_annotations import IN_PLACE_UPDATED_ANNOTATION, OBSERVED_CONTAINERS_ANNOTATION
from trellis.core.resize.freeze import FREEZE_ANNOTATION
from trellis.core.sizing.governors import Governor, compile_hvpa_governor, compile_vpa_governor
from trellis.runtime.telemetry.logs import Logger

T = TypeVar("T")

_ANNOTATIONS_READ: Final = frozenset({OBSERVED_CONTAINERS_ANNOTATION, IN_PLACE_UPDATED_ANNOTATION})
_CONDITIONS: Final = frozenset({READY, RESIZE_PENDING, RESIZE_IN_PROGRESS})
_NO_STATE: Final = ContainerState()

_log: Final = Logger("trellis.updater")


class CompiledVpa(VerticalPodAutoscaler, frozen=True):
    """A VPA of which its name, what it means for pods and whether it is frozen are kept."""

    governor: Governor | None = None


class CompiledHvpa(Hvpa, frozen=True):
    """An Hvpa of which its name, what it means for pods and whether it is frozen are kept."""

    governor: Governor | None = None


def transform_vpa(found: VerticalPodAutoscaler) -> VerticalPodAutoscaler:
    """The same VPA, compiled."""
    governor = _compile(compile_vpa_governor, msgspec.structs.replace(found, kind=VPA.name))
    return CompiledVpa(
        metadata=_transform_metadata(found.metadata, _freeze_annotation(found.metadata)), governor=governor
    )


def transform_hvpa(found: Hvpa) -> Hvpa:
    """The same Hvpa, compiled."""
    governor = _compile(compile_hvpa_governor, msgspec.structs.replace(found, kind=HVPA.name))
    return CompiledHvpa(
        metadata=_transform_metadata(found.metadata, _freeze_annotation(found.metadata)), governor=governor
    )


def transform_namespace(found: KubeObject) -> KubeObject:
    """A namespace, as far as it may be frozen."""
    return KubeObject(_transform_metadata(found.metadata, _freeze_annotation(found.metadata)))


def transform_pod(found: Pod) -> Pod:
    """A pod without what no plan asks of it."""
    metadata, status = found.metadata, found.status
    named = _transform_metadata(metadata, _annotations(metadata.annotations))
    kept = PodMeta(
        name=named.name,
        namespace=named.namespace,
        uid=named.uid,
        resource_version=named.resource_version,
        creation_timestamp=metadata.creation_timestamp,
        deletion_timestamp=metadata.deletion_timestamp,
        labels={intern(key): intern(value) for key, value in metadata.labels.items()} or NOTHING,
        annotations=named.annotations,
        owner_references=named.owner_references,
        managed_fields=metadata.managed_fields,
    )
    slim_status = PodStatus(
        phase=intern(status.phase),
        conditions=tuple(
            msgspec.structs.replace(each, message="", observed_generation=0)
            for each in status.conditions
            if each.type in _CONDITIONS
        ),
        start_time=status.start_time,
        init_container_statuses=tuple(map(_transform_container, status.init_container_statuses)),
        container_statuses=tuple(map(_transform_container, status.container_statuses)),
        allocated_resources=status.allocated_resources,
        resources=status.resources,
    )
    return Pod(kept, msgspec.structs.replace(found.spec, volumes=()), slim_status)


def transform_workload(found: KubeObject) -> KubeObject:
    """A workload without its template and, but for the count of a DaemonSet, without its status."""
    metadata = _transform_metadata(found.metadata)
    match found:
        case Deployment():
            return Deployment(metadata, DeploymentSpec(selector=found.spec.selector), ReplicatedStatus())
        case ReplicaSet():
            return ReplicaSet(metadata, ReplicatedSpec(found.spec.replicas, found.spec.selector), ReplicatedStatus())
        case StatefulSet():
            return StatefulSet(metadata, StatefulSetSpec(found.spec.replicas, found.spec.selector), ReplicatedStatus())
        case DaemonSet():
            count = DaemonSetStatus(desired_number_scheduled=found.status.desired_number_scheduled)
            return DaemonSet(metadata, DaemonSetSpec(found.spec.selector), count)
        case ReplicationController():
            spec = ReplicationControllerSpec(found.spec.replicas, found.spec.selector)
            return ReplicationController(metadata, spec, ReplicatedStatus())
        case Job():
            return Job(metadata, JobSpec(selector=found.spec.selector))
        case _:
            return msgspec.structs.replace(found, metadata=metadata)


def transform_hpa(found: HorizontalPodAutoscaler) -> HorizontalPodAutoscaler:
    """An HPA, as far as it scales by a resource."""
    metrics = tuple(each for each in found.spec.metrics if each.resource or each.container_resource)
    spec = HorizontalPodAutoscalerSpec(scale_target_ref=found.spec.scale_target_ref, metrics=metrics)
    return HorizontalPodAutoscaler(_transform_metadata(found.metadata), spec)


def _compile(compile_: Callable[[T], Governor | None], found: T) -> Governor | None:
    try:
        return compile_(found)
    except Exception as error:  # noqa: BLE001 - one object that nobody can make sense of must not hide all others
        _log.error("an object cannot be compiled, and its pods are left alone", error=error, object=found)
        return None


def _transform_metadata(metadata: ObjectMeta, annotations: Labels = NOTHING) -> ObjectMeta:
    controller = metadata.controller
    return ObjectMeta(
        name=metadata.name,
        namespace=intern(metadata.namespace),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        annotations=annotations,
        owner_references=(_transform_owner(controller),) if controller is not None else (),
    )


def _transform_owner(controller: OwnerReference) -> OwnerReference:
    return OwnerReference(
        intern(controller.api_version), intern(controller.kind), intern(controller.name), controller=True
    )


def _freeze_annotation(metadata: ObjectMeta) -> Labels:
    value = metadata.annotations.get(FREEZE_ANNOTATION)
    return NOTHING if value is None else {FREEZE_ANNOTATION: value}


def _annotations(written: Mapping[str, str]) -> Labels:
    kept = {
        key: value for key, value in written.items() if key in _ANNOTATIONS_READ or key.startswith(ANNOTATION_PREFIX)
    }
    return kept or NOTHING


def _transform_container(status: ContainerStatus) -> ContainerStatus:
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
