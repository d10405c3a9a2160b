"""Draws the proposed buckets as a ladder, with what all pods used over time, as an SVG that needs no script.

Each rung is a bucket: it reaches as high as the CPU that its replicas can use at the target utilization of the HPA.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np

from trellis.core.advice.survey.model import WorkloadUsage
from trellis.core.hvpa.suggest.suggestion import BucketProposal
from trellis.reports.buckets.proposals import WorkloadProposal
from trellis.reports.html.page import render_template
from trellis.reports.text.numbers import format_significant

_WIDTH, _HEIGHT = 1140, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 150, 12, 26
_MAX_POINTS = 420
_TICKS = 6
_NAME_HEIGHT = 13.0
_HEADROOM = 1.05  # above the highest rung or usage


class _Rung(msgspec.Struct, frozen=True):
    """A bucket in the drawing. The name is empty where there is no space for it."""

    top: float
    height: float
    name: str
    name_y: float


def draw_ladder(proposal: WorkloadProposal) -> str:
    """The SVG; empty where the usage over time is not known."""
    buckets, totals = proposal.suggestion.proposal, proposal.workload.totals
    if buckets is None or totals is None or not np.isfinite(totals.cpu).any():
        return ""
    capacities = list_capacities(buckets, proposal.suggestion.utilization)
    demand = _find_highest(totals)
    top = _HEADROOM * max(capacities[-1], *(value for value in demand if not math.isnan(value)))
    times = [totals.start + totals.step * len(totals.cpu) * tick / _TICKS for tick in range(_TICKS + 1)]
    return render_template(
        "ladder.svg.j2",
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=_WIDTH - _RIGHT,
        base=_HEIGHT - _BOTTOM,
        title="CPU used by all pods over time, and the CPU that each bucket provides at its target utilization",
        rungs=list(_place_rungs(buckets, capacities, top)),
        ticks=[(format_significant(value / 1000), _y(value, top)) for value in _choose_ticks(top)],
        times=[(_format_day(time), _x(tick / _TICKS)) for tick, time in enumerate(times)],
        demand=_draw_line(demand, top),
    )


def list_capacities(buckets: BucketProposal, utilization: float) -> list[float]:
    """The millicores that the replicas of each bucket can use at most before the next one is entered."""
    return [bucket.last * bucket.largest[0] * utilization for bucket in buckets.buckets]


def _find_highest(totals: WorkloadUsage) -> list[float]:
    """The highest usage in each of a few hundred steps; NaN where there is none."""
    parts = np.array_split(totals.cpu, min(len(totals.cpu), _MAX_POINTS))
    return [float(np.nanmax(part)) if np.isfinite(part).any() else math.nan for part in parts]


def _place_rungs(buckets: BucketProposal, capacities: Sequence[float], top: float) -> Iterator[_Rung]:
    """From the lowest rung up. A name that would cover the one below it is left out."""
    below, free = _y(0, top), math.inf
    for bucket, capacity in zip(buckets.buckets, capacities, strict=True):
        y = _y(capacity, top)
        count = f"{bucket.first}" if bucket.first == bucket.last else f"{bucket.first} to {bucket.last}"
        middle = (y + below) / 2 + 4
        name = f"{count} replica{'' if count == '1' else 's'}: {format_significant(capacity / 1000)} cores"
        is_free = middle + _NAME_HEIGHT <= free
        yield _Rung(y, max(below - y, 0.0), name if is_free else "", middle)
        below, free = y, middle if is_free else free


def _choose_ticks(top: float) -> list[float]:
    """Round amounts up to the top, about four of them."""
    rough = top / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return [number * step for number in range(int(top / step) + 1)]


def _draw_line(demand: Sequence[float], top: float) -> str:
    path, is_drawn = "", False
    for number, value in enumerate(demand):
        if math.isnan(value):
            is_drawn = False
            continue
        path += f"{'L' if is_drawn else 'M'}{_x(number / max(len(demand) - 1, 1)):.0f} {_y(value, top):.1f}"
        is_drawn = True
    return path


def _format_day(time: float) -> str:
    moment = datetime.fromtimestamp(time, UTC)
    return f"{moment.day} {moment:%b %H:%M}"


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM)
