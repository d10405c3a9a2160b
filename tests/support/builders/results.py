"""Results of simulations and backtests that never ran: seeded, plausible, of any size."""

from __future__ import annotations

import math

import numpy as np

from trellis.core.usage.columns import FloatColumn
from trellis.sim.backtest.results import (
    BacktestResult,
    ChartLine,
    CostRiskCurve,
    OverallScore,
    ResourceScore,
    SeriesChart,
    SeriesFacts,
    SeriesScore,
    SweepFrontier,
    VariantScore,
)
from trellis.sim.results import (
    ChartMark,
    CpuAndMemory,
    FleetChart,
    ResourceChart,
    RunResult,
    SimulationTotals,
    VariantResult,
    WorkloadChart,
    WorkloadResult,
)

BEGIN = 1767571200.0  # Monday, 2026-01-05
DAY = 86400.0
GIB = 2.0**30
VARIANTS = (
    ("fixed", "Fixed requests"),
    ("default", "Default recommender"),
    ("seasonal", "Seasonal"),
    ("adaptive", "Adaptive"),
)
_KINDS = ("Deployment", "StatefulSet", "Job")
_LABELS = ("steady", "daily", "weekly", "spiky", "batch", "slow start")
_APPS = ("checkout", "search", "ledger", "mailer", "gateway", "reports", "catalog", "session", "images", "billing")
_MARKS = (
    ("resized", "ResizeInPlace", "resized in place: cpu 500m to 320m"),
    ("evicted", "OutsideRange", "the request lies outside of the recommended range"),
    ("killed", "OOMKilled", "wanted more memory than its limit of 512Mi"),
    ("boosted", "Boosted", "started with three times its CPU"),
)


