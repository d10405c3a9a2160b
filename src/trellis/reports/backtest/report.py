"""The report of a backtest as terminal text, JSON and CSV; the entry point of all its formats.

The text has a table per resource, and the answer in words.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trellis.reports.backtest.headline import compare_variant, find_best, list_facts, no_better_sentence, partial_notice
from trellis.reports.backtest.measures import measures_for, score_variants
from trellis.reports.backtest.page import as_html
from trellis.reports.formats import CsvCell, encode_csv, encode_json
from trellis.reports.text.tables import align_columns, shorten, table_width, wrap_text
from trellis.sim.backtest.results import BacktestResult, ResourceScore

_NARROWEST = 80
_SHORTEST_NAME = 16
_REMARKS = 10  # lines: a thousand series may have as many gaps
_HEADS = {
    "footprint": "per used",
    "time_over": "time over",
    "overrun": "overrun",
    "changes": "changes/day",
    "kills": "OOM/week",
}


def as_text(result: BacktestResult, width: int = 100) -> list[str]:
    """Lines without colour, none wider than `width`, which is taken as 80 at least."""
    room = max(width, _NARROWEST)
    told = wrap_text(", ".join(list_facts(result)), room)
    if result.partial:
        told += wrap_text(partial_notice(result), room)
    tables = [_table(result, title, resource, room) for title, resource in (("CPU", "cpu"), ("Memory", "memory"))]
    for table in tables:
        told += ["", *table] if table else []
    if len(result.variants) > 1:
        first = result.variants[0].name
        if any(tables):
            told += wrap_text(f"Requested: against {first}, geometric mean of series, = is the same.", room)
        told += ["", *_answer(result, room)]
    remarks = [*(f"Left out: {line}" for line in result.left_out), *(f"Note: {line}" for line in result.notes)]
    told += [""] if remarks else []
    for remark in remarks[:_REMARKS]:
        told += wrap_text(remark, room)
    if len(remarks) > _REMARKS:
        told.append(f"... and {len(remarks) - _REMARKS} more remarks")
    return told


def _table(result: BacktestResult, title: str, resource: str, room: int) -> list[str]:
    """Names give way where the figures need the room."""
    rows = score_variants(result, resource)
    if not rows:
        return []
    heads = [_HEADS[measure.key] for measure in measures_for(resource)]
    name = max(len(each.name) for each in rows)
    table: list[str] = []
    for room_for_name in range(name, min(name, _SHORTEST_NAME) - 1, -1):
        cells = [[f"  {shorten(each.name, room_for_name)}", each.against, *each.values] for each in rows]
        table = align_columns([[title, "requested", *heads], *cells])
        if table_width(table) <= room:
            break
    return table


def _answer(result: BacktestResult, room: int) -> list[str]:
    first = result.variants[0]
    number = find_best(result)
    if number:
        return wrap_text(" ".join(compare_variant(result.variants[number], first)), room)
    return wrap_text(no_better_sentence(first), room)


__all__ = ["as_csv", "as_html", "as_json", "as_text"]

_FIGURES = tuple(ResourceScore.__struct_fields__)
_NOTHING = ResourceScore()


def as_json(result: BacktestResult) -> bytes:
    """Everything, charts included."""
    return encode_json("BacktestResult", result)


def as_csv(result: BacktestResult) -> str:
    """A row for each series under each variant."""
    columns = [f"{resource}_{name}" for resource in ("cpu", "memory") for name in _FIGURES]
    return encode_csv(["series", "variant", *columns], _rows(result))


def _rows(result: BacktestResult) -> Iterator[list[CsvCell]]:
    for score in result.series:
        both = [msgspec.structs.astuple(figures or _NOTHING) for figures in (score.cpu, score.memory)]
        yield [score.series, score.variant, *both[0], *both[1]]
