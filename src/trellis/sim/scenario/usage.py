"""Demand of each container in every step: the shapes and traces of a scenario, laid out in columns."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeAlias

import msgspec
import numpy as np

from trellis.api.problems import INVALID, REQUIRED, Path, ValidationProblem
from trellis.api.scenario.usage import WEEKDAYS, ContainerUsage, PodBase, ResourceUsage, TraceShape
from trellis.base.durations import parse_span
from trellis.base.errors import InvalidInput
from trellis.base.quantities import Quantity
from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import ContainerDemand
from trellis.sim.scenario.usage_shapes import (
    Spikes,
    WorkingHours,
    daily,
    noise,
    phases,
    resample,
    spiky,
    steady,
    trend,
    weekly,
)
from trellis.sources.series.series import Series

# A file and the name of a series in it, None for its only one.
TraceReader: TypeAlias = Callable[[str, str | None], Series]
Names: TypeAlias = tuple[str, ...]

DEFAULT_SPREAD = 0.1
_DEFAULT_NOISE = {"cpu": 0.05, "memory": 0.01}
_HOUR = 3_600.0


def parse_amount(text: str | int | None, absent: float = 0.0) -> float:
    """A quantity as a number of cores or bytes."""
    return float(Quantity.parse(text).exact()) if text is not None else absent


def parse_seconds(text: str | None, absent: float = 0.0) -> float:
    """A span in seconds."""
    return parse_span(text) if text is not None else absent


def seeded_generator(seed: int, *names: str) -> np.random.Generator:
    """The random generator of one thing, by its name: what is added to a scenario changes nothing of the rest."""
    return np.random.default_rng([seed, zlib.crc32("/".join(names).encode())])


class Steps(msgspec.Struct, frozen=True):
    """The times that usage is laid out for. Those of a Job count from the begin of a run, `by_age`."""

    begin: float
    step: float
    count: int
    by_age: bool = False

    @property
    def times(self) -> FloatColumn:
        """When each step begins."""
        return self.begin + self.step * np.arange(self.count, dtype=np.float64)


class UsageLayout:
    """Lays out usage, and collects its problems."""

    def __init__(self, seed: int, traces: TraceReader) -> None:
        self._seed = seed
        self._traces = traces
        self.problems: list[ValidationProblem] = []

    def demand(
        self, container: str, usage: ContainerUsage, steps: Steps, *, factors: FloatColumn, names: Names, at: Path
    ) -> ContainerDemand:
        """The demand of one container; `factors` are those of rollouts, `names` those of its workload."""
        cpu, memory = (
            self._resource(resource, written, steps, (*names, container, resource), (*at, resource)) * factors
            for resource, written in (("cpu", usage.cpu), ("memory", usage.memory))
        )
        base = usage.base or PodBase()
        return ContainerDemand(
            container=container,
            cpu=cpu,
            memory=memory,
            shared=bool(usage.shared),
            by_age=steps.by_age,
            base_cpu=parse_amount(base.cpu),
            base_memory=parse_amount(base.memory),
            spread=DEFAULT_SPREAD if usage.spread is None else usage.spread,
            leak=parse_amount(usage.memory.leak) / _HOUR if usage.memory is not None else 0.0,
        )

    def _resource(
        self, resource: str, usage: ResourceUsage | None, steps: Steps, names: Names, at: Path
    ) -> FloatColumn:
        if usage is None:
            return np.zeros(steps.count)
        draw = seeded_generator(self._seed, *names)
        total = _shapes(usage, steps, draw)
        if usage.trace is not None:
            total = total + self._trace(resource, usage.trace, steps, (*at, "trace"))
        spread = _DEFAULT_NOISE[resource] if usage.noise is None else usage.noise
        # What was measured has its own noise already.
        if usage.noise is None and usage.trace is not None:
            spread = 0.0
        return total * noise(steps.count, spread, draw)

    def _trace(self, resource: str, trace: TraceShape, steps: Steps, at: Path) -> FloatColumn:
        try:
            series = self._traces(trace.file, trace.series)
        except InvalidInput as error:
            # A reader names the file itself; the rest is what is wrong with it.
            self.problems.append(ValidationProblem((*at, "file"), INVALID, error.rule, trace.file))
            return np.zeros(steps.count)
        column = trace.column or resource
        measured = series.cpu if column == "cpu" else series.memory
        if not np.isfinite(measured).any():
            rule = f"the series {series.name} of {trace.file} has no {column}; choose another column or series"
            self.problems.append(ValidationProblem((*at, "column"), REQUIRED, rule))
            return np.zeros(steps.count)
        scale = 1.0 if trace.scale is None else trace.scale
        return scale * resample(series.times, measured, steps.count, steps.step, highest=resource == "memory")


def _shapes(usage: ResourceUsage, steps: Steps, draw: np.random.Generator) -> FloatColumn:
    """All drawn shapes, added up."""
    times = steps.times
    total = steady(times, parse_amount(usage.steady))
    if usage.daily is not None:
        wave = usage.daily
        total = total + daily(times, parse_amount(wave.low), parse_amount(wave.high), _amount_or(wave.peak_hour, 14.0))
    if usage.weekly is not None:
        week = usage.weekly
        days = tuple(WEEKDAYS.index(day) for day in week.days or WEEKDAYS[:5])
        hours = WorkingHours(_amount_or(week.begin_hour, 8.0), _amount_or(week.end_hour, 18.0), days)
        total = total + weekly(times, parse_amount(week.low), parse_amount(week.high), hours)
    if usage.spiky is not None:
        burst = usage.spiky
        length = parse_seconds(burst.length, 900.0)
        spikes = Spikes(parse_amount(burst.height), burst.per_day or 0.0, length)
        total = total + spiky(times, steps.step, spikes, draw)
    if usage.trend is not None:
        total = total + trend(times, parse_amount(usage.trend.begin), parse_amount(usage.trend.end))
    if usage.phases:
        lengths, levels = (
            [parse_seconds(phase.length) for phase in usage.phases],
            [parse_amount(phase.level) for phase in usage.phases],
        )
        total = total + phases(times - steps.begin, lengths, levels)
    return total


def _amount_or(value: float | None, absent: float) -> float:
    return absent if value is None else value
