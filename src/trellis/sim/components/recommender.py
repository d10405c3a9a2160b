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
from trellis.core.recommend.engine import PendingHistory, RecommenderEngine, RecommenderScope
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.registry import apply_preset, built_in_recommenders
from trellis.core.recommend.state.snapshot import PodOomKill, RecommenderSnapshot, SnapshotChangeCollector
from trellis.core.recommend.state.vpa_table import VpaStatusWrite
from trellis.core.usage.columns import BoolColumn, IntColumn
from trellis.core.usage.samples import Measurements
from trellis.sim.cluster.container_table import ModelContainerTable
from trellis.sim.cluster.telemetry import StepUsage
from trellis.sim.components.observed_pods import to_observed_pod
from trellis.sim.components.settings import SimulationSettings
from trellis.sim.faults import METRICS_GAP, Faults, is_affected
from trellis.sim.fleet import Fleet

_PENDING: Final = "Pending"
_INDEXES: Final = {BY_NAMESPACE: index_by_namespace}
_NOTHING_PENDING: Final = PendingHistory()

# A VPA with its new status, and the write that made it.
PublishedStatus = tuple[VerticalPodAutoscaler, VpaStatusWrite]
# Namespaces, pods and containers, as columns of samples have them.
ContainerNames = tuple[list[str], list[str], list[str]]
StepSample = tuple[ContainerNames, Measurements]


class SimulatedRecommender:
    """All recommenders that the VPAs of a variant name.

    `publish` is called with the VPAs that have a new status, and `tell` with the totals of workloads whose Hvpas use
    VPAs of users.
    """

    def __init__(
        self,
        vpas: Iterable[VerticalPodAutoscaler],
        figures: SimulationSettings,
        parameters: Mapping[str, Mapping[str, str]],
        publish: Callable[[Sequence[PublishedStatus]], None],
        *,
        hvpas: Iterable[Hvpa] = (),
        tell: Callable[[ObjectKey, ResourceTotals], None] = lambda _key, _totals: None,
    ) -> None:
        self._publish = publish
        self._tell = tell
        self._vpas: ObjectStore[VerticalPodAutoscaler] = ObjectStore(_INDEXES)
        self._pods: ObjectStore[ObservedPod] = ObjectStore(_INDEXES)
        self._hvpas: ObjectStore[Hvpa] = ObjectStore(_INDEXES)
        self._workloads: dict[str, ObjectStore[Any]] = {
            kind: ObjectStore(_INDEXES) for kind in sorted(WELL_KNOWN_KINDS)
        }
        self._noticing = SnapshotChangeCollector()
        self._versions = 1
        self._samples: list[StepSample] = []
        self._is_new = True
        for vpa in vpas:
            self._put(vpa)
        for hvpa in hvpas:
            self._put_hvpa(hvpa)
        names = sorted({resolve_vpa(vpa).recommender for vpa in self._vpas.snapshot()})
        self._scope = RecommenderScope(frozenset(names), totals=True)
        recommenders = build_recommenders(names, figures, parameters)
        self._knowledge = RecommenderEngine(
            figures.usage, figures.pipeline, recommenders, figures.gates, figures.estimates
        )

    def pod(self, key: ObjectKey, new: Pod | None) -> None:
        """Handle a change of a pod. A pod without running containers is ignored."""
        observed = to_observed_pod(new) if new is not None and new.status.phase != _PENDING else None
        previous = self._pods.put(key, observed) if observed is not None else self._pods.remove(key)
        if observed is not None or previous is not None:
            self._noticing.pod(key, previous, observed)

    def workload(self, kind: str, key: ObjectKey, old: KubeObject | None, new: KubeObject | None) -> None:
        """Handle a change of a controller."""
        if new is not None:
            self._workloads[kind].put(key, new)
        else:
            self._workloads[kind].remove(key)
        self._noticing.workload(key, old, new)

    def event(self, event: Event) -> None:
        """Handle an eviction by a kubelet."""
        self._noticing.event(event, self._pods.snapshot())

    def measured(self, sample: StepSample, now: float) -> None:
        """Take in what containers used in a step.

        For an Hvpa a sample counts as often as pods were Ready with it, so samples are counted when they are measured.
        """
        if len(self._vpas):
            self._samples.append(sample)
        if len(self._hvpas):
            self._load(now)

    def skip(self) -> None:
        """Drop what was measured while the recommender was down."""
        self._samples.clear()

    def work(self, now: float) -> None:
        """Run one pass."""
        if not len(self._vpas):
            return
        snapshot, knowledge = self._load(now), self._knowledge
        knowledge.collect(now)
        written = [(self._write(write, snapshot.vpas.objects), write) for write in knowledge.recommend(now).writes]
        knowledge.board.all_published([(write, vpa.metadata.resource_version) for vpa, write in written], now)
        if written:
            self._publish(written)
        if len(self._hvpas):
            self._total(now)

    def _load(self, now: float) -> RecommenderSnapshot:
        """Take in what has changed, and what was measured."""
        snapshot = RecommenderSnapshot(
            self._vpas.snapshot(),
            self._pods.snapshot(),
            self._hvpas.snapshot(),
            {kind: store.snapshot() for kind, store in self._workloads.items()},
            self._noticing.take(),
        )
        knowledge = self._knowledge
        knowledge.load_vpas(snapshot, self._scope, all_of_them=self._is_new)
        knowledge.load_pods(snapshot, {}, _NOTHING_PENDING, now)
        self._add_usage(snapshot.news.kills, now)
        self._is_new = False
        return snapshot

    def _total(self, now: float) -> None:
        """Report totals of workloads where no VPA status carries them."""
        for total in self._knowledge.totals(now):
            totals = ResourceTotals(total.cpu, total.memory)
            status = msgspec.structs.replace(total.hvpa.status or HvpaStatus(), totals=totals)
            self._put_hvpa(msgspec.structs.replace(total.hvpa, status=status))
            self._tell(key_of(total.hvpa), totals)

    def _add_usage(self, kills: Sequence[PodOomKill], now: float) -> None:
        """Take in usage and kills. Containers are looked up once for all steps in which the same ones were measured."""
        model = self._knowledge.model
        slots: dict[int, IntColumn] = {}
        for names, _ in self._samples:
            if id(names) not in slots:
                slots[id(names)] = model.slots(*names)
        if self._samples:
            measured = [sample for _, sample in self._samples]
            result = np.concatenate([slots[id(names)] for names, _ in self._samples])
            # Samples of one container side by side, as the model needs them; containers that are not tracked come
            # first.
            order = np.argsort(result, kind="stable")[np.count_nonzero(result < 0) :]
            joined = Measurements(
                np.concatenate([sample.times for sample in measured])[order],
                np.concatenate([sample.cpu for sample in measured])[order],
                np.concatenate([sample.memory for sample in measured])[order],
            )
            model.ingest_at(result[order], joined, now)
            self._samples.clear()
        model.record_ooms([kill.what for kill in kills], now)

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
        self._noticing.vpa(key, self._vpas.put(key, vpa), vpa)

    def _put_hvpa(self, hvpa: Hvpa) -> None:
        self._hvpas.put(key_of(hvpa), hvpa)
        self._noticing.hvpa(key_of(hvpa))


