"""What is recommended, and when is it written? The recommender of the core, told what a watch and metrics would tell.

Usage is kept from step to step, and taken in at the next pass, all of it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from trellis.api.hvpa import Hvpa, HvpaStatus, ResourceTotals
from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.pods import Pod
from trellis.api.resolve import resolve_vpa
from trellis.api.vpa import VerticalPodAutoscaler, VerticalPodAutoscalerStatus
from trellis.core.model.keys import BY_NAMESPACE, Key, in_namespace, key_of
from trellis.core.model.owners import WELL_KNOWN
from trellis.core.model.store import Store
from trellis.core.recommend.built_in import built_in_recommenders
from trellis.core.recommend.default import DefaultRecommender
from trellis.core.recommend.knowledge import Knowledge
from trellis.core.recommend.presets import preset
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.scope import Scope, Waiting
from trellis.core.recommend.seen import Kill, Noticing, Seen
from trellis.core.recommend.served import StatusWrite
from trellis.core.usage.columns import IntColumn
from trellis.core.usage.samples import Measured
from trellis.sim.figures import Figures
from trellis.sim.observing import observed_pod

_PENDING: Final = "Pending"
_INDEXES: Final = {BY_NAMESPACE: in_namespace}
_NOBODY_WAITS: Final = Waiting()

# A VPA with its new status, and the write that made it.
Published = tuple[VerticalPodAutoscaler, StatusWrite]
# Namespaces, pods and containers, as columns of samples have them.
Names = tuple[list[str], list[str], list[str]]
Sample = tuple[Names, Measured]


class Recommending:
    """All recommenders that the VPAs of a variant name.

    `publish` is told of the VPAs that have a new status, and `tell` what whole workloads need whose Hvpas go by VPAs of
    users.
    """

    def __init__(
        self,
        vpas: Iterable[VerticalPodAutoscaler],
        figures: Figures,
        parameters: Mapping[str, Mapping[str, str]],
        publish: Callable[[Sequence[Published]], None],
        *,
        hvpas: Iterable[Hvpa] = (),
        tell: Callable[[Key, ResourceTotals], None] = lambda _key, _totals: None,
    ) -> None:
        self._publish = publish
        self._tell = tell
        self._vpas: Store[VerticalPodAutoscaler] = Store(_INDEXES)
        self._pods: Store[ObservedPod] = Store(_INDEXES)
        self._hvpas: Store[Hvpa] = Store(_INDEXES)
        self._workloads: dict[str, Store[Any]] = {kind: Store(_INDEXES) for kind in sorted(WELL_KNOWN)}
        self._noticing = Noticing()
        self._versions = 1
        self._samples: list[Sample] = []
        self._is_new = True
        for vpa in vpas:
            self._put(vpa)
        for hvpa in hvpas:
            self._put_hvpa(hvpa)
        names = sorted({resolve_vpa(vpa).recommender for vpa in self._vpas.snapshot()})
        self._scope = Scope(frozenset(names), totals=True)
        recommenders = recommenders_of(names, figures, parameters)
        self._knowledge = Knowledge(figures.usage, figures.pipeline, recommenders, figures.gates, figures.estimates)

    def pod(self, key: Key, new: Pod | None) -> None:
        """A pod changed. One that runs nothing yet is not looked at."""
        seen = observed_pod(new) if new is not None and new.status.phase != _PENDING else None
        known = self._pods.put(key, seen) if seen is not None else self._pods.remove(key)
        if seen is not None or known is not None:
            self._noticing.pod(key, known, seen)

    def workload(self, kind: str, key: Key, old: KubeObject | None, new: KubeObject | None) -> None:
        """A controller changed."""
        if new is not None:
            self._workloads[kind].put(key, new)
        else:
            self._workloads[kind].remove(key)
        self._noticing.workload(key, old, new)

    def event(self, event: Event) -> None:
        """A kubelet has evicted a pod."""
        self._noticing.event(event, self._pods.snapshot())

    def measured(self, sample: Sample, now: float) -> None:
        """What containers used in a step.

        For an Hvpa a sample counts as often as pods were Ready with it, so that nobody may wait until others are.
        """
        if len(self._vpas):
            self._samples.append(sample)
        if len(self._hvpas):
            self._load(now)

    def skip(self) -> None:
        """Nobody was there to take in what was measured."""
        self._samples.clear()

    def work(self, now: float) -> None:
        """One pass."""
        if not len(self._vpas):
            return
        seen, knowledge = self._load(now), self._knowledge
        knowledge.collect(now)
        written = [(self._write(write, seen.vpas.objects), write) for write in knowledge.recommend(now).writes]
        knowledge.board.all_published([(write, vpa.metadata.resource_version) for vpa, write in written], now)
        if written:
            self._publish(written)
        if len(self._hvpas):
            self._total(now)

    def _load(self, now: float) -> Seen:
        """Take in what has changed, and what was measured."""
        seen = Seen(
            self._vpas.snapshot(),
            self._pods.snapshot(),
            self._hvpas.snapshot(),
            {kind: store.snapshot() for kind, store in self._workloads.items()},
            self._noticing.take(),
        )
        knowledge = self._knowledge
        knowledge.load_vpas(seen, self._scope, all_of_them=self._is_new)
        knowledge.load_pods(seen, {}, _NOBODY_WAITS, now)
        self._take_in(seen.news.kills, now)
        self._is_new = False
        return seen

    def _total(self, now: float) -> None:
        """Tell what whole workloads need, where a status is not what says it."""
        for found in self._knowledge.totals(now):
            totals = ResourceTotals(found.cpu, found.memory)
            status = msgspec.structs.replace(found.hvpa.status or HvpaStatus(), totals=totals)
            self._put_hvpa(msgspec.structs.replace(found.hvpa, status=status))
            self._tell(key_of(found.hvpa), totals)

    def _take_in(self, kills: Sequence[Kill], now: float) -> None:
        """Usage and kills. Who is measured changes seldom, and is looked up once for all steps that have it alike."""
        model = self._knowledge.model
        slots: dict[int, IntColumn] = {}
        for names, _ in self._samples:
            if id(names) not in slots:
                slots[id(names)] = model.slots(*names)
        if self._samples:
            measured = [each for _, each in self._samples]
            found = np.concatenate([slots[id(names)] for names, _ in self._samples])
            # Those of one container side by side, as the model wants them; who is followed by nobody comes first.
            order = np.argsort(found, kind="stable")[np.count_nonzero(found < 0) :]
            joined = Measured(
                np.concatenate([each.times for each in measured])[order],
                np.concatenate([each.cpu for each in measured])[order],
                np.concatenate([each.memory for each in measured])[order],
            )
            model.ingest_at(found[order], joined, now)
            self._samples.clear()
        model.record_ooms([kill.what for kill in kills], now)

    def _write(self, write: StatusWrite, seen: Mapping[Key, VerticalPodAutoscaler]) -> VerticalPodAutoscaler:
        """Store a status, as the API server does."""
        old = seen[write.namespace, write.name]
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


def recommenders_of(
    names: Iterable[str], figures: Figures, parameters: Mapping[str, Mapping[str, str]]
) -> dict[str, Recommender]:
    """Who answers to these names; a name that Trellis does not know is the default algorithm under that name."""
    built_in = built_in_recommenders(figures.estimates)
    return {
        name: preset(built_in.get(name) or DefaultRecommender(figures.estimates, name), parameters.get(name, {}))
        for name in names
    }


def stand_ins(vpas: Iterable[VerticalPodAutoscaler]) -> list[str]:
    """Names of recommenders for which the default algorithm stands in, because they do not come with Trellis."""
    known = built_in_recommenders()
    return sorted({resolve_vpa(vpa).recommender for vpa in vpas} - known.keys())
