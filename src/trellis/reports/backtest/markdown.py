"""A backtest as Markdown, for pull requests and wikis: the answer, then a table per resource."""

from __future__ import annotations

from trellis.reports.backtest.headline import (
    describe_answer,
    describe_stopped_backtest,
    list_facts,
    list_remarks,
)
from trellis.reports.backtest.measures import get_measures, score_variants
from trellis.reports.text.markdown import escape_markdown, format_markdown_table
from trellis.sim.backtest.results import BacktestResult

_RESOURCES = (("CPU", "cpu"), ("Memory", "memory"))
_MAX_REMARKS = 10  # a thousand series may have as many gaps


def as_markdown(result: BacktestResult) -> str:
    """The answer first, then the figures of every recommender, and what was skipped."""
    lines = ["## Backtest", "", escape_markdown(", ".join(list_facts(result))), ""]
    if result.partial:
        lines += [f"**{escape_markdown(describe_stopped_backtest(result))}**", ""]
    if len(result.variants) > 1:
        lines += [*(f"- {escape_markdown(sentence)}" for sentence in describe_answer(result)), ""]
    for title, resource in _RESOURCES:
        if scores := score_variants(result, resource):
            heads = [title, "requested", *(measure.title for measure in get_measures(resource))]
            lines += format_markdown_table(heads, ([score.name, score.against, *score.values] for score in scores))
    remarks = list_remarks(result)
    lines += [f"- {escape_markdown(remark)}" for remark in remarks[:_MAX_REMARKS]]
    if len(remarks) > _MAX_REMARKS:
        lines.append(f"- ... and {len(remarks) - _MAX_REMARKS} more remarks")
    return "\n".join(lines).rstrip() + "\n"
