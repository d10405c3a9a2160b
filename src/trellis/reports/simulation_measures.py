"""What is told of a simulation, of the fleet and of each workload? Cost, risk and disruption."""

from __future__ import annotations

import math

from trellis.reports.figures import count, factor, gibibytes, money, share, significant, span
from trellis.reports.measures import Compared, Measure
from trellis.sim.results import Totals, VariantResult

MONEY_UNIT = "money"  # stands for the currency of the prices


def per(total: float, number: float) -> float:
    """So much for each one; NaN where there is none."""
    return total / number if number else math.nan


MONEY = Measure[Totals](
    "money",
    "Money for requests",
    MONEY_UNIT,
    "At the scenario's prices, in the time scored",
    lambda totals: totals.money,
    money,
)
CPU_REQUESTED = Measure[Totals](
    "requested_cpu",
    "CPU requested",
    "cores",
    "Mean over time, all pods",
    lambda totals: totals.requested.cpu,
    significant,
)
MEMORY_REQUESTED = Measure[Totals](
    "requested_memory",
    "Memory requested",
    "GiB",
    "Mean over time, all pods",
    lambda totals: totals.requested.memory,
    gibibytes,
)
CPU_USED = Measure[Totals](
    "used_cpu",
    "CPU used",
    "cores",
    "Mean over time of what they were given",
    lambda totals: totals.used.cpu,
    significant,
    better=0,
)
MEMORY_USED = Measure[Totals](
    "used_memory",
    "Memory used",
    "GiB",
    "Mean over time of what they held",
    lambda totals: totals.used.memory,
    gibibytes,
    better=0,
)
CPU_SLACK = Measure[Totals](
    "slack_cpu",
    "CPU slack",
    "cores",
    "Requested and not used, mean over time",
    lambda totals: totals.slack.cpu,
    significant,
)
MEMORY_SLACK = Measure[Totals](
    "slack_memory",
    "Memory slack",
    "GiB",
    "Requested and not used, mean over time",
    lambda totals: totals.slack.memory,
    gibibytes,
)
CPU_FOOTPRINT = Measure[Totals](
    "footprint_cpu",
    "CPU requested per used",
    "",
    "How many times as much as was used",
    lambda totals: totals.footprint.cpu,
    factor,
)
MEMORY_FOOTPRINT = Measure[Totals](
    "footprint_memory",
    "Memory requested per used",
    "",
    "How many times as much as was used",
    lambda totals: totals.footprint.memory,
    factor,
)
CPU_OVER = Measure[Totals](
    "time_over_cpu",
    "Time over CPU request",
    "",
    "Share of container time in which they want more",
    lambda totals: totals.time_over.cpu,
    share,
    Compared.IN_POINTS,
)
MEMORY_OVER = Measure[Totals](
    "time_over_memory",
    "Time over memory request",
    "",
    "Share of container time in which they want more",
    lambda totals: totals.time_over.memory,
    share,
    Compared.IN_POINTS,
)
CPU_OVERRUN = Measure[Totals](
    "overrun_cpu",
    "CPU wanted beyond request",
    "",
    "As a share of all that they want",
    lambda totals: totals.overrun.cpu,
    share,
    Compared.IN_POINTS,
)
MEMORY_OVERRUN = Measure[Totals](
    "overrun_memory",
    "Memory wanted beyond request",
    "",
    "As a share of all that they want",
    lambda totals: totals.overrun.memory,
    share,
    Compared.IN_POINTS,
)
THROTTLED = Measure[Totals](
    "throttled",
    "Time throttled",
    "",
    "Share of container time with less CPU than wanted",
    lambda totals: per(totals.throttled_seconds, totals.container_seconds),
    share,
    Compared.IN_POINTS,
)
OOM_KILLS = Measure[Totals](
    "oom_kills",
    "OOM kills",
    "",
    "Containers that wanted more memory than they may have",
    lambda totals: totals.oom_kills,
    count,
    Compared.BY_COUNT,
)
EVICTIONS = Measure[Totals](
    "evictions",
    "Evictions",
    "",
    "Pods ended so that they come back with another size",
    lambda totals: totals.evictions,
    count,
    Compared.BY_COUNT,
)
PRESSED_OUT = Measure[Totals](
    "pressed_out",
    "Pods out for lack of memory",
    "",
    "Pods that a node ended because its memory was full",
    lambda totals: totals.pressed_out,
    count,
    Compared.BY_COUNT,
)
RESTARTS = Measure[Totals](
    "restarts",
    "Container restarts",
    "",
    "After a kill, or because a resize asks for one",
    lambda totals: totals.restarts,
    count,
    Compared.BY_COUNT,
)
RESIZES = Measure[Totals](
    "resizes",
    "Resizes in place",
    "",
    "Running pods that got another size and went on running",
    lambda totals: totals.resizes,
    count,
    Compared.NOT,
    better=0,
)
BOOSTS = Measure[Totals](
    "boosts",
    "Boosted starts",
    "",
    "Pods that started with more CPU than they keep",
    lambda totals: totals.boosts,
    count,
    Compared.NOT,
    better=0,
)
PODS_MADE = Measure[Totals](
    "pods_made",
    "Pods made",
    "",
    "All pods that were created",
    lambda totals: totals.pods_made,
    count,
    Compared.NOT,
    better=0,
)
PENDING = Measure[Totals](
    "pending",
    "Wait for a node",
    "mean",
    "From a pod's creation until it has a node",
    lambda totals: per(totals.pending_seconds, totals.pods_made),
    span,
)
STARTING = Measure[Totals](
    "starting",
    "Start of a pod",
    "mean",
    "From having a node until it is Ready",
    lambda totals: per(totals.start_seconds, totals.pods_made),
    span,
)
REPLICAS = Measure[Totals](
    "replicas",
    "Pods running",
    "mean",
    "Mean over time",
    lambda totals: totals.scaled.replicas,
    significant,
    better=0,
)
OVERLOAD = Measure[Totals](
    "overload",
    "Overload",
    "core-hours",
    "CPU wanted and not had: at a limit, on a full node, or because no pod was Ready",
    lambda totals: totals.scaled.overload,
    significant,
)
SCALINGS = Measure[Totals](
    "scalings",
    "Changes of the count",
    "",
    "How often another number of pods was asked for",
    lambda totals: totals.scaled.scalings,
    count,
    Compared.NOT,
    better=0,
)
NODE_HOURS = Measure[VariantResult](
    "node_hours",
    "Node hours",
    "",
    "Hours of all nodes together",
    lambda variant: variant.node_hours,
    significant,
)
NODE_MONEY = Measure[VariantResult](
    "node_money",
    "Money for nodes",
    MONEY_UNIT,
    "Whatever is requested of them",
    lambda variant: variant.node_money,
    money,
)

COST = (MONEY, CPU_REQUESTED, MEMORY_REQUESTED, CPU_USED, MEMORY_USED, CPU_SLACK, MEMORY_SLACK)
FOOTPRINTS = (CPU_FOOTPRINT, MEMORY_FOOTPRINT)
NODES = (NODE_HOURS, NODE_MONEY)
RISK = (CPU_OVER, MEMORY_OVER, THROTTLED, OOM_KILLS)
OVERRUNS = (CPU_OVERRUN, MEMORY_OVERRUN)
DISRUPTION = (EVICTIONS, RESTARTS, RESIZES)
SELDOM = (PRESSED_OUT,)
STARTS = (BOOSTS, PODS_MADE, PENDING, STARTING)
