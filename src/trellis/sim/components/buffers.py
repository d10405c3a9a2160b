"""The Buffer controller in a simulation: the core's translations, and how well Buffers kept their capacity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from trellis.api.kinds.buffer import Buffer, BufferStatus
from trellis.api.kinds.parts import TargetReference
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.resolve import EffectiveBuffer, FixedReplicas, NodeClassTotals, PercentOfReplicas, resolve_buffer
from trellis.base.selectors import Selector
from trellis.core.admission.starting_cpu import compute_starting_boosts, remove_boost
from trellis.core.boost.boosted_size import BoostSettings
from trellis.core.buffers import (
    BufferSettings,
    DetailedReason,
    TargetFacts,
    Translation,
    TranslationFacts,
    build_status,
    find_class_labels,
    find_newest_live,
    find_skip_reason,
    observe_node_class,
    sum_filling_pods,
    translate,
)
from trellis.core.buffers.target_kinds import build_not_scalable
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.store import ObjectKey
from trellis.core.cluster.target_problems import TARGET_NOT_FOUND, TargetProblem, build_target_problem
from trellis.core.fit import NodeTable
from trellis.core.nodes.scale_up.decisions import BufferDecision
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor
from trellis.sim.cluster.cluster import ModelCluster
from trellis.sim.results import BufferFigures

_HOUR = 3600.0


class _BufferSums(msgspec.Struct):
    chunks: float = 0.0
    full: float = 0.0
    money: float = 0.0
    hits: int = 0
    misses: int = 0


class BufferAccounting:
    """Sums how Buffers were provisioned; what a decision says holds until the next plan."""

    def __init__(self, scored_from: float) -> None:
        self._scored_from = scored_from
        self._since = scored_from
        self._decisions: tuple[BufferDecision, ...] = ()
        self._sums: dict[ObjectKey, _BufferSums] = {}

    @property
    def chunks(self) -> int:
        """The number of chunks that are to be there now."""
        return sum(decision.chunks for decision in self._decisions)

    def record_decisions(self, decisions: Iterable[BufferDecision], now: float) -> None:
        """Record the decisions of a plan."""
        self._advance(now)
        self._decisions = tuple(decisions)
        if now < self._scored_from:
            return
        for decision in self._decisions:
            sums = self._sums.setdefault(decision.key, _BufferSums())
            sums.hits += decision.hits
            sums.misses += decision.misses

    def figures(self, now: float) -> list[BufferFigures]:
        """The figures of all Buffers, by name."""
        self._advance(now)
        scored_seconds = max(now - self._scored_from, 1.0)
        return [
            BufferFigures(
                *key,
                sums.chunks / scored_seconds,
                sums.full / scored_seconds,
                sums.money / _HOUR,
                sums.hits,
                sums.misses,
            )
            for key, sums in sorted(self._sums.items())
        ]

    def _advance(self, now: float) -> None:
        seconds = now - self._since
        if seconds <= 0:
            return
        self._since = now
        for decision in self._decisions:
            sums = self._sums.setdefault(decision.key, _BufferSums())
            sums.chunks += decision.chunks * seconds
            sums.full += seconds if decision.is_provisioned else 0.0
            sums.money += decision.price * seconds


_SETTINGS: Final = BufferSettings()
_WITHOUT_SCALE: Final = ("DaemonSet", "CronJob")


class PodSizing(Protocol):
    """Finds what sizes the new pods of a target."""

    def find_governor(self, target: TargetRef, labels: Mapping[str, str]) -> Governor | None:
        """The object that sizes pods of these labels."""

    def get_limits(self, namespace: str) -> NamespaceLimits:
        """The LimitRanges of a namespace."""


class _BufferRecord(msgspec.Struct):
    buffer: Buffer
    meaning: EffectiveBuffer
    facts: TranslationFacts | None = None
    translation: Translation | None = None


class SimulatedBuffers:
    """The Buffer controller of a variant, without quotas."""

    def __init__(
        self, buffers: Iterable[Buffer], cluster: ModelCluster, sizing: PodSizing, boosts: BoostSettings
    ) -> None:
        resolved = ((buffer, resolve_buffer(buffer)) for buffer in buffers)
        self._records = [_BufferRecord(*pair) for pair in resolved if find_skip_reason(pair[1], _SETTINGS) is None]
        self._cluster = cluster
        self._sizing = sizing
        self._boosts = boosts

    def __len__(self) -> int:
        return len(self._records)

    @property
    def next_change(self) -> float | None:
        """When a window of a schedule opens or closes next."""
        changes = (record.translation.next_change for record in self._records if record.translation is not None)
        return min((change for change in changes if change is not None), default=None)

    def translate_changed(self, table: NodeTable, nodes: Mapping[str, Node], now: float) -> Iterator[Buffer]:
        """The Buffers whose translation has changed, with their new status."""
        for record in self._records:
            facts = self._gather_facts(record, table, nodes)
            before = record.translation
            if (
                before is not None
                and facts == record.facts
                and (before.next_change is None or now < before.next_change)
            ):
                continue
            record.facts = facts
            translated = translate(record.meaning, facts, now, _SETTINGS)
            if translated != before:
                record.translation = translated
                status = msgspec.convert(build_status(translated, record.buffer.status, 1, now), BufferStatus)
                record.buffer = msgspec.structs.replace(record.buffer, status=status)
                yield record.buffer

    def _gather_facts(self, record: _BufferRecord, table: NodeTable, nodes: Mapping[str, Node]) -> TranslationFacts:
        meaning, namespace = record.meaning, record.buffer.metadata.namespace
        filled = (
            sum_filling_pods(self._list_filling_pods(namespace, meaning.filled_by))
            if meaning.filled_by is not None
            else {}
        )
        match meaning.capacity:
            case FixedReplicas() | PercentOfReplicas() if meaning.target is not None:
                return TranslationFacts(self._observe_target(namespace, meaning.target), filled=filled)
            case NodeClassTotals():
                labels = find_class_labels(meaning, _SETTINGS)
                if not isinstance(labels, DetailedReason):
                    return TranslationFacts(nodes=observe_node_class(table, nodes, labels), filled=filled)
        return TranslationFacts(filled=filled)

    def _list_filling_pods(self, namespace: str, selector: Selector) -> Iterator[Pod]:
        for pod in self._cluster.pods():
            if pod.metadata.namespace == namespace and selector.matches(pod.metadata.labels):
                yield pod

    def _observe_target(self, namespace: str, reference: TargetReference) -> TargetFacts | TargetProblem:
        kind, name = reference.kind, reference.name
        result: Any = self._cluster.targets.find(namespace, kind, name)
        if result is None:
            return build_target_problem(TARGET_NOT_FOUND, f"{kind} {name} does not exist")
        if kind in _WITHOUT_SCALE:
            return build_not_scalable(kind)
        scale = self._cluster.scale(namespace, kind, name)
        replicas = scale.status.replicas if scale is not None else getattr(result.spec, "parallelism", None)
        newest = find_newest_live(self._cluster.targets.list_pods(namespace, kind, name))
        pod = remove_boost(newest) if newest is not None else None
        template = result.spec.template if pod is None else None
        shape = pod if pod is not None else result.spec.template
        target = TargetRef(namespace, reference.api_version, kind, name)
        governor, limits = self._sizing.find_governor(target, shape.metadata.labels), self._sizing.get_limits(namespace)
        return TargetFacts(
            replicas,
            pod=pod,
            template=template,
            governor=governor,
            limits=limits,
            boosts=compute_starting_boosts(shape.spec, governor, limits, self._boosts),
        )
