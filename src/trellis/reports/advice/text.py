"""Advised requests as terminal text, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trellis.core.advice.policy import RESOURCES
from trellis.core.advice.results import AdviceRow, AdviceTotals, SurveyAdvice
from trellis.reports.advice.wording import (
    UNKNOWN,
    describe_effort,
    describe_missing_data,
    describe_reason,
    describe_scale_points,
    escape_name,
    format_cost_difference,
    format_difference,
    format_history,
    format_request_change,
    format_totals,
    format_workload_name,
    get_severity_mark,
    list_facts,
    list_remarks,
    summarize_advice,
)
from trellis.reports.text.markdown import escape_markdown
from trellis.reports.text.numbers import format_count
from trellis.reports.text.tables import NARROWEST, align_columns, choose_fitting, shorten, stack_rows, wrap_text

_MIN_NAME_LENGTH = 14
_MAX_REMARKS = 12  # lines of a sort: the other formats have all of them
_HEADS = ["", "container", "pods", "CPU request", "change", "memory request", "change", "history"]
_MARKS = {"!!": "risk of OOM kill", "!": "change recommended", "?": "too little history"}
_COLUMNS_LEGEND = '"change" is the sum over all pods; CPU in cores.'
_UNKNOWN_LEGEND = f'"{UNKNOWN}" as a request means that the current request is unknown.'


def as_text(advised: SurveyAdvice, width: int = 100, top: int = 0) -> list[str]:
    """Lines without colour, none wider than `width`, which is taken as 40 at least; `top` rows, or all."""
    width = max(width, NARROWEST)
    lines = wrap_text(", ".join(list_facts(advised)), width)
    lines += wrap_text(describe_missing_data(advised), width) if advised.surveyed.is_partial else []
    rows = advised.rows[:top] if top else advised.rows
    if rows:
        lines += ["", *_container_table(rows, width), *_describe_omitted(advised, len(rows))]
        lines += ["", *wrap_text(" ".join(_list_legend(rows)), width)]
    if len(advised.namespaces) > 1:
        lines += ["", *_namespace_table(advised, width)]
    lines += ["", *wrap_text(" ".join(summarize_advice(advised)), width)]
    for sentences in (list(describe_scale_points(advised)), list(list_remarks(advised))):
        lines += [""] if sentences else []
        for sentence in sentences[:_MAX_REMARKS]:
            lines += wrap_text(sentence, width)
        if len(sentences) > _MAX_REMARKS:
            lines.append(f"... and {len(sentences) - _MAX_REMARKS} more")
    effort = describe_effort(advised.surveyed.effort)
    return [*lines, "", *wrap_text(effort, width)] if effort else lines


def _list_legend(rows: Sequence[AdviceRow]) -> Iterator[str]:
    """Sentences about the marks and columns that the rows use."""
    used = {get_severity_mark(row.container) for row in rows}
    marks = [f"{mark} {meaning}" for mark, meaning in _MARKS.items() if mark in used]
    if marks:
        yield f"Marks: {', '.join(marks)}."
    yield _COLUMNS_LEGEND
    if not all(row.container.get_resource(resource).is_request_known for row in rows for resource in RESOURCES):
        yield _UNKNOWN_LEGEND


def _describe_omitted(advised: SurveyAdvice, shown: int) -> list[str]:
    rest = len(advised.rows) - shown
    return [f"... and {format_count(rest)} more"] if rest else []


def _container_table(rows: tuple[AdviceRow, ...], width: int) -> list[str]:
    """On a narrow terminal the history is left out first, then names are shortened further."""
    names = [f"{format_workload_name(row.workload)} {escape_name(row.container.surveyed.name)}" for row in rows]
    longest = max(map(len, names))

    def tables() -> Iterator[list[str]]:
        for with_history in (True, False):
            shortest = min(longest, 30 if with_history else _MIN_NAME_LENGTH)
            for length in range(longest, shortest - 1, -1):
                cells = [_HEADS, *(_cells(row, shorten(name, length)) for row, name in zip(rows, names, strict=True))]
                yield align_columns(cells if with_history else [row[:-1] for row in cells], left_aligned=2)

    def stack() -> list[str]:
        stacked = (
            [f"{name} {get_severity_mark(row.container)}", *_cells(row, "")[2:]]
            for name, row in zip(names, rows, strict=True)
        )
        return stack_rows(["", *_HEADS[2:]], stacked, width)

    return choose_fitting(tables(), width, stack)


def _cells(row: AdviceRow, name: str) -> list[str]:
    container = row.container
    cells = [get_severity_mark(container), name, format_count(row.workload.pods)]
    for resource, apart in (("cpu", container.difference.cpu), ("memory", container.difference.memory)):
        cells += [format_request_change(resource, container.get_resource(resource)), format_difference(resource, apart)]
    return [*cells, format_history(container)]


def _namespace_table(advised: SurveyAdvice, width: int) -> list[str]:
    """Requests of each namespace, and of all."""
    heads = ["namespace", "cores now", "advised", "", "GiB now", "advised", ""]
    priced = advised.total.money_before > 0
    heads += [f"{advised.prices.currency}/month"] if priced else []
    totals = [_total_cells(escape_name(name), total, priced=priced) for name, total in advised.namespaces]
    sum_cells = _total_cells("total", advised.total, priced=priced)
    longest = max(len(cells[0]) for cells in totals)
    return choose_fitting(
        (
            align_columns([heads, *([shorten(name, length), *cells] for name, *cells in totals), sum_cells])
            for length in range(longest, min(longest, _MIN_NAME_LENGTH) - 1, -1)
        ),
        width,
        lambda: stack_rows(heads, [*totals, sum_cells], width),
    )


def _total_cells(name: str, total: AdviceTotals, *, priced: bool) -> list[str]:
    cells = [name]
    for resource in ("cpu", "memory"):
        cells += format_totals(resource, total)
    return [*cells, format_cost_difference(total)] if priced else cells


_MAX_MARKDOWN_ROWS = 50  # what a reader of a pull request scrolls past


def as_markdown(advised: SurveyAdvice, top: int = 0) -> str:
    """GitHub's dialect; other renderers show the folds open. `top` rows, or the fifty that matter most."""
    lines = ["## Recommended requests", "", " ".join(summarize_advice(advised)), ""]
    if advised.surveyed.is_partial:
        lines += [f"**{escape_markdown(describe_missing_data(advised))}**", ""]
    changed = [row for row in advised.rows if row.container.is_change]
    shown = changed[: top or _MAX_MARKDOWN_ROWS]
    if shown:
        lines += [*_markdown_table(shown), ""]
        if len(shown) < len(changed):
            lines += [f"... and {format_count(len(changed) - len(shown))} more changes.", ""]
    else:
        lines += ["No changes.", ""]
    lines += _format_list("HPAs whose scaling changes with these requests:", describe_scale_points(advised))
    if len(advised.namespaces) > 1:
        lines += _format_fold("By namespace", _markdown_namespaces(advised))
    details = [*list_facts(advised), *list_remarks(advised), describe_effort(advised.surveyed.effort)]
    lines += _format_fold("Data and settings", [f"- {escape_markdown(line)}" for line in details if line])
    return "\n".join(lines).rstrip() + "\n"


