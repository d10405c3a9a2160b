"""Measures of a simulation: cost, risk and disruption of the fleet and of each workload.

Where nodes come and go, also what they cost and how long pods wait for one.
"""

from __future__ import annotations

import math

import msgspec

from trellis.reports.measures import ComparisonMode, Measure
from trellis.reports.text.numbers import (
    format_count,
    format_factor,
    format_gib,
    format_money,
    format_share,
    format_significant,
    format_span,
)
from trellis.sim.results import NodeFigures, RunResult, SimulationTotals, VariantResult

MONEY_UNIT = "money"  # stands for the currency of the prices


def divide(total: float, number: float) -> float:
    """So much for each one; NaN where there is none."""
    return total / number if number else math.nan


MONEY = Measure[SimulationTotals](
    "money",
    "Money for requests",
    MONEY_UNIT,
    "At the scenario's prices, in the time scored",
    lambda totals: totals.money,
    format_money,
)
CPU_REQUESTED = Measure[SimulationTotals](
    "requested_cpu",
    "CPU requested",
    "cores",
    "Mean over time, all pods",
    lambda totals: totals.requested.cpu,
    format_significant,
)
MEMORY_REQUESTED = Measure[SimulationTotals](
    "requested_memory",
    "Memory requested",
    "GiB",
    "Mean over time, all pods",
    lambda totals: totals.requested.memory,
    format_gib,
)
CPU_USED = Measure[SimulationTotals](
    "used_cpu",
    "CPU used",
    "cores",
    "Mean over time of what they were given",
    lambda totals: totals.used.cpu,
    format_significant,
    better=0,
)
MEMORY_USED = Measure[SimulationTotals](
    "used_memory",
    "Memory used",
    "GiB",
    "Mean over time of what they held",
    lambda totals: totals.used.memory,
    format_gib,
    better=0,
)
CPU_SLACK = Measure[SimulationTotals](
    "slack_cpu",
    "CPU slack",
    "cores",
    "Requested and not used, mean over time",
    lambda totals: totals.slack.cpu,
    format_significant,
)
MEMORY_SLACK = Measure[SimulationTotals](
    "slack_memory",
    "Memory slack",
    "GiB",
    "Requested and not used, mean over time",
    lambda totals: totals.slack.memory,
    format_gib,
)
CPU_FOOTPRINT = Measure[SimulationTotals](
    "footprint_cpu",
    "CPU requested per used",
    "",
    "How many times as much as was used",
    lambda totals: totals.footprint.cpu,
    format_factor,
)
MEMORY_FOOTPRINT = Measure[SimulationTotals](
    "footprint_memory",
    "Memory requested per used",
    "",
    "How many times as much as was used",
    lambda totals: totals.footprint.memory,
    format_factor,
)
CPU_OVER = Measure[SimulationTotals](
    "time_over_cpu",
    "Time over CPU request",
    "",
    "Share of container time in which they want more",
    lambda totals: totals.time_over.cpu,
    format_share,
    ComparisonMode.IN_POINTS,
)
MEMORY_OVER = Measure[SimulationTotals](
    "time_over_memory",
    "Time over memory request",
    "",
    "Share of container time in which they want more",
    lambda totals: totals.time_over.memory,
    format_share,
    ComparisonMode.IN_POINTS,
)
CPU_OVERRUN = Measure[SimulationTotals](
    "overrun_cpu",
    "CPU wanted beyond request",
    "",
    "As a share of all that they want",
    lambda totals: totals.overrun.cpu,
    format_share,
    ComparisonMode.IN_POINTS,
)
MEMORY_OVERRUN = Measure[SimulationTotals](
    "overrun_memory",
    "Memory wanted beyond request",
    "",
    "As a share of all that they want",
    lambda totals: totals.overrun.memory,
    format_share,
    ComparisonMode.IN_POINTS,
)
THROTTLED = Measure[SimulationTotals](
    "throttled",
    "Time throttled",
    "",
    "Share of container time with less CPU than wanted",
    lambda totals: divide(totals.throttled_seconds, totals.container_seconds),
    format_share,
    ComparisonMode.IN_POINTS,
)
OOM_KILLS = Measure[SimulationTotals](
    "oom_kills",
    "OOM kills",
    "",
    "Containers that wanted more memory than they may have",
    lambda totals: totals.oom_kills,
    format_count,
    ComparisonMode.BY_COUNT,
)
EVICTIONS = Measure[SimulationTotals](
    "evictions",
    "Evictions",
    "",
    "Pods ended so that they come back with another size",
    lambda totals: totals.evictions,
    format_count,
    ComparisonMode.BY_COUNT,
)
PRESSED_OUT = Measure[SimulationTotals](
    "pressed_out",
    "Pods out for lack of memory",
    "",
    "Pods that a node ended because its memory was full",
    lambda totals: totals.pressed_out,
    format_count,
    ComparisonMode.BY_COUNT,
)
RESTARTS = Measure[SimulationTotals](
    "restarts",
    "Container restarts",
    "",
    "After a kill, or because a resize asks for one",
    lambda totals: totals.restarts,
    format_count,
    ComparisonMode.BY_COUNT,
)
RESIZES = Measure[SimulationTotals](
    "resizes",
    "Resizes in place",
    "",
    "Running pods that got another size and went on running",
    lambda totals: totals.resizes,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
BOOSTS = Measure[SimulationTotals](
    "boosts",
    "Boosted starts",
    "",
    "Pods that started with more CPU than they keep",
    lambda totals: totals.boosts,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
PODS_MADE = Measure[SimulationTotals](
    "pods_made",
    "Pods made",
    "",
    "All pods that were created",
    lambda totals: totals.pods_made,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
PENDING = Measure[SimulationTotals](
    "pending",
    "Wait for a node",
    "mean",
    "From a pod's creation until it has a node",
    lambda totals: divide(totals.pending_seconds, totals.pods_made),
    format_span,
)
STARTING = Measure[SimulationTotals](
    "starting",
    "Start of a pod",
    "mean",
    "From having a node until it is Ready",
    lambda totals: divide(totals.start_seconds, totals.pods_made),
    format_span,
)
REPLICAS = Measure[SimulationTotals](
    "replicas",
    "Pods running",
    "mean",
    "Mean over time",
    lambda totals: totals.scaled.replicas,
    format_significant,
    better=0,
)
OVERLOAD = Measure[SimulationTotals](
    "overload",
    "Overload",
    "core-hours",
    "CPU wanted and not had: at a limit, on a full node, or because no pod was Ready",
    lambda totals: totals.scaled.overload,
    format_significant,
)
SCALINGS = Measure[SimulationTotals](
    "scalings",
    "Changes of the count",
    "",
    "How often another number of pods was asked for",
    lambda totals: totals.scaled.scalings,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
NODE_HOURS = Measure[VariantResult](
    "node_hours",
    "Node hours",
    "",
    "Hours of all nodes together",
    lambda variant: variant.node_hours,
    format_significant,
)
NODE_MONEY = Measure[VariantResult](
    "node_money",
    "Money for nodes",
    MONEY_UNIT,
    "Whatever is requested of them",
    lambda variant: variant.node_money,
    format_money,
)

COST = (MONEY, CPU_REQUESTED, MEMORY_REQUESTED, CPU_USED, MEMORY_USED, CPU_SLACK, MEMORY_SLACK)
FOOTPRINTS = (CPU_FOOTPRINT, MEMORY_FOOTPRINT)
NODES = (NODE_HOURS, NODE_MONEY)
RISK = (CPU_OVER, MEMORY_OVER, THROTTLED, OOM_KILLS)
OVERRUNS = (CPU_OVERRUN, MEMORY_OVERRUN)
DISRUPTION = (EVICTIONS, RESTARTS, RESIZES)
SELDOM = (PRESSED_OUT,)
STARTS = (BOOSTS, PODS_MADE, PENDING, STARTING)


_NONE = NodeFigures()


def has_nodes(result: RunResult) -> bool:
    """Whether nodes are added and removed in a run."""
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
    format_span,
)
HIGH_WAIT = Measure[VariantResult](
    "wait_p95",
    "Pods wait",
    "p95",
    "So long or less for 95 of 100 pods",
    lambda variant: variant.fleet.waited.p95,
    format_span,
)
LONGEST_WAIT = Measure[VariantResult](
    "wait_most",
    "Pods wait",
    "longest",
    "Of the pod that waited longest",
    lambda variant: variant.fleet.waited.most,
    format_span,
)
ORDERED = Measure[VariantResult](
    "nodes_ordered",
    "Nodes ordered",
    "",
    "Nodes that were asked for",
    lambda variant: node_figures(variant).ordered,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
REMOVED = Measure[VariantResult](
    "nodes_removed",
    "Nodes given back",
    "",
    "Nodes that nothing needed any more",
    lambda variant: node_figures(variant).removed,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
MOST_NODES = Measure[VariantResult](
    "nodes_most",
    "Nodes at most",
    "",
    "As many as there were at once",
    lambda variant: node_figures(variant).most,
    format_count,
    ComparisonMode.BY_COUNT,
)
MOVED = Measure[VariantResult](
    "pods_moved",
    "Pods moved",
    "",
    "Pods evicted so that their node could go",
    lambda variant: node_figures(variant).moved,
    format_count,
    ComparisonMode.BY_COUNT,
)
PREEMPTED = Measure[VariantResult](
    "pods_preempted",
    "Pods preempted",
    "",
    "Pods that had to go for others of higher priority",
    lambda variant: node_figures(variant).preempted,
    format_count,
    ComparisonMode.BY_COUNT,
)
FULL = Measure[VariantResult](
    "buffers_full",
    "Buffers whole",
    "",
    "Share of the time in which all of their chunks had room, on average over Buffers",
    lambda variant: _mean([buffer.full for buffer in node_figures(variant).buffers]),
    format_share,
    ComparisonMode.NONE,
    better=0,
)
HITS = Measure[VariantResult](
    "buffer_hits",
    "Pods that found kept room",
    "",
    "Pods that were scheduled to the place of a chunk",
    lambda variant: sum(buffer.hits for buffer in node_figures(variant).buffers),
    format_count,
    ComparisonMode.NONE,
    better=0,
)
MISSES = Measure[VariantResult](
    "buffer_misses",
    "Pods that missed kept room",
    "",
    "Pods that waited although a chunk like them was to be there",
    lambda variant: sum(buffer.misses for buffer in node_figures(variant).buffers),
    format_count,
    ComparisonMode.NONE,
    better=0,
)

ALWAYS = (NODE_MONEY, NODE_HOURS, WAIT, HIGH_WAIT, LONGEST_WAIT)
IF_ANY = (MOVED, PREEMPTED, FULL)
IN_FULL = (MOST_NODES, ORDERED, REMOVED, HITS, MISSES)


def _mean(shares: list[float]) -> float:
    return sum(shares) / len(shares) if shares else math.nan
