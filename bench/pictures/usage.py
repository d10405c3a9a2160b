"""The workloads in the pictures: one of each shape of the guide to choosing a recommender, always the same.

They are made up, and exaggerate nothing that published traces do not show. From a Monday on, a point every five
minutes: four weeks, of which three are to learn from and the last to be looked at; eight for a cycle of ten days.
"""

from __future__ import annotations

import numpy as np

from trellis.core.usage.columns import FloatColumn

DAYS, LONG_DAYS = 28, 56
POINTS = 12  # an hour
GIB = 2.0**30

_DAY = 24 * POINTS


def pictured() -> dict[str, tuple[FloatColumn, FloatColumn]]:
    """CPU in cores and memory in bytes, by the name of the shape."""
    days = np.arange(DAYS * _DAY) / _DAY
    still = np.full(len(days), 0.5 * GIB)
    flat = np.full(len(days), 0.2)
    return {
        "steady": (0.8 * _noise(1, 0.08, len(days)), still),
        "weekly": (_working_week(days) * _noise(2, 0.09, len(days)), still),
        "spiky": (_bursts(days), still),
        "deployed": (_deployed(days) * _noise(4, 0.09, len(days)), still),
        "leak": (flat, GIB * _leak(days) * _noise(6, 0.005, len(days))),
    }


def pictured_long() -> dict[str, tuple[FloatColumn, FloatColumn]]:
    """The same, of what takes longer."""
    days = np.arange(LONG_DAYS * _DAY) / _DAY
    return {"long-cycle": (np.full(len(days), 0.2), GIB * _every_ten_days(days) * _noise(5, 0.01, len(days)))}


def _noise(seed: int, spread: float, count: int) -> FloatColumn:
    return np.random.default_rng(seed).lognormal(0.0, spread, count)


def _working_week(days: FloatColumn) -> FloatColumn:
    """Busy from eight to six with a dip at noon, quiet at night and at the weekend."""
    hour, weekday = days % 1 * 24, days.astype(np.int64) % 7
    busy = np.clip((hour - 7.5) / 1.5, 0, 1) * np.clip((18.5 - hour) / 2.5, 0, 1)
    busy *= 1 - 0.25 * np.exp(-(((hour - 12.5) / 0.7) ** 2))
    result: FloatColumn = 0.15 + np.where(weekday < 5, 1.6 * busy, 0.06 * busy)
    return result


def _bursts(days: FloatColumn) -> FloatColumn:
    """Next to nothing, and half an hour of work at any time, some times a day."""
    draw = np.random.default_rng(3)
    used = np.full(len(days), 0.06)
    for begin in draw.choice(len(days) - 8, 4 * DAYS, replace=False).tolist():
        used[begin : begin + int(draw.integers(4, 8))] = draw.uniform(1.2, 1.7)
    return used * _noise(7, 0.06, len(days))


def _deployed(days: FloatColumn) -> FloatColumn:
    """A wave by day; on the third day of the last week a deployment halves it."""
    wave: FloatColumn = 1.1 - 0.75 * np.cos(2 * np.pi * (days - 0.1))
    return np.where(days < DAYS - 7 + 2.45, wave, 0.5 * wave)


def _every_ten_days(days: FloatColumn) -> FloatColumn:
    return np.where((days + 3) % 10 < 0.7, 2.2, 1.0)


def _leak(days: FloatColumn) -> FloatColumn:
    """Grows by a quarter of a GiB a day, until it is started anew every nine days."""
    return 0.5 + 0.25 * ((days + 2) % 9)
