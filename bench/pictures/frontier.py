"""Draws footprint over time above target as SVG, a curve per rule.

Down and to the left is better: less set aside, and less often too little. A dot is the rule as it is shipped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from bench.pictures.style import COLOURS, legend, opened, text
from trellis.core.recommend.evaluation.margin_curves import MARGIN_FACTORS, MarginCurve

_WIDTH, _HEIGHT = 420, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 24, 34, 44
_TIMES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
_FOOTPRINTS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)


def draw(slices: Mapping[str, Sequence[MarginCurve]]) -> str:
    """One panel per slice, side by side."""
    label = "Mean target in units of usage over the share of time above target, for each recommender at every margin"
    parts = [opened(_WIDTH * len(slices), _HEIGHT, label)]
    for number, (name, curves) in enumerate(slices.items()):
        parts.append(f'<g transform="translate({number * _WIDTH} 0)">')
        parts += _axes(name)
        for place, curve in enumerate(curves):
            parts += _draw_curve(curve, place % len(COLOURS))
            parts.append(legend(_WIDTH - 120, _TOP + 16 + 17 * place, place % len(COLOURS), curve.name))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _axes(name: str) -> Iterator[str]:
    yield text(_LEFT, 18, name, kind="title")
    for time in _TIMES:
        x = _x(time)
        yield f'<path class="grid" d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>'
        yield text(x, _HEIGHT - _BOTTOM + 15, f"{time:.1%}", anchor="middle")
    for footprint in _FOOTPRINTS:
        y = _y(footprint)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
        yield text(_LEFT - 6, y + 4, f"{footprint:g}", anchor="end")
    yield text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, "time over target", anchor="middle")
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    yield f'<g transform="translate(14 {middle}) rotate(-90)">{text(0, 0, "target / usage", anchor="middle")}</g>'


def _draw_curve(curve: MarginCurve, number: int) -> Iterator[str]:
    points = zip(curve.shown_time_over.tolist(), curve.shown_footprint.tolist(), strict=True)
    listed = " ".join(f"{_x(time):.1f},{_y(footprint):.1f}" for time, footprint in points if _inside(time, footprint))
    yield f'<polyline class="line l{number}" points="{listed}"/>'
    usual = len(MARGIN_FACTORS) // 2
    time, footprint = float(curve.shown_time_over[usual]), float(curve.shown_footprint[usual])
    if _inside(time, footprint):
        yield f'<circle class="d{number}" cx="{_x(time):.1f}" cy="{_y(footprint):.1f}" r="4"/>'


def _inside(time: float, footprint: float) -> bool:
    return _TIMES[0] <= time <= _TIMES[-1] and _FOOTPRINTS[0] <= footprint <= _FOOTPRINTS[-1]


def _x(time: float) -> float:
    return _between(math.log(time), math.log(_TIMES[0]), math.log(_TIMES[-1]), _LEFT, _WIDTH - _RIGHT)


def _y(footprint: float) -> float:
    low, high = math.log(_FOOTPRINTS[0]), math.log(_FOOTPRINTS[-1])
    return _between(math.log(footprint), low, high, _HEIGHT - _BOTTOM, _TOP)


def _between(value: float, low: float, high: float, begin: float, end: float) -> float:
    return begin + (value - low) / (high - low) * (end - begin)
