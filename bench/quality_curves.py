"""How does a rule compare with the default, at any margin? In what it sets aside, and in the risk it takes.

The footprint of a series is held against the default's of that series, clipped so that none decides alone, and averaged
geometrically. Time over target and overrun volume are averaged first and compared then, because most series have next
to none. A rule with more margin is safer and dearer: only its whole curve says whether it is better.
"""

from __future__ import annotations

import msgspec
import numpy as np

from trellis.core.recommend.scores import Scores
from trellis.core.usage.columns import FloatColumn

FACTORS: FloatColumn = np.exp(np.linspace(np.log(0.5), np.log(2.0), 57))  # the middle one is 1
_AS_SHIPPED = len(FACTORS) // 2
_CLIP = (0.5, 2.0)
_SAME = 1e-6  # a relative difference that is none


class Point(msgspec.Struct, frozen=True):
    """One rule against the default; 1 is as much as the default has. `factor` is how many times its targets."""

    footprint: float
    time_over: float
    overrun: float
    factor: float = 1.0


class Curve(msgspec.Struct, frozen=True):
    """A rule at every factor, relative to the default; beside it in absolute figures, to be drawn."""

    name: str
    footprint: FloatColumn
    time_over: FloatColumn
    overrun: FloatColumn
    shown_footprint: FloatColumn
    shown_time_over: FloatColumn
    changes: float
    worse: float
    """Share of series that have both a larger footprint and more time over than with the default."""

    @property
    def shipped(self) -> Point:
        """With the margin it has."""
        return self._at(0.0)

    @property
    def at_time_over(self) -> Point:
        """With the margin that brings it to the default's time over target."""
        return self._at(self._reached(self.time_over))

    @property
    def at_risk(self) -> Point:
        """With the least margin that has neither more time over nor more overrun volume than the default."""
        return self._at(max(self._reached(self.time_over), self._reached(self.overrun)))

    @property
    def at_footprint(self) -> Point:
        """With the margin that brings it to the default's footprint."""
        return self._at(float(np.interp(0.0, np.log(self.footprint), np.log(FACTORS))))

    def _at(self, log_factor: float) -> Point:
        curves = (self.footprint, self.time_over, self.overrun)
        footprint, time_over, overrun = (float(np.interp(log_factor, np.log(FACTORS), each)) for each in curves)
        return Point(footprint, time_over, overrun, float(np.exp(log_factor)))

    @staticmethod
    def _reached(falling: FloatColumn) -> float:
        """The factor, as a logarithm, at which something falls to 1."""
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(falling), -50.0)
        return float(np.interp(0.0, -logs, np.log(FACTORS)))


def curve(name: str, scores: Scores, default: Scores, worth: FloatColumn) -> Curve:
    """From scores at every factor, (factors, series), and what each series counts: 0 for one outside the slice."""
    share = worth / worth.sum()
    usual = _AS_SHIPPED
    ratio = scores.footprint / default.footprint[usual]
    worse = (ratio[usual] > 1 + _SAME) & (scores.time_over[usual] > default.time_over[usual] + _SAME)
    return Curve(
        name,
        footprint=np.exp(_mean(np.log(np.clip(ratio, *_CLIP)), share)),
        time_over=_mean(scores.time_over, share) / _mean(default.time_over[usual], share),
        overrun=_mean(scores.overrun, share) / _mean(default.overrun[usual], share),
        shown_footprint=np.exp(_mean(np.log(scores.footprint), share)),
        shown_time_over=_mean(scores.time_over, share),
        changes=float(_mean(scores.changes[usual], share)),
        worse=float(_mean(worse.astype(np.float64), share)),
    )


def _mean(values: FloatColumn, share: FloatColumn) -> FloatColumn:
    counted = share > 0
    found: FloatColumn = values[..., counted] @ share[counted]
    return found
