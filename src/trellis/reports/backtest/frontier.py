"""Draws the cost-risk frontier: curves of each recommender over its margin, as an SVG that needs no script.

To the right more is requested, upwards it is too little more often: down and to the left is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import msgspec

from trellis.reports.text.numbers import format_factor, format_share

_WIDTH, _HEIGHT = 1140, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 110, 14, 46
_LEAST_SHARE = 1e-4
_STEPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0, math.inf)
_SHARES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


class FrontierLine(msgspec.Struct, frozen=True):
    """One line: what is requested per used and the share of time over, with a spot where it is as shipped."""

    name: str
    colour: str
    costs: Sequence[float]
    risks: Sequence[float]
    spots: Sequence[tuple[float, float, str]] = ()
    dashed: bool = False


class _Scales(msgspec.Struct, frozen=True):
    """Cost to the right on a plain scale, risk upwards on a logarithmic one."""

    cheap: float
    dear: float
    safe: float
    risky: float

    def at(self, cost: float, risk: float) -> tuple[float, float]:
        """Where a point lies in the drawing."""
        across = (cost - self.cheap) / (self.dear - self.cheap)
        low, high, here = (math.log(max(value, _LEAST_SHARE)) for value in (self.safe, self.risky, risk))
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - (here - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM),
        )


def draw_frontier(tracks: Sequence[FrontierLine], title: str) -> str:
    """The SVG, or nothing where there is no point to draw."""
    spots = [spot for track in tracks for spot in track.spots if math.isfinite(spot[0]) and math.isfinite(spot[1])]
    if not spots:
        return ""
    scales = _scales(spots)
    body = "".join([*_axes(scales), *(_line(track, scales) for track in tracks), *_spots(tracks, scales)])
    return (
        f'<svg class="frontier" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">'
        f'<clipPath id="inside"><rect x="{_LEFT}" y="{_TOP}" width="{_WIDTH - _LEFT - _RIGHT}" '
        f'height="{_HEIGHT - _TOP - _BOTTOM}"/></clipPath>{body}</svg>'
    )


def _scales(spots: Sequence[tuple[float, float, str]]) -> _Scales:
    """Room around the spots: what lies far off on a curve is no choice that anybody has."""
    costs = [spot[0] for spot in spots]
    risks = [max(spot[1], _LEAST_SHARE) for spot in spots]
    between = max(max(costs) - min(costs), 0.2)
    return _Scales(
        max(min(costs) - between * 0.45, 0.0),
        max(costs) + between * 0.45,
        max(min(risks) / 4, _LEAST_SHARE),
        min(max(max(risks) * 3, 4 * _LEAST_SHARE), 1.0),
    )


def _axes(scales: _Scales) -> list[str]:
    right, low = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    told = []
    for each in _SHARES:
        if scales.safe <= each <= scales.risky:
            y = scales.at(scales.cheap, each)[1]
            told.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
            told.append(_text("tick", _LEFT - 8, y + 4, format_share(each), 'text-anchor="end"'))
    step = next(size for size in _STEPS if (scales.dear - scales.cheap) / size <= 10)
    for number in range(math.ceil(scales.cheap / step), math.floor(scales.dear / step) + 1):
        x = scales.at(number * step, scales.safe)[0]
        told.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{low}"/>')
        told.append(_text("tick", x, low + 17, f"{number * step:.4g}\N{MULTIPLICATION SIGN}", 'text-anchor="middle"'))
    told.append(f'<path class="base" d="M{_LEFT} {low}H{right}"/>')
    told.append(_text("title", _LEFT, _HEIGHT - 6, "CPU requested per used (cost) \N{RIGHTWARDS ARROW}"))
    turned = f'transform="translate(14 {low}) rotate(-90)"'
    told.append(_text("title", 0, 0, "Time over request (risk) \N{RIGHTWARDS ARROW}", turned))
    return told


def _text(kind: str, x: float, y: float, text: str, more: str = "") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" {more}>{escape(text)}</text>'


def _line(track: FrontierLine, scales: _Scales) -> str:
    points = [
        scales.at(cost, risk)
        for cost, risk in zip(track.costs, track.risks, strict=True)
        if math.isfinite(cost) and math.isfinite(risk)
    ]
    if len(points) < 2:
        return ""
    d = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dash = ";stroke-dasharray:4 4" if track.dashed else ""
    style = f"stroke:{track.colour};stroke-width:2{dash}"
    return f'<path class="stroke" clip-path="url(#inside)" style="{style}" d="M{d}"/>'


def _spots(tracks: Sequence[FrontierLine], scales: _Scales) -> list[str]:
    """Spots with their names beside them, moved apart where they would lie upon each other."""
    placed = []
    for track in tracks:
        for cost, risk, name in track.spots:
            if math.isfinite(cost) and math.isfinite(risk):
                placed.append(
                    (*scales.at(cost, risk), name, track.colour, f"{name}: {format_factor(cost)}, {format_share(risk)}")
                )
    spots: list[str] = []
    names: list[str] = []
    taken: list[tuple[float, float]] = []
    for x, y, name, colour, title in sorted(placed, key=lambda each: (each[1], each[0])):
        beside = y + 4
        while any(abs(beside - other) < 14 and abs(x - across) < 170 for across, other in taken) or any(
            abs(beside - 4 - spot[1]) < 11 and 0 < spot[0] - x < 10 + 7 * len(name) for spot in placed
        ):
            beside += 14
        taken.append((x, beside))
        spots.append(
            f'<circle class="spot" cx="{x:.1f}" cy="{y:.1f}" r="5.5" style="fill:{colour}">'
            f"<title>{escape(title)}</title></circle>"
        )
        names.append(_text("named-spot", x + 10, beside, name))
    return spots + names
