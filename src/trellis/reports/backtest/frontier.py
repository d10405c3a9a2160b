"""Draws the cost-risk frontier: curves of each recommender over its margin, as an SVG that needs no script.

To the right more is requested, upwards it is too little more often: down and to the left is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from trellis.reports.html.page import render_template
from trellis.reports.text.numbers import format_factor, format_share

_WIDTH, _HEIGHT = 1140, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 110, 14, 46
_MIN_SHARE = 1e-4
_STEPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0, math.inf)
_SHARES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


class FrontierCurve(msgspec.Struct, frozen=True):
    """One line: what is requested per used and the share of time over, with a spot where it is as shipped."""

    name: str
    colour: str
    costs: Sequence[float]
    risks: Sequence[float]
    spots: Sequence[tuple[float, float, str]] = ()
    dashed: bool = False


class _Scales(msgspec.Struct, frozen=True):
    """Cost to the right on a plain scale, risk upwards on a logarithmic one."""

    lowest_cost: float
    highest_cost: float
    lowest_risk: float
    highest_risk: float

    def locate(self, cost: float, risk: float) -> tuple[float, float]:
        """The coordinates of a point in the drawing."""
        across = (cost - self.lowest_cost) / (self.highest_cost - self.lowest_cost)
        low, high, here = (math.log(max(value, _MIN_SHARE)) for value in (self.lowest_risk, self.highest_risk, risk))
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - (here - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM),
        )


class _Spot(msgspec.Struct, frozen=True):
    """A spot with its name beside it, at a height where the name covers nothing."""

    x: float
    y: float
    label_y: float
    name: str
    colour: str
    title: str


def draw_frontier(lines: Sequence[FrontierCurve], title: str) -> str:
    """The SVG; empty where there is no point to draw."""
    spots = [spot for line in lines for spot in line.spots if math.isfinite(spot[0]) and math.isfinite(spot[1])]
    if not spots:
        return ""
    scales = _choose_scales(spots)
    return render_template(
        "frontier.svg.j2",
        title=title,
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=_WIDTH - _RIGHT,
        top=_TOP,
        bottom=_HEIGHT - _BOTTOM,
        risk_ticks=_risk_ticks(scales),
        cost_ticks=_cost_ticks(scales),
        lines=[
            {"colour": line.colour, "dashed": line.dashed, "path": path}
            for line in lines
            if (path := _draw_path(line, scales))
        ],
        spots=_place_spots(lines, scales),
    )


def _choose_scales(spots: Sequence[tuple[float, float, str]]) -> _Scales:
    """Scales around the spots: points far off on a curve are no useful choices."""
    costs = [spot[0] for spot in spots]
    risks = [max(spot[1], _MIN_SHARE) for spot in spots]
    between = max(max(costs) - min(costs), 0.2)
    return _Scales(
        max(min(costs) - between * 0.45, 0.0),
        max(costs) + between * 0.45,
        max(min(risks) / 4, _MIN_SHARE),
        min(max(max(risks) * 3, 4 * _MIN_SHARE), 1.0),
    )


def _risk_ticks(scales: _Scales) -> list[tuple[str, float]]:
    shares = [share for share in _SHARES if scales.lowest_risk <= share <= scales.highest_risk]
    return [(format_share(share), scales.locate(scales.lowest_cost, share)[1]) for share in shares]


def _cost_ticks(scales: _Scales) -> list[tuple[str, float]]:
    step = next(size for size in _STEPS if (scales.highest_cost - scales.lowest_cost) / size <= 10)
    costs = [
        number * step
        for number in range(math.ceil(scales.lowest_cost / step), math.floor(scales.highest_cost / step) + 1)
    ]
    return [(f"{cost:.4g}\N{MULTIPLICATION SIGN}", scales.locate(cost, scales.lowest_risk)[0]) for cost in costs]


def _draw_path(line: FrontierCurve, scales: _Scales) -> str:
    points = [
        scales.locate(cost, risk)
        for cost, risk in zip(line.costs, line.risks, strict=True)
        if math.isfinite(cost) and math.isfinite(risk)
    ]
    return f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in points)}" if len(points) > 1 else ""


def _place_spots(lines: Sequence[FrontierCurve], scales: _Scales) -> list[_Spot]:
    """Spots from top to bottom; a name moves down until it covers neither a spot nor another name."""
    points = []
    for line in lines:
        for cost, risk, name in line.spots:
            if math.isfinite(cost) and math.isfinite(risk):
                title = f"{name}: {format_factor(cost)}, {format_share(risk)}"
                points.append((*scales.locate(cost, risk), name, line.colour, title))
    spots: list[_Spot] = []
    for x, y, name, colour, title in sorted(points, key=lambda point: (point[1], point[0])):
        label_y = y + 4
        while any(abs(label_y - spot.label_y) < 14 and abs(x - spot.x) < 170 for spot in spots) or any(
            abs(label_y - 4 - point[1]) < 11 and 0 < point[0] - x < 10 + 7 * len(name) for point in points
        ):
            label_y += 14
        spots.append(_Spot(x, y, label_y, name, colour, title))
    return spots
