"""Kinds as the cluster state holds them: which slice of a kind is cached, and for which narrower ones it stands in.

A component follows the narrowest slice that it can work with. Where several components share a process, the factory of
its informers is told which slices they follow, and hands out for each kind the widest of them: one list, one watch and
one copy of each object serve all.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, cast

from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.observed_workloads import CountedReplicationController, CountedWorkload
from trellis.api.kube.pods import Pod
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.workloads import DaemonSet
from trellis.core.buffers.pod_summaries import PodSummaryTransform
from trellis.core.cluster.pod_annotations import (
    BOOST_ANNOTATION_PREFIX,
    IN_PLACE_UPDATED_ANNOTATION,
    OBSERVED_CONTAINERS_ANNOTATION,
)
from trellis.core.cluster.transforms import (
    AnnotationTransform,
    ManagedBuffer,
    OwnerTransform,
    PodTransform,
    transform_buffer,
    transform_counted_workload,
    transform_hpa,
    transform_workload,
)
from trellis.core.nodes.scale_down.drainability import DO_NOT_DISRUPT, SAFE_LOCAL_VOLUMES, SAFE_TO_EVICT
from trellis.core.nodes.state.pods import MIRROR_POD_ANNOTATION
from trellis.core.resize.freeze import FREEZE_ANNOTATION
from trellis.core.sizing.governors import HvpaTransform, VpaTransform
from trellis.kube.resources import (
    BUFFERS,
    DAEMON_SETS,
    DEPLOYMENTS,
    HPAS,
    HVPAS,
    JOBS,
    NAMESPACES,
    OBSERVED_CRON_JOBS,
    OBSERVED_DAEMON_SETS,
    OBSERVED_WORKLOADS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    VPAS,
    WORKLOADS,
    Resource,
)
from trellis.runtime.shared_informers import CachedKind
from trellis.runtime.telemetry.logs import Logger

_log: Final = Logger("trellis.informers")


_RESIZE_ANNOTATIONS: Final = frozenset({OBSERVED_CONTAINERS_ANNOTATION, IN_PLACE_UPDATED_ANNOTATION})
_PLACEMENT_ANNOTATIONS: Final = frozenset(
    {SAFE_TO_EVICT, SAFE_LOCAL_VOLUMES, DO_NOT_DISRUPT, MIRROR_POD_ANNOTATION},
)


def _is_placement_annotation(key: str) -> bool:
    return key in _PLACEMENT_ANNOTATIONS or key.startswith(BOOST_ANNOTATION_PREFIX)


def _is_pod_annotation(key: str) -> bool:
    return key in _RESIZE_ANNOTATIONS or _is_placement_annotation(key)


# The field selector of pods that have not ended.
UNFINISHED_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"

# Pods: for Buffers, for everything that places them on nodes, and for everything that resizes them.
POD_SUMMARIES: Final = CachedKind(PODS, PodSummaryTransform)
PLACED_PODS: Final[CachedKind[Pod]] = CachedKind(
    PODS, partial(PodTransform, _is_placement_annotation), (POD_SUMMARIES,)
)
RESIZABLE_PODS: Final[CachedKind[Pod]] = CachedKind(
    PODS, partial(PodTransform, _is_pod_annotation, resizes=True), (PLACED_PODS,)
)


def _report_failure(autoscaler: VerticalPodAutoscaler | Hvpa, error: Exception) -> None:
    _log.error("an object cannot be compiled, and its pods are left alone", error=error, object=autoscaler)


# VPAs and Hvpas: for new pods, and with bounds and the freeze annotation for running ones.
SIZING_VPAS: Final[CachedKind[VerticalPodAutoscaler]] = CachedKind(VPAS, partial(VpaTransform, _report_failure))
SIZING_HVPAS: Final[CachedKind[Hvpa]] = CachedKind(HVPAS, partial(HvpaTransform, _report_failure))
RESIZING_VPAS: Final[CachedKind[VerticalPodAutoscaler]] = CachedKind(
    VPAS, partial(VpaTransform, _report_failure, bounds=True, annotations=(FREEZE_ANNOTATION,)), (SIZING_VPAS,)
)
RESIZING_HVPAS: Final[CachedKind[Hvpa]] = CachedKind(
    HVPAS, partial(HvpaTransform, _report_failure, bounds=True, annotations=(FREEZE_ANNOTATION,)), (SIZING_HVPAS,)
)

# Workloads: as owners of pods; with their counts, for Buffers; and with their configured replicas, for the updater.
OWNING_WORKLOADS: Final[tuple[CachedKind[Any], ...]] = tuple(
    CachedKind(resource, OwnerTransform) for resource in OBSERVED_WORKLOADS
)
_OWNING: Final = {kind.resource.kind: kind for kind in OWNING_WORKLOADS}
OWNING_CRON_JOBS: Final[CachedKind[Any]] = _OWNING[OBSERVED_CRON_JOBS.kind]


def _counted(resource: Resource[Any], struct: type[Any]) -> CachedKind[Any]:
    return CachedKind(resource.read_as(struct), lambda: transform_counted_workload, (_OWNING[resource.kind],))


# The kinds whose count is watched; of any other the scale is read.
COUNTED_WORKLOADS: Final[tuple[CachedKind[Any], ...]] = (
    *(_counted(resource, CountedWorkload) for resource in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS)),
    _counted(REPLICATION_CONTROLLERS, CountedReplicationController),
)
SCALED_WORKLOADS: Final[tuple[CachedKind[Any], ...]] = tuple(
    CachedKind(resource, lambda: transform_workload) for resource in WORKLOADS
)

# DaemonSets with their templates: what a new node holds before anything else.
WHOLE_DAEMON_SETS: Final[CachedKind[DaemonSet]] = CachedKind(DAEMON_SETS, None, (_OWNING[OBSERVED_DAEMON_SETS.kind],))

SCALING_HPAS: Final[CachedKind[HorizontalPodAutoscaler]] = CachedKind(HPAS, lambda: transform_hpa)
WHOLE_HPAS: Final[CachedKind[HorizontalPodAutoscaler]] = CachedKind(HPAS, None, (SCALING_HPAS,))

FREEZING_NAMESPACES: Final[CachedKind[KubeObject]] = CachedKind(
    NAMESPACES.as_metadata(), partial(AnnotationTransform, FREEZE_ANNOTATION)
)
WHOLE_NAMESPACES: Final[CachedKind[KubeObject]] = CachedKind(NAMESPACES.as_metadata(), None, (FREEZING_NAMESPACES,))

PLAIN_BUFFERS: Final[CachedKind[Buffer]] = CachedKind(BUFFERS)
MANAGED_BUFFERS: Final[CachedKind[Buffer]] = CachedKind(
    cast("Resource[Buffer]", BUFFERS.read_as(ManagedBuffer)), lambda: transform_buffer, (PLAIN_BUFFERS,)
)

# The slices that the node autoscaler and the Buffer controller follow of kinds that both of them follow.
NODE_KINDS: Final[tuple[CachedKind[Any], ...]] = (
    *(PLACED_PODS, PLAIN_BUFFERS, WHOLE_DAEMON_SETS, WHOLE_NAMESPACES, SIZING_VPAS, SIZING_HVPAS),
    *OWNING_WORKLOADS,
)
BUFFER_KINDS: Final[tuple[CachedKind[Any], ...]] = (
    *(POD_SUMMARIES, MANAGED_BUFFERS, SIZING_VPAS, SIZING_HVPAS),
    *COUNTED_WORKLOADS,
)
