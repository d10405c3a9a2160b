"""What does better sizing look like? Footprint over time over target, a curve per rule, drawn as SVG.

Down and to the left is better: less set aside, and less often too little. A dot is the rule as it is shipped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from bench.quality_curves import FACTORS, Curve

_WIDTH, _HEIGHT = 400, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 34, 44
_COLOURS = ("#666666", "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e")
_TIMES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
_FOOTPRINTS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)


def drawn(slices: Mapping[str, Sequence[Curve]]) -> str:
    """One panel per slice, side by side."""
    width = _WIDTH * len(slices)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{_HEIGHT}" fill="white"/>',
    ]
    for number, (name, curves) in enumerate(slices.items()):
        parts.append(f'<g transform="translate({number * _WIDTH} 0)">')
        parts += _axes(name)
        for colour, curve in zip(_COLOURS * 2, curves, strict=False):
            parts += _line(curve, colour)
        parts += _legend([curve.name for curve in curves])
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _axes(name: str) -> Iterator[str]:
    yield f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(name)}</text>'
    for time in _TIMES:
        x = _x(time)
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_HEIGHT - _BOTTOM}" stroke="#e5e5e5"/>'
        yield f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 15}" text-anchor="middle">{time:.1%}</text>'
    for footprint in _FOOTPRINTS:
        y = _y(footprint)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#e5e5e5"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{footprint:g}</text>'
    yield (
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 10}" text-anchor="middle">time over target</text>'
        f'<text transform="translate(14 {(_TOP + _HEIGHT - _BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
        "target / usage</text>"
    )


def _line(curve: Curve, colour: str) -> Iterator[str]:
    points = [
        (_x(time), _y(footprint))
        for time, footprint in zip(curve.shown_time_over.tolist(), curve.shown_footprint.tolist(), strict=True)
        if _TIMES[0] <= time <= _TIMES[-1] and _FOOTPRINTS[0] <= footprint <= _FOOTPRINTS[-1]
    ]
    listed = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{listed}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
    usual = len(FACTORS) // 2
    time, footprint = float(curve.shown_time_over[usual]), float(curve.shown_footprint[usual])
    if _TIMES[0] <= time <= _TIMES[-1] and _FOOTPRINTS[0] <= footprint <= _FOOTPRINTS[-1]:
        yield f'<circle cx="{_x(time):.1f}" cy="{_y(footprint):.1f}" r="3.5" fill="{colour}"/>'


def _legend(names: Sequence[str]) -> Iterator[str]:
    for number, (colour, name) in enumerate(zip(_COLOURS * 2, names, strict=False)):
        y = _TOP + 14 + 15 * number
        yield f'<path d="M{_WIDTH - 110} {y - 4}h18" stroke="{colour}" stroke-width="2"/>'
        yield f'<text x="{_WIDTH - 87}" y="{y}">{escape(name)}</text>'


def _x(time: float) -> float:
    return _between(math.log(time), math.log(_TIMES[0]), math.log(_TIMES[-1]), _LEFT, _WIDTH - _RIGHT)


def _y(footprint: float) -> float:
    low, high = math.log(_FOOTPRINTS[0]), math.log(_FOOTPRINTS[-1])
    return _between(math.log(footprint), low, high, _HEIGHT - _BOTTOM, _TOP)


def _between(value: float, low: float, high: float, begin: float, end: float) -> float:
    return begin + (value - low) / (high - low) * (end - begin)
