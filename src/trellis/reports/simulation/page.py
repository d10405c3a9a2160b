"""The HTML page of a simulation: a card per variant, the fleet, every figure, and each workload over time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from trellis.reports.html.documentation import UNPUBLISHED, Documentation
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
from trellis.reports.measures import Measure
from trellis.reports.simulation.charts import build_chart_data, draw_node_chart, workload_path
from trellis.reports.simulation.comparison import (
    MeasureRow,
    build_node_row,
    build_row,
    compare_variants,
    has_scaling,
)
from trellis.reports.simulation.headline import (
    NOT_PLAYED,
    align_workloads,
    compare_variant,
    describe_stopped,
    list_facts,
    list_not_played,
    select_comparable,
)
from trellis.reports.simulation.measures import (
    CPU_OVER,
    CPU_REQUESTED,
    CPU_USED,
    EVICTIONS,
    HIGH_WAIT,
    LONGEST_WAIT,
    MEMORY_OVER,
    MEMORY_REQUESTED,
    MEMORY_USED,
    MONEY,
    NODE_HOURS,
    NODE_MONEY,
    OOM_KILLS,
    OVERLOAD,
    PREEMPTED,
    REPLICAS,
    RESIZES,
    RESTARTS,
    SCALINGS,
    WAIT,
    has_nodes,
)
from trellis.reports.simulation.recommendation import describe_rejected, recommend_variant, variant_title
from trellis.reports.text.numbers import format_count, format_days, format_gib, format_money, format_significant
from trellis.reports.text.phrases import spell_code
from trellis.sim.results import RunResult, SimulationTotals, VariantResult, WorkloadResult

_ON_CARDS = (
    ("CPU", CPU_REQUESTED),
    ("Memory", MEMORY_REQUESTED),
    ("Above CPU request", CPU_OVER),
    ("Above memory request", MEMORY_OVER),
    ("OOM kills", OOM_KILLS),
    ("Evictions", EVICTIONS),
    ("Resizes in place", RESIZES),
)
_SCALING = (("Pods", REPLICAS), ("Overload", OVERLOAD), ("Replica changes", SCALINGS))
_NODES = (
    ("Wait, mean", WAIT),
    ("Wait, p95", HIGH_WAIT),
    ("Wait, longest", LONGEST_WAIT),
    ("Node-hours", NODE_HOURS),
    ("Preempted", PREEMPTED),
)

_CPU = (("requested", CPU_REQUESTED), ("used", CPU_USED), ("time above", CPU_OVER))
_MEMORY = (("requested", MEMORY_REQUESTED), ("used", MEMORY_USED), ("time above", MEMORY_OVER))
_EVENTS = (("OOM kills", OOM_KILLS), ("evictions", EVICTIONS), ("restarts", RESTARTS), ("resizes", RESIZES))
_PODS = (("mean", REPLICAS), ("changes", SCALINGS), ("overload", OVERLOAD))
_TitledMeasures = tuple[tuple[str, Measure[SimulationTotals]], ...]


class _Figure(msgspec.Struct, frozen=True):
    """A figure on a card."""

    title: str
    value: str
    unit: str
    difference: Difference | None


class _VariantCard(msgspec.Struct, frozen=True):
    """A variant's price and figures. Without a currency, the price is a number of cores."""

    title: str
    currency: str
    price: str
    difference: Difference | None
    per: str
    figures: list[_Figure]


class _FigureRow(msgspec.Struct, frozen=True):
    """A measure of the fleet: its value in each variant, with the difference from the first."""

    title: str
    meaning: str
    cells: list[tuple[str, Difference | None]]


class _FigureGroup(msgspec.Struct, frozen=True):
    """Measures below one heading."""

    title: str
    rows: list[_FigureRow]


class _WorkloadRow(msgspec.Struct, frozen=True):
    """A workload in one variant. Its number is the one in the page's data."""

    number: int
    name: str
    description: str
    cells: list[TableCell]


class _TableBody(msgspec.Struct, frozen=True):
    """The rows of one variant."""

    title: str
    rows: list[_WorkloadRow]


class _WorkloadTable(msgspec.Struct, frozen=True):
    """Every workload in every variant. `labels` name the cells on narrow screens."""

    groups: list[ColumnGroup]
    heads: list[ColumnHead]
    labels: list[str]
    bodies: list[_TableBody]


