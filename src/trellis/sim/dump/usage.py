"""What would the containers of a dump use? What they did, as far as the dump tells: the best of what there is.

Of a container it tells, from best to worst: what each pod used over the last days; what was used in each hour, or how
often how much, from a recommender's checkpoint; what is used now; and what is requested, of which half is assumed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from trellis.base.errors import InvalidCheckpoint
from trellis.core.model.collected import Collected
from trellis.core.model.dump_lines import History
from trellis.core.model.pod_names import names_of_pods
from trellis.core.usage.checkpoints import KEPT_FROM, SavedRow, read_checkpoint
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.history_text import read_text
from trellis.core.usage.hours import HOUR
from trellis.core.usage.layout import CPU, MEMORY
from trellis.sim.dump.workloads import Found
from trellis.sim.fleet import Clock, Demand
from trellis.sim.generators.bursts import noise
from trellis.sim.generators.remembered import filled, from_histogram, from_hours
from trellis.sim.scenario.usage import DEFAULT_SPREAD, amount, drawing

_DAY: Final = 86_400.0
_NOISE: Final = (0.05, 0.01)
_WIDEST: Final = 0.5
_ASSUMED: Final = 0.5
_SERIES: Final = "usage over time"
_HOURS: Final = "usage by the hour"
_HISTOGRAMS: Final = "how often how much was used"
_NOW: Final = "usage now"
_REQUESTS: Final = "half of what is requested"

# Namespace and pod, or workload, and container.
_Key = tuple[str, str, str]


class DumpUsage:
    """Lays out usage; `sources` counts what it was taken from."""

    def __init__(self, collected: Collected, workloads: Iterable[Found], clock: Clock, seed: int) -> None:
        self._clock = clock
        self._seed = seed
        self._times: FloatColumn = clock.begin + clock.step * np.arange(clock.steps, dtype=np.float64)
        self._now = _by_container(collected)
        self._rows = _rows(collected)
        self._history = _by_workload(collected.history, list(workloads))
        self.sources: Counter[str] = Counter()

    def series(self, found: Found, container: str) -> list[History]:
        """What was measured of one container of a workload over time."""
        return self._history.get((found.target.namespace, found.name, container), [])

    def demand(self, found: Found, container: str, *, scales: bool = False, longest: float = 0.0) -> Demand:
        """What one container of each pod of a workload wants.

        Of a workload that `scales`, CPU is that of all its pods, and shared by as many as there are. Of one that runs
        to an end, what it wants goes by its age, up to the `longest` run.
        """
        if found.job is not None:
            return self._by_age(found, container, max(int(-(-longest // self._clock.step)), 1) + 1)
        demand = self._demand(found, container)
        if not scales:
            return demand
        series = self.series(found, container)
        pods = self._alive(series) if series else np.full(self._clock.steps, float(found.replicas))
        return msgspec.structs.replace(demand, cpu=demand.cpu * pods, shared=True, own_memory=True)

    def _by_age(self, found: Found, container: str, steps: int) -> Demand:
        """What a pod of a run wants from its start on: the mean of all that were measured at that age."""
        series = self.series(found, container)
        if not series:
            demand = self._demand(found, container)
            return msgspec.structs.replace(demand, cpu=demand.cpu[:steps], memory=demand.memory[:steps], by_age=True)
        self.sources[_SERIES] += 1
        shifted = [msgspec.structs.replace(each, times=each.times - each.times[0]) for each in series]
        cpu, memory = _means(shifted, 0.0, self._clock.step, steps)
        return Demand(container, cpu, memory, spread=_spread(series), by_age=True)

    def _alive(self, series: list[History]) -> FloatColumn:
        """How many pods there were in each step: of each, from the first to the last time it was measured."""
        changes = np.zeros(self._clock.steps + 1)
        for each in series:
            first, last = ((at - self._clock.begin) // self._clock.step for at in (each.times[0], each.times[-1]))
            changes[int(np.clip(first, 0, self._clock.steps))] += 1.0
            changes[int(np.clip(last + 1, 0, self._clock.steps))] -= 1.0
        alive = np.cumsum(changes[:-1])
        # Where no pod was measured, usage is as before, and so are pods.
        return filled(np.where(alive > 0, alive, np.nan))

    def _demand(self, found: Found, container: str) -> Demand:
        namespace = found.target.namespace
        draw = drawing(self._seed, namespace, found.name, container)
        series = self.series(found, container)
        row = self._rows.get((namespace, found.target.kind, found.target.name, container))
        measured = [self._now[key] for pod in found.pods if (key := (namespace, pod, container)) in self._now]
        spread = DEFAULT_SPREAD
        if series:
            means = _means(series, self._clock.begin, self._clock.step, self._clock.steps)
            source, (cpu, memory), spread = _SERIES, means, _spread(series)
        elif row is not None and row.history and (hours := self._by_the_hour(row.history, draw)) is not None:
            source, (cpu, memory) = _HOURS, hours
        elif row is not None and row.cpu.weights and row.memory.weights:
            source, (cpu, memory) = _HISTOGRAMS, self._drawn(row, draw)
        else:
            source = _NOW if measured else _REQUESTS
            levels = np.mean(measured, axis=0) if measured else _ASSUMED * _requested(found, container)
            shapes = [noise(self._clock.steps, each, draw) for each in _NOISE]
            cpu, memory = np.nan_to_num(levels[0]) * shapes[0], np.nan_to_num(levels[1]) * shapes[1]
        self.sources[source] += 1
        return Demand(container, cpu, memory, spread=spread)

    def _by_the_hour(self, text: str, draw: np.random.Generator) -> tuple[FloatColumn, FloatColumn] | None:
        """What was used in each hour; None if nothing is known of the time that is played."""
        try:
            newest, values = read_text(text)
        except InvalidCheckpoint:
            return None
        at = (self._times // HOUR).astype(np.int64) - newest + values.shape[-1] - 1
        cpu, memory = (from_hours(measures, at, draw) for measures in values)
        return (filled(cpu), filled(memory)) if np.isfinite(cpu).any() and np.isfinite(memory).any() else None

    def _drawn(self, row: SavedRow, draw: np.random.Generator) -> tuple[FloatColumn, FloatColumn]:
        """CPU from hour to hour as often as it was so, and a peak of memory for each day."""
        hours, days = (((self._times - self._clock.begin) // each).astype(np.int64) for each in (HOUR, _DAY))
        level = draw.uniform(size=int(hours[-1]) + 1)[hours] + draw.normal(0.0, 0.1, len(hours))
        cpu = from_histogram(row.cpu.weights, CPU, np.clip(level, 0.0, 1.0))
        memory = from_histogram(row.memory.weights, MEMORY, draw.uniform(size=int(days[-1]) + 1)[days])
        return cpu, memory * noise(len(days), _NOISE[1], draw)


def _means(series: list[History], begin: float, step: float, steps: int) -> tuple[FloatColumn, FloatColumn]:
    """The mean of all pods in each step; a step of which nothing is known is as the one before."""
    found = []
    for columns in ([each.cpu for each in series], [each.memory for each in series]):
        sums, counts = np.zeros(steps), np.zeros(steps)
        for each, values in zip(series, columns, strict=True):
            at = ((each.times - begin) // step).astype(np.int64)
            known = np.isfinite(values) & (at >= 0) & (at < steps)
            np.add.at(sums, at[known], values[known])
            np.add.at(counts, at[known], 1.0)
        found.append(filled(np.divide(sums, counts, out=np.full(steps, np.nan), where=counts > 0)))
    return found[0], found[1]


def _spread(series: list[History]) -> float:
    """How far pods differ in CPU, as a fraction."""
    means = [float(np.nanmean(each.cpu)) for each in series if np.isfinite(each.cpu).any()]
    total = float(np.mean(means)) if means else 0.0
    return min(_WIDEST, float(np.std(means)) / total) if total > 0 else 0.0


def _requested(found: Found, container: str) -> FloatColumn:
    spec = found.template.spec
    for each in (*spec.containers, *spec.init_containers):
        if each.name == container:
            requests = each.resources.requests
            return np.array([amount(requests.get("cpu")), amount(requests.get("memory"))])
    return np.zeros(2)


def _by_container(collected: Collected) -> Mapping[_Key, tuple[float, float]]:
    usage = collected.usage
    keys = zip(usage.namespaces, usage.pods, usage.containers, strict=True)
    return dict(zip(keys, zip(usage.cpu.tolist(), usage.memory.tolist(), strict=True), strict=True))


def _rows(collected: Collected) -> dict[tuple[str, str, str, str], SavedRow]:
    """What recommenders remember, by namespace, kind and name of the workload, and container."""
    found: dict[tuple[str, str, str, str], SavedRow] = {}
    for checkpoint in collected.checkpoints:
        if KEPT_FROM in checkpoint.metadata.annotations:
            continue
        try:
            row = read_checkpoint(checkpoint, collected.time)
        except InvalidCheckpoint:
            continue
        vpa = collected.vpas.get(row.key.namespace, row.key.vpa)
        if vpa is not None:
            target = vpa.spec.target_ref
            found[row.key.namespace, target.kind or "", target.name or "", row.key.container] = row
    return found


def _by_workload(history: Iterable[History], workloads: list[Found]) -> dict[_Key, list[History]]:
    """Series by workload, those of pods that are gone by their names."""
    living = {(each.target.namespace, pod): each.name for each in workloads for pod in each.pods}
    patterns: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for each in workloads:
        pattern = names_of_pods(each.target)
        if pattern is not None:
            patterns.setdefault(each.target.namespace, []).append((each.name, pattern))
    found: dict[_Key, list[History]] = {}
    for series in history:
        key = (series.namespace, series.pod)
        if key not in living:
            named = (name for name, pattern in patterns.get(series.namespace, ()) if pattern.fullmatch(series.pod))
            living[key] = next(named, "")
        if living[key]:
            found.setdefault((series.namespace, living[key], series.container), []).append(series)
    return found
