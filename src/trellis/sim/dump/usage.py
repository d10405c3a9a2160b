"""Demand of the containers of a dump, by the best source of their usage.

From best to worst: the usage of each pod over the last days; that of each hour, or a histogram, from a recommender's
checkpoint; present usage; and requests, of which half is assumed. Usage of which only a summary is known is drawn from
it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np

from trellis.base.errors import InvalidCheckpoint
from trellis.core.cluster.dump_format import ContainerHistory
from trellis.core.cluster.past_pods import build_pod_name_pattern
from trellis.core.cluster.state import ClusterState
from trellis.core.usage.checkpoints.compressed_history import decode_history
from trellis.core.usage.checkpoints.format import KEPT_FROM_ANNOTATION, SavedRow, read_checkpoint
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.histograms.bins import CPU_BINS, MEMORY_BINS, BinLayout
from trellis.core.usage.history.hours import HOUR, Ring
from trellis.sim.dump.workloads import DumpedWorkload
from trellis.sim.fleet import ContainerDemand, SimulationClock
from trellis.sim.scenario.usage import DEFAULT_SPREAD, parse_amount, seeded_generator
from trellis.sim.scenario.usage_shapes import noise


def draw_from_hours(measures: Ring, at: IntColumn, draw: np.random.Generator) -> FloatColumn:
    """Draw one resource: (measures, hours) are mean, median, 90th, 95th percentile and maximum; `at` is a step's hour.

    Each step is drawn between the percentiles of its hour. Below the median it is thought to be as far as above. NaN
    where nothing is known of the hour, or the hour is not there.
    """
    hours = measures.shape[-1]
    is_recorded = (at >= 0) & (at < hours)
    _, p50, p90, p95, highest = np.where(is_recorded, measures[:, np.clip(at, 0, hours - 1)], np.nan).astype(np.float64)
    lowest = np.maximum(0.0, 2 * p50 - p90)
    level = draw.uniform(size=len(at))
    result: FloatColumn = lowest
    for (low, below), (high, above) in pairwise(((0.0, lowest), (0.5, p50), (0.9, p90), (0.95, p95), (1.0, highest))):
        result = np.where(level >= low, below + (above - below) * (level - low) / (high - low), result)
    return result


def draw_from_histogram(weights: Mapping[int, int], layout: BinLayout, levels: FloatColumn) -> FloatColumn:
    """The values of a histogram at these levels, from 0 to 1; evenly spread within a bucket."""
    buckets: IntColumn = np.array(sorted(weights), dtype=np.int64)
    shares = np.cumsum([float(weights[int(bucket)]) for bucket in buckets])
    shares = shares / shares[-1]
    at = np.minimum(np.searchsorted(shares, levels), len(buckets) - 1)
    below = np.concatenate(([0.0], shares))[at]
    within = np.clip((levels - below) / np.maximum(shares[at] - below, 1e-12), 0.0, 1.0)
    starts, ends = layout.starts[buckets[at]], layout.starts[buckets[at] + 1]
    result: FloatColumn = starts + (ends - starts) * within
    return result


def fill_gaps(column: FloatColumn) -> FloatColumn:
    """Fill gaps with the value before them, at the beginning with the one after; a column of gaps is no usage."""
    measured = np.flatnonzero(np.isfinite(column))
    if not len(measured):
        return np.zeros(len(column))
    at = np.searchsorted(measured, np.arange(len(column)), side="right") - 1
    result: FloatColumn = column[measured[np.maximum(at, 0)]]
    return result


_DAY: Final = 86_400.0
_NOISE: Final = (0.05, 0.01)
_WIDEST: Final = 0.5
_ASSUMED: Final = 0.5
_SERIES: Final = "usage over time"
_HOURS: Final = "hourly usage"
_HISTOGRAMS: Final = "usage histograms"
_PRESENT: Final = "current usage"
_REQUESTS: Final = "an assumed half of the requests"

# Namespace and pod, or workload, and container.
_Key = tuple[str, str, str]


class DumpUsage:
    """Lays out usage; `sources` counts where it was taken from."""

    def __init__(
        self, collected: ClusterState, workloads: Iterable[DumpedWorkload], clock: SimulationClock, seed: int
    ) -> None:
        self._clock = clock
        self._seed = seed
        self._times: FloatColumn = clock.begin + clock.step * np.arange(clock.steps, dtype=np.float64)
        self._now = _by_container(collected)
        self._rows = _rows(collected)
        self._history = _by_workload(collected.history, list(workloads))
        self.sources: Counter[str] = Counter()

    def series(self, workload: DumpedWorkload, container: str) -> list[ContainerHistory]:
        """The measured usage of one container of a workload over time."""
        return self._history.get((workload.target.namespace, workload.name, container), [])

    def demand(
        self, workload: DumpedWorkload, container: str, *, scales: bool = False, longest: float = 0.0
    ) -> ContainerDemand:
        """The demand of one container of each pod of a workload.

        Of a workload that `scales`, CPU is that of all its pods, and shared by as many as there are. Of one that runs
        to an end, what it wants goes by its age, up to the `longest` run.
        """
        if workload.job is not None:
            return self._demand_by_age(workload, container, max(int(-(-longest // self._clock.step)), 1) + 1)
        demand = self._demand(workload, container)
        if not scales:
            return demand
        series = self.series(workload, container)
        pods = self._count_pods(series) if series else np.full(self._clock.steps, float(workload.replicas))
        return msgspec.structs.replace(demand, cpu=demand.cpu * pods, shared=True, own_memory=True)

    def _demand_by_age(self, workload: DumpedWorkload, container: str, steps: int) -> ContainerDemand:
        """The demand of a pod of a run by its age: the mean of all that were measured at that age."""
        series = self.series(workload, container)
        if not series:
            demand = self._demand(workload, container)
            return msgspec.structs.replace(demand, cpu=demand.cpu[:steps], memory=demand.memory[:steps], by_age=True)
        self.sources[_SERIES] += 1
        shifted = [
            msgspec.structs.replace(one_series, times=one_series.times - one_series.times[0]) for one_series in series
        ]
        cpu, memory = _average_pods(shifted, 0.0, self._clock.step, steps)
        return ContainerDemand(container, cpu, memory, spread=_spread(series), by_age=True)

    def _count_pods(self, series: list[ContainerHistory]) -> FloatColumn:
        """The number of pods in each step: each counts from the first to the last time it was measured."""
        changes = np.zeros(self._clock.steps + 1)
        for one_series in series:
            first, last = (
                (at - self._clock.begin) // self._clock.step for at in (one_series.times[0], one_series.times[-1])
            )
            changes[int(np.clip(first, 0, self._clock.steps))] += 1.0
            changes[int(np.clip(last + 1, 0, self._clock.steps))] -= 1.0
        alive = np.cumsum(changes[:-1])
        # Where no pod was measured, usage is as before, and so are pods.
        return fill_gaps(np.where(alive > 0, alive, np.nan))

    def _demand(self, workload: DumpedWorkload, container: str) -> ContainerDemand:
        namespace = workload.target.namespace
        draw = seeded_generator(self._seed, namespace, workload.name, container)
        series = self.series(workload, container)
        row = self._rows.get((namespace, workload.target.kind, workload.target.name, container))
        measured = [self._now[key] for pod in workload.pods if (key := (namespace, pod, container)) in self._now]
        spread = DEFAULT_SPREAD
        if series:
            averages = _average_pods(series, self._clock.begin, self._clock.step, self._clock.steps)
            source, (cpu, memory), spread = _SERIES, averages, _spread(series)
        elif row is not None and row.history and (hours := self._draw_by_hour(row.history, draw)) is not None:
            source, (cpu, memory) = _HOURS, hours
        elif row is not None and row.cpu.weights and row.memory.weights:
            source, (cpu, memory) = _HISTOGRAMS, self._draw_from_histograms(row, draw)
        else:
            source = _PRESENT if measured else _REQUESTS
            levels = np.mean(measured, axis=0) if measured else _ASSUMED * _requested(workload, container)
            shapes = [noise(self._clock.steps, spread, draw) for spread in _NOISE]
            cpu, memory = np.nan_to_num(levels[0]) * shapes[0], np.nan_to_num(levels[1]) * shapes[1]
        self.sources[source] += 1
        return ContainerDemand(container, cpu, memory, spread=spread)

    def _draw_by_hour(self, text: str, draw: np.random.Generator) -> tuple[FloatColumn, FloatColumn] | None:
        """The usage of each hour; None if nothing is known of the simulated time."""
        try:
            newest, values = decode_history(text)
        except InvalidCheckpoint:
            return None
        at = (self._times // HOUR).astype(np.int64) - newest + values.shape[-1] - 1
        cpu, memory = (draw_from_hours(measures, at, draw) for measures in values)
        return (fill_gaps(cpu), fill_gaps(memory)) if np.isfinite(cpu).any() and np.isfinite(memory).any() else None

    def _draw_from_histograms(self, row: SavedRow, draw: np.random.Generator) -> tuple[FloatColumn, FloatColumn]:
        """CPU from hour to hour as often as it was so, and a peak of memory for each day."""
        hours, days = (((self._times - self._clock.begin) // seconds).astype(np.int64) for seconds in (HOUR, _DAY))
        level = draw.uniform(size=int(hours[-1]) + 1)[hours] + draw.normal(0.0, 0.1, len(hours))
        cpu = draw_from_histogram(row.cpu.weights, CPU_BINS, np.clip(level, 0.0, 1.0))
        memory = draw_from_histogram(row.memory.weights, MEMORY_BINS, draw.uniform(size=int(days[-1]) + 1)[days])
        return cpu, memory * noise(len(days), _NOISE[1], draw)


def _average_pods(
    series: list[ContainerHistory], begin: float, step: float, steps: int
) -> tuple[FloatColumn, FloatColumn]:
    """The mean of all pods in each step; a step without data is as the one before."""
    result = []
    for columns in ([one_series.cpu for one_series in series], [one_series.memory for one_series in series]):
        sums, counts = np.zeros(steps), np.zeros(steps)
        for one_series, values in zip(series, columns, strict=True):
            at = ((one_series.times - begin) // step).astype(np.int64)
            usable = np.isfinite(values) & (at >= 0) & (at < steps)
            np.add.at(sums, at[usable], values[usable])
            np.add.at(counts, at[usable], 1.0)
        result.append(fill_gaps(np.divide(sums, counts, out=np.full(steps, np.nan), where=counts > 0)))
    return result[0], result[1]


def _spread(series: list[ContainerHistory]) -> float:
    """How far pods differ in CPU, as a fraction."""
    averages = [float(np.nanmean(one_series.cpu)) for one_series in series if np.isfinite(one_series.cpu).any()]
    total = float(np.mean(averages)) if averages else 0.0
    return min(_WIDEST, float(np.std(averages)) / total) if total > 0 else 0.0


def _requested(workload: DumpedWorkload, container: str) -> FloatColumn:
    spec = workload.template.spec
    for candidate in (*spec.containers, *spec.init_containers):
        if candidate.name == container:
            requests = candidate.resources.requests
            return np.array([parse_amount(requests.get("cpu")), parse_amount(requests.get("memory"))])
    return np.zeros(2)


def _by_container(collected: ClusterState) -> Mapping[_Key, tuple[float, float]]:
    usage = collected.usage
    keys = zip(usage.namespaces, usage.pods, usage.containers, strict=True)
    return dict(zip(keys, zip(usage.cpu.tolist(), usage.memory.tolist(), strict=True), strict=True))


def _rows(collected: ClusterState) -> dict[tuple[str, str, str, str], SavedRow]:
    """The saved histories of recommenders, by namespace, kind and name of the workload, and container."""
    rows: dict[tuple[str, str, str, str], SavedRow] = {}
    for checkpoint in collected.checkpoints:
        if KEPT_FROM_ANNOTATION in checkpoint.metadata.annotations:
            continue
        try:
            row = read_checkpoint(checkpoint, collected.time)
        except InvalidCheckpoint:
            continue
        vpa = collected.vpas.get(row.key.namespace, row.key.vpa)
        if vpa is not None:
            target = vpa.spec.target_ref
            rows[row.key.namespace, target.kind or "", target.name or "", row.key.container] = row
    return rows


def _by_workload(
    history: Iterable[ContainerHistory], workloads: list[DumpedWorkload]
) -> dict[_Key, list[ContainerHistory]]:
    """Series by workload, those of pods that are gone by their names."""
    living = {(workload.target.namespace, pod): workload.name for workload in workloads for pod in workload.pods}
    patterns: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for workload in workloads:
        pattern = build_pod_name_pattern(workload.target)
        if pattern is not None:
            patterns.setdefault(workload.target.namespace, []).append((workload.name, pattern))
    result: dict[_Key, list[ContainerHistory]] = {}
    for series in history:
        key = (series.namespace, series.pod)
        if key not in living:
            named = (name for name, pattern in patterns.get(series.namespace, ()) if pattern.fullmatch(series.pod))
            living[key] = next(named, "")
        if living[key]:
            result.setdefault((series.namespace, living[key], series.container), []).append(series)
    return result
