"""The HTML page of advised requests: the answer, every container, HPAs whose scale point would move, and namespaces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from trellis.core.advice.policy import select_resource
from trellis.core.advice.results import AdviceRow, AdviceTotals, ContainerAdvice, SurveyAdvice
from trellis.reports.advice.manifests import encode_resources
from trellis.reports.advice.sparklines import draw_usage
from trellis.reports.advice.wording import (
    UNKNOWN,
    are_requests_unknown,
    describe_effort,
    describe_missing_data,
    describe_reason,
    describe_scale_points,
    format_amount,
    format_cost_difference,
    format_difference,
    format_history,
    format_relative_change,
    format_requests,
    format_signed_money,
    format_totals,
    format_workload_name,
    list_facts,
    list_remarks,
    sum_requests,
    summarize_advice,
)
from trellis.reports.html.documentation import UNPUBLISHED, Documentation
from trellis.reports.html.page import (
    ColumnGroup,
    ColumnHead,
    Difference,
    TableCell,
    difference_cell,
    format_sort_value,
    make_difference,
    number_cell,
    render_page,
)
from trellis.reports.measures import COSTS_MORE
from trellis.reports.text.numbers import GIB, NO_VALUE, format_count, format_money, format_significant

_MAX_ROWS = 1500  # about three megabytes of page
_RESOURCES = (("CPU", "cpu", "cores"), ("Memory", "memory", "GiB"))
_TRENDS = {"error": "bad", "warning": "", "info": "even"}  # by the severity of a reason
_HEADING = "Recommended requests"


class _AdviceCard(msgspec.Struct, frozen=True):
    """A figure with the advice, its difference from the present one, and its parts."""

    title: str
    price: str
    difference: Difference | None
    per: str
    figures: list[tuple[str, str]]


class _RequestCell(msgspec.Struct, frozen=True):
    """A resource of a container: a sparkline, the current and the advised request, and the change for all pods."""

    sparkline: str
    before: str
    after: str
    limit: str
    difference: Difference | None
    order: str


class _ContainerRow(msgspec.Struct, frozen=True):
    """A container with its advice. `words` is what the filter searches besides the workload's name."""

    words: str
    kind: str
    workload: str
    container: str
    reason: str
    codes: str
    meaning: str
    trend: str
    pods: TableCell
    history: str
    requests: list[_RequestCell]
    money: TableCell
    manifest: str


class _ContainerSection(msgspec.Struct, frozen=True):
    """Every container, or the most important ones. `labels` name the cells on narrow screens."""

    lead: str
    has_usage: bool
    heads: list[ColumnHead]
    labels: list[str]
    rows: list[_ContainerRow]


class _NamespaceRow(msgspec.Struct, frozen=True):
    """Requests of a namespace, and how much of the cost of all they save, in per cent of the largest saving."""

    name: str
    cells: list[TableCell]
    bar: float
    is_saving: bool


class _NamespaceSection(msgspec.Struct, frozen=True):
    """Requests of each namespace, and of all; bars where there are prices."""

    groups: list[ColumnGroup]
    labels: list[str]
    has_bars: bool
    rows: list[_NamespaceRow]


def as_html(advised: SurveyAdvice, documentation: Documentation = UNPUBLISHED) -> str:
    """The page, the same bytes for the same advice."""
    first, *others = summarize_advice(advised)
    return render_page(
        "advice.html.j2",
        "advice.js",
        {"columns": []},
        documentation,
        title=f"{_HEADING} · Trellis",
        kind="Trellis recommend",
        heading=_HEADING,
        facts=list_facts(advised),
        banners=[describe_missing_data(advised)] if advised.surveyed.is_partial else [],
        lead=(first, " ".join(others)),
        cards=_build_cards(advised),
        currency=advised.prices.currency,
        remarks=[remark.removeprefix("Note: ") for remark in list_remarks(advised)],
        effort=describe_effort(advised.surveyed.effort),
        scale_points=list(describe_scale_points(advised)),
        **(_build_tables(advised) if advised.rows else {"containers": None}),
    )


def _build_tables(advised: SurveyAdvice) -> dict[str, Any]:
    return {
        "containers": _build_container_section(advised),
        "namespaces": _build_namespace_section(advised),
    }


def _build_cards(advised: SurveyAdvice) -> list[_AdviceCard]:
    cards = [_build_resource_card(advised.total, *resource) for resource in _RESOURCES] if advised.rows else []
    return [*cards, _build_money_card(advised)] if advised.total.money_before > 0 else cards


