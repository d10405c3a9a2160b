"""A backtest for a terminal: a table for each resource, and what it says in words."""

from __future__ import annotations

from trellis.reports.backtest_headline import best, facts, none_better, partial, sentence
from trellis.reports.backtest_measures import measures_of, scored
from trellis.reports.text_tables import cut, lines, width, wrapped
from trellis.sim.backtest.results import BacktestResult

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
    told = wrapped(", ".join(facts(result)), room)
    if result.partial:
        told += wrapped(partial(result), room)
    tables = [_table(result, title, resource, room) for title, resource in (("CPU", "cpu"), ("Memory", "memory"))]
    for table in tables:
        told += ["", *table] if table else []
    if len(result.variants) > 1:
        first = result.variants[0].name
        if any(tables):
            told += wrapped(f"Requested: against {first}, geometric mean of series, = is the same.", room)
        told += ["", *_answer(result, room)]
    remarks = [*(f"Left out: {line}" for line in result.left_out), *(f"Note: {line}" for line in result.notes)]
    told += [""] if remarks else []
    for remark in remarks[:_REMARKS]:
        told += wrapped(remark, room)
    if len(remarks) > _REMARKS:
        told.append(f"... and {len(remarks) - _REMARKS} more remarks")
    return told


def _table(result: BacktestResult, title: str, resource: str, room: int) -> list[str]:
    """Names give way where the figures need the room."""
    rows = scored(result, resource)
    if not rows:
        return []
    heads = [_HEADS[measure.key] for measure in measures_of(resource)]
    name = max(len(each.name) for each in rows)
    table: list[str] = []
    for room_for_name in range(name, min(name, _SHORTEST_NAME) - 1, -1):
        cells = [[f"  {cut(each.name, room_for_name)}", each.against, *each.values] for each in rows]
        table = lines([[title, "requested", *heads], *cells])
        if width(table) <= room:
            break
    return table


def _answer(result: BacktestResult, room: int) -> list[str]:
    first = result.variants[0]
    number = best(result)
    if number:
        return wrapped(" ".join(sentence(result.variants[number], first)), room)
    return wrapped(none_better(first), room)