def as_html(result: RunResult, documentation: Documentation = UNPUBLISHED) -> str:
    """The page, the same bytes for the same result."""
    comparable = select_comparable(result)
    context = _comparison(comparable) if comparable.variants else {"compared": False}
    return render_page(
        "simulation.html.j2",
        "simulation.js",
        build_chart_data(comparable),
        documentation,
        title=f"{result.scenario} · Trellis simulation",
        kind="Trellis simulation",
        heading=result.scenario,
        facts=[_format_period(result), *list_facts(result), f"seed {result.seed}"],
        banners=_warnings(result),
        not_played_title=NOT_PLAYED,
        not_played=list(list_not_played(result)),
        notes=comparable.notes,
        priced=any(variant.fleet.money > 0 for variant in comparable.variants),
        prices=comparable.prices,
        currency=comparable.currency,
        **context,
    )


def _comparison(result: RunResult) -> dict[str, Any]:
    """What the template needs where there are variants to compare."""
    shown = recommend_variant(result).variant
    return {
        "compared": True,
        "shown": shown,
        "variants": [variant_title(variant) for variant in result.variants],
        "lead": _describe_recommended(result, shown),
        "rejected": list(describe_rejected(result)),
        "cards": [_build_card(result, number) for number in range(len(result.variants))],
        "fleet_lead": f"Requests of all pods in each variant, and their usage.{_describe_offered(result)}",
        "node_chart": draw_node_chart(result),
        "figures_lead": (
            f"Of the whole fleet, over the {format_days(result.end - result.scored_from)} that are scored; "
            f"differences compare with {variant_title(result.variants[0])}."
        ),
        "groups": _figure_groups(result),
        "decisions": _count_decisions(result.variants),
        "workloads": _workload_table(result),
    }


def _format_period(result: RunResult) -> str:
    begin, end = (datetime.fromtimestamp(time, UTC) for time in (result.begin, result.end))
    return f"{begin.day} {begin:%b %Y} to {end.day} {end:%b %Y} UTC"


def _warnings(result: RunResult) -> list[str]:
    partial = "Partial: the simulation was stopped; figures cover the time until then."
    return [*([partial] if result.partial else []), *(f"Partial: {line}" for line in describe_stopped(result))]


def _describe_recommended(result: RunResult, recommended: int) -> tuple[str, str] | None:
    """The recommended variant in words: what it costs, and what it risks."""
    first = result.variants[0]
    if recommended:
        return compare_variant(result.variants[recommended], first, result.currency)
    if len(result.variants) == 1:
        return None
    if has_nodes(result):
        # Spare capacity always costs money: the question is what it buys.
        waits = [variant.fleet.waited.mean for variant in result.variants]
        best = result.variants[waits.index(min(waits))]
        return compare_variant(best, first, result.currency)
    if recommend_variant(result).rejected:
        return f"Every variant that costs less than {variant_title(first)} is much riskier.", ""
    return f"No variant costs less than {variant_title(first)}.", ""


def _build_card(result: RunResult, number: int) -> _VariantCard:
    fleets = [variant.fleet for variant in result.variants]
    always = _ON_CARDS[:2] if has_nodes(result) else _ON_CARDS
    measures = (*always, *(_SCALING if has_scaling(result) else ()))
    rows = [(title, measure.unit, build_row(measure, fleets, result.currency)) for title, measure in measures]
    if has_nodes(result):
        rows = [*((title, "", build_node_row(measure, result)) for title, measure in _NODES), *rows]
    figures = [_Figure(title, row.values[number], unit, _build_difference(row, number)) for title, unit, row in rows]
    currency, price, row = _format_price(result, number)
    per = f"for {'nodes' if has_nodes(result) else 'requests'}, in {format_days(result.end - result.scored_from)}"
    return _VariantCard(
        variant_title(result.variants[number]), currency, price, _build_difference(row, number), per, figures
    )


def _format_price(result: RunResult, number: int) -> tuple[str, str, MeasureRow]:
    """Currency, amount and comparison; cores without a currency where nothing has a price."""
    fleets = [variant.fleet for variant in result.variants]
    if has_nodes(result):
        money = format_money(result.variants[number].node_money)
        return result.currency, money, build_node_row(NODE_MONEY, result)
    if any(fleet.money > 0 for fleet in fleets):
        return result.currency, format_money(fleets[number].money), build_row(MONEY, fleets, result.currency)
    cores = format_significant(fleets[number].requested.cpu)
    return "", cores, build_row(CPU_REQUESTED, fleets, result.currency)


