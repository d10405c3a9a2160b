"""Draws the proposed buckets as a ladder, with what all pods used over time, as SVGs that need no script.

Each rung is a bucket: it reaches as high as the CPU that its replicas can use at the target utilization of the HPA.
A drawing for wide and one for narrow screens have letters of the same size; the style sheet shows one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from trellis.core.advice.survey.model import WorkloadUsage
from trellis.core.hvpa.suggest.suggestion import BucketProposal
from trellis.reports.buckets.proposals import WorkloadProposal
from trellis.reports.html.axes import choose_ticks, choose_time_ticks, format_tick
from trellis.reports.html.page import render_template
from trellis.reports.text.numbers import format_significant

_NAME_HEIGHT = 13.0
_TICKS = 4
_HEADROOM = 1.05  # above the highest rung or usage


class _LadderFrame(msgspec.Struct, frozen=True):
    """The size of a drawing, its margins, and how much it shows. Short names of rungs are counts of replicas."""

    screen: str
    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    points: int
    times: int
    has_short_names: bool

    def x(self, share: float) -> float:
        """Where a share of the time lies."""
        return self.left + share * (self.width - self.left - self.right)

    def y(self, value: float, top: float) -> float:
        """Where an amount lies, if the drawing reaches up to `top`."""
        return self.height - self.bottom - value / top * (self.height - self.top - self.bottom)


_FRAMES = (
    _LadderFrame("wide", 1140, 272, 44, 150, 24, 26, 420, 12, has_short_names=False),
    _LadderFrame("narrow", 336, 230, 36, 52, 24, 26, 150, 4, has_short_names=True),
)


class _Rung(msgspec.Struct, frozen=True):
    """A bucket in the drawing. The name is empty where there is no space for it."""

    top: float
    height: float
    name: str
    name_y: float


def draw_ladder(proposal: WorkloadProposal) -> list[str]:
    """The SVGs; none where the usage over time is not known."""
    buckets, totals = proposal.suggestion.proposal, proposal.workload.totals
    if buckets is None or totals is None or not np.isfinite(totals.cpu).any():
        return []
    capacities = list_capacities(buckets, proposal.suggestion.utilization)
    return [_draw(frame, buckets, capacities, totals) for frame in _FRAMES]


def _draw(frame: _LadderFrame, buckets: BucketProposal, capacities: Sequence[float], totals: WorkloadUsage) -> str:
    demand = _find_highest(totals, frame.points)
    top = _HEADROOM * max(capacities[-1], *(value for value in demand if not math.isnan(value)))
    length = totals.step * len(totals.cpu)
    return render_template(
        "ladder.svg.j2",
        frame=frame,
        title="CPU used by all pods over time, and the CPU that each bucket provides at its target utilization",
        rungs=list(_place_rungs(frame, buckets, capacities, top)),
        ticks=[(format_tick(value), frame.y(value * 1000, top)) for value in choose_ticks(top / 1000, _TICKS)],
        times=[
            (text, frame.x((time - totals.start) / length))
            for text, time in choose_time_ticks(totals.start, totals.start + length, frame.times)
        ],
        demand=_draw_line(frame, demand, top),
    )


def list_capacities(buckets: BucketProposal, utilization: float) -> list[float]:
    """The millicores that the replicas of each bucket can use at most before the next one is entered."""
    return [bucket.last * bucket.largest[0] * utilization for bucket in buckets.buckets]


def _find_highest(totals: WorkloadUsage, points: int) -> list[float]:
    """The highest usage in each step; NaN where there is none."""
    parts = np.array_split(totals.cpu, min(len(totals.cpu), points))
    return [float(np.nanmax(part)) if np.isfinite(part).any() else math.nan for part in parts]


def _place_rungs(
    frame: _LadderFrame, buckets: BucketProposal, capacities: Sequence[float], top: float
) -> Iterator[_Rung]:
    """From the lowest rung up. A name that would cover the one below it is left out."""
    below, free = frame.y(0, top), math.inf
    for bucket, capacity in zip(buckets.buckets, capacities, strict=True):
        y = frame.y(capacity, top)
        middle = (y + below) / 2 + 4
        name = _format_rung(bucket.first, bucket.last, capacity, is_short=frame.has_short_names)
        is_free = middle + _NAME_HEIGHT <= free
        yield _Rung(y, max(below - y, 0.0), name if is_free else "", middle)
        below, free = y, middle if is_free else free


def _format_rung(first: int, last: int, capacity: float, *, is_short: bool) -> str:
    if is_short:
        return f"{first}" if first == last else f"{first}\N{EN DASH}{last}"
    count = f"{first}" if first == last else f"{first} to {last}"
    return f"{count} replica{'' if count == '1' else 's'}: {format_significant(capacity / 1000)} cores"


def _draw_line(frame: _LadderFrame, demand: Sequence[float], top: float) -> str:
    path, is_drawn = "", False
    for number, value in enumerate(demand):
        if math.isnan(value):
            is_drawn = False
            continue
        x = frame.x(number / max(len(demand) - 1, 1))
        path += f"{'L' if is_drawn else 'M'}{x:.0f} {frame.y(value, top):.1f}"
        is_drawn = True
    return path
