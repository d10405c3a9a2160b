"""Data and drawings of the charts on a simulation's page.

The page's script draws usage and requests from columns; the number of nodes over time is an SVG that needs no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from trellis.reports.html.axes import choose_time_ticks
from trellis.reports.html.chart_columns import ChartColumns
from trellis.reports.html.page import render_template
from trellis.reports.simulation.comparison import has_scaling
from trellis.reports.simulation.headline import align_workloads, rank_by_cost
from trellis.reports.simulation.recommendation import recommend_variant, variant_title
from trellis.reports.text.numbers import format_significant
from trellis.sim.results import FleetChart, ResourceChart, RunResult, VariantResult, WorkloadChart, WorkloadResult

_MAX_OFFERED_RATIO = 1.8  # times the highest request: what nodes offer would press all else to the ground


class TextPool:
    """A pool of texts that a page refers to by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def add(self, word: str) -> int:
        """The number of a word."""
        return self.numbers.setdefault(word, len(self.numbers))


def build_chart_data(result: RunResult) -> dict[str, Any]:
    """Everything that the page's script reads."""
    columns, words = ChartColumns(), TextPool()
    workloads = [_build_workload(same, result.begin, columns, words) for same in align_workloads(result)]
    names = [workload["name"] for workload in workloads]
    shown = recommend_variant(result).variant
    return {
        "begin": result.begin,
        "end": result.end,
        "scoredFrom": result.scored_from,
        "variants": [variant_title(variant) for variant in result.variants],
        "shown": shown,
        **({"scales": True} if has_scaling(result) else {}),
        "chosen": _choose_workload(result, shown, names),
        "fleet": _build_fleet([variant.chart for variant in result.variants], columns),
        "workloads": workloads,
        "words": list(words.numbers),
        "columns": columns.encoded,
    }


def _choose_workload(result: RunResult, variant: int, names: list[str]) -> int:
    """The workload whose chart is open at first: of those with pods in the variant, the one whose cost differs most."""
    ranked = [ranking.workloads for ranking in rank_by_cost(result, len(names))]
    for same in (*ranked, *align_workloads(result)):
        chart = same[variant].chart
        if chart is not None and max(chart.pods, default=0.0) > 0:
            return names.index(workload_path(same[0]))
    return 0


def workload_path(workload: WorkloadResult) -> str:
    """A workload's name for people."""
    return f"{workload.namespace}/{workload.name}"


def _build_fleet(charts: list[FleetChart], columns: ChartColumns) -> dict[str, Any]:
    """The fleet's columns. A variant that was stopped early has a shorter one, and the longest has the times."""
    if not charts:
        return {}
    longest = max(charts, key=lambda chart: len(chart.times))

    def resource(used: list[float], offered: list[float], requested: list[list[float]]) -> dict[str, Any]:
        top = max((max(column, default=0.0) for column in requested), default=0.0)
        near = max(offered, default=0.0) <= _MAX_OFFERED_RATIO * top
        return {
            "used": columns.add(used),
            "offered": columns.add(offered) if near else None,
            "requested": [columns.add(column) for column in requested],
        }

    first = charts[0]
    return {
        "times": columns.add_times(longest.times),
        "cpu": resource(first.used_cpu, first.offered_cpu, [chart.requested_cpu for chart in charts]),
        "memory": resource(first.used_memory, first.offered_memory, [chart.requested_memory for chart in charts]),
    }


def _build_workload(same: list[WorkloadResult], begin: float, columns: ChartColumns, words: TextPool) -> dict[str, Any]:
    first = same[0]
    facts = [first.kind, *([first.label] if first.label else [])]
    pods = max((max(workload.chart.pods, default=0.0) for workload in same if workload.chart is not None), default=0.0)
    return {
        "name": workload_path(first),
        "facts": f"{', '.join(facts)}, {format_significant(pods) if pods % 1 else round(pods)} pods at most.",
        "charts": [workload.chart and _build_chart(workload.chart, begin, columns, words) for workload in same],
    }


def _build_chart(chart: WorkloadChart, begin: float, columns: ChartColumns, words: TextPool) -> dict[str, Any]:
    return {
        "times": columns.add_times(chart.times),
        "pods": columns.add(chart.pods),
        "lines": [_build_line(line, columns) for line in chart.lines],
        "marks": [
            [round(mark.time - begin), words.add(mark.what), words.add(mark.why), words.add(mark.text)]
            for mark in chart.marks
        ],
        "left": chart.marks_left_out,
    }


def _build_line(line: ResourceChart, columns: ChartColumns) -> dict[str, Any]:
    return {
        "container": line.container,
        "resource": line.resource,
        "used": columns.add(line.used),
        "peak": columns.add(line.peak),
        "requested": columns.add(line.requested),
        "target": columns.add(line.target),
        "lower": columns.add(line.lower),
        "upper": columns.add(line.upper),
    }


class _NodeChartFrame(msgspec.Struct, frozen=True):
    """The size of a drawing, its margins, and how many times its axis names."""

    screen: str
    width: int
    height: int
    times: int
    left: int = 52
    right: int = 14
    top: int = 28
    bottom: int = 28

    def y(self, count: float, top: int) -> float:
        """Where a count lies, if the drawing reaches up to `top`."""
        return self.height - self.bottom - count / top * (self.height - self.top - self.bottom)


_FRAMES = (_NodeChartFrame("wide", 1140, 240, 12), _NodeChartFrame("narrow", 336, 200, 4))


def draw_node_chart(result: RunResult) -> list[str]:
    """A drawing for wide and one for narrow screens; none where nodes neither come nor go."""
    variants = [(number, v) for number, v in enumerate(result.variants) if v.chart.nodes is not msgspec.UNSET]
    return [_draw_nodes(result, variants, frame) for frame in _FRAMES] if variants else []


def _draw_nodes(result: RunResult, variants: list[tuple[int, VariantResult]], frame: _NodeChartFrame) -> str:
    top = _round_up(max((max(variant.chart.nodes or [0.0], default=0.0) for _, variant in variants), default=0.0))
    counts = range(0, top + 1, max(top // 4, 1))
    times = choose_time_ticks(result.begin, result.end, frame.times)
    return render_template(
        "node_chart.svg.j2",
        frame=frame,
        names=[variant_title(variant) for _, variant in variants],
        counts=[(count, frame.y(count, top)) for count in counts],
        times=[(text, _x(frame, result, time)) for text, time in times],
        lines=[(number, _draw_steps(frame, result, variant.chart, top)) for number, variant in variants],
    )


def _draw_steps(frame: _NodeChartFrame, result: RunResult, chart: FleetChart, top: int) -> str:
    """A path in steps: a count holds from one point to the next."""
    path, times = "", chart.times
    for at, (time, count) in enumerate(zip(times, chart.nodes or [], strict=True)):
        x, y = _x(frame, result, time), frame.y(count, top)
        path += f"H{x:.1f}V{y:.1f}" if at else f"M{x:.1f} {y:.1f}"
    return path + (f"H{_x(frame, result, times[-1] + _step_length(times)):.1f}" if times else "")


def _step_length(times: Sequence[float]) -> float:
    """The time between points; a stopped run ends before the others."""
    return times[1] - times[0] if len(times) > 1 else 0.0


def _x(frame: _NodeChartFrame, result: RunResult, time: float) -> float:
    share = (time - result.begin) / max(result.end - result.begin, 1.0)
    return frame.left + share * (frame.width - frame.left - frame.right)


def _round_up(most: float) -> int:
    """A whole number of four equal steps, with space above the highest line."""
    return 4 * max(int(-(-most // 4)), 1)
