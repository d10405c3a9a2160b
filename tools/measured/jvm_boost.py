"""The picture of a JVM that starts without and with a boost, drawn from what was measured on a real node.

What the kernel said is kept beside the picture. To measure anew, on Linux as root, and then draw:

    JVM_BOOST_FILE=docs/images/boost-jvm.json PYTHONPATH=. .venv/bin/python tools/node_tests.py -k jvm -n 0
    make docs
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import msgspec

DATA: Final = "docs/images/boost-jvm.json"

_WIDTH, _HEIGHT = 430, 256
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 24, 44, 36
# Usage is drawn as its average over so many seconds: the kernel hands out CPU in periods of 0.1 s.
_AVERAGED_SECONDS: Final = 0.4

_STYLE = """
  svg { --ground: #ffffff; --ink: #1f2328; --quiet: #59636e; --grid: #e4e8ec; --band: #e9edf1;
        --used: #0969da; --limit: #bc4c00; --ready: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    svg { --ground: #0d1117; --ink: #f0f6fc; --quiet: #9198a1; --grid: #2a313a; --band: #222a35;
          --used: #4493f8; --limit: #f0883e; --ready: #3fb950; } }
  text { font: 12px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: var(--quiet); }
  .title { font-weight: 600; font-size: 13px; fill: var(--ink); }
  .used { stroke: var(--used); stroke-width: 2; fill: none; stroke-linejoin: round; }
  .area { fill: var(--used); opacity: 0.13; }
  .limit { stroke: var(--limit); stroke-width: 2; stroke-dasharray: 6 4; fill: none; }
  .ready { stroke: var(--ready); stroke-width: 1.5; stroke-dasharray: 2 3; }
  .says-limit { fill: var(--limit); font-weight: 600; } .says-ready { fill: var(--ready); font-weight: 600; }
  .grid { stroke: var(--grid); } .band { fill: var(--band); } .ground { fill: var(--ground); }
"""


class MeasuredStart(msgspec.Struct, frozen=True):
    """A start in columns: seconds since its container was there, seconds of CPU used so far, the limit in millicores.

    `ready` is the second of Ready; `periods` and `throttled` are the kernel's counts until then.
    """

    ready: float
    periods: int
    throttled: int
    at: list[float]
    used: list[float]
    limit: list[int]


class Measurement(msgspec.Struct, frozen=True):
    """The same program, started at the same time on the same node."""

    plain: MeasuredStart
    boosted: MeasuredStart


def encode_measurement(measurement: Measurement) -> str:
    """One line for each column."""
    text = msgspec.json.encode(measurement).decode().replace("],", "],\n").replace(":{", ":{\n").replace("},", "\n},\n")
    return f"{text}\n"


def load_measurement(root: Path) -> Measurement:
    """What was measured last."""
    return msgspec.json.decode((root / DATA).read_bytes(), type=Measurement)


def draw_jvm_boost(root: Path) -> str:
    """The SVG: both starts side by side, on the same axes."""
    measurement = load_measurement(root)
    plain, boosted = measurement.plain, measurement.boosted
    seconds = max(plain.at[-1], boosted.at[-1])
    cores = max(*plain.limit, *boosted.limit) / 1000 * 1.2
    width, height = _WIDTH * 2, _HEIGHT + 30
    about = (
        f"CPU used and CPU limit of a JVM over time: Ready after {plain.ready:.1f} s without a boost, "
        f"after {boosted.ready:.1f} s with one"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(about)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}" rx="8"/>',
    ]
    factor = boosted.limit[0] // plain.limit[0]
    for number, (title, start) in enumerate((("Without a boost", plain), (f"Boosted by factor {factor}", boosted))):
        parts.append(f'<g transform="translate({number * _WIDTH} 0)">')
        parts += _Panel(seconds, cores).draw(title, start)
        parts.append("</g>")
    return "\n".join([*parts, _draw_legend(width, height), "</svg>", ""])


class _Panel:
    """The axes of a panel, and what is drawn on them."""

    def __init__(self, seconds: float, cores: float) -> None:
        self._seconds = seconds
        self._cores = cores

    def draw(self, title: str, start: MeasuredStart) -> Iterator[str]:
        yield f'<text class="title" x="{_LEFT}" y="20">{escape(title)}</text>'
        throttled = f"throttled in {start.throttled} of {start.periods} periods of 0.1 s until Ready"
        yield f'<text x="{_LEFT}" y="36">{throttled}</text>'
        yield from self._draw_ground(start.ready)
        line = " L".join(f"{self._x(at)} {self._y(cores)}" for at, cores in _average(start))
        yield f'<path class="area" d="M{self._x(0)} {self._y(0)} L{line} V{self._y(0)} Z"/>'
        yield f'<path class="used" d="M{line}"/>'
        yield from self._draw_limits(start)
        ready = self._x(start.ready)
        yield f'<line class="ready" x1="{ready}" x2="{ready}" y1="{self._y(self._cores)}" y2="{self._y(0)}"/>'
        inside = start.ready < self._seconds * 0.7
        anchor, x = ("start", ready + 5) if inside else ("end", ready - 5)
        text = f"Ready after {start.ready:.1f} s"
        y = self._y(self._cores) + 12
        yield f'<text class="says-ready" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text}</text>'

    def _draw_ground(self, ready: float) -> Iterator[str]:
        top, bottom = self._y(self._cores), self._y(0)
        band = round(self._x(ready) - self._x(0), 1)
        yield f'<rect class="band" x="{self._x(0)}" y="{top}" width="{band}" height="{round(bottom - top, 1)}"/>'
        for millicores in range(0, int(self._cores * 1000), 200):
            y = self._y(millicores / 1000)
            yield f'<line class="grid" x1="{self._x(0)}" x2="{self._x(self._seconds)}" y1="{y}" y2="{y}"/>'
            yield f'<text x="{_LEFT - 7}" y="{y + 4:g}" text-anchor="end">{millicores / 1000:g}</text>'
        for second in range(0, int(self._seconds) + 1, 2):
            yield f'<text x="{self._x(second)}" y="{bottom + 16:g}" text-anchor="middle">{second} s</text>'

    def _draw_limits(self, start: MeasuredStart) -> Iterator[str]:
        """The limit as steps, with its amount where one begins."""
        changes = [0] + [i for i in range(1, len(start.at)) if start.limit[i] != start.limit[i - 1]]
        path = ""
        for index in changes:
            x, y = self._x(start.at[index]), self._y(start.limit[index] / 1000)
            path += f" H{x} V{y}" if path else f"M{x} {y}"
            yield f'<text class="says-limit" x="{x + 6:g}" y="{y - 6:g}">{start.limit[index]}m</text>'
        yield f'<path class="limit" d="{path} H{self._x(start.at[-1])}"/>'

    def _x(self, seconds: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * seconds / self._seconds, 1)

    def _y(self, cores: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * cores / self._cores, 1)


def _average(start: MeasuredStart) -> Iterator[tuple[float, float]]:
    """Cores in use, each in the middle of the stretch that it is the average of."""
    yield 0.0, 0.0
    begin = 0
    for index, at in enumerate(start.at):
        seconds = at - start.at[begin]
        if seconds >= _AVERAGED_SECONDS:
            yield round(at - seconds / 2, 3), (start.used[index] - start.used[begin]) / seconds
            begin = index


def _draw_legend(width: int, height: int) -> str:
    y, x = height - 14, width / 2 - 320
    parts = []
    for kind, text, step in (
        ("used", "CPU used, in cores", 175),
        ("limit", "CPU limit", 120),
        ("ready", "the pod becomes Ready", 205),
    ):
        parts.append(f'<line class="{kind}" x1="{x}" x2="{x + 30}" y1="{y - 4}" y2="{y - 4}"/>')
        parts.append(f'<text x="{x + 37}" y="{y}">{text}</text>')
        x += step
    parts.append(f'<rect class="band" x="{x}" y="{y - 12}" width="30" height="16"/>')
    parts.append(f'<text x="{x + 37}" y="{y}">the JVM starts</text>')
    return "".join(parts)
