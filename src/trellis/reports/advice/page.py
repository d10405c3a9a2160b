"""The HTML page of advised requests: the answer, every container, HPAs whose scale point would move, and namespaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from trellis.core.advice.policy import select_resource
from trellis.core.advice.results import AdviceRow, AdviceTotals, SurveyAdvice
from trellis.reports.advice.wording import (
    UNKNOWN,
    are_requests_unknown,
    describe_effort,
    describe_missing_data,
    describe_scale_points,
    format_amount,
    format_cost_difference,
    format_current_request,
    format_difference,
    format_history,
    format_relative_change,
    format_signed_money,
    format_totals,
    format_workload_name,
    list_facts,
    list_remarks,
    sum_requests,
    summarize_advice,
)
from trellis.reports.html.page import (
    ColumnGroup,
    ColumnHead,
    Difference,
    TableCell,
    difference_cell,
    make_difference,
    number_cell,
    render_page,
)
from trellis.reports.text.numbers import GIB, format_count, format_money, format_significant

_MAX_ROWS = 3000  # about two megabytes of page
_RESOURCES = (("CPU", "cpu", "cores"), ("Memory", "memory", "GiB"))
_TRENDS = {"error": "bad", "warning": "", "info": "even"}  # by the severity of a reason
_HEADING = "What workloads should request"


class _AdviceCard(msgspec.Struct, frozen=True):
    """A figure with the advice, its difference from the present one, and its parts."""

    title: str
    price: str
    difference: Difference | None
    per: str
    figures: list[tuple[str, str]]


class _ContainerRow(msgspec.Struct, frozen=True):
    """A container with its advice. `words` is what the filter searches besides the workload's name."""

    words: str
    kind: str
    workload: str
    container: str
    reason: str
    meaning: str
    trend: str
    cells: list[TableCell]


class _ContainerSection(msgspec.Struct, frozen=True):
    """Every container, or the most important ones."""

    lead: str
    groups: list[ColumnGroup]
    heads: list[ColumnHead]
    rows: list[_ContainerRow]


class _NamespaceSection(msgspec.Struct, frozen=True):
    """Requests of each namespace, and of all."""

    groups: list[ColumnGroup]
    rows: list[tuple[str, list[TableCell]]]


def as_html(advised: SurveyAdvice) -> str:
    """The page, the same bytes for the same advice."""
    first, *others = summarize_advice(advised)
    return render_page(
        "advice.html.j2",
        "advice.js",
        {"columns": []},
        title=f"{_HEADING} · Trellis",
        kind="Trellis recommend",
        heading=_HEADING,
        facts=list_facts(advised),
        banners=[describe_missing_data(advised)] if advised.surveyed.is_partial else [],
        lead=(first, " ".join(others)),
        cards=_build_cards(advised),
        currency=advised.prices.currency,
        remarks=list(list_remarks(advised)),
        effort=describe_effort(advised.surveyed.effort),
        **(_build_tables(advised) if advised.rows else {"containers": None}),
    )


def _build_tables(advised: SurveyAdvice) -> dict[str, Any]:
    return {
        "containers": _build_container_section(advised),
        "scale_points": list(describe_scale_points(advised)),
        "namespaces": _build_namespace_section(advised),
    }


def _build_cards(advised: SurveyAdvice) -> list[_AdviceCard]:
    cards = [_build_resource_card(advised.total, *resource) for resource in _RESOURCES] if advised.rows else []
    return [*cards, _build_money_card(advised)] if advised.total.money_before > 0 else cards


def _build_resource_card(total: AdviceTotals, title: str, resource: str, unit: str) -> _AdviceCard:
    before, after = sum_requests(resource, total)
    per = f"{unit} to request"
    if are_requests_unknown(total):
        return _AdviceCard(title, format_significant(after), None, per, [("now", UNKNOWN)])
    size = 1000.0 if resource == "cpu" else GIB
    saved, short = (select_resource(amounts, resource) / size for amounts in (total.saved, total.short))
    return _build_card(title, per, (before, after, saved, short), format_significant)


