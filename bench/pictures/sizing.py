"""Draws the usage of a container, and what two recommenders would have given it.

Below the curves, red on the line of a recommender marks when usage was above its request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from bench.pictures.style import legend, opened, text
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

_WIDTH, _HEIGHT = 840, 300
_LEFT, _RIGHT, _TOP = 44, 12, 46
_LANE = 16
_GRID_LINES = 4


class Line(msgspec.Struct, frozen=True):
    """One recommender: its targets and where they were too little, point by point, and points of kills."""

    name: str
    summary: str
    """What is said of it in the legend."""
    targets: FloatColumn
    over: BoolColumn
    kills: IntColumn


class Chart(msgspec.Struct, frozen=True):
    """Usage and targets at the same points in time; `marks` are where on the axis something begins, from 0 to 1."""

    title: str
    unit: str
    usage: FloatColumn
    lines: Sequence[Line]
    marks: Sequence[tuple[float, str]]


def draw(chart: Chart) -> str:
    """As SVG."""
    highest = 1.12 * max(float(chart.usage.max()), *(float(line.targets.max()) for line in chart.lines))
    base = _HEIGHT - 24 - _LANE * len(chart.lines)
    parts = [
        opened(_WIDTH, _HEIGHT, f"{chart.title}: {', '.join(f'{line.name} {line.summary}' for line in chart.lines)}"),
        text(_LEFT, 16, f"{chart.title}, {chart.unit}", kind="title"),
        *_legends(chart),
        *_grid(highest, base),
        *_days(chart.marks),
        f'<path class="usage" d="{_area(chart.usage, highest, base)}"/>',
    ]
    for number, line in enumerate(chart.lines):
        parts.append(f'<path class="line l{number}" d="{_steps(line.targets, highest, base)}"/>')
        parts += _kills(line, chart.usage, highest, base)
        parts += _lane(line, number, base + 4 + _LANE * number)
    return "\n".join([*parts, "</svg>", ""])


def _legends(chart: Chart) -> Iterator[str]:
    yield f'<rect class="usage" x="{_LEFT}" y="25" width="20" height="9"/>' + text(_LEFT + 26, 34, "usage")
    x = _LEFT + 80.0
    for number, line in enumerate(chart.lines):
        words = f"{line.name}: {line.summary}"
        yield legend(x, 34, number, words)
        x += 44 + 6.3 * len(words)


def _grid(highest: float, base: float) -> Iterator[str]:
    rough = highest / _GRID_LINES
    size = 10.0 ** np.floor(np.log10(rough))
    step = size * min((1.0, 2.0, 2.5, 5.0, 10.0), key=lambda factor: abs(factor * size - rough))
    for value in np.arange(0.0, highest, step).tolist():
        y = _y(value, highest, base)
        yield f'<path class="{"grid" if value else "axis"}" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
        yield text(_LEFT - 6, y + 4, f"{value:g}", anchor="end")


def _days(marks: Sequence[tuple[float, str]]) -> Iterator[str]:
    for place, name in marks:
        x = _x(place)
        yield f'<path class="grid" d="M{x:.1f} {_TOP}V{_HEIGHT - 20}"/>'
        yield text(x + 4, _HEIGHT - 6, name)


def _area(values: FloatColumn, highest: float, base: float) -> str:
    points = " ".join(
        f"{_x(number / len(values)):.1f} {_y(value, highest, base):.1f}" for number, value in enumerate(values.tolist())
    )
    return f"M{_LEFT} {base:.1f}L{points}L{_WIDTH - _RIGHT} {base:.1f}Z"


def _steps(values: FloatColumn, highest: float, base: float) -> str:
    """A target holds until it changes."""
    changes = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist()]
    path = [f"M{_LEFT} {_y(float(values[0]), highest, base):.1f}"]
    path += [
        f"H{_x(place / len(values)):.1f}V{_y(float(values[place]), highest, base):.1f}" for place in changes if place
    ]
    return "".join([*path, f"H{_WIDTH - _RIGHT}"])


def _kills(line: Line, usage: FloatColumn, highest: float, base: float) -> Iterator[str]:
    for place in line.kills.tolist():
        x, y = _x(place / len(usage)), _y(float(usage[place]), highest, base)
        yield f'<path class="kill" d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"/>'


def _lane(line: Line, number: int, y: float) -> Iterator[str]:
    yield f'<path class="line l{number} thin" d="M{_LEFT} {y + 6}H{_WIDTH - _RIGHT}"/>'
    edges = np.flatnonzero(np.diff(np.concatenate([[False], line.over, [False]]).astype(np.int8)))
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        left, right = _x(begin / len(line.over)), _x(end / len(line.over))
        yield f'<rect class="over" x="{left:.1f}" y="{y + 1}" width="{max(right - left, 1.0):.1f}" height="10"/>'


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _RIGHT - _LEFT)


def _y(value: float, highest: float, base: float) -> float:
    return base - value / highest * (base - _TOP)