def _build_resource_card(total: AdviceTotals, title: str, resource: str, unit: str) -> _AdviceCard:
    before, after = sum_requests(resource, total)
    per = f"{unit} advised"
    if are_requests_unknown(total):
        return _AdviceCard(title, format_significant(after), None, per, [("requested now", UNKNOWN)])
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
    improvement = 1 if change.startswith("-") else COSTS_MORE if change.startswith("+") else 0
    figures = [("requested now", show(before)), ("not needed", show(saved)), ("missing", show(short))]
    return _AdviceCard(title, show(after), make_difference(change, improvement), per, figures)


def _build_container_section(advised: SurveyAdvice) -> _ContainerSection:
    shown = advised.rows[:_MAX_ROWS]
    lead = "The most important first: containers at risk of OOM kills, then the largest differences in cost."
    if len(shown) < len(advised.rows):
        lead += f" {format_count(len(shown))} of {format_count(len(advised.rows))} are shown; the CSV file has all."
    money = f"{advised.prices.currency}/month"
    heads = [ColumnHead("Workload", "text"), ColumnHead("Finding", "text", "left"), ColumnHead("Pods")]
    labels = ["", "", "Pods"]
    has_usage = any(row.container.surveyed.usage is not None for row in shown)
    for title, _, _ in _RESOURCES:
        request = ColumnHead(f"{title} request", "number", "", "Sorted by the change for all pods together")
        if has_usage:
            heads.append(ColumnHead(f"{title} usage", "", "part left", "The highest usage of a pod over time"))
        heads.append(request if has_usage else msgspec.structs.replace(request, classes="part"))
        labels += [f"{title} usage"] * has_usage + [f"{title} request"]
    heads += [ColumnHead(money, classes="part"), ColumnHead("YAML", "", "scripted")]
    rows = [_build_container_row(row) for row in shown]
    return _ContainerSection(lead, has_usage, heads, [*labels, "Cost per month"], rows)


def _build_container_row(row: AdviceRow) -> _ContainerRow:
    workload, advice = row.workload, row.container
    kind, reason = workload.surveyed.kind, advice.reason
    words = describe_reason(advice)
    return _ContainerRow(
        words=f"{kind} {advice.surveyed.name} {words} {advice.reason_codes}".lower(),
        kind=kind,
        workload=format_workload_name(workload),
        container=advice.surveyed.name,
        reason=words,
        codes=advice.reason_codes,
        meaning=reason.meaning,
        trend=_TRENDS[reason.severity],
        pods=number_cell(format_count(workload.pods), workload.pods),
        history=_describe_history(advice),
        requests=[_build_request_cell(row, title, resource) for title, resource, _ in _RESOURCES],
        money=number_cell(format_signed_money(advice.money), advice.money, begins=True),
        manifest=encode_resources(advice),
    )


def _describe_history(advice: ContainerAdvice) -> str:
    length = format_history(advice)
    return "no history" if length == NO_VALUE else f"{length} history"


def _build_request_cell(row: AdviceRow, title: str, resource: str) -> _RequestCell:
    change, apart = row.container.get_resource(resource), select_resource(row.container.difference, resource)
    before, after = format_requests(resource, change)
    difference = format_difference(resource, apart)
    return _RequestCell(
        draw_usage(row.container.surveyed.usage, resource, title, change),
        before,
        after,
        "" if math.isnan(change.limit) else format_amount(resource, change.limit),
        make_difference(difference, 1 if apart < 0 else COSTS_MORE),
        format_sort_value(apart),
    )


def _build_namespace_section(advised: SurveyAdvice) -> _NamespaceSection:
    groups = [ColumnGroup(f"{title}, {unit}", 3) for title, _, unit in _RESOURCES]
    labels = [f"{title} {name}" for title, _, _ in _RESOURCES for name in ("now", "advised", "change")]
    changes = [total.money_after - total.money_before for _, total in advised.namespaces]
    largest = max(map(abs, changes), default=0.0)
    rows = [
        _NamespaceRow(name, _namespace_cells(total), 100 * abs(change) / (largest or 1.0), change <= 0)
        for (name, total), change in zip(advised.namespaces, changes, strict=True)
    ]
    has_bars = advised.total.money_before > 0 and largest > 0
    total_row = _NamespaceRow("total", _namespace_cells(advised.total), 0.0, is_saving=True)
    return _NamespaceSection(groups, ["", *labels, "Cost per month"], has_bars, [*rows, total_row])


def _namespace_cells(total: AdviceTotals) -> list[TableCell]:
    cells = []
    for _, resource, _ in _RESOURCES:
        before, after = sum_requests(resource, total)
        before_text, after_text, change = format_totals(resource, total)
        cells.append(number_cell(before_text, before, begins=True))
        cells.append(number_cell(after_text, after))
        cells.append(difference_cell(change, 1 if change.startswith("-") else COSTS_MORE))
    cells.append(number_cell(format_cost_difference(total), total.money_after - total.money_before, begins=True))
    return cells
