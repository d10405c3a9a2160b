"""What do the charts of a simulation's page draw? Its columns, told once each."""

from __future__ import annotations

from typing import Any

from trellis.reports.figures import significant
from trellis.reports.html.columns import Columns
from trellis.reports.simulation_compared import scales
from trellis.reports.simulation_headline import by_money, called, cheapest, side_by_side
from trellis.sim.results import Chart, FleetChart, Line, RunResult, WorkloadResult

_FAR_ABOVE = 1.8  # times the highest request: what nodes offer would press all else to the ground


class Words:
    """Words told once each, by number."""

    def __init__(self) -> None:
        self.told: dict[str, int] = {}

    def add(self, word: str) -> int:
        """The number of a word."""
        return self.told.setdefault(word, len(self.told))


def page_data(result: RunResult) -> dict[str, Any]:
    """Everything that the page's script reads."""
    columns, words = Columns(), Words()
    workloads = [_workload(same, result.begin, columns, words) for same in side_by_side(result)]
    ranked = by_money(result, 1)
    names = [workload["name"] for workload in workloads]
    return {
        "begin": result.begin,
        "end": result.end,
        "scoredFrom": result.scored_from,
        "variants": [called(variant) for variant in result.variants],
        "shown": cheapest(result),
        **({"scales": True} if scales(result) else {}),
        "chosen": names.index(named(ranked[0].workloads[0])) if ranked else 0,
        "fleet": _fleet([variant.chart for variant in result.variants], columns),
        "workloads": workloads,
        "words": list(words.told),
        "columns": columns.told,
    }


def named(workload: WorkloadResult) -> str:
    """A workload's name for people."""
    return f"{workload.namespace}/{workload.name}"


def _fleet(charts: list[FleetChart], columns: Columns) -> dict[str, Any]:
    """The fleet's columns. A variant that was stopped early has a shorter one, and the longest has the times."""
    if not charts:
        return {}
    longest = max(charts, key=lambda chart: len(chart.times))

    def resource(used: list[float], offered: list[float], requested: list[list[float]]) -> dict[str, Any]:
        top = max((max(column, default=0.0) for column in requested), default=0.0)
        near = max(offered, default=0.0) <= _FAR_ABOVE * top
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


def _workload(same: list[WorkloadResult], begin: float, columns: Columns, words: Words) -> dict[str, Any]:
    first = same[0]
    told = [first.kind, *([first.label] if first.label else [])]
    pods = max((max(each.chart.pods, default=0.0) for each in same if each.chart is not None), default=0.0)
    return {
        "name": named(first),
        "told": f"{', '.join(told)}, {significant(pods) if pods % 1 else round(pods)} pods at most.",
        "charts": [each.chart and _chart(each.chart, begin, columns, words) for each in same],
    }


def _chart(chart: Chart, begin: float, columns: Columns, words: Words) -> dict[str, Any]:
    return {
        "times": columns.add_times(chart.times),
        "pods": columns.add(chart.pods),
        "lines": [_line(line, columns) for line in chart.lines],
        "marks": [
            [round(mark.time - begin), words.add(mark.what), words.add(mark.why), words.add(mark.text)]
            for mark in chart.marks
        ],
        "left": chart.marks_left_out,
    }


def _line(line: Line, columns: Columns) -> dict[str, Any]:
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
