"""A simulation as Markdown, for pull requests and wikis: the answer, then every measure of each variant."""

from __future__ import annotations

from collections.abc import Iterator

from trellis.reports.simulation.comparison import MeasureRow, compare_variants
from trellis.reports.simulation.headline import (
    NOT_PLAYED,
    STOPPED,
    compare_all,
    describe_stopped,
    list_facts,
    list_not_played,
    select_comparable,
)
from trellis.reports.text.markdown import escape_markdown, format_markdown_table
from trellis.sim.results import RunResult


def as_markdown(result: RunResult) -> str:
    """The answer first, then a table for each group of measures, and what differs from the cluster."""
    facts = ", ".join((*list_facts(result), f"seed {result.seed}"))
    lines = [f"## {escape_markdown(result.scenario)}", "", escape_markdown(facts), ""]
    lines += _list_warnings(result)
    differences = [f"- {escape_markdown(f'{subject}: {reason}')}" for subject, reason in list_not_played(result)]
    result = select_comparable(result)
    if result.variants:
        lines += [*(f"- {escape_markdown(sentence)}" for sentence in compare_all(result)), ""]
        names = [variant.name for variant in result.variants]
        for group in compare_variants(result, include_all=False):
            lines += format_markdown_table([group.title, *map(escape_markdown, names)], map(_format_row, group.rows))
    lines += [escape_markdown(NOT_PLAYED), "", *differences, ""] if differences else []
    lines += [f"- {escape_markdown(note)}" for note in result.notes]
    return "\n".join(lines).rstrip() + "\n"


def _list_warnings(result: RunResult) -> Iterator[str]:
    if result.partial:
        yield from (f"**{STOPPED}**", "")
    for line in describe_stopped(result):
        yield from (f"**Partial: {escape_markdown(line)}**", "")


def _format_row(row: MeasureRow) -> list[str]:
    percents = (row.percent(number).strip() for number in range(len(row.values)))
    values = zip(row.values, percents, strict=True)
    return [row.title, *(f"{value} ({percent})" if percent else value for value, percent in values)]
