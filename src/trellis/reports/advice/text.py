"""Advised requests as terminal text, and as Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from trellis.core.advice.results import AdviceRow, AdviceTotals, SurveyAdvice
from trellis.core.advice.sizes import REQUEST_UNKNOWN
from trellis.reports.advice.wording import (
    UNKNOWN,
    answer_sentences,
    describe_effort,
    format_cost_difference,
    format_difference,
    format_history,
    format_request_change,
    format_totals,
    list_facts,
    list_remarks,
    partial_notice,
    printable_name,
    scale_point_sentences,
    severity_mark,
    workload_name,
)
from trellis.reports.text.numbers import format_count
from trellis.reports.text.tables import align_columns, shorten, table_width, wrap_text

_NARROWEST = 80
_SHORTEST_NAME = 14
_REMARKS = 12  # lines of a sort: the other formats have all of them
_HEADS = ["", "container", "pods", "CPU request", "in all", "memory request", "in all", "history"]
_LEGEND = (
    "!! memory at risk, ! worth changing, ? too little history; in all: for all pods, + is more than now, CPU in cores."
)
_UNSEEN = f"{UNKNOWN} -> 250m: what is requested now could not be seen."


def as_text(advised: SurveyAdvice, width: int = 100, top: int = 0) -> list[str]:
    """Lines without colour, none wider than `width`, which is taken as 80 at least; `top` rows, or all."""
    room = max(width, _NARROWEST)
    told = wrap_text(", ".join(list_facts(advised)), room)
    told += wrap_text(partial_notice(advised), room) if advised.surveyed.is_partial else []
    rows = advised.rows[:top] if top else advised.rows
    if rows:
        told += ["", *_table(rows, room), *_omitted(advised, len(rows))]
        told += wrap_text(_LEGEND, room)
        if any(row.container.reason is REQUEST_UNKNOWN for row in rows):
            told += wrap_text(_UNSEEN, room)
    if len(advised.namespaces) > 1:
        told += ["", *_namespaces(advised, room)]
    told += ["", *wrap_text(" ".join(answer_sentences(advised)), room)]
    for sort in (list(scale_point_sentences(advised)), list(list_remarks(advised))):
        told += [""] if sort else []
        for line in sort[:_REMARKS]:
            told += wrap_text(line, room)
        if len(sort) > _REMARKS:
            told.append(f"... and {len(sort) - _REMARKS} more")
    spent = describe_effort(advised.surveyed.effort)
    return [*told, "", *wrap_text(spent, room)] if spent else told


def _omitted(advised: SurveyAdvice, shown: int) -> list[str]:
    rest = len(advised.rows) - shown
    return [f"... and {format_count(rest)} more"] if rest else []


def _table(rows: tuple[AdviceRow, ...], room: int) -> list[str]:
    """The history goes first where there is no room, and names give way after it."""
    names = [f"{workload_name(row.workload)} {printable_name(row.container.surveyed.name)}" for row in rows]
    longest = max(map(len, names))
    table: list[str] = []
    for with_history in (True, False):
        shortest = min(longest, 30 if with_history else _SHORTEST_NAME)
        for room_for_name in range(longest, shortest - 1, -1):
            cells = [
                _HEADS,
                *(_cells(row, shorten(name, room_for_name)) for row, name in zip(rows, names, strict=True)),
            ]
            table = align_columns(cells if with_history else [row[:-1] for row in cells], left=2)
            if table_width(table) <= room:
                return table
    return table


def _cells(row: AdviceRow, name: str) -> list[str]:
    container = row.container
    cells = [severity_mark(container), name, format_count(row.workload.pods)]
    for resource, apart in (("cpu", container.difference.cpu), ("memory", container.difference.memory)):
        cells += [format_request_change(resource, container.of(resource)), format_difference(resource, apart)]
    return [*cells, format_history(container)]


def _namespaces(advised: SurveyAdvice, room: int) -> list[str]:
    """Requests of each namespace, and of all."""
    currency = advised.prices.currency
    heads = ["namespace", "cores now", "advised", "", "GiB now", "advised", ""]
    priced = advised.total.money_before > 0
    heads += [f"{currency}/month"] if priced else []
    longest = max(len(name) for name, _ in advised.namespaces)
    table: list[str] = []
    for most in range(longest, min(longest, _SHORTEST_NAME) - 1, -1):
        rows = [_total(shorten(printable_name(name), most), total, priced=priced) for name, total in advised.namespaces]
        table = align_columns([heads, *rows, _total("in all", advised.total, priced=priced)])
        if table_width(table) <= room:
            break
    return table


def _total(name: str, total: AdviceTotals, *, priced: bool) -> list[str]:
    cells = [name]
    for resource in ("cpu", "memory"):
        cells += format_totals(resource, total)
    return [*cells, format_cost_difference(total)] if priced else cells


_MOST_ROWS = 50  # what a reader of a pull request scrolls past
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def as_markdown(advised: SurveyAdvice, top: int = 0) -> str:
    """GitHub's dialect; other renderers show the folds open. `top` rows, or the fifty that matter most."""
    told = ["## What these workloads should request", "", " ".join(answer_sentences(advised)), ""]
    if advised.surveyed.is_partial:
        told += [f"**{escape_markdown(partial_notice(advised))}**", ""]
    changed = [row for row in advised.rows if row.container.is_change]
    shown = changed[: top or _MOST_ROWS]
    if shown:
        told += [*_markdown_table(shown), ""]
        if len(shown) < len(changed):
            told += [f"... and {format_count(len(changed) - len(shown))} more to change.", ""]
    else:
        told += ["Nothing to change.", ""]
    told += _listed("HPAs that act otherwise with these requests:", scale_point_sentences(advised))
    if len(advised.namespaces) > 1:
        told += _folded("By namespace", _markdown_namespaces(advised))
    details = [*list_facts(advised), *list_remarks(advised), describe_effort(advised.surveyed.effort)]
    told += _folded("How this was found out", [f"- {escape_markdown(line)}" for line in details if line])
    return "\n".join(told).rstrip() + "\n"


