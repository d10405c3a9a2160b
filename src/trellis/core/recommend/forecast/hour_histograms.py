"""Weighted histograms of past hours, for every row and moment, and the weights of similar days.

For one moment only the hours that count are looked up. For many, as when a rule is replayed, every hour is spread out
into a histogram of its own first, and then whole stretches of them are added: it comes to the same, at a tenth of the
time.

A day that went as the last 24 hours and the last three hours did is a better guide to the coming hour than others: so
weekends are distinguished from working days, and an unusual day from its neighbours, without a calendar.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from trellis.core.recommend.forecast.normalized_history import (
    HISTOGRAM_BINS,
    SAMPLE_MEASURES,
    SAMPLE_SHARES,
    NormalizedHours,
)
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

_DAY = 24
_SPANS: Final = (3, 24)  # hours that are compared, to the same part
_TOLERANCE = 0.1  # a day that differs by a tenth more counts 2.7 times less
_UNKNOWN_DIFFERENCE = 0.3  # how much a day differs of which nothing is known


def weigh_similar_days(past: NormalizedHours, moments: IntColumn, days: int) -> FloatColumn:
    """The weights of the last days, (rows, moments, days), the latest first; by the hours before each moment."""
    first = int(moments.min()) - max(_SPANS)
    weights = np.empty((len(past.means), len(moments), days))
    for day in range(1, days + 1):
        gaps = _compute_hourly_differences(past, first, int(moments.max()), _DAY * day)
        sums = _compute_running_sums(np.nan_to_num(gaps))
        counts = _compute_running_sums(~np.isnan(gaps))
        difference = np.zeros((len(gaps), len(moments)))
        for span in _SPANS:
            ends = moments - first
            known_counts = counts[:, ends] - counts[:, ends - span]
            gap_sums = sums[:, ends] - sums[:, ends - span]
            difference += np.where(known_counts > 0, gap_sums / np.maximum(known_counts, 1), _UNKNOWN_DIFFERENCE)
        weights[:, :, day - 1] = np.exp(-difference / (len(_SPANS) * _TOLERANCE))
    return weights


def _compute_hourly_differences(past: NormalizedHours, first: int, last: int, back: int) -> FloatColumn:
    """The difference of each hour from `first` on from the hour `back` hours earlier; NaN where unknown."""
    hours = np.arange(first, last)
    gaps = np.full((len(past.means), len(hours)), np.nan)
    inside = (hours >= back) & (hours < past.hours)
    known_hours = hours[inside]
    gaps[:, inside] = np.abs(past.means[:, known_hours] - past.means[:, known_hours - back])
    return gaps


def _compute_running_sums(values: FloatColumn) -> FloatColumn:
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


HourHistograms: TypeAlias = npt.NDArray[np.float32]


def sum_selected_hours(
    past: NormalizedHours, hours: IntColumn, counts: FloatColumn, use_adjusted: BoolColumn | bool = False
) -> HourHistograms:
    """(rows, moments, bins) of some hours (moments, hours) that count so much, (rows, moments, hours).

    `use_adjusted` says which of them are taken relative to their adjusted level.
    """
    rows, moments = len(past.known), len(hours)
    inside = (hours >= 0) & (hours < past.hours)
    hours = np.where(inside, hours, 0)
    weights = counts * (inside & np.take(past.known, hours, axis=1))
    begins = (np.arange(rows * moments) * HISTOGRAM_BINS).reshape(rows, moments, 1)
    sums = np.zeros(rows * moments * HISTOGRAM_BINS)
    for measure, share in zip(SAMPLE_MEASURES, SAMPLE_SHARES.tolist(), strict=True):
        bins = past.find_bins(measure, hours, use_adjusted) + begins
        sums += share * np.bincount(bins.reshape(-1), weights.reshape(-1), len(sums))
    return sums.reshape(rows, moments, HISTOGRAM_BINS).astype(np.float32)


def build_hour_histograms(past: NormalizedHours, *, use_adjusted: bool) -> HourHistograms:
    """(rows, hours, bins): each hour by itself, relative to one of its levels; empty where usage is unknown."""
    histograms = np.zeros((*past.known.shape, HISTOGRAM_BINS), dtype=np.float32)
    known = np.flatnonzero(past.known)
    all_hours = np.arange(past.hours)
    for measure, share in zip(SAMPLE_MEASURES, SAMPLE_SHARES.tolist(), strict=True):
        places = past.find_bins(measure, all_hours, use_adjusted).reshape(-1)[known]
        histograms.reshape(-1)[known * HISTOGRAM_BINS + places] += np.float32(share)
    return histograms


def add_neighbours(hours: HourHistograms, share: float) -> HourHistograms:
    """Each hour with a share of the hours before and after it."""
    widened = hours.copy()
    widened[:, 1:] += np.float32(share) * hours[:, :-1]
    widened[:, :-1] += np.float32(share) * hours[:, 1:]
    return widened


def sum_same_hours(hours: HourHistograms, first: int, counts: FloatColumn) -> HourHistograms:
    """The same hours of earlier days, weighted by (rows, moments, days), at the moments from `first` on."""
    rows, moments, days = counts.shape
    summed = np.zeros((rows, moments, HISTOGRAM_BINS), dtype=np.float32)
    product = np.empty_like(summed)
    weights = counts.astype(np.float32)[..., np.newaxis]
    for day in range(days):
        begin = first - 24 * (day + 1)
        moment_slice = slice(max(-begin, 0), min(moments, hours.shape[1] - begin))
        if moment_slice.start < moment_slice.stop:
            past_hours = hours[:, begin + moment_slice.start : begin + moment_slice.stop]
            summed[:, moment_slice] += np.multiply(
                weights[:, moment_slice, day], past_hours, out=product[:, moment_slice]
            )
    return summed


def sum_fading_hours(hours: HourHistograms, first: int, moments: int, decay: float, hour_count: int) -> HourHistograms:
    """The last `hour_count` hours at the moments from `first` on, each counting `decay` times as much as the next."""
    summed = np.zeros((len(hours), moments, HISTOGRAM_BINS), dtype=np.float32)
    running_sum = np.zeros((len(hours), HISTOGRAM_BINS))
    begin, end, last = max(first - hour_count, 0), hours.shape[1], decay ** (hour_count + 1)
    for moment in range(begin + 1, first + moments):
        running_sum += hours[:, moment - 1] if moment <= end else 0.0
        running_sum *= decay
        dropped = moment - 1 - hour_count
        if begin <= dropped < end:
            running_sum -= last * hours[:, dropped]
        if moment >= first:
            np.maximum(running_sum, 0.0, out=summed[:, moment - first], casting="same_kind")
    return summed
