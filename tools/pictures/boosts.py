"""The pictures of the guide to startup boost: CPU request and limit over time, drawn from the decisions themselves.

They have their own ground in both colour schemes, so that they can be read on any page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

import msgspec

from pictures.boost_timeline import Moment, Story, simulate_boost

_WIDTH, _HEIGHT = 430, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 24, 44, 36
_SECONDS, _CORES = 140, 2.6
_READY: Final = 40.0

_STYLE = """
  svg { --ground: #ffffff; --ink: #1f2328; --quiet: #59636e; --grid: #e4e8ec; --band: #e9edf1;
        --request: #0969da; --limit: #bc4c00; --ready: #1a7f37; }
  @media (prefers-color-scheme: dark) {
    svg { --ground: #0d1117; --ink: #f0f6fc; --quiet: #9198a1; --grid: #2a313a; --band: #222a35;
          --request: #4493f8; --limit: #f0883e; --ready: #3fb950; } }
  text { font: 12px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: var(--quiet); }
  .title { font-weight: 600; font-size: 13px; fill: var(--ink); }
  .request { stroke: var(--request); stroke-width: 2.5; fill: none; }
  .area { fill: var(--request); opacity: 0.13; }
  .limit { stroke: var(--limit); stroke-width: 2; stroke-dasharray: 6 4; fill: none; }
  .ready { stroke: var(--ready); stroke-width: 1.5; stroke-dasharray: 2 3; }
  .says-request { fill: var(--request); font-weight: 600; } .says-limit { fill: var(--limit); font-weight: 600; }
  .says-ready { fill: var(--ready); }
  .grid { stroke: var(--grid); } .band { fill: var(--band); } .ground { fill: var(--ground); }
"""


class Panel(msgspec.Struct, frozen=True):
    """One story with its title, and what is written below the title."""

    title: str
    subtitle: str
    story: Story


def _factor(number: int, duration: str = "0s", **more: Any) -> dict[str, Any]:
    return {"type": "Factor", "factor": number, "duration": duration, **more}


# Without a probe Kubernetes calls the pod Ready as soon as it runs, here after a second.
PROBES: Final = (
    Panel("No probe, no duration", "over at once", Story(_factor(2), ready_at=1.0)),
    Panel("No probe, duration 60s", "60 s, whatever the application does", Story(_factor(2, "60s"), ready_at=1.0)),
    Panel("Probe, no duration", "until the pod is Ready", Story(_factor(2), ready_at=_READY)),
    Panel("Probe, duration 60s", "until 60 s after the pod is Ready", Story(_factor(2, "60s"), ready_at=_READY)),
)

KINDS: Final = (
    Panel("Factor 2", "request and limit times two", Story(_factor(2, "30s"), ready_at=_READY)),
    Panel(
        "Quantity 500m",
        "500m on top of request and limit",
        Story({"type": "Quantity", "quantity": "500m", "duration": "30s"}, ready_at=_READY),
    ),
    Panel(
        "Factor 3, RequestsOnly",
        "the limit stays, the request 1m below it",
        Story(_factor(3, "30s"), ready_at=_READY, policy={"controlledValues": "RequestsOnly"}),
    ),
    Panel(
        "Factor 2 on a recommendation",
        "400m at the start, 600m when the boost ends",
        Story(_factor(2, "30s"), ready_at=_READY, recommended=((0.0, 400), (50.0, 600))),
    ),
)


def draw_boosts(panels: Sequence[Panel], about: str) -> str:
    """The SVG: two panels in a row."""
    width, height = _WIDTH * 2, _HEIGHT * math.ceil(len(panels) / 2) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(about)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}" rx="8"/>',
    ]
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate({number % 2 * _WIDTH} {number // 2 * _HEIGHT})">')
        parts += _draw_panel(panel)
        parts.append("</g>")
    return "\n".join([*parts, _draw_legend(width, height), "</svg>", ""])


def _draw_panel(panel: Panel) -> Iterator[str]:
    moments = simulate_boost(panel.story)
    yield f'<text class="title" x="{_LEFT}" y="20">{escape(panel.title)}</text>'
    yield f'<text x="{_LEFT}" y="36">{escape(panel.subtitle)}</text>'
    yield from _draw_ground()
    yield f'<path class="area" d="{_draw_steps(moments, "request")} V{_y(0)} H{_x(0)} Z"/>'
    yield f'<path class="request" d="{_draw_steps(moments, "request")}"/>'
    yield f'<path class="limit" d="{_draw_steps(moments, "limit")}"/>'
    ready = _x(panel.story.ready_at)
    yield f'<line class="ready" x1="{ready}" x2="{ready}" y1="{_y(_CORES)}" y2="{_y(0)}"/>'
    yield f'<text class="says-ready" x="{ready + 4}" y="{_y(_CORES) + 11}">Ready</text>'
    yield from _draw_labels(moments)


def _draw_ground() -> Iterator[str]:
    band = _x(_READY) - _x(0)
    yield f'<rect class="band" x="{_x(0)}" y="{_y(_CORES)}" width="{band}" height="{_y(0) - _y(_CORES)}"/>'
    for cores in (0, 0.5, 1, 1.5, 2):
        yield f'<line class="grid" x1="{_x(0)}" x2="{_x(_SECONDS)}" y1="{_y(cores)}" y2="{_y(cores)}"/>'
        yield f'<text x="{_LEFT - 7}" y="{_y(cores) + 4}" text-anchor="end">{cores:g}</text>'
    for seconds in range(0, _SECONDS + 1, 20):
        yield f'<text x="{_x(seconds)}" y="{_y(0) + 16}" text-anchor="middle">{seconds} s</text>'


def _draw_labels(moments: Sequence[Moment]) -> Iterator[str]:
    """The amounts, where their steps begin; a step that is too short for its text has none."""
    ends = [*(moment.at for moment in moments[1:]), float(_SECONDS)]
    for moment, end in zip(moments, ends, strict=True):
        if end - moment.at < 15:
            continue
        for kind, amount in (("limit", moment.limit), ("request", moment.request)):
            if amount is not None:
                above = kind == "limit" or moment.limit is None or moment.limit - amount > 200
                y = _y(amount / 1000) + (-6 if above else 15)
                yield f'<text class="says-{kind}" x="{_x(moment.at) + 6:g}" y="{y:g}">{_cpu(amount)}</text>'


def _cpu(millicores: int) -> str:
    return f"{millicores}m"


def _draw_steps(moments: Sequence[Moment], attribute: str) -> str:
    """A line that holds its value until the next moment."""
    amounts = [(moment.at, getattr(moment, attribute) / 1000) for moment in moments]
    begin, *rest = amounts
    path = f"M{_x(begin[0])} {_y(begin[1])}"
    for at, cores in rest:
        path += f" H{_x(at)} V{_y(cores)}"
    return f"{path} H{_x(_SECONDS)}"


def _draw_legend(width: int, height: int) -> str:
    y, x = height - 14, width / 2 - 320
    parts = []
    for kind, text, width_left in (
        ("request", "CPU request", 150),
        ("limit", "CPU limit", 135),
        ("ready", "the pod becomes Ready", 205),
    ):
        parts.append(f'<line class="{kind}" x1="{x}" x2="{x + 30}" y1="{y - 4}" y2="{y - 4}"/>')
        parts.append(f'<text x="{x + 37}" y="{y}">{text}</text>')
        x += width_left
    parts.append(f'<rect class="band" x="{x}" y="{y - 12}" width="30" height="16"/>')
    parts.append(f'<text x="{x + 37}" y="{y}">the application starts</text>')
    return "".join(parts)


def _x(seconds: float) -> float:
    return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * seconds / _SECONDS, 1)


def _y(cores: float) -> float:
    return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * cores / _CORES, 1)
