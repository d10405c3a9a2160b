"""Informers of the recommender: the state of the cluster for a pass, and what changed since the last one."""

from __future__ import annotations

from typing import Any, Final

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.coordination import Event
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.resolve import resolve_vpa
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.core.cluster.store import BY_NAMESPACE, index_by_namespace
from trellis.core.recommend.state.snapshot import RecommenderSnapshot, SnapshotChangeCollector
from trellis.kube.resources import EVENTS
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import Informer
from trellis.runtime.cached_kinds import (
    FULL_HVPAS,
    FULL_VPAS,
    OBSERVED_POD_KIND,
    OBSERVED_WORKLOAD_KINDS,
    follow_in,
    follow_pods,
)
from trellis.runtime.informers import Informers, find_staleness_problem
from trellis.runtime.optional_kinds import OptionalKind
from trellis.runtime.shared_informers import FollowedKind

# A pod that is Pending runs nothing; evictions by the kubelet are the only events of interest.
_RUNNING: Final = "status.phase!=Pending"
_EVICTIONS: Final = "reason=Evicted,involvedObject.kind=Pod"

# Upstream's role has no rule for them.
_NO_HVPAS: Final = OptionalKind("totals are not published in Hvpas")


def list_followed_kinds(settings: RecommenderSettings) -> tuple[FollowedKind, ...]:
    """The kinds that the recommender follows and others of its process may follow as well."""
    own = settings.scope.vpa_object_namespace
    pods = follow_pods(OBSERVED_POD_KIND, own, _RUNNING)
    return (pods, *follow_in(own, FULL_VPAS, FULL_HVPAS, *OBSERVED_WORKLOAD_KINDS))


class RecommenderInformers:
    """The informers, and the changes since the last snapshot."""

    def __init__(self, informers: Informers, *, hvpas_served: bool) -> None:
        by: Any = {BY_NAMESPACE: index_by_namespace}
        self.vpas: Informer[VerticalPodAutoscaler] = informers.follow(FULL_VPAS, indexes=by)
        self.pods: Informer[ObservedPod] = informers.follow(OBSERVED_POD_KIND, indexes=by, field_selector=_RUNNING)
        self.evictions: Informer[Event] = informers.follow(EVENTS, indexes=by, field_selector=_EVICTIONS)
        self.workloads: dict[str, Informer[Any]] = {
            kind.resource.kind: informers.follow(kind, indexes=by) for kind in OBSERVED_WORKLOAD_KINDS
        }
        self.hvpas: Informer[Hvpa] = informers.follow(
            FULL_HVPAS, indexes=by, dispensable=_NO_HVPAS, served=hvpas_served
        )
        self._changes = SnapshotChangeCollector()
        self._subscribe()

    def find_recommender(self, namespace: str, name: str) -> str | None:
        """The recommender that a VPA names; None if there is no such VPA."""
        vpa = self.vpas.get(namespace, name)
        return resolve_vpa(vpa).recommender if vpa is not None else None

    def find_staleness_problem(self) -> str | None:
        """Why a pass must not go by what is known of the VPAs, if it must not."""
        return find_staleness_problem(self.vpas)

    def take_snapshot(self) -> RecommenderSnapshot:
        """The state of the cluster now, with the changes since the last snapshot."""
        return RecommenderSnapshot(
            vpas=self.vpas.snapshot(),
            pods=self.pods.snapshot(),
            hvpas=self.hvpas.snapshot(),
            workloads={kind: informer.snapshot() for kind, informer in self.workloads.items()},
            changes=self._changes.pop_changes(),
        )

    def restore_changes(self, snapshot: RecommenderSnapshot) -> None:
        """Have the next snapshot repeat the changes of one whose pass failed."""
        self._changes.restore(snapshot.changes)

    def _subscribe(self) -> None:
        changes = self._changes
        self.vpas.subscribe(lambda change: changes.add_vpa(change.key, change.old, change.new))
        self.pods.subscribe(lambda change: changes.add_pod(change.key, change.old, change.new))
        self.evictions.subscribe(self._add_eviction)
        self.hvpas.subscribe(lambda change: changes.add_hvpa(change.key))
        for informer in self.workloads.values():
            informer.subscribe(lambda change: changes.add_workload(change.key, change.old, change.new))

    def _add_eviction(self, change: ObjectChange[Event]) -> None:
        if change.new is not None:
            self._changes.add_eviction(change.new, self.pods.snapshot())