def _build_difference(row: MeasureRow, number: int) -> Difference | None:
    """The difference of a variant from the first, which has none from itself."""
    return make_difference(row.differences[number], row.improvements[number]) if number else None


def _describe_offered(result: RunResult) -> str:
    """What nodes offer. Where nodes come and go this differs by variant, and the baseline's is drawn."""
    baseline = result.variants[0]
    chart = baseline.chart
    cores, memory = max(chart.offered_cpu, default=0.0), max(chart.offered_memory, default=0.0)
    if cores <= 0:
        return ""
    amounts = f"{format_significant(cores)} cores and {format_gib(memory)} GiB"
    if min(chart.offered_cpu) == cores:
        return f" Nodes offer {amounts}."
    return f" Nodes offer at most {amounts} ({variant_title(baseline)})."


def _figure_groups(result: RunResult) -> list[_FigureGroup]:
    def cells(row: MeasureRow) -> list[tuple[str, Difference | None]]:
        return [(value, _build_difference(row, number)) for number, value in enumerate(row.values)]

    return [
        _FigureGroup(group.title, [_FigureRow(row.title, row.meaning, cells(row)) for row in group.rows])
        for group in compare_variants(result, include_all=True)
    ]


def _count_decisions(variants: list[VariantResult]) -> list[tuple[str, str, list[str]]]:
    """How often each reason was given, by variant: its words, its code and the counts."""
    codes = sorted({code for variant in variants for code in variant.verdicts})
    return [
        (spell_code(code), code, [format_count(variant.verdicts.get(code, 0)) for variant in variants])
        for code in codes
    ]


def _workload_table(result: RunResult) -> _WorkloadTable:
    """Namespace and name, kind and label, cost, CPU, memory and events; a body for each variant."""
    groups = _measure_groups(result)
    cost = ["cost", *(["change"] if len(result.variants) > 1 else [])]
    titled = [
        (f"Requests, {result.currency}", cost),
        *((title, [name for name, _ in group]) for title, group in groups),
    ]
    heads = [ColumnHead("Workload", "text")]
    labels = [""]
    for group, titles in titled:
        heads += [ColumnHead(title, classes="" if at else "part") for at, title in enumerate(titles)]
        name = group.partition(",")[0]
        labels += [title if name in {"Requests", "Events"} else f"{name} {title}" for title in titles]
    # Numbered as the page's data have them, and the most expensive first.
    ranked = sorted(enumerate(align_workloads(result)), key=lambda item: (-item[1][0].totals.money, item[0]))
    measures = [group for _, group in groups]
    bodies = [
        _TableBody(variant_title(variant), [_workload_row(at, results, number, measures) for at, results in ranked])
        for number, variant in enumerate(result.variants)
    ]
    return _WorkloadTable([ColumnGroup(title, len(titles)) for title, titles in titled], heads, labels, bodies)


def _measure_groups(result: RunResult) -> list[tuple[str, _TitledMeasures]]:
    groups: list[tuple[str, _TitledMeasures]] = [("CPU, cores", _CPU), ("Memory, GiB", _MEMORY), ("Events", _EVENTS)]
    return [*groups, ("Pods", _PODS)] if has_scaling(result) else groups


def _workload_row(
    number: int, results: list[WorkloadResult], variant: int, groups: list[_TitledMeasures]
) -> _WorkloadRow:
    """A row of one variant; `results` are those of the same workload in all variants."""
    workload = results[variant]
    totals = workload.totals
    description = f"{workload.kind}, {workload.label}" if workload.label else workload.kind
    cells = [number_cell(MONEY.show(totals.money), totals.money, begins=True)]
    if len(results) > 1:
        cells.append(_money_difference(totals.money, results[0].totals.money) if variant else TableCell(""))
    for group in groups:
        values = [(measure, measure.read(totals)) for _, measure in group]
        cells += [number_cell(measure.show(value), value, begins=not at) for at, (measure, value) in enumerate(values)]
    return _WorkloadRow(number, workload_path(workload), description, cells)


def _money_difference(money: float, first: float) -> TableCell:
    """By how many per cent the price differs; sorted by the money."""
    return difference_cell(MONEY.format_difference(money, first), MONEY.compare(money, first), money - first)
