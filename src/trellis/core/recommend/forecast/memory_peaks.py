"""Sizes memory by its highest peak of the last weeks, and by steady growth.

Too little memory is a kill and not a slowdown, and a peak that comes once in ten days comes back. So the highest hour
of a long window counts, out-of-memory kills included, and a target is only lowered when it is clearly too high: memory
that is freed and requested again saves less than the restarts cost. Where a cycle was recognised, its need at
this phase replaces the highest hour.

Steady growth, as of a leak, is followed to where it will be at the horizon: a straight line through the last days,
where the hours hardly stray from it. A line that falls, or one through a cloud, forecasts nothing.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.history.hours import MAXIMUM, Ring

_HOURS = 72
_LEAST_KNOWN = 48
_STEADY = 0.8  # of the variance must be growth
_LEAST_GROWTH = 0.01  # of the mean, in a day: less is covered by any margin


def forecast_growth(values: FloatColumn, ahead: float) -> FloatColumn:
    """The forecast of growing rows a number of hours ahead, from hourly values (rows, hours); NaN without growth."""
    recent = values[:, -_HOURS:]
    known = ~np.isnan(recent)
    count = np.maximum(known.sum(axis=1), 1)
    hours = np.arange(1.0 - recent.shape[1], 1.0)
    filled = np.where(known, recent, 0.0)
    mean_hour = (known * hours).sum(axis=1) / count
    mean = filled.sum(axis=1) / count
    hour_deviations = known * (hours - mean_hour[:, np.newaxis])
    value_deviations = np.where(known, recent - mean[:, np.newaxis], 0.0)
    hour_variance = (hour_deviations**2).sum(axis=1)
    covariance = (hour_deviations * value_deviations).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = covariance / hour_variance
        steadiness = covariance**2 / (hour_variance * (value_deviations**2).sum(axis=1))
    is_growing = (count >= _LEAST_KNOWN) & (steadiness >= _STEADY) & (slope * 24 >= _LEAST_GROWTH * mean)
    return np.where(is_growing, mean + slope * (ahead - mean_hour), np.nan)


_DAY = 24
_NOTHING: Final = -np.inf


class PeakRule(msgspec.Struct, frozen=True):
    """Hours that are looked back at, what is added to their maximum, and by how much it must be too high to be lowered.

    `horizon` is how many hours ahead growth is followed.
    """

    window: int = 18 * _DAY
    margin: float = 0.13
    slack: float = 0.10
    horizon: float = 24.0


def size_memory_by_peaks(summaries: Ring, rule: PeakRule, cycle_need: FloatColumn | None = None) -> FloatColumn:
    """Lower bound, target and upper bound of rows, (3, rows), from summaries of memory, (rows, measures, hours).

    A pod is too small with less than the peak of a usual day, or than what growth will need; it is too large when the
    target would have been lowered twice. NaN where usage is unknown. `cycle_need` is what rows need at this phase of
    their cycle, NaN without one: a pod with less is too small, so that it is raised before the peak.
    """
    highest = summaries[:, MAXIMUM].astype(np.float64)
    margin_factor = 1.0 + rule.margin
    growth_forecast = forecast_growth(highest, rule.horizon)
    target = (
        _hold_peaks(_compute_window_peaks(np.where(np.isnan(highest), _NOTHING, highest), rule.window), rule.slack)
        * margin_factor
    )
    target = np.where(np.isneginf(target), np.nan, np.fmax(target, growth_forecast * margin_factor))
    lower = np.fmin(np.fmax(_compute_median_peak(highest, rule.window) * margin_factor, growth_forecast), target)
    if cycle_need is not None:
        recent = np.fmax(cycle_need, np.fmax.reduce(highest[:, -_DAY:], axis=1))
        cycle_target = np.where(np.isnan(cycle_need), np.nan, np.fmax(recent, growth_forecast))
        target = np.where(np.isnan(cycle_target), target, cycle_target * margin_factor)
        lower = np.where(np.isnan(cycle_target), lower, cycle_target)
    return np.stack([lower, target, target / (1.0 - rule.slack) ** 2])


def _hold_peaks(peaks: FloatColumn, slack: float) -> FloatColumn:
    """The held peak after all moments, (rows, moments): each decision depends on the one before."""
    held: FloatColumn = peaks[:, 0]
    for now in peaks.T[1:]:
        held = np.where((now > held) | (now < held * (1.0 - slack)), now, held)
    return held


def _compute_window_peaks(highest: FloatColumn, window: int) -> FloatColumn:
    """(rows, moments): the maximum of the window that ends with each hour, for as many as are whole."""
    window = min(window, highest.shape[1])
    # Maxima of runs that double in length: two that overlap make any window.
    run, length = highest, 1
    while 2 * length <= window:
        run = np.maximum(run[:, :-length], run[:, length:])
        length *= 2
    rest = window - length
    return np.maximum(run[:, : run.shape[1] - rest], run[:, rest:])


def _compute_median_peak(highest: FloatColumn, window: int) -> FloatColumn:
    """The median of the peaks of days."""
    days = min(window, highest.shape[1]) // _DAY
    peaks = np.fmax.reduce(highest[:, highest.shape[1] - days * _DAY :].reshape(len(highest), days, _DAY), axis=2)
    order = np.sort(peaks, axis=1)  # what is not known comes last
    count = (~np.isnan(peaks)).sum(axis=1)
    median: FloatColumn = order[np.arange(len(order)), np.maximum(count - 1, 0) // 2]
    return median
