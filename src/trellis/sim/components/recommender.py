"""The recommender in a simulation: the core's passes, fed with what a watch and metrics would bring.

Usage is sampled at each step, with gaps where a fault says so, buffered, and taken in at the next pass all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any, Final

import msgspec
import numpy as np

from trellis.api.kinds.hvpa import Hvpa, HvpaStatus, ResourceTotals
from trellis.api.kinds.vpa import VerticalPodAutoscaler, VerticalPodAutoscalerStatus
from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.pods import Pod
from trellis.api.resolve import resolve_vpa
from trellis.core.cluster.owners import WELL_KNOWN_KINDS
from trellis.core.cluster.store import BY_NAMESPACE, ObjectKey, ObjectStore, index_by_namespace, key_of
from trellis.core.cluster.transforms import ObservedPodProjection
from trellis.core.recommend.engine import PassWrites, RecommenderEngine
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.publish.hvpa_totals import HvpaTotals
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.registry import apply_preset, create_built_in_recommenders
from trellis.core.recommend.state.snapshot import (
    ClusterObservation,
    FetchedUsage,
    RecommenderScope,
    RecommenderSnapshot,
    SnapshotChangeCollector,
    StepSamples,
)
from trellis.core.recommend.state.tables import VpaStatusWrite
from trellis.core.usage.columns import BoolColumn, IntColumn
from trellis.core.usage.samples import Measurements
from trellis.sim.cluster.container_table import ModelContainerTable
from trellis.sim.cluster.telemetry import StepUsage
from trellis.sim.components.settings import SimulationSettings
from trellis.sim.faults import METRICS_GAP, Faults, is_affected
from trellis.sim.fleet import Fleet

_PENDING: Final = "Pending"
_INDEXES: Final = {BY_NAMESPACE: index_by_namespace}

# A VPA with its new status, and the write that made it.
PublishedStatus = tuple[VerticalPodAutoscaler, VpaStatusWrite]
# Namespaces, pods and containers, as columns of samples have them.
ContainerNames = tuple[list[str], list[str], list[str]]


class SimulatedRecommender:
    """All recommenders that the VPAs of a variant name.

    `publish` is called with the VPAs that have a new status, and `on_totals` with the totals of workloads whose Hvpas
    use VPAs of users.
    """

    def __init__(
        self,
        vpas: Iterable[VerticalPodAutoscaler],
        settings: SimulationSettings,
        parameters: Mapping[str, Mapping[str, str]],
        publish: Callable[[Sequence[PublishedStatus]], None],
        *,
        hvpas: Iterable[Hvpa] = (),
        on_totals: Callable[[ObjectKey, ResourceTotals], None] = lambda _key, _totals: None,
    ) -> None:
        self._publish = publish
        self._on_totals = on_totals
        self._vpas: ObjectStore[VerticalPodAutoscaler] = ObjectStore(_INDEXES)
        self._pods: ObjectStore[ObservedPod] = ObjectStore(_INDEXES)
        self._observe_pod = ObservedPodProjection()
        self._hvpas: ObjectStore[Hvpa] = ObjectStore(_INDEXES)
        self._workloads: dict[str, ObjectStore[Any]] = {
            kind: ObjectStore(_INDEXES) for kind in sorted(WELL_KNOWN_KINDS)
        }
        self._changes = SnapshotChangeCollector()
        self._versions = 1
        self._samples: list[StepSamples] = []
        for vpa in vpas:
            self._put(vpa)
        for hvpa in hvpas:
            self._put_hvpa(hvpa)
        names = sorted({resolve_vpa(vpa).recommender for vpa in self._vpas.snapshot()})
        self._scope = RecommenderScope(frozenset(names), totals=True)
        self._recommenders = build_recommenders(names, settings, parameters)
        self._engine = RecommenderEngine(settings.usage, settings.pipeline, settings.gates, settings.estimates)

    def on_pod(self, key: ObjectKey, new: Pod | None) -> None:
        """Handle a change of a pod. A pending pod runs nothing yet and is not observed."""
        observed = self._observe_pod(new) if new is not None and new.status.phase != _PENDING else None
        stored = self._pods.put(key, observed) if observed is not None else self._pods.remove(key)
        if observed is not None or stored is not None:
            self._changes.add_pod(key, stored, observed)

    def on_workload(self, kind: str, key: ObjectKey, old: KubeObject | None, new: KubeObject | None) -> None:
        """Handle a change of a controller."""
        if new is not None:
            self._workloads[kind].put(key, new)
        else:
            self._workloads[kind].remove(key)
        self._changes.add_workload(key, old, new)

    def on_eviction(self, event: Event) -> None:
        """Handle an eviction by a kubelet."""
        self._changes.add_eviction(event, self._pods.snapshot())

    def on_samples(self, sample: StepSamples, now: float) -> None:
        """Take in the usage of a step.

        For an Hvpa a sample counts as often as pods were Ready with it, so samples are counted when they are measured.
        """
        if len(self._vpas):
            self._samples.append(sample)
        if len(self._hvpas):
            self._begin()
            self._engine.ingest(self._drain_samples(), now)

    def drop_samples(self) -> None:
        """Drop what was measured while the recommender was down."""
        self._samples.clear()

    def run_pass(self, now: float) -> None:
        """Run one pass."""
        if not len(self._vpas):
            return
        snapshot = self._begin()
        decision = self._engine.finish(self._drain_samples(), now)
        writes = decision.recommendations.writes
        written = [(self._write(write, snapshot.vpas.objects), write) for write in writes]
        versions = [(write, vpa.metadata.resource_version) for vpa, write in written]
        self._engine.commit(decision, PassWrites(versions), now)
        if written:
            self._publish(written)
        for totals in decision.totals:
            self._write_totals(totals)

    def _begin(self) -> RecommenderSnapshot:
        snapshot = RecommenderSnapshot(
            self._vpas.snapshot(),
            self._pods.snapshot(),
            self._hvpas.snapshot(),
            {kind: store.snapshot() for kind, store in self._workloads.items()},
            self._changes.pop_changes(),
        )
        self._engine.begin(ClusterObservation(snapshot, self._scope, self._recommenders))
        return snapshot

    def _drain_samples(self) -> FetchedUsage:
        steps, self._samples = self._samples, []
        return FetchedUsage(steps=steps)

    def _write_totals(self, written: HvpaTotals) -> None:
        """Write what a whole workload needs to its Hvpa, where no status of a VPA has it."""
        totals = ResourceTotals(written.cpu, written.memory)
        status = msgspec.structs.replace(written.hvpa.status or HvpaStatus(), totals=totals)
        self._put_hvpa(msgspec.structs.replace(written.hvpa, status=status))
        self._on_totals(key_of(written.hvpa), totals)

    def _write(self, write: VpaStatusWrite, vpas: Mapping[ObjectKey, VerticalPodAutoscaler]) -> VerticalPodAutoscaler:
        """Store a status, as the API server does."""
        old = vpas[write.namespace, write.name]
        self._versions += 1
        vpa = msgspec.structs.replace(
            old,
            metadata=msgspec.structs.replace(old.metadata, resource_version=str(self._versions)),
            status=msgspec.convert(write.status, VerticalPodAutoscalerStatus),
        )
        self._put(vpa)
        return vpa

    def _put(self, vpa: VerticalPodAutoscaler) -> None:
        key = key_of(vpa)
        self._changes.add_vpa(key, self._vpas.put(key, vpa), vpa)

    def _put_hvpa(self, hvpa: Hvpa) -> None:
        self._hvpas.put(key_of(hvpa), hvpa)
        self._changes.add_hvpa(key_of(hvpa))


def build_recommenders(
    names: Iterable[str], settings: SimulationSettings, parameters: Mapping[str, Mapping[str, str]]
) -> dict[str, Recommender]:
    """The recommenders of these names; a name that Trellis does not know is the default algorithm under that name."""
    built_in = create_built_in_recommenders(settings.estimates)
    return {
        name: apply_preset(built_in.get(name) or DefaultRecommender(settings.estimates, name), parameters.get(name, {}))
        for name in names
    }


def find_unknown_recommenders(vpas: Iterable[VerticalPodAutoscaler]) -> list[str]:
    """Names of recommenders for which the default algorithm stands in, because they do not come with Trellis."""
    built_in = create_built_in_recommenders()
    return sorted({resolve_vpa(vpa).recommender for vpa in vpas} - built_in.keys())


class UsageSampler:
    """Reads steps of usage. Names are looked up once, and hold until the rows change."""

    def __init__(self, fleet: Fleet, faults: Faults) -> None:
        self._workload_names = [workload.name for workload in fleet.workloads]
        self._gaps = faults.list_faults(METRICS_GAP)
        self._named_version = -1
        self._named_rows: IntColumn = np.zeros(0, dtype=np.int64)
        self._names: ContainerNames = ([], [], [])

    def find_measured(self, usage: StepUsage) -> BoolColumn | None:
        """The containers that are measured; None if all are."""
        end = usage.time + usage.seconds
        gaps = [gap for gap in self._gaps if gap.begin <= end < gap.end]
        if not gaps:
            return None
        measured = [not any(is_affected(gap, name) for gap in gaps) for name in self._workload_names]
        return np.array(measured, dtype=np.bool_)[usage.workload]

    def build_samples(self, usage: StepUsage, rows: ModelContainerTable, measured: BoolColumn | None) -> StepSamples:
        """The usage of the containers, as of the end of the step."""
        if rows.version != self._named_version or not np.array_equal(usage.rows, self._named_rows):
            self._named_version, self._named_rows, self._names = rows.version, usage.rows, rows.names(usage.rows)
        end, cpu, memory = usage.time + usage.seconds, usage.used_cpu, usage.used_memory
        if measured is None:
            return StepSamples(self._names, Measurements(np.full(len(cpu), end), cpu, memory))
        namespaces, pods, containers = (list(compress(names, measured)) for names in self._names)
        cpu, memory = cpu[measured], memory[measured]
        return StepSamples((namespaces, pods, containers), Measurements(np.full(len(cpu), end), cpu, memory))
