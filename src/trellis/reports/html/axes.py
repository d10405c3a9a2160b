"""Round values and times for the axes of the charts that are drawn without scripts."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_DAY = 86400.0
_STEPS = (300.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 21600.0, 43200.0)
_DAYS = (1, 2, 4, 7, 14, 28, 84, 364)


def choose_ticks(top: float, count: int) -> list[float]:
    """Round amounts from zero up to the top, about as many as asked for."""
    rough = top / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return [number * step for number in range(int(top / step * 1.0001) + 1)]


def format_tick(value: float) -> str:
    """A round amount without trailing zeros."""
    return f"{value:.4g}"


def choose_time_ticks(begin: float, end: float, most: int) -> list[tuple[str, float]]:
    """Round times of UTC with their texts, at most as many as asked for and one more."""
    steps = (*_STEPS, *(days * _DAY for days in _DAYS))
    step = next((step for step in steps if (end - begin) / step <= most), steps[-1])
    # Steps of several days count from the first midnight, so that weeks begin where the chart does.
    unit = min(step, _DAY)
    first = math.ceil(begin / unit) * unit if step > _DAY else math.ceil(begin / step) * step
    times = [first + number * step for number in range(int((end - first) // step) + 1)] if end >= first else []
    return [(_format_time(time), time) for time in times]


def _format_time(time: float) -> str:
    moment = datetime.fromtimestamp(time, UTC)
    return f"{moment.day} {moment:%b}" if time % _DAY == 0 else f"{moment:%H:%M}"
