"""Kinds as the cluster state holds them: which slice of a kind is cached, and for which narrower ones it stands in.

A component follows the narrowest slice that it can work with. Where several components share a process, its
`SharedInformers` know the slices of all of them, and cache the narrowest slice of each kind that contains these.
One list and one watch serve all, and in most cases one copy of each object.
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
    ObservedPodProjection,
    OwnerTransform,
    PodTransform,
    transform_buffer,
    transform_counted_workload,
    transform_hpa,
    transform_workload,
)
from trellis.core.hvpa.view_builder import HvpaPod, HvpaPodProjection, WatchedHvpa
from trellis.core.nodes.provisioning.requests import CONSUMED_REQUEST_ANNOTATIONS
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
    OBSERVED_PODS,
    OBSERVED_WORKLOADS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    VPAS,
    WORKLOADS,
    Resource,
)
from trellis.kube.watch.selection import Selection
from trellis.runtime.shared_informers import CachedKind, FollowedKind, Projection
from trellis.runtime.telemetry.logs import Logger

_log: Final = Logger("trellis.informers")


_RESIZE_ANNOTATIONS: Final = frozenset({OBSERVED_CONTAINERS_ANNOTATION, IN_PLACE_UPDATED_ANNOTATION})
_PLACEMENT_ANNOTATIONS: Final = frozenset(
    {SAFE_TO_EVICT, SAFE_LOCAL_VOLUMES, DO_NOT_DISRUPT, MIRROR_POD_ANNOTATION, *CONSUMED_REQUEST_ANNOTATIONS},
)


def _is_placement_annotation(key: str) -> bool:
    return key in _PLACEMENT_ANNOTATIONS or key.startswith(BOOST_ANNOTATION_PREFIX)


def _is_pod_annotation(key: str) -> bool:
    return key in _RESIZE_ANNOTATIONS or _is_placement_annotation(key)


# The field selector of pods that have not ended.
UNFINISHED_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"

# Pods: for Buffers, for everything that places them on nodes, and for everything that resizes them. The recommender and
# Hvpas read other forms of them, which can be made of the last.
OBSERVED_POD_KIND: Final = CachedKind(OBSERVED_PODS)
HVPA_PODS: Final = CachedKind(PODS.read_as(HvpaPod), None, (OBSERVED_POD_KIND,))
POD_SUMMARIES: Final = CachedKind(PODS, PodSummaryTransform)
PLACED_PODS: Final[CachedKind[Pod]] = CachedKind(
    PODS, partial(PodTransform, _is_placement_annotation), (POD_SUMMARIES,)
)
RESIZABLE_PODS: Final[CachedKind[Pod]] = CachedKind(
    PODS,
    partial(PodTransform, _is_pod_annotation, resizes=True),
    (PLACED_PODS,),
    (Projection(OBSERVED_POD_KIND, ObservedPodProjection), Projection(HVPA_PODS, HvpaPodProjection)),
)


def _report_failure(autoscaler: VerticalPodAutoscaler | Hvpa, error: Exception) -> None:
    _log.error("an object is invalid, and its pods are not changed", error=error, object=autoscaler)


# VPAs and Hvpas: for new pods, with bounds and the freeze annotation for running ones, and whole.
_new_pods_vpas: Final = partial(VpaTransform, _report_failure)
_new_pods_hvpas: Final = partial(HvpaTransform, _report_failure)
_running_pods_vpas: Final = partial(VpaTransform, _report_failure, bounds=True, annotations=(FREEZE_ANNOTATION,))
_running_pods_hvpas: Final = partial(HvpaTransform, _report_failure, bounds=True, annotations=(FREEZE_ANNOTATION,))
SIZING_VPAS: Final[CachedKind[VerticalPodAutoscaler]] = CachedKind(VPAS, _new_pods_vpas)
SIZING_HVPAS: Final[CachedKind[Hvpa]] = CachedKind(HVPAS, _new_pods_hvpas)
RESIZING_VPAS: Final[CachedKind[VerticalPodAutoscaler]] = CachedKind(VPAS, _running_pods_vpas, (SIZING_VPAS,))
RESIZING_HVPAS: Final[CachedKind[Hvpa]] = CachedKind(HVPAS, _running_pods_hvpas, (SIZING_HVPAS,))
FULL_VPAS: Final[CachedKind[VerticalPodAutoscaler]] = CachedKind(
    VPAS,
    projections=(Projection(SIZING_VPAS, _new_pods_vpas), Projection(RESIZING_VPAS, _running_pods_vpas)),
)
FULL_HVPAS: Final[CachedKind[Hvpa]] = CachedKind(
    HVPAS,
    projections=(Projection(SIZING_HVPAS, _new_pods_hvpas), Projection(RESIZING_HVPAS, _running_pods_hvpas)),
)
WATCHED_HVPAS: Final = CachedKind(HVPAS.read_as(WatchedHvpa), None, (FULL_HVPAS,))

# Workloads: as owners and targets of pods; with their counts, for Buffers; and with their configured replicas, for the
# updater, which is all of it.
OBSERVED_WORKLOAD_KINDS: Final[tuple[CachedKind[Any], ...]] = tuple(map(CachedKind, OBSERVED_WORKLOADS))
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


def _scaled(resource: Resource[Any]) -> CachedKind[Any]:
    narrower = (*COUNTED_WORKLOADS, *OBSERVED_WORKLOAD_KINDS, *OWNING_WORKLOADS)
    same = tuple(kind for kind in narrower if kind.resource.kind == resource.kind)
    return CachedKind(resource, lambda: transform_workload, same)


SCALED_WORKLOADS: Final[tuple[CachedKind[Any], ...]] = tuple(map(_scaled, WORKLOADS))

# DaemonSets with their templates: what a new node holds before anything else.
FULL_DAEMON_SETS: Final[CachedKind[DaemonSet]] = CachedKind(
    DAEMON_SETS, None, tuple(kind for kind in SCALED_WORKLOADS if kind.resource is DAEMON_SETS)
)

SCALING_HPAS: Final[CachedKind[HorizontalPodAutoscaler]] = CachedKind(HPAS, lambda: transform_hpa)
FULL_HPAS: Final[CachedKind[HorizontalPodAutoscaler]] = CachedKind(HPAS, None, (SCALING_HPAS,))

FREEZING_NAMESPACES: Final[CachedKind[KubeObject]] = CachedKind(
    NAMESPACES.as_metadata(), partial(AnnotationTransform, FREEZE_ANNOTATION)
)
FULL_NAMESPACES: Final[CachedKind[KubeObject]] = CachedKind(NAMESPACES.as_metadata(), None, (FREEZING_NAMESPACES,))

PLAIN_BUFFERS: Final[CachedKind[Buffer]] = CachedKind(BUFFERS)
MANAGED_BUFFERS: Final[CachedKind[Buffer]] = CachedKind(
    cast("Resource[Buffer]", BUFFERS.read_as(ManagedBuffer)), lambda: transform_buffer, (PLAIN_BUFFERS,)
)

# Of each kind the slice that provides for all components there are.
WIDEST_KINDS: Final[tuple[CachedKind[Any], ...]] = (
    *(RESIZABLE_PODS, FULL_VPAS, WATCHED_HVPAS, FULL_HPAS, FULL_NAMESPACES, MANAGED_BUFFERS),
    FULL_DAEMON_SETS,
    *SCALED_WORKLOADS,
)


def follow_in(namespaces: tuple[str, ...], *kinds: CachedKind[Any]) -> tuple[FollowedKind, ...]:
    """These kinds as a component follows them that is limited to some namespaces, or to none."""
    return tuple(FollowedKind(kind, Selection(namespaces)) for kind in kinds)


def follow_pods(kind: CachedKind[Any], namespaces: tuple[str, ...], field_selector: str) -> FollowedKind:
    """Pods as a component follows them."""
    return FollowedKind(kind, Selection(namespaces, field_selector=field_selector))