def escape_markdown(text: str) -> str:
    """Text without any meaning in Markdown."""
    return _SPECIAL.sub(r"\\\1", text)


def _markdown_table(rows: Sequence[AdviceRow]) -> Iterator[str]:
    yield "| workload | container | pods | CPU request | in all | memory request | in all | why | history |"
    yield "|---|---|---:|---:|---:|---:|---:|---|---:|"
    for row in rows:
        container = row.container
        cells = [
            escape_markdown(workload_name(row.workload)),
            escape_markdown(printable_name(container.surveyed.name)),
            format_count(row.workload.pods),
        ]
        for resource, apart in (("cpu", container.difference.cpu), ("memory", container.difference.memory)):
            cells += [
                format_request_change(resource, container.of(resource)).replace("->", "→"),
                format_difference(resource, apart),
            ]
        cells += [container.why, format_history(container)]
        yield f"| {' | '.join(cells)} |"


def _markdown_namespaces(advised: SurveyAdvice) -> Iterator[str]:
    currency = escape_markdown(advised.prices.currency)
    yield f"| namespace | cores now | advised | | GiB now | advised | | {currency} a month |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for name, total in (*advised.namespaces, ("in all", advised.total)):
        cells = [escape_markdown(printable_name(name))]
        for resource in ("cpu", "memory"):
            cells += format_totals(resource, total)
        cells.append(format_cost_difference(total))
        yield f"| {' | '.join(cells)} |"


def _listed(title: str, sentences: Iterable[str]) -> list[str]:
    found = [f"- {escape_markdown(sentence)}" for sentence in sentences]
    return [title, "", *found, ""] if found else []


def _folded(title: str, lines: Iterable[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]
