"""Draws the cost-risk frontier: curves of each recommender over its margin, as SVGs that need no script.

To the right more is requested, upwards it is too little more often: down and to the left is better. A drawing for wide
and one for narrow screens have letters of the same size; the style sheet shows one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from trellis.reports.html.page import render_template
from trellis.reports.text.numbers import format_factor, format_share

_LETTER_WIDTH = 7.2  # of a name beside a spot, in pixels
_NAME_GAP = 10  # between a spot and its name
_ROW_HEIGHT = 14
_BASELINE = 4  # of a name below the middle of its spot
# How far above or below its spot a name may lie, the nearest first.
_ROWS = [0, *(sign * number * _ROW_HEIGHT for number in range(1, 12) for sign in (1, -1))]
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


class _FrontierFrame(msgspec.Struct, frozen=True):
    """The size of a drawing, its margins, and how many costs its axis names at most."""

    screen: str
    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    costs: int


_FRAMES = (
    _FrontierFrame("wide", 1140, 400, left=84, right=110, top=14, bottom=46, costs=10),
    _FrontierFrame("narrow", 336, 340, left=74, right=10, top=14, bottom=46, costs=4),
)


class _Scales(msgspec.Struct, frozen=True):
    """Cost to the right on a plain scale, risk upwards on a logarithmic one."""

    frame: _FrontierFrame
    lowest_cost: float
    highest_cost: float
    lowest_risk: float
    highest_risk: float

    def locate(self, cost: float, risk: float) -> tuple[float, float]:
        """The coordinates of a point in the drawing."""
        frame = self.frame
        across = (cost - self.lowest_cost) / (self.highest_cost - self.lowest_cost)
        low, high, here = (math.log(max(value, _MIN_SHARE)) for value in (self.lowest_risk, self.highest_risk, risk))
        return (
            frame.left + across * (frame.width - frame.left - frame.right),
            frame.height - frame.bottom - (here - low) / (high - low) * (frame.height - frame.top - frame.bottom),
        )


class _Spot(msgspec.Struct, frozen=True):
    """A recommender as it ran, or a value of a sweep, in the drawing."""

    x: float
    y: float
    name: str
    colour: str
    title: str

    @property
    def name_width(self) -> float:
        """About how wide the name is."""
        return _LETTER_WIDTH * len(self.name)


class _NamedSpot(msgspec.Struct, frozen=True):
    """A spot with the place of its name, and a line to a name that is not just beside it."""

    spot: _Spot
    label_x: float
    label_y: float

    @property
    def leader(self) -> str:
        """The path of the line; empty for a name just beside its spot."""
        x, y = self.spot.x, self.spot.y
        if self.label_y == y + _BASELINE:
            return ""
        nearest = min(max(x, self.label_x), self.label_x + self.spot.name_width)
        return f"M{x:.1f} {y:.1f}L{nearest:.1f} {self.label_y - _BASELINE:.1f}"


def draw_frontier(lines: Sequence[FrontierCurve], title: str) -> list[str]:
    """The SVGs; none where there is no point to draw."""
    spots = [spot for line in lines for spot in line.spots if math.isfinite(spot[0]) and math.isfinite(spot[1])]
    return [_draw(_choose_scales(spots, frame), lines, title) for frame in _FRAMES] if spots else []


def _draw(scales: _Scales, lines: Sequence[FrontierCurve], title: str) -> str:
    return render_template(
        "frontier.svg.j2",
        title=title,
        frame=scales.frame,
        risk_ticks=_risk_ticks(scales),
        cost_ticks=_cost_ticks(scales),
        lines=[
            {"colour": line.colour, "dashed": line.dashed, "path": path}
            for line in lines
            if (path := _draw_path(line, scales))
        ],
        spots=_place_spots(lines, scales),
    )


def _choose_scales(spots: Sequence[tuple[float, float, str]], frame: _FrontierFrame) -> _Scales:
    """Scales around the spots: points far off on a curve are no useful choices."""
    costs = [spot[0] for spot in spots]
    risks = [max(spot[1], _MIN_SHARE) for spot in spots]
    between = max(max(costs) - min(costs), 0.2)
    return _Scales(
        frame,
        max(min(costs) - between * 0.45, 0.0),
        max(costs) + between * 0.45,
        max(min(risks) / 4, _MIN_SHARE),
        min(max(max(risks) * 3, 4 * _MIN_SHARE), 1.0),
    )


def _risk_ticks(scales: _Scales) -> list[tuple[str, float]]:
    shares = [share for share in _SHARES if scales.lowest_risk <= share <= scales.highest_risk]
    return [(format_share(share), scales.locate(scales.lowest_cost, share)[1]) for share in shares]


def _cost_ticks(scales: _Scales) -> list[tuple[str, float]]:
    step = next(size for size in _STEPS if (scales.highest_cost - scales.lowest_cost) / size <= scales.frame.costs)
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


def _place_spots(lines: Sequence[FrontierCurve], scales: _Scales) -> list[_NamedSpot]:
    """Spots from top to bottom, each with its name."""
    spots = []
    for line in lines:
        for cost, risk, name in line.spots:
            if math.isfinite(cost) and math.isfinite(risk):
                title = f"{name}: {format_factor(cost)}, {format_share(risk)}"
                spots.append(_Spot(*scales.locate(cost, risk), name, line.colour, title))
    spots.sort(key=lambda spot: (spot.y, spot.x))
    named: list[_NamedSpot] = []
    for spot in spots:
        named.append(_name_spot(spot, scales.frame, spots, named))
    return named


def _name_spot(spot: _Spot, frame: _FrontierFrame, spots: Sequence[_Spot], named: Sequence[_NamedSpot]) -> _NamedSpot:
    """Its name at the nearest place to the right or left where it covers neither a spot nor another name."""
    last = frame.width - spot.name_width
    sides = [side for side in (spot.x + _NAME_GAP, spot.x - _NAME_GAP - spot.name_width) if frame.left <= side <= last]
    sides = sides or [max(last, 0.0)]
    for row in _ROWS:
        for side in sides:
            result = _NamedSpot(spot, side, spot.y + row + _BASELINE)
            is_inside = frame.top < spot.y + row < frame.height - frame.bottom - 4
            if is_inside and not _is_covering(result, spots, named):
                return result
    return _NamedSpot(spot, sides[0], spot.y + _BASELINE)


def _is_covering(name: _NamedSpot, spots: Sequence[_Spot], named: Sequence[_NamedSpot]) -> bool:
    begin, end, y = name.label_x, name.label_x + name.spot.name_width, name.label_y
    return any(abs(y - _BASELINE - spot.y) < 11 and begin - 8 < spot.x < end + 8 for spot in spots) or any(
        abs(y - other.label_y) < _ROW_HEIGHT and begin < other.label_x + other.spot.name_width and other.label_x < end
        for other in named
    )