def _markdown_table(rows: Sequence[AdviceRow]) -> Iterator[str]:
    yield (
        "| workload | container | pods | CPU request | change, all pods | memory request | change, all "
        "pods | reason | history |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---|---:|"
    for row in rows:
        container = row.container
        cells = [
            escape_markdown(format_workload_name(row.workload)),
            escape_markdown(escape_name(container.surveyed.name)),
            format_count(row.workload.pods),
        ]
        for resource, apart in (("cpu", container.difference.cpu), ("memory", container.difference.memory)):
            cells += [
                format_request_change(resource, container.get_resource(resource)).replace("->", "→"),
                format_difference(resource, apart),
            ]
        cells += [f"{describe_reason(container)} ({container.reason_codes})", format_history(container)]
        yield f"| {' | '.join(cells)} |"


def _markdown_namespaces(advised: SurveyAdvice) -> Iterator[str]:
    currency = escape_markdown(advised.prices.currency)
    yield f"| namespace | cores now | advised | | GiB now | advised | | {currency} per month |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for name, total in (*advised.namespaces, ("total", advised.total)):
        cells = [escape_markdown(escape_name(name))]
        for resource in ("cpu", "memory"):
            cells += format_totals(resource, total)
        cells.append(format_cost_difference(total))
        yield f"| {' | '.join(cells)} |"


def _format_list(title: str, sentences: Iterable[str]) -> list[str]:
    items = [f"- {escape_markdown(sentence)}" for sentence in sentences]
    return [title, "", *items, ""] if items else []


def _format_fold(title: str, lines: Iterable[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]
