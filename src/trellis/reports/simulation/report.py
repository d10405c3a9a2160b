"""The report of a simulation as terminal text, JSON, CSV and Markdown; the entry point of all its formats.

The text is a table that is read at a glance, the answer in words, and the workloads behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trellis.reports.formats import CsvCell, encode_csv, encode_json
from trellis.reports.simulation.comparison import MeasureGroup, compare_variants, has_scaling
from trellis.reports.simulation.headline import (
    NOT_PLAYED,
    STOPPED,
    RankedWorkload,
    compare_all,
    describe_stopped,
    harm_score,
    list_facts,
    list_not_played,
    rank_by_cost,
    rank_by_risk,
    rank_by_scalings,
    select_comparable,
)
from trellis.reports.simulation.markdown import as_markdown
from trellis.reports.simulation.measures import has_nodes
from trellis.reports.simulation.page import as_html
from trellis.reports.text.numbers import format_count, format_money, format_share, format_significant
from trellis.reports.text.tables import (
    NARROWEST,
    align_columns,
    choose_fitting,
    measure_width,
    shorten,
    stack_rows,
    wrap_text,
)
from trellis.sim.results import RunResult, SimulationTotals, WorkloadResult

_WORKLOADS = 5
_NAME_LENGTHS = (34, 26, 18, 12)  # characters of a workload's name; fewer where there is no space


def as_text(result: RunResult, width: int = 100) -> list[str]:
    """Lines without colour, none wider than `width`, which is taken as 40 at least."""
    width = max(width, NARROWEST)
    lines = wrap_text(f"{result.scenario}: {', '.join(list_facts(result))}, seed {result.seed}", width)
    lines += [*_format_warnings(result, width), *_format_not_played(result, width)]
    result = select_comparable(result)
    if not result.variants:
        return lines
    lines += ["", *_fleet_tables(result, width)]
    for number, sentence in enumerate(compare_all(result)):
        lines += ([] if number else [""]) + wrap_text(sentence, width)
    lines += _workload_tables(result, width)
    lines += [""] if result.notes else []
    for note in result.notes:
        lines += wrap_text(f"Note: {note}", width)
    return lines


def _format_warnings(result: RunResult, width: int) -> Iterator[str]:
    if result.partial:
        yield from wrap_text(STOPPED, width)
    for line in describe_stopped(result):
        yield from wrap_text(f"Partial: {line}", width)


def _format_not_played(result: RunResult, width: int) -> Iterator[str]:
    """The differences of the simulation from the dumped cluster, a line for each kind and reason."""
    differences = list(list_not_played(result))
    if differences:
        yield from wrap_text(NOT_PLAYED, width)
    for subject, reason in differences:
        yield from (f"  {line}" for line in wrap_text(f"{subject}: {reason}", width - 2))


def _fleet_tables(result: RunResult, width: int) -> list[str]:
    """As few tables as fit: each has the first variant and some of the others."""
    groups = compare_variants(result, include_all=False)
    last = len(result.variants)
    lines: list[str] = []
    begin = 1
    while begin < last or not lines:
        end = last
        while end > begin + 1 and measure_width(_fleet_table(result, groups, begin, end)) > width:
            end -= 1
        table = _fleet_table(result, groups, begin, end)
        if measure_width(table) > width:
            return [*_stack_fleet(result, groups, width), *wrap_text(" ".join(_legend(result)), width)]
        lines += ([""] if lines else []) + table
        begin = max(end, begin + 1)
    return lines + wrap_text(" ".join(_legend(result)), width)


def _legend(result: RunResult) -> Iterator[str]:
    if len(result.variants) > 1:
        yield f"Percentages compare with {result.variants[0].name}; = means a difference below 0.5 %."
    if any(variant.fleet.money > 0 for variant in result.variants):
        yield f"Prices: {result.prices}."


def _fleet_table(result: RunResult, groups: list[MeasureGroup], begin: int, end: int) -> list[str]:
    """The first variant and those from `begin`: each value with its difference in one column, below one name."""
    chosen = (0, *range(begin, end))
    rows: list[list[str]] = [["", *(result.variants[number].name for number in chosen)]]
    widths = {number: max(len(row.percent(number)) for group in groups for row in group.rows) for number in chosen}
    for group in groups:
        rows.append([group.title])
        for row in group.rows:
            cells = [f"{row.values[number]} {row.percent(number):>{widths[number]}}" for number in chosen[1:]]
            rows.append([f"  {row.title}", row.values[0], *cells])
    return align_columns(rows)


def _stack_fleet(result: RunResult, groups: list[MeasureGroup], width: int) -> list[str]:
    heads = ["", *(variant.name for variant in result.variants)]
    lines: list[str] = []
    for group in groups:
        values = (
            [row.title, *(f"{value} {row.percent(number)}" for number, value in enumerate(row.values))]
            for row in group.rows
        )
        lines += [group.title, *(f"  {line}" for line in stack_rows(heads, values, width - 2))]
    return lines


def _workload_tables(result: RunResult, width: int) -> Iterator[str]:
    priced = any(variant.fleet.money > 0 for variant in result.variants)
    title = f"Largest differences in cost, {result.currency}" if priced else "Largest differences in requested cores"
    by_cost = rank_by_cost(result, _WORKLOADS)
    costs = _variant_table(result, by_cost, lambda workload: _cost(workload, priced), width)
    yield from _format_titled(title, costs, width)
    by_scalings = rank_by_scalings(result, _WORKLOADS) if has_scaling(result) else []
    pods = _variant_table(result, by_scalings, _pods, width)
    yield from _format_titled("Pods running (mean), and replica changes", pods, width)
    risk = "Highest risk, each workload in its worst variant (CPU, memory: time above the request)"
    yield from _format_titled(risk, _harm_table(result, width), width)


def _format_titled(title: str, table: list[str], width: int) -> Iterator[str]:
    if table:
        yield from ("", *wrap_text(title, width), *table)


def _variant_table(
    result: RunResult, ranked: list[RankedWorkload], show: Callable[[WorkloadResult], str], width: int
) -> list[str]:
    """A row for each workload. Variants that do not fit are left out from the right: the page has them all."""
    rows = [["  Workload", *(variant.name for variant in result.variants)]]
    rows += [[_workload_name(workload), *map(show, workload.workloads)] for workload in ranked]
    tables = (align_columns([row[: shown + 1] for row in rows]) for shown in range(len(result.variants), 0, -1))
    return choose_fitting(tables, width, lambda: stack_rows(rows[0], rows[1:], width)) if ranked else []


def _cost(workload: WorkloadResult, priced: bool) -> str:
    return format_money(workload.totals.money) if priced else format_significant(workload.totals.requested.cpu)


def _pods(workload: WorkloadResult) -> str:
    scaled = workload.totals.scaled
    return f"{format_significant(scaled.replicas)} ({format_count(scaled.scalings)})"


def _harm_table(result: RunResult, width: int) -> list[str]:
    worst = []
    for workload in rank_by_risk(result, _WORKLOADS):
        scores = [harm_score(in_variant.totals) for in_variant in workload.workloads]
        number = scores.index(max(scores))
        worst.append((workload, result.variants[number].name, workload.workloads[number].totals))
    overload = ["overload"] if has_scaling(result) else []
    heads = ["  Workload", "variant", "OOM kills", "evictions", "CPU", "memory", *overload]

    def cells(totals: SimulationTotals) -> list[str]:
        counts = [format_count(totals.oom_kills), format_count(totals.evictions)]
        shares = [format_share(totals.time_over.cpu), format_share(totals.time_over.memory)]
        return [*counts, *shares, *(format_significant(totals.scaled.overload) for _ in overload)]

    def rows(length: int) -> list[list[str]]:
        return [
            [_workload_name(workload, length), shorten(variant, length), *cells(totals)]
            for workload, variant, totals in worst
        ]

    tables = (align_columns([heads, *rows(length)], left_aligned=2) for length in _NAME_LENGTHS)
    return choose_fitting(tables, width, lambda: stack_rows(heads, rows(width), width)) if worst else []


def _workload_name(workload: RankedWorkload, length: int = _NAME_LENGTHS[0]) -> str:
    first = workload.workloads[0]
    return f"  {shorten(f'{first.namespace}/{first.name}', length)}"


__all__ = ["as_csv", "as_html", "as_json", "as_markdown", "as_text"]

_COLUMNS = (
    *("variant", "namespace", "name", "kind", "label"),
    *("requested_cpu_cores", "requested_memory_bytes", "used_cpu_cores", "used_memory_bytes"),
    *("slack_cpu_cores", "slack_memory_bytes", "footprint_cpu", "footprint_memory"),
    *("time_over_cpu", "time_over_memory", "overrun_cpu", "overrun_memory"),
    *("throttled_seconds", "container_seconds", "oom_kills", "evictions", "pressed_out", "resizes", "restarts"),
    *("boosts", "pods_made", "pending_seconds", "start_seconds", "money"),
)
# Where counts change.
_SCALING = ("replicas", "scalings", "overload_core_hours")
# Where nodes come and go.
_WAITS = ("wait_mean_seconds", "wait_p95_seconds", "wait_longest_seconds")


def as_json(result: RunResult) -> bytes:
    """The result with its charts."""
    return encode_json("SimulationResult", result)


def as_csv(result: RunResult) -> str:
    """A row for each workload in each variant."""
    more = (*(_SCALING if has_scaling(result) else ()), *(_WAITS if has_nodes(result) else ()))
    return encode_csv((*_COLUMNS, *more), _rows(result))


def _rows(result: RunResult) -> Iterator[list[CsvCell]]:
    with_scaling, with_nodes = has_scaling(result), has_nodes(result)
    for variant in result.variants:
        for workload in variant.workloads:
            totals = workload.totals
            row = [variant.name, workload.namespace, workload.name, workload.kind, workload.label, *_figures(totals)]
            scaling, waits = totals.scaled, totals.waited
            row += [scaling.replicas, scaling.scalings, scaling.overload] if with_scaling else []
            row += [waits.mean, waits.p95, waits.most] if with_nodes else []
            yield row


def _figures(totals: SimulationTotals) -> list[CsvCell]:
    pairs = (totals.requested, totals.used, totals.slack, totals.footprint, totals.time_over, totals.overrun)
    return [
        *(value for pair in pairs for value in (pair.cpu, pair.memory)),
        *(totals.throttled_seconds, totals.container_seconds, totals.oom_kills, totals.evictions, totals.pressed_out),
        *(totals.resizes, totals.restarts, totals.boosts, totals.pods_made),
        *(totals.pending_seconds, totals.start_seconds, totals.money),
    ]
