"""Nodes of a class, and how totals are split into chunks that fit them.

A class is a label. Chunks that are not given are equal parts of the totals, as few as fit the smallest node, which is
one that has the least of every resource: a chunk that fits it fits all nodes of the class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.nodes import Node, Taint
from trellis.api.kube.slices import Labels
from trellis.api.resolve import EffectiveBuffer, NodeClassTotals
from trellis.base.quantities import NANOS_PER_UNIT, Quantity
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.selectors import LabelOperator, LabelRequirement
from trellis.core.buffers.translation_facts import BufferSettings, NodeClassFacts
from trellis.core.fit import NodeTable
from trellis.core.fit.resources import count_from_nanos, nanos_from_count
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.usage.columns import BoolColumn, IntColumn

NODE_CLASS_UNKNOWN = Reason(
    "NodeClassUnknown", "The node label for classes of this kind is unknown: set --node-class-labels.", Severity.WARNING
)
NODE_CLASS_CONTRADICTED = Reason(
    "NodeClassContradicted", "The nodeSelector selects nodes of another class than the target.", Severity.ERROR
)
NODE_CLASS_WITHOUT_ROOM = Reason(
    "NodeClassWithoutRoom", "No node of the class has both CPU and memory for pods.", Severity.WARNING
)
NODE_CLASS_EMPTY = Reason("NodeClassEmpty", "The class has no node yet, so chunks are made for a small one.")
CHUNK_EXCEEDS_TOTALS = Reason("ChunkExceedsTotals", "One chunk already exceeds the totals.", Severity.ERROR)
CHUNK_LARGER_THAN_NODES = Reason(
    "ChunkLargerThanNodes", "A chunk is larger than every existing node of the class.", Severity.WARNING
)

_RESOURCES: Final = ("cpu", "memory")
_HARD: Final = ("NoSchedule", "NoExecute")
# Prefixes of taints that change with the state of a node.
_TRANSIENT_TAINTS: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node.cluster.x-k8s.io/uninitialized",
    "karpenter.sh/disrupted",
    "karpenter.sh/unregistered",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "trellis.x-k8s.io/",
)
_NOTHING_RESERVED: Mapping[str, IntColumn] = {}


class NodeClassChunks(msgspec.Struct, frozen=True):
    """A number of chunks, and the requests of each."""

    count: int
    requests: Mapping[str, str]
    notes: tuple[DetailedReason, ...] = ()


def find_class_labels(buffer: EffectiveBuffer, settings: BufferSettings) -> dict[str, str] | DetailedReason:
    """The labels of the nodes of a Buffer: that of the class, and those of its node selector."""
    totals, target = buffer.capacity, buffer.target
    labels = dict(totals.node_selector) if isinstance(totals, NodeClassTotals) else {}
    if target is None:
        return labels
    label = settings.get_label(target.kind)
    if label is None:
        return DetailedReason(
            NODE_CLASS_UNKNOWN, f"the label of nodes of a {target.kind} is not known; set --node-class-labels"
        )
    if labels.get(label, target.name) != target.name:
        message = (
            f"nodeSelector selects {label}={labels[label]}, which nodes of {target.kind} {target.name} do not have"
        )
        return DetailedReason(NODE_CLASS_CONTRADICTED, message)
    return labels | {label: target.name}


def observe_node_class(
    table: NodeTable, nodes: Mapping[str, Node], labels: Labels, reserved: Mapping[str, IntColumn] = _NOTHING_RESERVED
) -> NodeClassFacts:
    """The facts about the nodes with these labels. `reserved` is the usage of DaemonSet pods by resource and node."""
    mask = table.exists.copy()
    for name, value in labels.items():
        mask &= table.labelled(LabelRequirement(name, LabelOperator.EQUALS, (value,)))
    count = int(np.count_nonzero(mask))
    if not count:
        return NodeClassFacts()
    free = {name: _find_free(table, mask, name, reserved.get(name)) for name in _RESOURCES}
    # A node without free capacity takes no chunk of any size, and does not decide the size for the others.
    offering = np.logical_and.reduce([column > 0 for column in free.values()])
    if offering.any():
        free = {name: column[offering] for name, column in free.items()}
    return NodeClassFacts(
        count,
        least={name: int(column.min()) for name, column in free.items()},
        most={name: int(column.max()) for name, column in free.items()},
        taints=_find_shared_taints(nodes[name] for name in table.names(mask) if name in nodes),
    )


def split_into_chunks(
    totals: NodeClassTotals, nodes: NodeClassFacts, settings: BufferSettings
) -> NodeClassChunks | DetailedReason:
    """Split the totals into chunks, which together never exceed them."""
    bounds = {"cpu": totals.cpu, "memory": totals.memory}
    if totals.chunk is None:
        return _derive_chunks(bounds, nodes, settings)
    sizes = {name: amount for name, amount in totals.chunk.items() if amount > Quantity.ZERO}
    counts = [bounds[name].nanos // sizes[name].nanos for name in _RESOURCES if name in sizes]
    if not counts:
        return DetailedReason(CHUNK_EXCEEDS_TOTALS, "perChunkResources must have cpu or memory above zero")
    if not min(counts):
        return DetailedReason(CHUNK_EXCEEDS_TOTALS)
    too_large = [name for name in _RESOURCES if _is_above(name, sizes.get(name), nodes.most)]
    notes = (
        (DetailedReason(CHUNK_LARGER_THAN_NODES, _describe_excess(too_large, sizes, nodes.most)),) if too_large else ()
    )
    return NodeClassChunks(min(counts), {name: str(amount) for name, amount in sizes.items()}, notes)


def _derive_chunks(
    bounds: Mapping[str, Quantity], nodes: NodeClassFacts, settings: BufferSettings
) -> NodeClassChunks | DetailedReason:
    node = nodes.least if nodes.count else settings.assumed_node
    if not all(node.get(name, 0) > 0 for name in _RESOURCES):
        return DetailedReason(NODE_CLASS_WITHOUT_ROOM)
    count = max(-(-bounds[name].nanos // nanos_from_count(name, node[name])) for name in _RESOURCES)
    if not nodes.count:
        # Chunks of an assumed size never reduce the totals.
        count = min(count, settings.most_chunks)
    cpu = Quantity.from_milli(bounds["cpu"].nanos // count // nanos_from_count("cpu", 1))
    memory = Quantity(bounds["memory"].nanos // count // NANOS_PER_UNIT * NANOS_PER_UNIT, bounds["memory"].format)
    requests = {name: str(amount) for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    return NodeClassChunks(count, requests, () if nodes.count else (DetailedReason(NODE_CLASS_EMPTY),))


def _find_free(table: NodeTable, mask: BoolColumn, name: str, reserved: IntColumn | None) -> IntColumn:
    offered = table.offered(name)[mask]
    return offered if reserved is None else np.maximum(offered - reserved[: len(mask)][mask], 0)


def _find_shared_taints(nodes: Iterable[Node]) -> tuple[Taint, ...]:
    """The taints that all nodes have, without transient ones."""
    shared: dict[tuple[str, str, str], Taint] | None = None
    for node in nodes:
        taints = {
            (taint.key, taint.value, taint.effect): Taint(taint.key, taint.value, taint.effect)
            for taint in node.spec.taints
            if taint.effect in _HARD and not taint.key.startswith(_TRANSIENT_TAINTS)
        }
        shared = taints if shared is None else {taint: shared[taint] for taint in shared if taint in taints}
        if not shared:
            return ()
    return tuple(taint for _, taint in sorted((shared or {}).items()))


def _is_above(name: str, amount: Quantity | None, most: ResourceAmounts) -> bool:
    return amount is not None and name in most and count_from_nanos(name, amount.nanos, 2**63) > most[name]


def _describe_excess(names: Iterable[str], chunk: Mapping[str, Quantity], most: ResourceAmounts) -> str:
    parts = [f"{chunk[name]} {name}, and a node has at most {_format_amount(name, most[name])}" for name in names]
    return f"a chunk requests {' and '.join(parts)}"


def _format_amount(name: str, count: int) -> Quantity:
    return Quantity.from_milli(count) if name == "cpu" else Quantity.from_units(count, binary=True)
