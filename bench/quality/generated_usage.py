"""Generated weeks of usage, of the kinds that recommenders differ on.

They show behaviours and nothing about a fleet: averages over them mean little. Only published traces can judge.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import numpy as np

from bench.quality.usage_traces import Column, Trace

DAYS = 28
STEP = 300.0
START = 1_790_035_200.0  # a Monday
_SERIES_PER_KIND = 3
_DAY = 86_400.0
_MIB = 2.0**20

Shape = Callable[[Column, np.random.Generator], Column]


def generated_traces() -> list[Trace]:
    """A few series of each kind, always the same."""
    times = START + np.arange(0.0, DAYS * _DAY, STEP)
    return [trace for kind in CPU_SHAPES for trace in _generate_kind(kind, times)]


def _generate_kind(kind: str, times: Column) -> Iterator[Trace]:
    for number in range(_SERIES_PER_KIND):
        name = f"{kind}-{number}"
        draw = np.random.default_rng(zlib.crc32(name.encode()))
        days = (times - times[0]) / _DAY
        cpu = CPU_SHAPES[kind](days, draw) * draw.lognormal(0.0, 0.12, len(times))
        memory = MEMORY_SHAPES.get(kind, _flat)(days, draw) * draw.lognormal(0.0, 0.01, len(times))
        labels = frozenset({kind})
        # The first of each kind stands for a random draw, so that this slice is there too.
        yield Trace(name, name, labels, number == 0, times, cpu, memory * 600 * _MIB)


def _flat(days: Column, _draw: np.random.Generator) -> Column:
    return np.ones(len(days))


def _daily(days: Column, draw: np.random.Generator) -> Column:
    return 1 + draw.uniform(0.4, 0.9) * np.sin(2 * np.pi * (days + draw.uniform()))


def _hardly_daily(days: Column, _draw: np.random.Generator) -> Column:
    return 1 + 0.1 * np.sin(2 * np.pi * days)


def _working_hours(days: Column, draw: np.random.Generator) -> Column:
    """Busy by day, from Monday to Friday."""
    hour, weekday = days % 1 * 24, days.astype(np.int64) % 7
    busy = (np.abs(hour - 13 - draw.uniform(-2, 2)) < 5) & (weekday < 5)
    return np.where(busy, 1.0, draw.uniform(0.1, 0.4))


def _hourly_job(days: Column, draw: np.random.Generator) -> Column:
    return np.where(days * 24 % 6 < draw.uniform(0.5, 1.5), 1.0, 0.1)


def _wandering(days: Column, draw: np.random.Generator) -> Column:
    steps = draw.normal(0.0, 0.02, len(days))
    walk = np.cumsum(steps)
    wandering: Column = np.exp(walk - walk.mean())
    return wandering


def _spiky(days: Column, draw: np.random.Generator) -> Column:
    return np.where(draw.uniform(size=len(days)) < 0.004, draw.uniform(3, 8), 0.3)


def _level_change(days: Column, draw: np.random.Generator) -> Column:
    change = DAYS * draw.uniform(0.4, 0.7)
    return _daily(days, draw) * np.where(days < change, 1.0, float(draw.choice([0.4, 2.0])))


def _leak(days: Column, draw: np.random.Generator) -> Column:
    """Grows steadily, and begins anew every few days."""
    return 0.4 + 0.08 * (days % draw.uniform(6, 20))


def _long_cycle(days: Column, draw: np.random.Generator) -> Column:
    """Needs twice the memory for a day, every ten days."""
    return np.where((days + draw.uniform(0, 10)) % 10 < 1, 1.0, 0.5)


CPU_SHAPES: dict[str, Shape] = {
    "steady": _flat,
    "cpu_diurnal": _daily,
    "cpu_weekly": _working_hours,
    "cpu_batch": _hourly_job,
    "wandering": _wandering,
    "cpu_spiky": _spiky,
    "cpu_diurnal_shift": _level_change,
    "mem_sawtooth": _flat,
    "mem_cycle": _flat,
}
MEMORY_SHAPES: dict[str, Shape] = {
    "mem_sawtooth": _leak,
    "mem_cycle": _long_cycle,
    "cpu_diurnal": _hardly_daily,
    "wandering": _wandering,
}
