"""Draws the pictures of Hvpas: frames with two axes, and lines that have only the points they need.

They have their own ground in both colour schemes, so that they can be read on any page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final
from xml.sax.saxutils import escape

import msgspec

_NEAR: Final = 0.15
_STYLE = """
  svg { --ground: #ffffff; --ink: #1f2328; --quiet: #59636e; --grid: #e4e8ec; --band: #fff1e5;
        --count: #8250df; --size: #0969da; --used: #59636e; --has: #1a7f37; --need: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    svg { --ground: #0d1117; --ink: #f0f6fc; --quiet: #9198a1; --grid: #2a313a; --band: #3a2a1c;
          --count: #a371f7; --size: #4493f8; --used: #9198a1; --has: #3fb950; --need: #f0883e; } }
  text { font: 11px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: var(--quiet); }
  .title { font-weight: 600; font-size: 13px; fill: var(--ink); }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round; } .dashed { stroke-dasharray: 5 4; }
  .count { stroke: var(--count); } .size { stroke: var(--size); } .used { stroke: var(--used); }
  .has { stroke: var(--has); } .need { stroke: var(--need); }
  .area { fill: var(--used); opacity: 0.18; } .pod { fill: var(--size); opacity: 0.2; }
  .says { fill: var(--ink); font-weight: 600; }
  .grid { stroke: var(--grid); } .band { fill: var(--band); } .ground { fill: var(--ground); }
"""


class Frame(msgspec.Struct, frozen=True):
    """Where a drawing is, and how far its axes reach."""

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    maximum: float

    def x(self, value: float) -> float:
        """Where a value is from left to right."""
        begin, end = self.x_range
        return round(self.left + self.width * (value - begin) / (end - begin), 1)

    def y(self, value: float) -> float:
        """Where a value is from top to bottom."""
        return round(self.top + self.height * (1 - value / self.maximum), 1)

    def axes(self, title: str, ups: Sequence[float], acrosses: Sequence[tuple[float, str]]) -> Iterator[str]:
        """The ground of a drawing, its title, and what its axes say."""
        end = self.left + self.width
        yield f'<text class="title" x="{self.left}" y="{self.top - 10}">{escape(title)}</text>'
        for up in ups:
            yield f'<line class="grid" x1="{self.left}" x2="{end}" y1="{self.y(up)}" y2="{self.y(up)}"/>'
            yield f'<text x="{self.left - 7}" y="{self.y(up) + 4:g}" text-anchor="end">{up:g}</text>'
        for at, words in acrosses:
            yield f'<text x="{self.x(at)}" y="{self.y(0) + 16:g}" text-anchor="middle">{escape(words)}</text>'

    def band(self, begin: float, end: float) -> str:
        """A part of it that stands out."""
        width = self.x(end) - self.x(begin)
        return f'<rect class="band" x="{self.x(begin)}" y="{self.top}" width="{width:g}" height="{self.height:g}"/>'

    def line(self, points: Sequence[tuple[float, float]], kind: str) -> str:
        """A line through points."""
        return f'<path class="line {kind}" d="M{self._path(points)}"/>'

    def area(self, points: Sequence[tuple[float, float]]) -> str:
        """What is below a line."""
        begin, end = self.x(points[0][0]), self.x(points[-1][0])
        return f'<path class="area" d="M{begin} {self.y(0)} L{self._path(points)} L{end} {self.y(0)} Z"/>'

    def _path(self, points: Sequence[tuple[float, float]]) -> str:
        placed = [(self.x(a), self.y(b)) for a, b in points]
        return " ".join(f"{x:g} {y:g}" for x, y in _simplify(placed))

    def text(self, at: float, up: float, words: str, *, anchor: str = "middle", below: bool = False) -> str:
        """Words at a point."""
        y = self.y(up) + (15 if below else -6)
        return f'<text class="says" x="{self.x(at)}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def draw_picture(width: int, height: int, about: str, parts: Sequence[str]) -> str:
    """The SVG; `about` is what it shows, for who cannot see it."""
    opened = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(about)}">'
    )
    ground = f'<rect class="ground" width="{width}" height="{height}" rx="8"/>'
    return "\n".join([opened, f"<style>{_STYLE}</style>", ground, *parts, "</svg>", ""])


def add_steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """With upright lines where the value jumps."""
    return [at for before, value in pairwise(points) for at in (before, (value[0], before[1]))] + [points[-1]]


def _simplify(placed: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points without which a line would be another one to the eye."""
    (begin, before), (end, after) = placed[0], placed[-1]
    way = math.hypot(end - begin, after - before) or 1.0
    off = [abs((end - begin) * (y - before) - (after - before) * (x - begin)) / way for x, y in placed]
    furthest = max(range(len(off)), key=off.__getitem__)
    if off[furthest] < _NEAR:
        return [placed[0], placed[-1]]
    return _simplify(placed[: furthest + 1])[:-1] + _simplify(placed[furthest:])