def _build_money_card(advised: SurveyAdvice) -> _AdviceCard:
    total, prices = advised.total, advised.prices
    per = f"{prices.currency} a month at {prices.name} prices"
    values = (total.money_before, total.money_after, total.money_saved, total.money_short)
    return _build_card("Cost", per, values, format_money)


def _build_card(
    title: str, per: str, values: tuple[float, float, float, float], show: Callable[[float], str]
) -> _AdviceCard:
    """A card of amounts before and after, those not needed and those missing."""
    before, after, saved, short = values
    change = format_relative_change(before, after)
    improvement = 1 if change.startswith("-") else -1 if change.startswith("+") else 0
    figures = [("now", show(before)), ("not needed", show(saved)), ("missing", show(short))]
    return _AdviceCard(title, show(after), make_difference(change, improvement), per, figures)


def _build_container_section(advised: SurveyAdvice) -> _ContainerSection:
    shown = advised.rows[:_MAX_ROWS]
    lead = "What matters most first: lack of memory, then what most money is at stake in."
    if len(shown) < len(advised.rows):
        lead += (
            f" These are {format_count(len(shown))} of {format_count(len(advised.rows))}; the CSV file has all of them."
        )
    heads = [
        ColumnHead("Workload", "text"),
        ColumnHead("Container", "text", "left"),
        ColumnHead("Why", "text", "left"),
        ColumnHead("Pods"),
    ]
    for _ in _RESOURCES:
        heads += [ColumnHead("now", classes="part"), ColumnHead("advised"), ColumnHead("limit"), ColumnHead("in all")]
    heads += [ColumnHead(f"{advised.prices.currency}/month", classes="part"), ColumnHead("History")]
    groups = [ColumnGroup(title, 4) for title, _, _ in _RESOURCES]
    return _ContainerSection(lead, groups, heads, [_build_container_row(row) for row in shown])


def _build_container_row(row: AdviceRow) -> _ContainerRow:
    workload, advice = row.workload, row.container
    kind, reason = workload.surveyed.kind, advice.reason
    cells = [number_cell(format_count(workload.pods), workload.pods)]
    for _, resource, _ in _RESOURCES:
        cells += _resource_cells(row, resource)
    cells.append(number_cell(format_signed_money(advice.money), advice.money, begins=True))
    cells.append(number_cell(format_history(advice), advice.surveyed.days))
    return _ContainerRow(
        words=f"{kind} {advice.surveyed.name} {advice.reason_codes}".lower(),
        kind=kind,
        workload=format_workload_name(workload),
        container=advice.surveyed.name,
        reason=advice.reason_codes,
        meaning=reason.meaning,
        trend=_TRENDS[reason.severity],
        cells=cells,
    )


def _resource_cells(row: AdviceRow, resource: str) -> list[TableCell]:
    change, apart = row.container.get_resource(resource), select_resource(row.container.difference, resource)
    return [
        number_cell(format_current_request(resource, change), change.request_before, begins=True),
        number_cell(format_amount(resource, change.request), change.request),
        number_cell(format_amount(resource, change.limit), change.limit),
        difference_cell(format_difference(resource, apart), 1 if apart < 0 else -1, apart),
    ]


def _build_namespace_section(advised: SurveyAdvice) -> _NamespaceSection:
    totals = (*advised.namespaces, ("in all", advised.total))
    groups = [ColumnGroup(f"{title}, {unit}", 3) for title, _, unit in _RESOURCES]
    return _NamespaceSection(groups, [(name, _namespace_cells(total)) for name, total in totals])


def _namespace_cells(total: AdviceTotals) -> list[TableCell]:
    cells = []
    for _, resource, _ in _RESOURCES:
        before, after = sum_requests(resource, total)
        before_text, after_text, change = format_totals(resource, total)
        cells.append(number_cell(before_text, before, begins=True))
        cells.append(number_cell(after_text, after))
        cells.append(difference_cell(change, 1 if change.startswith("-") else -1))
    cells.append(number_cell(format_cost_difference(total), total.money_after - total.money_before, begins=True))
    return cells
