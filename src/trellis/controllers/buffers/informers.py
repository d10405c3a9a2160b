"""Informers of the Buffer controller: Buffers, pods, and everything that decides the number and size of chunks.

Well-known workloads are watched for their replicas; the scale of any other kind is read when it is needed. All objects
are indexed by what they are about, so that a change costs what it concerns, and not what a namespace holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.nodes import Node
from trellis.api.kube.observed_workloads import ObservedCronJob
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange, ResourceQuota
from trellis.controllers.buffers.node_classes import BY_DAEMON_NODE, daemon_node
from trellis.core.admission.decisions import GovernorIndex
from trellis.core.buffers.pod_summaries import CountedTarget, PodDemands
from trellis.core.cluster.owners import ObjectLookup
from trellis.core.cluster.store import BY_NAMESPACE, index_by_namespace
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.sizing.governors import get_governor
from trellis.kube.discovery import Served
from trellis.kube.resources import HVPAS, JOBS, LIMIT_RANGES, NODES, OBSERVED_CRON_JOBS, RESOURCE_QUOTAS, VPAS
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import Informer
from trellis.runtime.cached_kinds import (
    COUNTED_WORKLOADS,
    MANAGED_BUFFERS,
    OWNING_CRON_JOBS,
    POD_SUMMARIES,
    SIZING_HVPAS,
    SIZING_VPAS,
    UNFINISHED_PODS,
    follow_in,
    follow_pods,
)
from trellis.runtime.informers import Informers
from trellis.runtime.label_index import BY_LABELS
from trellis.runtime.optional_kinds import OptionalKind
from trellis.runtime.settings.component import ScopeSettings
from trellis.runtime.shared_informers import FollowedKind

BY_TARGET: Final = "target"
BY_CONTROLLER: Final = "controller"

_NO_CRON_JOBS: Final = OptionalKind("for Buffers on Jobs, a VPA of their CronJob is ignored")

_UNLIMITED: Final = NamespaceLimits()


def list_followed_kinds(scope: ScopeSettings) -> tuple[FollowedKind, ...]:
    """The kinds that the controller follows and others of its process may follow as well."""
    own = scope.vpa_object_namespace
    pods = follow_pods(POD_SUMMARIES, own, UNFINISHED_PODS)
    return (
        pods,
        *follow_in(own, MANAGED_BUFFERS, SIZING_VPAS, SIZING_HVPAS, OWNING_CRON_JOBS, *COUNTED_WORKLOADS),
    )


class BufferInformers:
    """The informers of the controller, and the indexes that they feed."""

    def __init__(self, informers: Informers, served: Served, scope: ScopeSettings) -> None:
        self._scope = scope
        self.governors = GovernorIndex()
        self.demands = PodDemands()
        self._limits: dict[str, NamespaceLimits] = {}
        self.buffers: Informer[Buffer] = informers.follow(
            MANAGED_BUFFERS, indexes={BY_TARGET: _index_by_target, BY_NAMESPACE: index_by_namespace}
        )
        self.pods: Informer[Pod] = informers.follow(
            POD_SUMMARIES, field_selector=UNFINISHED_PODS, indexes={**BY_LABELS, BY_DAEMON_NODE: daemon_node}
        )
        self.workloads: dict[str, Informer[Any]] = {
            kind.resource.kind: informers.follow(
                kind, indexes={BY_CONTROLLER: _index_by_controller} if kind.resource.kind == JOBS.kind else None
            )
            for kind in COUNTED_WORKLOADS
        }
        # They have no count, but what sizes the pods of their Jobs is about them.
        self.cron_jobs: Informer[ObservedCronJob] = informers.follow(OWNING_CRON_JOBS, dispensable=_NO_CRON_JOBS)
        # Without their definitions there are none, and pods are as big as they are written.
        self.vpas: Informer[VerticalPodAutoscaler] = informers.follow(SIZING_VPAS, served=served.serves(VPAS))
        self.hvpas: Informer[Hvpa] = informers.follow(SIZING_HVPAS, served=served.serves(HVPAS))
        self.quotas: Informer[ResourceQuota] = informers.follow(
            RESOURCE_QUOTAS, indexes={BY_NAMESPACE: index_by_namespace}
        )
        self.limit_ranges: Informer[LimitRange] = informers.follow(
            LIMIT_RANGES, indexes={BY_NAMESPACE: index_by_namespace}
        )
        self.nodes: Informer[Node] = informers.follow(NODES)
        self.vpas.subscribe(self._governor_changed(VPAS.kind))
        self.hvpas.subscribe(self._governor_changed(HVPAS.kind))
        self.limit_ranges.subscribe(self._limits_changed)
        for kind, informer in (*self.workloads.items(), (OBSERVED_CRON_JOBS.kind, self.cron_jobs)):
            informer.subscribe(self._workload_changed(kind))

    def list_buffers(self, namespace: str, kind: str, name: str) -> tuple[Buffer, ...]:
        """The Buffers with this target."""
        return self.buffers.by_index(BY_TARGET, _group(namespace, kind, name))

    def list_job_names(self, namespace: str, kind: str, name: str) -> tuple[str, ...]:
        """The names of the Jobs that a workload controls: its governor sizes their pods."""
        jobs = self.workloads[JOBS.kind].by_index(BY_CONTROLLER, _group(namespace, kind, name))
        return tuple(job.metadata.name for job in jobs)

    def list_buffers_in(self, namespace: str) -> tuple[Buffer, ...]:
        """All Buffers of a namespace."""
        return self.buffers.by_index(BY_NAMESPACE, namespace)

    def list_quotas_in(self, namespace: str) -> tuple[ResourceQuota, ...]:
        """The quotas of a namespace."""
        return self.quotas.by_index(BY_NAMESPACE, namespace)

    def list_limit_ranges_in(self, namespace: str) -> tuple[LimitRange, ...]:
        """The LimitRanges of a namespace."""
        return self.limit_ranges.by_index(BY_NAMESPACE, namespace)

    def limits(self, namespace: str) -> NamespaceLimits:
        """The limits that LimitRanges set in a namespace."""
        return self._limits.get(namespace, _UNLIMITED)

    def finders(self) -> dict[str, ObjectLookup]:
        """The lookups of workloads in the caches, by kind."""
        lookups: dict[str, ObjectLookup] = {kind: informer.get for kind, informer in self.workloads.items()}
        lookups[OBSERVED_CRON_JOBS.kind] = self.cron_jobs.get
        return lookups

    def _governor_changed(self, kind: str) -> Callable[[ObjectChange[Any]], None]:
        def changed(change: ObjectChange[Any]) -> None:
            if self._scope.covers(change.key[0]):
                self.governors.put(kind, *change.key, get_governor(change.new))

        return changed

    def _workload_changed(self, kind: str) -> Callable[[ObjectChange[Any]], None]:
        def changed(change: ObjectChange[Any]) -> None:
            self.governors.drop_selector(kind, *change.key)

        return changed

    def _limits_changed(self, change: ObjectChange[LimitRange]) -> None:
        namespace = change.key[0]
        ranges = self.list_limit_ranges_in(namespace)
        if ranges:
            self._limits[namespace] = read_limit_ranges(ranges)
        else:
            self._limits.pop(namespace, None)


def _group(namespace: str, kind: str, name: str) -> str:
    return f"{namespace}/{kind}/{name}"


def _index_by_controller(workload: CountedTarget) -> tuple[str, ...]:
    controller = workload.metadata.controller
    return (_group(workload.metadata.namespace, controller.kind, controller.name),) if controller is not None else ()


def _index_by_target(buffer: Buffer) -> tuple[str, ...]:
    reference = buffer.spec.target_ref
    return (_group(buffer.metadata.namespace, reference.kind, reference.name),) if reference is not None else ()
