"""Which pods does each Buffer stand for now? The translation of the core, from what the model cluster shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from trellis.api.buffer import Buffer, BufferStatus
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.parts import TargetReference
from trellis.api.resolve import (
    EffectiveBuffer,
    FixedReplicas,
    NodeClassTotals,
    PercentOfReplicas,
    resolve_buffer,
)
from trellis.base.selectors import Selector
from trellis.core.admission.starting import starting_boosts, unboosted
from trellis.core.boost.raising import BoostSettings
from trellis.core.buffers import (
    BufferSettings,
    Facts,
    FoundTarget,
    Said,
    Translation,
    class_labels,
    filled_by,
    left_alone,
    newest_live,
    nodes_of_class,
    status_of,
    translate,
)
from trellis.core.buffers.target_kinds import not_scalable
from trellis.core.fit import NodeTable
from trellis.core.model.owners import TargetRef
from trellis.core.model.target_problems import TARGET_NOT_FOUND, TargetProblem, unread
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor
from trellis.sim.cluster.cluster import Cluster

_FIGURES: Final = BufferSettings()
_WITHOUT_SCALE: Final = ("DaemonSet", "CronJob")


class Sizing(Protocol):
    """Who sizes the new pods of a target."""

    def governor_of(self, target: TargetRef, labels: Mapping[str, str]) -> Governor | None:
        """What governs pods of these labels."""

    def limits_of(self, namespace: str) -> NamespaceLimits:
        """What bounds them."""


class _Known(msgspec.Struct):
    buffer: Buffer
    meaning: EffectiveBuffer
    facts: Facts | None = None
    made: Translation | None = None


class Translating:
    """The Buffer controller of a variant. Quotas there are none of."""

    cluster: Cluster

    def __init__(self, buffers: Iterable[Buffer], sizing: Sizing, boosts: BoostSettings) -> None:
        meant = ((each, resolve_buffer(each)) for each in buffers)
        self._known = [_Known(*each) for each in meant if left_alone(each[1], _FIGURES) is None]
        self._sizing = sizing
        self._boosts = boosts

    def __len__(self) -> int:
        return len(self._known)

    @property
    def next_change(self) -> float | None:
        """When a window of a schedule opens or closes next."""
        changes = (each.made.next_change for each in self._known if each.made is not None)
        return min((each for each in changes if each is not None), default=None)

    def changed(self, table: NodeTable, nodes: Mapping[str, Node], now: float) -> Iterator[Buffer]:
        """The Buffers that stand for something else now, with a status that says so."""
        for known in self._known:
            facts = self._facts(known, table, nodes)
            made = known.made
            if made is not None and facts == known.facts and (made.next_change is None or now < made.next_change):
                continue
            known.facts = facts
            found = translate(known.meaning, facts, now, _FIGURES)
            if found != made:
                known.made = found
                status = msgspec.convert(status_of(found, known.buffer.status, 1, now), BufferStatus)
                known.buffer = msgspec.structs.replace(known.buffer, status=status)
                yield known.buffer

    def _facts(self, known: _Known, table: NodeTable, nodes: Mapping[str, Node]) -> Facts:
        meaning, namespace = known.meaning, known.buffer.metadata.namespace
        filled = filled_by(self._filling(namespace, meaning.filled_by)) if meaning.filled_by is not None else {}
        match meaning.capacity:
            case FixedReplicas() | PercentOfReplicas() if meaning.target is not None:
                return Facts(self._target(namespace, meaning.target), filled=filled)
            case NodeClassTotals():
                labels = class_labels(meaning, _FIGURES)
                if not isinstance(labels, Said):
                    return Facts(nodes=nodes_of_class(table, nodes, labels), filled=filled)
        return Facts(filled=filled)

    def _filling(self, namespace: str, selector: Selector) -> Iterator[Pod]:
        for pod in self.cluster.pods():
            if pod.metadata.namespace == namespace and selector.matches(pod.metadata.labels):
                yield pod

    def _target(self, namespace: str, reference: TargetReference) -> FoundTarget | TargetProblem:
        kind, name = reference.kind, reference.name
        found: Any = self.cluster.targets.find(namespace, kind, name)
        if found is None:
            return unread(TARGET_NOT_FOUND, f"there is no {kind} {name}")
        if kind in _WITHOUT_SCALE:
            return not_scalable(kind)
        scale = self.cluster.scale(namespace, kind, name)
        replicas = scale.status.replicas if scale is not None else getattr(found.spec, "parallelism", None)
        newest = newest_live(self.cluster.targets.pods_of(namespace, kind, name))
        pod = unboosted(newest) if newest is not None else None
        template = found.spec.template if pod is None else None
        shape = pod if pod is not None else found.spec.template
        target = TargetRef(namespace, reference.api_version, kind, name)
        governor, limits = self._sizing.governor_of(target, shape.metadata.labels), self._sizing.limits_of(namespace)
        return FoundTarget(
            replicas,
            pod=pod,
            template=template,
            governor=governor,
            limits=limits,
            boosts=starting_boosts(shape.spec, governor, limits, self._boosts),
        )
