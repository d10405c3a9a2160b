"""Results of a simulation: sums, series for charts and marks of events, for each workload in each variant.

Everything here can be written as JSON as it is, is the same for the same seed, and holds no time of day at which it was
made. CPU is in cores and memory in bytes. NaN, which JSON writes as null, stands for what cannot be said.
"""

from __future__ import annotations

from collections import Counter

import msgspec


class CpuAndMemory(msgspec.Struct, frozen=True):
    """Cores and bytes, or shares of each."""

    cpu: float = 0.0
    memory: float = 0.0


class ScalingTotals(msgspec.Struct, frozen=True):
    """How the count of pods moved. `replicas` is the mean over time, `scalings` how often another count was requested.

    `overload` is core-hours of demand that was not served: at a limit, on a full node, or because no pod was Ready.
    """

    replicas: float = 0.0
    scalings: int = 0
    overload: float = 0.0


class PendingTotals(msgspec.Struct, frozen=True):
    """How long pods were pending, in seconds: those created in the scored time, and those that still have no node."""

    pods: int = 0
    mean: float = 0.0
    p95: float = 0.0
    most: float = 0.0


class SimulationTotals(msgspec.Struct, frozen=True):
    """The totals of a workload or a fleet, in the scored time.

    `requested`, `used` and `slack` are means over time, summed over pods; `footprint` is requested over used, NaN where
    nothing was used. `time_over` is the share of container-time in which demand was above the request, `overrun` how
    much above, as a share of all demand. `throttled_seconds` are container-seconds in which less CPU was given than
    demanded. `evictions` are those by the eviction API, `pressed_out` those by kubelets short of memory. Pending and
    start times are seconds of all pods created; `money` is for requests, over the scored time. `scaling` is there if
    any variant changes counts, and `waits` if nodes come and go; those of the whole fleet are without pods of negative
    priority, which are there to be preempted.
    """

    requested: CpuAndMemory = CpuAndMemory()
    used: CpuAndMemory = CpuAndMemory()
    slack: CpuAndMemory = CpuAndMemory()
    footprint: CpuAndMemory = CpuAndMemory()
    time_over: CpuAndMemory = CpuAndMemory()
    overrun: CpuAndMemory = CpuAndMemory()
    throttled_seconds: float = 0.0
    container_seconds: float = 0.0
    oom_kills: int = 0
    evictions: int = 0
    pressed_out: int = 0
    resizes: int = 0
    restarts: int = 0
    boosts: int = 0
    pods_made: int = 0
    pending_seconds: float = 0.0
    start_seconds: float = 0.0
    money: float = 0.0
    scaling: ScalingTotals | msgspec.UnsetType = msgspec.UNSET
    waits: PendingTotals | msgspec.UnsetType = msgspec.UNSET

    @property
    def waited(self) -> PendingTotals:
        """How long pods were pending; zeros where it is not reported."""
        return PendingTotals() if self.waits is msgspec.UNSET else self.waits

    @property
    def scaled(self) -> ScalingTotals:
        """How the count moved; zeros where no autoscaler changes counts."""
        return ScalingTotals() if self.scaling is msgspec.UNSET else self.scaling


class ResourceChart(msgspec.Struct, frozen=True):
    """One resource of one container over time, thinned out for a chart: columns as long as the times of its chart.

    `used` is the mean over a point's span and `peak` the highest in it, of one pod on average; `requested` is what a
    pod has on average, and the other three are the recommendation, NaN where there is none.
    """

    container: str
    resource: str
    used: list[float]
    peak: list[float]
    requested: list[float]
    target: list[float]
    lower: list[float]
    upper: list[float]


class ChartMark(msgspec.Struct, frozen=True):
    """An event of a pod: `what` in a word (evicted, resized, killed...), `why` the code of a reason."""

    time: float
    what: str
    why: str = ""
    text: str = ""


class WorkloadChart(msgspec.Struct, frozen=True):
    """The chart of one workload. More marks than fit are left out and counted."""

    times: list[float]
    pods: list[float]
    lines: list[ResourceChart]
    marks: list[ChartMark]
    marks_left_out: int = 0


class WorkloadResult(msgspec.Struct, frozen=True):
    """One workload in one variant."""

    namespace: str
    name: str
    kind: str
    label: str
    totals: SimulationTotals
    chart: WorkloadChart | None = None


class FleetChart(msgspec.Struct, frozen=True):
    """The chart of the whole fleet: cores and bytes used, requested and offered by nodes.

    `nodes` is the number of nodes and `chunks` that of all Buffers, reported where nodes come and go.
    """

    times: list[float]
    used_cpu: list[float]
    requested_cpu: list[float]
    used_memory: list[float]
    requested_memory: list[float]
    offered_cpu: list[float]
    offered_memory: list[float]
    pods: list[float]
    pending: list[float]
    nodes: list[float] | msgspec.UnsetType = msgspec.UNSET
    chunks: list[float] | msgspec.UnsetType = msgspec.UNSET


class BufferFigures(msgspec.Struct, frozen=True):
    """The figures of one Buffer, in the scored time.

    `chunks` is how many it had, on average, and `full` the share of the time in which all of them fitted on ready
    nodes. `money` is for the capacity they had; `hits` are pods that were placed where chunks were, `misses` pods that
    had to wait although a chunk like them was to be there.
    """

    namespace: str
    name: str
    chunks: float = 0.0
    full: float = 0.0
    money: float = 0.0
    hits: int = 0
    misses: int = 0


class NodeFigures(msgspec.Struct, frozen=True):
    """How nodes came and went, from the beginning. `moved` are pods that were evicted from nodes to be removed.

    `preempted` are pods that had to go for others of higher priority; `most` is the most nodes at once.
    """

    ordered: int = 0
    removed: int = 0
    most: int = 0
    moved: int = 0
    preempted: int = 0
    buffers: list[BufferFigures] = []


class VariantResult(msgspec.Struct, frozen=True):
    """The result of one variant: the fleet, its workloads, the cost of nodes. `verdicts` counts decisions by reason.

    `nodes` is set if the scenario has node groups.
    """

    name: str
    title: str
    fleet: SimulationTotals
    chart: FleetChart
    workloads: list[WorkloadResult]
    node_hours: float = 0.0
    node_money: float = 0.0
    verdicts: dict[str, int] = {}
    partial_until: float | None = None
    nodes: NodeFigures | msgspec.UnsetType = msgspec.UNSET


class NotPlayed(msgspec.Struct, frozen=True):
    """Objects of a kind in a dump that are not simulated as they are in the cluster, and the reason.

    `count` is 0 where their number is not known.
    """

    kind: str
    count: int
    reason: str


class RunResult(msgspec.Struct, frozen=True):
    """The result of all variants of one scenario; `partial` where it was stopped before its end.

    `not_played` is there where a dump was simulated.
    """

    scenario: str
    seed: int
    begin: float
    end: float
    scored_from: float
    step: float
    currency: str
    prices: str
    variants: list[VariantResult]
    partial: bool = False
    notes: list[str] = []
    not_played: list[NotPlayed] | msgspec.UnsetType = msgspec.UNSET


class NotPlayedObjects:
    """Collects what is not simulated."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, kind: str, reason: str, count: int = 1) -> None:
        """Add a number of objects of a kind; 0 where their number is not known."""
        self._counts[kind, reason] += count

    def list_entries(self) -> list[NotPlayed]:
        """One entry for each kind and reason, by kind."""
        return [NotPlayed(kind, count, reason) for (kind, reason), count in sorted(self._counts.items())]
