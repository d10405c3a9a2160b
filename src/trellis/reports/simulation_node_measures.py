"""What is told of a simulation in which nodes come and go? What they cost, and how long pods wait for one."""

from __future__ import annotations

import math

import msgspec

from trellis.reports.figures import count, share, span
from trellis.reports.measures import Compared, Measure
from trellis.reports.simulation_measures import NODE_HOURS, NODE_MONEY
from trellis.sim.results import NodeFigures, RunResult, VariantResult

_NONE = NodeFigures()


def has_nodes(result: RunResult) -> bool:
    """Whether nodes come and go in it."""
    return any(variant.nodes is not msgspec.UNSET for variant in result.variants)


def node_figures(variant: VariantResult) -> NodeFigures:
    """How nodes came and went; not at all where they do not."""
    return _NONE if variant.nodes is msgspec.UNSET else variant.nodes


WAIT = Measure[VariantResult](
    "wait",
    "Pods wait",
    "mean",
    "From a pod's creation until it has a node; pods of negative priority aside",
    lambda variant: variant.fleet.waited.mean,
    span,
)
HIGH_WAIT = Measure[VariantResult](
    "wait_p95",
    "Pods wait",
    "p95",
    "So long or less for 95 of 100 pods",
    lambda variant: variant.fleet.waited.p95,
    span,
)
LONGEST_WAIT = Measure[VariantResult](
    "wait_most",
    "Pods wait",
    "longest",
    "Of the pod that waited longest",
    lambda variant: variant.fleet.waited.most,
    span,
)
ORDERED = Measure[VariantResult](
    "nodes_ordered",
    "Nodes ordered",
    "",
    "Nodes that were asked for",
    lambda variant: node_figures(variant).ordered,
    count,
    Compared.NOT,
    better=0,
)
REMOVED = Measure[VariantResult](
    "nodes_removed",
    "Nodes given back",
    "",
    "Nodes that nothing needed any more",
    lambda variant: node_figures(variant).removed,
    count,
    Compared.NOT,
    better=0,
)
MOST_NODES = Measure[VariantResult](
    "nodes_most",
    "Nodes at most",
    "",
    "As many as there were at once",
    lambda variant: node_figures(variant).most,
    count,
    Compared.BY_COUNT,
)
MOVED = Measure[VariantResult](
    "pods_moved",
    "Pods moved",
    "",
    "Pods evicted so that their node could go",
    lambda variant: node_figures(variant).moved,
    count,
    Compared.BY_COUNT,
)
PREEMPTED = Measure[VariantResult](
    "pods_preempted",
    "Pods preempted",
    "",
    "Pods that had to go for others of higher priority",
    lambda variant: node_figures(variant).preempted,
    count,
    Compared.BY_COUNT,
)
FULL = Measure[VariantResult](
    "buffers_full",
    "Buffers whole",
    "",
    "Share of the time in which all of their chunks had room, on average over Buffers",
    lambda variant: _mean([each.full for each in node_figures(variant).buffers]),
    share,
    Compared.NOT,
    better=0,
)
HITS = Measure[VariantResult](
    "buffer_hits",
    "Pods that found kept room",
    "",
    "Pods that came to where a chunk of a Buffer was",
    lambda variant: sum(each.hits for each in node_figures(variant).buffers),
    count,
    Compared.NOT,
    better=0,
)
MISSES = Measure[VariantResult](
    "buffer_misses",
    "Pods that missed kept room",
    "",
    "Pods that waited although a chunk like them was to be there",
    lambda variant: sum(each.misses for each in node_figures(variant).buffers),
    count,
    Compared.NOT,
    better=0,
)

ALWAYS = (NODE_MONEY, NODE_HOURS, WAIT, HIGH_WAIT, LONGEST_WAIT)
IF_ANY = (MOVED, PREEMPTED, FULL)
IN_FULL = (MOST_NODES, ORDERED, REMOVED, HITS, MISSES)


def _mean(shares: list[float]) -> float:
    return sum(shares) / len(shares) if shares else math.nan
