"""Candidates that size CPU: the past hours that count for the coming hour, and their weights.

Two kinds of hours count: the same hour of earlier days, with its neighbours, and the last few hours, whatever time it
is. Each hour counts as a small set of samples; together they make a histogram per row, from which percentiles are read.
A candidate forecasts any moment of the past too, so that it can be replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

import msgspec
import numpy as np

from trellis.core.recommend.forecast.hour_histograms import (
    HourHistograms,
    add_neighbours,
    build_hour_histograms,
    sum_fading_hours,
    sum_same_hours,
    sum_selected_hours,
    weigh_similar_days,
)
from trellis.core.recommend.forecast.normalized_history import BIN_WIDTH, HISTOGRAM_BINS, NormalizedHours
from trellis.core.usage.columns import FloatColumn, IntColumn

_SMALLEST: Final = 1e-12
_ROUNDING_TOLERANCE: Final = 1e-4
_FEW_MOMENTS = 24  # moments, up to which looking up the hours that count is faster than spreading all of them out
_HALF_LIVES = 6  # half-lives after which an hour of the recent part counts 1.6 %, and is left out


class SeasonalHours(msgspec.Struct, frozen=True):
    """The hour of the day, as it was on each day before."""

    days: int = 28
    half_life: float = 7.0
    """Days after which a day counts half."""
    weekday_weight: float = 3.0
    """The factor of days that are whole weeks ago."""
    neighbour_weight: float = 0.5
    """The weight of the hour before and of the hour after."""


class RecentHours(msgspec.Struct, frozen=True):
    """The last hours, each counting less than the next."""

    half_life: float = 1.0
    """Hours after which an hour counts half."""


HistorySource: TypeAlias = SeasonalHours | RecentHours


class WeightedHistory(msgspec.Struct, frozen=True):
    """A mix of history sources, each with its share. The share of a source without history goes to the others."""

    name: str
    shares: tuple[tuple[HistorySource, float], ...]

    def quantiles(self, history: HistoryAtMoments, fractions: Sequence[float], /) -> FloatColumn:
        """Quantiles of the weighted samples, (fractions, rows, moments); NaN where usage is unknown."""
        return history.build_histograms(self).quantiles(fractions)


class ForecastHistograms(msgspec.Struct, frozen=True):
    """Histograms (rows, moments, bins) that add up to 1, or to 0 where nothing is known."""

    past: NormalizedHours
    at: IntColumn
    weights: HourHistograms

    def weigh_by_load(self) -> ForecastHistograms:
        """The same histograms with samples weighted by their usage: idle hours hardly count."""
        loads = np.exp((np.arange(HISTOGRAM_BINS) - HISTOGRAM_BINS) * BIN_WIDTH).astype(np.float32)
        return ForecastHistograms(self.past, self.at, _normalize(self.weights * loads))

    def quantiles(self, fractions: Sequence[float]) -> FloatColumn:
        """(fractions, rows, moments) in the unit of the hours; NaN where nothing is known."""
        sums = np.cumsum(self.weights, axis=2, dtype=np.float32)
        totals = sums[:, :, -1]
        places = np.empty((len(fractions), *totals.shape))
        for number, fraction in enumerate(fractions):
            # A hair less: where the samples up to a fraction are just as many, rounding must not decide about a gap.
            threshold = np.float32(fraction - _ROUNDING_TOLERANCE) * totals
            bins = np.minimum((sums < threshold[:, :, np.newaxis]).sum(axis=2), HISTOGRAM_BINS - 1)
            at = bins[:, :, np.newaxis]
            inside = np.take_along_axis(self.weights, at, axis=2)[:, :, 0]
            beyond = np.take_along_axis(sums, at, axis=2)[:, :, 0] - threshold
            places[number] = bins + 1 - np.clip(beyond / np.maximum(inside, _SMALLEST), 0.0, 1.0)
        return np.where(totals > 0.5, self.past.convert_to_amounts(places, self.at), np.nan)


class HistoryAtMoments:
    """The history of some rows before some moments, shared by the candidates that read it.

    A moment is the beginning of an hour, by its place in the past: `past.hours` is the hour that comes. For each only
    the hours before it count. Moments follow each other hour by hour.
    """

    def __init__(self, past: NormalizedHours, at: IntColumn) -> None:
        self._past = past
        self._at = at
        self._by_source: dict[HistorySource, HourHistograms] = {}
        self._hours = build_hour_histograms(past, use_adjusted=False) if len(at) > _FEW_MOMENTS else None

    def build_histograms(self, weighted: WeightedHistory) -> ForecastHistograms:
        """The weighted histograms of all sources."""
        mixed = np.zeros((len(self._past.known), len(self._at), HISTOGRAM_BINS), dtype=np.float32)
        total = np.zeros(mixed.shape[:2], dtype=np.float32)
        for source, share in weighted.shares:
            if source not in self._by_source:
                self._by_source[source] = _normalize(self._build_source(source))
            histograms = self._by_source[source]
            mixed += np.float32(share) * histograms
            total += np.float32(share) * (histograms.sum(axis=2) > 0.5)
        mixed /= np.maximum(total, np.float32(_SMALLEST))[:, :, np.newaxis]
        return ForecastHistograms(self._past, self._at, mixed)

    def _build_source(self, source: HistorySource) -> HourHistograms:
        return self._sum_seasonal_hours(source) if isinstance(source, SeasonalHours) else self._sum_recent_hours(source)

    def _sum_seasonal_hours(self, source: SeasonalHours) -> HourHistograms:
        past, at = self._past, self._at
        days = np.arange(1, source.days + 1)
        ages = np.exp2(-days / source.half_life) * np.where(days % 7 == 0, source.weekday_weight, 1.0)
        hours = at[:, np.newaxis] - 24 * days
        counts = ages * weigh_similar_days(past, np.minimum(at, past.hours), source.days) * (hours >= 0)
        use_adjusted = past.levels.prefers_adjusted(at, hours)
        if self._hours is not None:
            with_neighbours = add_neighbours(self._hours, source.neighbour_weight)
            histograms = sum_same_hours(with_neighbours, int(at[0]), np.where(use_adjusted, 0.0, counts))
            with_neighbours = add_neighbours(build_hour_histograms(past, use_adjusted=True), source.neighbour_weight)
            histograms += sum_same_hours(with_neighbours, int(at[0]), np.where(use_adjusted, counts, 0.0))
            return histograms
        neighbour_counts = counts * source.neighbour_weight
        all_hours = np.concatenate([hours, hours - 1, hours + 1], axis=1)
        return sum_selected_hours(
            past,
            all_hours,
            np.concatenate([counts, neighbour_counts, neighbour_counts], axis=2),
            np.tile(use_adjusted, 3),
        )

    def _sum_recent_hours(self, source: RecentHours) -> HourHistograms:
        at, decay = self._at, float(np.exp2(-1.0 / source.half_life))
        hour_count = int(np.ceil(_HALF_LIVES * source.half_life))
        if self._hours is not None:
            return sum_fading_hours(self._hours, int(at[0]), len(at), decay, hour_count)
        hours_ago = np.arange(1, hour_count + 1)
        counts = np.broadcast_to(decay**hours_ago, (len(self._past.known), len(at), hour_count))
        return sum_selected_hours(self._past, at[:, np.newaxis] - hours_ago, counts)


def _normalize(histograms: HourHistograms) -> HourHistograms:
    totals = histograms.sum(axis=2, keepdims=True)
    shares = histograms / np.maximum(totals, np.float32(_SMALLEST))
    normalized: HourHistograms = np.where(totals > _SMALLEST, shares, np.float32(0))
    return normalized


class ForecastCandidate(Protocol):
    """A way to size many rows and moments at once, each from the hours before the moment."""

    @property
    def name(self) -> str:
        """The name in explanations."""

    def quantiles(self, history: HistoryAtMoments, fractions: Sequence[float], /) -> FloatColumn:
        """Forecast quantiles of the samples, (fractions, rows, moments); NaN without a forecast."""


SEASONAL_CANDIDATE: Final = WeightedHistory("season", ((SeasonalHours(), 0.75), (RecentHours(), 0.25)))

# In the order in which they are preferred where they cost the same. Each is the best for some workloads and none is for
# most: what has a rhythm, what has one and strays from it, what changes within hours, and what does not change.
FORECAST_CANDIDATES: Final = (
    SEASONAL_CANDIDATE,
    WeightedHistory("season and last hours", ((SeasonalHours(), 0.5), (RecentHours(), 0.5))),
    WeightedHistory("last hours", ((RecentHours(6.0), 1.0),)),
    WeightedHistory("last day", ((RecentHours(24.0), 1.0),)),
)
