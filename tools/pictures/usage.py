"""The picture of the guide to simulations: what each shape of usage looks like, drawn from what a scenario says.

It has its own ground in both colour schemes, so that it can be read on any page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from xml.sax.saxutils import escape

import msgspec
import numpy as np

from trellis.api.scenario.spec import Scenario
from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import SimulatedWorkload
from trellis.sim.scenario.compiler import compile_scenario

_WIDTH, _HEIGHT = 300, 172
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 14, 48, 26
_DAY: Final = 86_400.0
_GIB: Final = 2.0**30
_POINTS: Final = 280
_STYLE = """
  svg { --ground: #ffffff; --ink: #1f2328; --quiet: #59636e; --grid: #e4e8ec; --line: #0969da; --new: #bc4c00; }
  @media (prefers-color-scheme: dark) {
    svg { --ground: #0d1117; --ink: #f0f6fc; --quiet: #9198a1; --grid: #2a313a; --line: #4493f8; --new: #f0883e; } }
  text { font: 11px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: var(--quiet); }
  .title { font-weight: 600; font-size: 13px; fill: var(--ink); }
  .line { stroke: var(--line); stroke-width: 1.5; fill: none; stroke-linejoin: round; }
  .area { fill: var(--line); opacity: 0.12; }
  .rollout { stroke: var(--new); stroke-dasharray: 2 3; }
  .grid { stroke: var(--grid); } .ground { fill: var(--ground); }
"""


class Panel(msgspec.Struct, frozen=True):
    """One shape: what a scenario says of the container's usage and of its workload."""

    title: str
    subtitle: str
    usage: dict[str, Any]
    more: dict[str, Any] = {}
    days: float = 14.0
    memory: bool = False


_CORE = {"low": "200m", "high": "1"}
PANELS: Final = (
    Panel("steady", "cores, 2 weeks", {"cpu": {"steady": "600m", "noise": 0.1}}),
    Panel("daily", "cores, 2 weeks", {"cpu": {"daily": _CORE}}),
    Panel("weekly", "cores, 2 weeks", {"cpu": {"weekly": {**_CORE, "beginHour": 7, "endHour": 19}}}),
    Panel(
        "spiky",
        "cores, 2 weeks",
        {"cpu": {"steady": "150m", "spiky": {"height": "900m", "perDay": 3, "length": "50m"}}},
    ),
    Panel("trend", "cores, 2 weeks", {"cpu": {"trend": {"begin": "300m", "end": "1"}}}),
    Panel(
        "leak",
        "GiB of one pod, 2 weeks, rollouts every 5 days",
        {"memory": {"steady": "300Mi", "leak": "6Mi"}},
        {"rollouts": {"every": "5d"}},
        memory=True,
    ),
    Panel(
        "phases",
        "cores of a Job, one day, a run every 8 hours",
        {
            "cpu": {
                "phases": [
                    {"length": "30m", "level": "200m"},
                    {"length": "60m", "level": "1"},
                    {"length": "30m", "level": "400m"},
                ]
            }
        },
        {"kind": "Job", "runs": {"every": "8h", "length": "2h", "first": "2h"}},
        days=1.0,
    ),
    Panel(
        "rollouts with factors",
        "cores, 2 weeks, new versions on days 4 and 9",
        {"cpu": {"daily": {"low": "200m", "high": "600m"}}},
        {"rollouts": {"at": ["4d", "9d"], "factors": [1.6, 0.7]}},
    ),
    Panel(
        "daily and spiky",
        "cores, 2 weeks: shapes add up",
        {"cpu": {"daily": {"low": "150m", "high": "600m"}, "spiky": {"height": "400m", "perDay": 2, "length": "60m"}}},
    ),
)


def draw_usage() -> str:
    """The SVG: three panels in a row."""
    width, height = _WIDTH * 3, _HEIGHT * (len(PANELS) // 3) + 10
    about = "Usage over time of each shape that a scenario knows"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{about}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}" rx="8"/>',
    ]
    for number, panel in enumerate(PANELS):
        parts.append(f'<g transform="translate({number % 3 * _WIDTH} {number // 3 * _HEIGHT})">')
        parts += _draw_panel(panel)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _draw_panel(panel: Panel) -> Iterator[str]:
    workload, step = _compile_panel(panel)
    values = _compute_usage(workload, panel, step)
    yield f'<text class="title" x="{_LEFT}" y="22">{escape(panel.title)}</text>'
    yield f'<text x="{_LEFT}" y="38">{escape(panel.subtitle)}</text>'
    most = 2.0 if values.max() > 1.3 else 1.3
    for level in (0.0, 0.5, 1.0, *((1.5,) if most > 1.5 else ())):
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_y(level, most)}" y2="{_y(level, most)}"/>'
        yield f'<text x="{_LEFT - 7}" y="{_y(level, most) + 4}" text-anchor="end">{level:g}</text>'
    for place in (0.0, 0.5, 1.0):
        at, anchor = place * panel.days, {0.0: "start", 0.5: "middle", 1.0: "end"}[place]
        text = f"day {at:g}" if panel.days > 1 else f"{24 * at:g} h"
        yield f'<text x="{_x(place)}" y="{_y(0, most) + 16}" text-anchor="{anchor}">{text}</text>'
    for moment in workload.rollouts:
        x = _x((moment - _BEGIN) / (panel.days * _DAY))
        yield f'<line class="rollout" x1="{x}" x2="{x}" y1="{_TOP}" y2="{_y(0, most)}"/>'
    path = " ".join(f"{_x(n / (len(values) - 1))} {_y(value, most)}" for n, value in enumerate(values.tolist()))
    yield f'<path class="area" d="M{_LEFT} {_y(0, most)} L{path} L{_x(1)} {_y(0, most)} Z"/>'
    yield f'<path class="line" d="M{path}"/>'


_BEGIN: Final = 1_780_272_000.0  # Monday, 1 June 2026


def _compile_panel(panel: Panel) -> tuple[SimulatedWorkload, float]:
    step = panel.days * _DAY / _POINTS
    spec = {
        "seed": 5,
        "duration": f"{panel.days:g}d",
        "step": f"{step:g}s",
        "workloads": [{"name": "shape", "containers": [{"name": "app", "usage": panel.usage}], **panel.more}],
    }
    scenario = msgspec.convert({"metadata": {"name": "picture"}, "spec": spec}, Scenario)
    return compile_scenario(scenario).workloads[0], step


def _compute_usage(workload: SimulatedWorkload, panel: Panel, step: float) -> FloatColumn:
    """What the one pod uses over time: runs laid out one after the other, leaks from start to start."""
    demand = workload.demand[0]
    times = _BEGIN + step * np.arange(_POINTS)
    if demand.by_age:
        values = np.zeros(_POINTS)
        for begin, length in workload.runs:
            first, count = round((begin - _BEGIN) / step), round(length / step)
            values[first : first + count] = demand.cpu[: len(values[first : first + count])]
        return values
    starts = np.asarray([_BEGIN, *workload.rollouts])
    age = times - starts[np.searchsorted(starts, times, side="right") - 1]
    return (demand.memory + demand.leak * age) / _GIB if panel.memory else demand.cpu


def _x(place: float) -> float:
    return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * place, 1)


def _y(value: float, most: float) -> float:
    return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / most, 1)
