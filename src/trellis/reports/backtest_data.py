"""What do the charts of a backtest's page draw? Columns of the series that have a chart."""

from __future__ import annotations

from typing import Any

from trellis.reports.html.columns import Columns
from trellis.sim.backtest.results import BacktestResult, ChartLine, SeriesChart


def page_data(result: BacktestResult) -> dict[str, Any]:
    """Everything that the page's script reads."""
    columns = Columns()
    facts = {each.name: each for each in result.facts}
    charts = [_chart(chart, columns) for chart in result.charts if chart.times]
    for chart in charts:
        fact = facts.get(chart["name"])
        chart["end"] = fact.end if fact else None
        chart["scoredFrom"] = fact.scored_from if fact else 0.0
    return {"variants": [variant.name for variant in result.variants], "series": charts, "columns": columns.told}


def _chart(chart: SeriesChart, columns: Columns) -> dict[str, Any]:
    lines = [_line(line, columns) for line in chart.lines]
    return {"name": chart.series, "times": columns.add_times(chart.times), "lines": lines}


def _line(line: ChartLine, columns: Columns) -> dict[str, Any]:
    return {
        "resource": line.resource,
        "used": columns.add(line.used),
        "peak": columns.add(line.peak),
        "requested": [columns.add(column) for column in line.requested],
    }
