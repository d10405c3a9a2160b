"""The report of a backtest as terminal text, JSON, CSV and Markdown; the entry point of all its formats.

The text has a table per resource, and the answer in words.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trellis.reports.backtest.headline import (
    describe_answer,
    describe_stopped_backtest,
    list_facts,
    list_remarks,
)
from trellis.reports.backtest.markdown import as_markdown
from trellis.reports.backtest.measures import get_measures, score_variants
from trellis.reports.backtest.page import as_html
from trellis.reports.formats import CsvCell, encode_csv, encode_json
from trellis.reports.text.tables import NARROWEST, align_columns, choose_fitting, shorten, stack_rows, wrap_text
from trellis.sim.backtest.results import BacktestResult, ResourceScore

_MIN_NAME_LENGTH = 16
_RESOURCES = (("CPU", "cpu"), ("Memory", "memory"))
_MAX_REMARKS = 10  # lines: a thousand series may have as many gaps
_HEADS = {
    "footprint": "per used",
    "time_over": "time above",
    "overrun": "overrun",
    "changes": "changes/day",
    "kills": "OOM kills/week",
}


def as_text(result: BacktestResult, width: int = 100) -> list[str]:
    """Lines without colour, none wider than `width`, which is taken as 40 at least."""
    width = max(width, NARROWEST)
    lines = wrap_text(", ".join(list_facts(result)), width)
    if result.partial:
        lines += wrap_text(describe_stopped_backtest(result), width)
    tables = [_score_table(result, title, resource, width) for title, resource in _RESOURCES]
    for table in tables:
        lines += ["", *table] if table else []
    if len(result.variants) > 1:
        first = result.variants[0].name
        if any(tables):
            lines += wrap_text(
                f"requested: compared with {first}, geometric mean of all series; = means a difference below 0.5 %.",
                width,
            )
        lines += ["", *(line for sentence in describe_answer(result) for line in wrap_text(sentence, width))]
    remarks = list_remarks(result)
    lines += [""] if remarks else []
    for remark in remarks[:_MAX_REMARKS]:
        lines += wrap_text(remark, width)
    if len(remarks) > _MAX_REMARKS:
        lines.append(f"... and {len(remarks) - _MAX_REMARKS} more remarks")
    return lines


def _score_table(result: BacktestResult, title: str, resource: str, width: int) -> list[str]:
    """Names are shortened where the figures need the space."""
    scores = score_variants(result, resource)
    if not scores:
        return []
    heads = [title, "requested", *(_HEADS[measure.key] for measure in get_measures(resource))]
    longest = max(len(score.name) for score in scores)

    def rows(length: int) -> list[list[str]]:
        return [[f"  {shorten(score.name, length)}", score.against, *score.values] for score in scores]

    lengths = range(longest, min(longest, _MIN_NAME_LENGTH) - 1, -1)
    return choose_fitting(
        (align_columns([heads, *rows(length)]) for length in lengths),
        width,
        lambda: [title, *stack_rows(heads, rows(longest), width)],
    )


__all__ = ["as_csv", "as_html", "as_json", "as_markdown", "as_text"]

_FIGURES = tuple(ResourceScore.__struct_fields__)
_NOTHING = ResourceScore()


def as_json(result: BacktestResult) -> bytes:
    """The result with its charts."""
    return encode_json("BacktestResult", result)


def as_csv(result: BacktestResult) -> str:
    """A row for each series under each variant."""
    columns = [f"{resource}_{name}" for resource in ("cpu", "memory") for name in _FIGURES]
    return encode_csv(["series", "variant", *columns], _rows(result))


def _rows(result: BacktestResult) -> Iterator[list[CsvCell]]:
    for score in result.series:
        both = [msgspec.structs.astuple(figures or _NOTHING) for figures in (score.cpu, score.memory)]
        yield [score.series, score.variant, *both[0], *both[1]]
