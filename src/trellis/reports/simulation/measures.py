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
    "Cost of requests",
    MONEY_UNIT,
    "At the scenario's prices, in the scored time",
    lambda totals: totals.money,
    format_money,
    is_cost=True,
)
CPU_REQUESTED = Measure[SimulationTotals](
    "requested_cpu",
    "CPU requested",
    "cores",
    "Mean over time, all pods",
    lambda totals: totals.requested.cpu,
    format_significant,
    is_cost=True,
)
MEMORY_REQUESTED = Measure[SimulationTotals](
    "requested_memory",
    "Memory requested",
    "GiB",
    "Mean over time, all pods",
    lambda totals: totals.requested.memory,
    format_gib,
    is_cost=True,
)
CPU_USED = Measure[SimulationTotals](
    "used_cpu",
    "CPU used",
    "cores",
    "Mean over time, all pods",
    lambda totals: totals.used.cpu,
    format_significant,
    better=0,
)
MEMORY_USED = Measure[SimulationTotals](
    "used_memory",
    "Memory used",
    "GiB",
    "Mean over time, all pods",
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
    is_cost=True,
)
MEMORY_SLACK = Measure[SimulationTotals](
    "slack_memory",
    "Memory slack",
    "GiB",
    "Requested and not used, mean over time",
    lambda totals: totals.slack.memory,
    format_gib,
    is_cost=True,
)
CPU_FOOTPRINT = Measure[SimulationTotals](
    "footprint_cpu",
    "CPU requested per used",
    "",
    "Requested divided by used",
    lambda totals: totals.footprint.cpu,
    format_factor,
    is_cost=True,
)
MEMORY_FOOTPRINT = Measure[SimulationTotals](
    "footprint_memory",
    "Memory requested per used",
    "",
    "Requested divided by used",
    lambda totals: totals.footprint.memory,
    format_factor,
    is_cost=True,
)
CPU_OVER = Measure[SimulationTotals](
    "time_over_cpu",
    "Time above CPU request",
    "",
    "Share of container time with usage above the request",
    lambda totals: totals.time_over.cpu,
    format_share,
    ComparisonMode.IN_POINTS,
)
MEMORY_OVER = Measure[SimulationTotals](
    "time_over_memory",
    "Time above memory request",
    "",
    "Share of container time with usage above the request",
    lambda totals: totals.time_over.memory,
    format_share,
    ComparisonMode.IN_POINTS,
)
CPU_OVERRUN = Measure[SimulationTotals](
    "overrun_cpu",
    "CPU demand above request",
    "",
    "As a share of all demand",
    lambda totals: totals.overrun.cpu,
    format_share,
    ComparisonMode.IN_POINTS,
)
MEMORY_OVERRUN = Measure[SimulationTotals](
    "overrun_memory",
    "Memory demand above request",
    "",
    "As a share of all demand",
    lambda totals: totals.overrun.memory,
    format_share,
    ComparisonMode.IN_POINTS,
)
THROTTLED = Measure[SimulationTotals](
    "throttled",
    "Time throttled",
    "",
    "Share of container time with less CPU than demanded",
    lambda totals: divide(totals.throttled_seconds, totals.container_seconds),
    format_share,
    ComparisonMode.IN_POINTS,
)
OOM_KILLS = Measure[SimulationTotals](
    "oom_kills",
    "OOM kills",
    "",
    "Containers killed because they exceeded a memory limit",
    lambda totals: totals.oom_kills,
    format_count,
    ComparisonMode.BY_COUNT,
)
EVICTIONS = Measure[SimulationTotals](
    "evictions",
    "Evictions",
    "",
    "Pods evicted to be recreated with other requests",
    lambda totals: totals.evictions,
    format_count,
    ComparisonMode.BY_COUNT,
)
PRESSED_OUT = Measure[SimulationTotals](
    "pressed_out",
    "Evicted by kubelets",
    "",
    "Pods evicted because their node ran out of memory",
    lambda totals: totals.pressed_out,
    format_count,
    ComparisonMode.BY_COUNT,
)
RESTARTS = Measure[SimulationTotals](
    "restarts",
    "Container restarts",
    "",
    "After an OOM kill, or because a resize requires one",
    lambda totals: totals.restarts,
    format_count,
    ComparisonMode.BY_COUNT,
)
RESIZES = Measure[SimulationTotals](
    "resizes",
    "Resizes in place",
    "",
    "Running pods resized without a restart of the pod",
    lambda totals: totals.resizes,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
BOOSTS = Measure[SimulationTotals](
    "boosts",
    "Startup boosts",
    "",
    "Pods that started with boosted CPU",
    lambda totals: totals.boosts,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
PODS_MADE = Measure[SimulationTotals](
    "pods_made",
    "Pods created",
    "",
    "All pods created in the run",
    lambda totals: totals.pods_made,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
PENDING = Measure[SimulationTotals](
    "pending",
    "Wait for a node",
    "mean",
    "From creation until scheduled",
    lambda totals: divide(totals.pending_seconds, totals.pods_made),
    format_span,
)
STARTING = Measure[SimulationTotals](
    "starting",
    "Start of a pod",
    "mean",
    "From scheduled until Ready",
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
    "CPU demand that was not served: at a limit, on a full node, or without a Ready pod",
    lambda totals: totals.scaled.overload,
    format_significant,
)
SCALINGS = Measure[SimulationTotals](
    "scalings",
    "Replica changes",
    "",
    "How often the number of replicas changed",
    lambda totals: totals.scaled.scalings,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
NODE_HOURS = Measure[VariantResult](
    "node_hours",
    "Node-hours",
    "",
    "Sum over all nodes",
    lambda variant: variant.node_hours,
    format_significant,
    is_cost=True,
)
NODE_MONEY = Measure[VariantResult](
    "node_money",
    "Cost of nodes",
    MONEY_UNIT,
    "At the scenario's prices, independent of requests",
    lambda variant: variant.node_money,
    format_money,
    is_cost=True,
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
    "From creation until scheduled, without pods of negative priority",
    lambda variant: variant.fleet.waited.mean,
    format_span,
)
HIGH_WAIT = Measure[VariantResult](
    "wait_p95",
    "Pods wait",
    "p95",
    "95 % of pods wait at most this long",
    lambda variant: variant.fleet.waited.p95,
    format_span,
)
LONGEST_WAIT = Measure[VariantResult](
    "wait_most",
    "Pods wait",
    "longest",
    "The longest wait of any pod",
    lambda variant: variant.fleet.waited.most,
    format_span,
)
ORDERED = Measure[VariantResult](
    "nodes_ordered",
    "Nodes ordered",
    "",
    "Nodes ordered from node groups",
    lambda variant: node_figures(variant).ordered,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
REMOVED = Measure[VariantResult](
    "nodes_removed",
    "Nodes removed",
    "",
    "Nodes removed because they were unneeded",
    lambda variant: node_figures(variant).removed,
    format_count,
    ComparisonMode.NONE,
    better=0,
)
MOST_NODES = Measure[VariantResult](
    "nodes_most",
    "Maximum nodes",
    "",
    "Highest number of nodes at any time",
    lambda variant: node_figures(variant).most,
    format_count,
    ComparisonMode.BY_COUNT,
    is_cost=True,
)
MOVED = Measure[VariantResult](
    "pods_moved",
    "Pods moved",
    "",
    "Pods evicted so that their node could be removed",
    lambda variant: node_figures(variant).moved,
    format_count,
    ComparisonMode.BY_COUNT,
)
PREEMPTED = Measure[VariantResult](
    "pods_preempted",
    "Pods preempted",
    "",
    "Pods evicted in favour of pods of higher priority",
    lambda variant: node_figures(variant).preempted,
    format_count,
    ComparisonMode.BY_COUNT,
)
FULL = Measure[VariantResult](
    "buffers_full",
    "Buffers provisioned",
    "",
    "Share of time in which all chunks of a Buffer fit on ready nodes, mean of all Buffers",
    lambda variant: _mean([buffer.full for buffer in node_figures(variant).buffers]),
    format_share,
    ComparisonMode.NONE,
    better=0,
)
HITS = Measure[VariantResult](
    "buffer_hits",
    "Pods placed on Buffers",
    "",
    "Pods scheduled where a Buffer kept capacity",
    lambda variant: sum(buffer.hits for buffer in node_figures(variant).buffers),
    format_count,
    ComparisonMode.NONE,
    better=0,
)
MISSES = Measure[VariantResult](
    "buffer_misses",
    "Pods that missed Buffers",
    "",
    "Pods that waited although a Buffer should have kept capacity for them",
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