def build_recommenders(
    names: Iterable[str], figures: SimulationSettings, parameters: Mapping[str, Mapping[str, str]]
) -> dict[str, Recommender]:
    """The recommenders of these names; a name that Trellis does not know is the default algorithm under that name."""
    built_in = built_in_recommenders(figures.estimates)
    return {
        name: apply_preset(built_in.get(name) or DefaultRecommender(figures.estimates, name), parameters.get(name, {}))
        for name in names
    }


def find_unknown_recommenders(vpas: Iterable[VerticalPodAutoscaler]) -> list[str]:
    """Names of recommenders for which the default algorithm stands in, because they do not come with Trellis."""
    built_in = built_in_recommenders()
    return sorted({resolve_vpa(vpa).recommender for vpa in vpas} - built_in.keys())


class UsageSampler:
    """Reads steps of usage. Names are looked up once, and hold until the rows change."""

    def __init__(self, fleet: Fleet, faults: Faults) -> None:
        self._names_of_workloads = [workload.name for workload in fleet.workloads]
        self._gaps = faults.of(METRICS_GAP)
        self._named_at = -1
        self._named: IntColumn = np.zeros(0, dtype=np.int64)
        self._names: ContainerNames = ([], [], [])

    def find_measured(self, usage: StepUsage) -> BoolColumn | None:
        """The containers that are measured; None if all are."""
        end = usage.time + usage.seconds
        gaps = [gap for gap in self._gaps if gap.begin <= end < gap.end]
        if not gaps:
            return None
        measured = [not any(is_affected(gap, name) for gap in gaps) for name in self._names_of_workloads]
        return np.array(measured, dtype=np.bool_)[usage.workload]

    def samples(self, usage: StepUsage, rows: ModelContainerTable, measured: BoolColumn | None) -> StepSample:
        """What containers used, as of the end of the step."""
        if rows.version != self._named_at or not np.array_equal(usage.rows, self._named):
            self._named_at, self._named, self._names = rows.version, usage.rows, rows.names(usage.rows)
        end, cpu, memory = usage.time + usage.seconds, usage.used_cpu, usage.used_memory
        if measured is None:
            return self._names, Measurements(np.full(len(cpu), end), cpu, memory)
        spaces, pods, containers = (list(compress(name, measured)) for name in self._names)
        cpu, memory = cpu[measured], memory[measured]
        return (spaces, pods, containers), Measurements(np.full(len(cpu), end), cpu, memory)
