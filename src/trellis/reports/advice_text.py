"""Advice for a terminal: what matters most first, and what it comes to."""

from __future__ import annotations

from trellis.core.advice.advised import Advised, Row, Totals
from trellis.core.advice.judging import REQUEST_UNKNOWN
from trellis.reports.advice_amounts import UNKNOWN, difference, money_apart, rounded_days, step, sums
from trellis.reports.advice_words import (
    answer,
    effort,
    facts,
    mark,
    named,
    one_line,
    partial,
    remarks,
    scale_points,
)
from trellis.reports.figures import count
from trellis.reports.text_tables import cut, lines, width, wrapped

_NARROWEST = 80
_SHORTEST_NAME = 14
_REMARKS = 12  # lines of a sort: the other formats have all of them
_HEADS = ["", "container", "pods", "CPU request", "in all", "memory request", "in all", "history"]
_LEGEND = (
    "!! memory at risk, ! worth changing, ? too little history; in all: for all pods, + is more than now, CPU in cores."
)
_UNSEEN = f"{UNKNOWN} -> 250m: what is requested now could not be seen."


def as_text(advised: Advised, width: int = 100, top: int = 0) -> list[str]:
    """Lines without colour, none wider than `width`, which is taken as 80 at least; `top` rows, or all."""
    room = max(width, _NARROWEST)
    told = wrapped(", ".join(facts(advised)), room)
    told += wrapped(partial(advised), room) if advised.surveyed.is_partial else []
    rows = advised.rows[:top] if top else advised.rows
    if rows:
        told += ["", *_table(rows, room), *_omitted(advised, len(rows))]
        told += wrapped(_LEGEND, room)
        if any(row.container.reason is REQUEST_UNKNOWN for row in rows):
            told += wrapped(_UNSEEN, room)
    if len(advised.namespaces) > 1:
        told += ["", *_namespaces(advised, room)]
    told += ["", *wrapped(" ".join(answer(advised)), room)]
    for sort in (list(scale_points(advised)), list(remarks(advised))):
        told += [""] if sort else []
        for line in sort[:_REMARKS]:
            told += wrapped(line, room)
        if len(sort) > _REMARKS:
            told.append(f"... and {len(sort) - _REMARKS} more")
    spent = effort(advised.surveyed.effort)
    return [*told, "", *wrapped(spent, room)] if spent else told


def _omitted(advised: Advised, shown: int) -> list[str]:
    rest = len(advised.rows) - shown
    return [f"... and {count(rest)} more"] if rest else []


def _table(rows: tuple[Row, ...], room: int) -> list[str]:
    """The history goes first where there is no room, and names give way after it."""
    names = [f"{named(row.workload)} {one_line(row.container.surveyed.name)}" for row in rows]
    longest = max(map(len, names))
    table: list[str] = []
    for with_history in (True, False):
        shortest = min(longest, 30 if with_history else _SHORTEST_NAME)
        for room_for_name in range(longest, shortest - 1, -1):
            cells = [_HEADS, *(_cells(row, cut(name, room_for_name)) for row, name in zip(rows, names, strict=True))]
            table = lines(cells if with_history else [row[:-1] for row in cells], left=2)
            if width(table) <= room:
                return table
    return table


def _cells(row: Row, name: str) -> list[str]:
    container = row.container
    cells = [mark(container), name, count(row.workload.pods)]
    for resource, apart in (("cpu", container.difference.cpu), ("memory", container.difference.memory)):
        cells += [step(resource, container.of(resource)), difference(resource, apart)]
    return [*cells, rounded_days(container)]


def _namespaces(advised: Advised, room: int) -> list[str]:
    """Requests of each namespace, and of all."""
    currency = advised.prices.currency
    heads = ["namespace", "cores now", "advised", "", "GiB now", "advised", ""]
    priced = advised.total.money_before > 0
    heads += [f"{currency}/month"] if priced else []
    longest = max(len(name) for name, _ in advised.namespaces)
    table: list[str] = []
    for most in range(longest, min(longest, _SHORTEST_NAME) - 1, -1):
        rows = [_total(cut(one_line(name), most), total, priced=priced) for name, total in advised.namespaces]
        table = lines([heads, *rows, _total("in all", advised.total, priced=priced)])
        if width(table) <= room:
            break
    return table


def _total(name: str, total: Totals, *, priced: bool) -> list[str]:
    cells = [name]
    for resource in ("cpu", "memory"):
        cells += sums(resource, total)
    return [*cells, money_apart(total)] if priced else cells
