"""Draws the usage of a container as a small SVG, with lines at its current and its advised request."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trellis.core.advice.sizes import ResourceAdvice
from trellis.core.advice.survey.usage_summaries import UsageSummary
from trellis.reports.advice.wording import format_amount
from trellis.reports.html.page import render_template

WIDTH, HEIGHT = 96, 28
_TOP = 2  # pixels above the highest value


def draw_usage(usage: UsageSummary | None, resource: str, title: str, change: ResourceAdvice) -> str:
    """The SVG; empty where there is no history of the resource."""
    if usage is None:
        return ""
    values = [float(value) for value in (usage.cpu if resource == "cpu" else usage.memory)]
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return ""
    lines = [amount for amount in (change.request_before, change.request) if not math.isnan(amount)]
    top = max(*known, *lines, 1e-9)
    lowest, highest = format_amount(resource, min(known)), format_amount(resource, max(known))
    before, after = (format_amount(resource, amount) for amount in (change.request_before, change.request))
    return render_template(
        "sparkline.svg.j2",
        width=WIDTH,
        height=HEIGHT,
        title=f"{title}: highest usage {lowest} to {highest}, requested {before}, advised {after}",
        areas=[_draw_area(part, top) for part in _split_known(values)],
        before=_locate(change.request_before, top),
        after=_locate(change.request, top),
    )


def _split_known(values: Sequence[float]) -> list[list[tuple[int, float]]]:
    """Stretches of steps with usage."""
    parts: list[list[tuple[int, float]]] = [[]]
    for number, value in enumerate(values):
        if not math.isnan(value):
            parts[-1].append((number * WIDTH // len(values), value))
        elif parts[-1]:
            parts.append([])
    return [part for part in parts if part]


def _draw_area(part: Sequence[tuple[int, float]], top: float) -> str:
    """A closed path in steps of two pixels: each value holds until the next."""
    last, heights = part[-1][0] + 2, [_locate(value, top) for _, value in part]
    steps = "".join(f"H{x}V{y}" for (x, _), y in zip(part[1:], heights[1:], strict=True))
    return f"M{part[0][0]} {HEIGHT}V{heights[0]}{steps}H{last}V{HEIGHT}Z"


def _locate(value: float, top: float) -> int | None:
    """The height of a value in the drawing; none where it is unknown."""
    return None if math.isnan(value) else round(HEIGHT - value / top * (HEIGHT - _TOP))
