"""Compares a rule with another at any margin: by requests and by risk.

The footprint of a series is held against the other's of that series, clipped so that none decides alone, and averaged
geometrically. Time above target and overrun volume are averaged first and compared then, because most series have next
to none. A rule with more margin is safer and dearer: only its whole curve shows whether it is better.
"""

from __future__ import annotations

import msgspec
import numpy as np

from trellis.core.recommend.evaluation.scores import SizingScores
from trellis.core.usage.columns import FloatColumn

MARGIN_FACTORS: FloatColumn = np.exp(np.linspace(np.log(0.5), np.log(2.0), 57))  # the middle one is 1
SHIPPED_MARGIN = len(MARGIN_FACTORS) // 2
_CLIP = (0.5, 2.0)
NEGLIGIBLE_DIFFERENCE = 1e-6  # a relative difference that is none


class MarginPoint(msgspec.Struct, frozen=True):
    """A rule relative to another; 1 is as much as the other has. `factor` is the factor of its targets."""

    footprint: float
    time_over: float
    overrun: float
    factor: float = 1.0


class MarginCurve(msgspec.Struct, frozen=True):
    """A rule at every factor, relative to the other; beside it in absolute figures, to be drawn."""

    name: str
    footprint: FloatColumn
    time_over: FloatColumn
    overrun: FloatColumn
    shown_footprint: FloatColumn
    shown_time_over: FloatColumn
    shown_overrun: FloatColumn
    changes: float
    worse: float
    """Share of series that have both a larger footprint and more time over than with the other rule."""

    @property
    def shipped(self) -> MarginPoint:
        """With the margin it has."""
        return self._interpolate(0.0)

    @property
    def at_time_over(self) -> MarginPoint:
        """With the margin that brings it to the other's time over target."""
        return self._interpolate(self._find_factor(self.time_over))

    @property
    def at_risk(self) -> MarginPoint:
        """With the least margin that has neither more time over nor more overrun volume than the other."""
        return self._interpolate(max(self._find_factor(self.time_over), self._find_factor(self.overrun)))

    @property
    def at_footprint(self) -> MarginPoint:
        """With the margin that brings it to the other's footprint."""
        return self._interpolate(float(np.interp(0.0, np.log(self.footprint), np.log(MARGIN_FACTORS))))

    def _interpolate(self, log_factor: float) -> MarginPoint:
        curves = (self.footprint, self.time_over, self.overrun)
        footprint, time_over, overrun = (
            float(np.interp(log_factor, np.log(MARGIN_FACTORS), curve)) for curve in curves
        )
        return MarginPoint(footprint, time_over, overrun, float(np.exp(log_factor)))

    @staticmethod
    def _find_factor(values: FloatColumn) -> float:
        """The factor, as a logarithm, at which something falls to 1."""
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(values), -50.0)
        return float(np.interp(0.0, -logs, np.log(MARGIN_FACTORS)))


def build_margin_curve(name: str, scores: SizingScores, other: SizingScores, weights: FloatColumn) -> MarginCurve:
    """The curve from scores at every factor, (factors, series); `worth` is each series' weight, 0 outside the slice.

    What the other rule has none of cannot be compared: there it is NaN, or infinite.
    """
    share = weights / weights.sum()
    shipped = SHIPPED_MARGIN
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = scores.footprint / other.footprint[shipped]
        time_over = compute_weighted_mean(scores.time_over, share) / compute_weighted_mean(
            other.time_over[shipped], share
        )
        overrun = compute_weighted_mean(scores.overrun, share) / compute_weighted_mean(other.overrun[shipped], share)
        worse = (ratio[shipped] > 1 + NEGLIGIBLE_DIFFERENCE) & (
            scores.time_over[shipped] > other.time_over[shipped] + NEGLIGIBLE_DIFFERENCE
        )
        return MarginCurve(
            name,
            footprint=np.exp(compute_weighted_mean(_clip_ratios(ratio), share)),
            time_over=time_over,
            overrun=overrun,
            shown_footprint=np.exp(compute_weighted_mean(np.log(scores.footprint), share)),
            shown_time_over=compute_weighted_mean(scores.time_over, share),
            shown_overrun=compute_weighted_mean(scores.overrun, share),
            changes=float(compute_weighted_mean(scores.changes[shipped], share)),
            worse=float(compute_weighted_mean(worse.astype(np.float64), share)),
        )


def compute_mean_ratio(ratios: FloatColumn) -> float:
    """The geometric mean of ratios of footprints, each clipped so that none decides alone."""
    return float(np.exp(_clip_ratios(ratios).mean()))


def _clip_ratios(ratios: FloatColumn) -> FloatColumn:
    return np.log(np.clip(ratios, *_CLIP))


def compute_weighted_mean(values: FloatColumn, share: FloatColumn) -> FloatColumn:
    """The mean over the last axis; shares are 1 together, and what has none need not be known."""
    counted = share > 0
    mean: FloatColumn = values[..., counted] @ share[counted]
    return mean