def simulated(workloads: int = 6, days: int = 14, points: int = 48, seed: int = 7) -> RunResult:
    """A run with four variants: fixed requests and three that follow the usage, each closer than the one before."""
    rng = np.random.default_rng(seed)
    times: FloatColumn = BEGIN + np.arange(points, dtype=np.float64) * (days * DAY / points)
    demands = [_Demand(number, times, rng) for number in range(workloads)]
    variants = []
    for rank, (name, title) in enumerate(VARIANTS):
        results = [demand.under(rank, times, rng) for demand in demands]
        variants.append(_variant(name, title, results, times, days))
    return RunResult(
        "demo", seed, BEGIN, BEGIN + days * DAY, BEGIN + min(2, days // 2) * DAY, 300.0, "USD", "example", variants
    )


class _Demand:
    """What one workload wants, in columns."""

    def __init__(self, number: int, times: FloatColumn, rng: np.random.Generator) -> None:
        hours = (times - BEGIN) / 3600.0
        size = float(rng.lognormal(-1.2, 1.0))
        wave = 1.0 + 0.6 * np.sin((hours - 8.0) * 2.0 * np.pi / 24.0) * (number % 3 > 0)
        week = np.where((hours // 24) % 7 >= 5, 0.55, 1.0)
        noise = rng.gamma(20.0, 1 / 20.0, len(times))
        self.number = number
        self.name = f"{_APPS[number % len(_APPS)]}-{number // len(_APPS)}" if number >= len(_APPS) else _APPS[number]
        self.pods = 1 + number % 5
        self.cpu = size * wave * week * noise
        self.memory = size * 3.0 * GIB * (0.8 + 0.2 * wave) * rng.gamma(400.0, 1 / 400.0, len(times))

    def under(self, rank: int, times: FloatColumn, rng: np.random.Generator) -> WorkloadResult:
        """Sized by the variant of that rank."""
        lines = [_chart("app", name, used, rank) for name, used in (("cpu", self.cpu), ("memory", self.memory))]
        if self.number % 4 == 3:
            lines += [
                _chart("sidecar", name, used * 0.1, rank) for name, used in (("cpu", self.cpu), ("memory", self.memory))
            ]
        marks = self._marks(rank, times, rng)
        chart = WorkloadChart(
            times.tolist(), [float(self.pods)] * len(times), lines, marks, 12 if len(marks) > 30 else 0
        )
        totals = self._totals(lines[:2], marks, float(times[1] - times[0]) * len(times))
        return WorkloadResult(
            "shop" if self.number % 2 else "backend",
            self.name,
            _KINDS[self.number % len(_KINDS)],
            _LABELS[self.number % len(_LABELS)],
            totals,
            chart,
        )

    def _marks(self, rank: int, times: FloatColumn, rng: np.random.Generator) -> list[ChartMark]:
        if not rank:
            return []
        marks = []
        for time in np.sort(rng.choice(times, min(len(times), 3 + self.number % 7 * rank), replace=False)):
            kind, reason, text = _MARKS[int(rng.choice(4, p=(0.8, 0.1, 0.05, 0.05)))]
            marks.append(ChartMark(float(time), kind, reason, text))
        return marks

    def _totals(self, lines: list[ResourceChart], marks: list[ChartMark], seconds: float) -> SimulationTotals:
        averages = [(float(np.mean(line.requested)), float(np.mean(line.used))) for line in lines]
        (cpu, cpu_used), (memory, memory_used) = averages
        over = [float(np.mean(np.array(line.peak) > np.array(line.requested))) * 0.1 for line in lines]
        happened = {what: sum(mark.what == what for mark in marks) for what, _, _ in _MARKS}
        hours = seconds / 3600.0
        return SimulationTotals(
            requested=CpuAndMemory(cpu * self.pods, memory * self.pods),
            used=CpuAndMemory(cpu_used * self.pods, memory_used * self.pods),
            slack=CpuAndMemory((cpu - cpu_used) * self.pods, (memory - memory_used) * self.pods),
            footprint=CpuAndMemory(cpu / cpu_used, memory / memory_used),
            time_over=CpuAndMemory(over[0], over[1] * 0.2),
            overrun=CpuAndMemory(over[0] * 0.3, over[1] * 0.02),
            throttled_seconds=over[0] * seconds * 0.4,
            container_seconds=seconds * self.pods,
            oom_kills=happened["killed"],
            evictions=happened["evicted"],
            resizes=happened["resized"],
            restarts=happened["killed"],
            boosts=happened["boosted"],
            pods_made=self.pods + happened["evicted"],
            pending_seconds=4.0 * self.pods,
            start_seconds=21.0 * self.pods,
            money=(cpu * 0.0316 + memory / GIB * 0.0042) * self.pods * hours,
        )


def _chart(container: str, resource: str, used: FloatColumn, rank: int) -> ResourceChart:
    peak = used * 1.25
    ceiling = float(peak.max())
    nothing = np.full(len(used), math.nan)
    if not rank:
        requested = np.full(len(used), ceiling * 2.2)
        return _columns(container, resource, used, peak, requested, nothing, nothing, nothing)
    window = max(len(used) // (4 + 6 * rank), 2)
    target = np.array([peak[max(0, at - window) : max(at, 1)].max() for at in range(len(used))]) * (1.18 - 0.04 * rank)
    target[0] = math.nan
    held = np.concatenate(([ceiling * 2.2], target[1:]))
    requested = np.maximum.reduceat(held, range(0, len(held), 3)).repeat(3)[: len(held)]
    return _columns(container, resource, used, peak, requested, target, target * 0.7, target * 1.6)


def _columns(container: str, resource: str, *columns: FloatColumn) -> ResourceChart:
    return ResourceChart(container, resource, *(column.tolist() for column in columns))


def _variant(name: str, title: str, workloads: list[WorkloadResult], times: FloatColumn, days: int) -> VariantResult:
    def summed(resource: str, column: str) -> list[float]:
        rows = [
            np.array(getattr(line, column)) * workload.chart.pods[0]
            for workload in workloads
            if workload.chart is not None
            for line in workload.chart.lines
            if line.resource == resource
        ]
        return [float(value) for value in np.sum(rows, axis=0)]

    chart = FleetChart(
        times=times.tolist(),
        used_cpu=summed("cpu", "used"),
        requested_cpu=summed("cpu", "requested"),
        used_memory=summed("memory", "used"),
        requested_memory=summed("memory", "requested"),
        offered_cpu=[16.0 * len(workloads)] * len(times),
        offered_memory=[20.0 * len(workloads) * GIB] * len(times),
        pods=[float(sum(workload.chart.pods[0] for workload in workloads if workload.chart))] * len(times),
        pending=[0.0] * len(times),
    )
    fleet = _sum([workload.totals for workload in workloads])
    decisions = {"ChangeTooSmall": 812, "ResizeInPlace": fleet.resizes} if fleet.resizes else {}
    return VariantResult(name, title, fleet, chart, workloads, 4.0 * 24 * days, 4.0 * 24 * days * 0.61, decisions)


def _sum(totals: list[SimulationTotals]) -> SimulationTotals:
    def amounts(name: str) -> CpuAndMemory:
        values = [getattr(total, name) for total in totals]
        return CpuAndMemory(sum(value.cpu for value in values), sum(value.memory for value in values))

    def mean(name: str) -> CpuAndMemory:
        total = amounts(name)
        return CpuAndMemory(total.cpu / len(totals), total.memory / len(totals))

    def number(name: str) -> float:
        return float(sum(getattr(total, name) for total in totals))

    requested, used = amounts("requested"), amounts("used")
    return SimulationTotals(
        requested=requested,
        used=used,
        slack=amounts("slack"),
        footprint=CpuAndMemory(requested.cpu / used.cpu, requested.memory / used.memory),
        time_over=mean("time_over"),
        overrun=mean("overrun"),
        throttled_seconds=number("throttled_seconds"),
        container_seconds=number("container_seconds"),
        oom_kills=int(number("oom_kills")),
        evictions=int(number("evictions")),
        resizes=int(number("resizes")),
        restarts=int(number("restarts")),
        boosts=int(number("boosts")),
        pods_made=int(number("pods_made")),
        pending_seconds=number("pending_seconds"),
        start_seconds=number("start_seconds"),
        money=number("money"),
    )


def backtested(series: int = 8, points: int = 60, seed: int = 11) -> BacktestResult:
    """Three recommenders and a sweep of the first, over series of which one has no memory."""
    rng = np.random.default_rng(seed)
    factors = [float(factor) for factor in np.exp(np.linspace(np.log(0.5), np.log(2.0), 29))]
    requested = [
        ("default", "default", {}),
        ("seasonal horizon=2h", "seasonal", {"horizon": "2h"}),
        ("adaptive", "adaptive", {}),
        *((f"default percentile={value}", "default", {"percentile": value}) for value in ("0.8", "0.95", "0.99")),
    ]
    level = [1.0, 0.86, 0.83, 0.9, 1.05, 1.2]
    risk = [0.021, 0.018, 0.016, 0.06, 0.017, 0.006]
    facts, scores, charts = [], [], []
    for number in range(series):
        name = f"web-{number:02}/app"
        facts.append(
            SeriesFacts(
                name,
                f"traces/{number:02}.csv",
                BEGIN,
                BEGIN + 30 * DAY,
                BEGIN + 7 * DAY,
                60.0,
                43200,
                0.004 * (number == 2),
            )
        )
        used, spread = float(rng.lognormal(-1.0, 1.0)), float(rng.uniform(0.8, 1.2))
        for at, (variant, _, _) in enumerate(requested):
            cpu = _figures(used, 1.5 * level[at] * spread, risk[at] * float(rng.uniform(0.3, 2.0)), math.nan)
            memory = _figures(used * 3 * GIB, 1.25 * level[at], risk[at] * 0.2, 0.4 * risk[at] / 0.02)
            scores.append(SeriesScore(name, variant, cpu, None if number == 3 else memory))
        if number < 4:
            charts.append(_series_chart(name, used, level, points, rng))
    variants = [
        VariantScore(
            name,
            recommender,
            parameters,
            _overall(series, level[at], risk[at], math.nan),
            _overall(series - 1, level[at], risk[at] / 5, 0.3),
        )
        for at, (name, recommender, parameters) in enumerate(requested)
    ]
    curves = []
    for at, (name, _, _) in enumerate(requested):
        scale = np.array(factors)
        over = risk[at] * np.exp(-4.0 * (scale - 1.0))
        curves.append(
            CostRiskCurve(
                name, factors, (1.5 * level[at] * scale).tolist(), np.minimum(over, 0.9).tolist(), (over * 0.2).tolist()
            )
        )
    sweeps = [SweepFrontier("default", "percentile", ["0.8", "0.95", "0.99"], [name for name, _, _ in requested[3:]])]
    return BacktestResult(
        facts,
        scores,
        variants,
        curves,
        sweeps,
        charts,
        3600.0,
        7 * DAY,
        0.05,
        ["traces/broken.csv: row 7: cpu: not a number: abc"],
    )


def _figures(used: float, footprint: float, over: float, kills: float) -> ResourceScore:
    return ResourceScore(used * footprint, used, footprint, over, over * 0.2, 3.1, kills)


def _overall(series: int, level: float, risk: float, kills: float) -> OverallScore:
    figures = _figures(4.2, 1.5 * level, risk, kills)
    return OverallScore(series, figures, level, risk / 0.021, risk / 0.021, kills / 0.3, 0.1 * level)


def _series_chart(name: str, used: float, level: list[float], points: int, rng: np.random.Generator) -> SeriesChart:
    times = BEGIN + np.arange(points) * (30 * DAY / points)
    wave = used * (1 + 0.5 * np.sin(np.arange(points) / 3.0)) * rng.gamma(30.0, 1 / 30.0, points)
    lines = []
    for resource, scale in (("cpu", 1.0), ("memory", 3 * GIB)):
        requested = [(np.maximum.accumulate(wave * scale * 1.2) * value).tolist() for value in level]
        lines.append(ChartLine(resource, (wave * scale).tolist(), (wave * scale * 1.2).tolist(), requested))
    return SeriesChart(name, times.tolist(), lines)
