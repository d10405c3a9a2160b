"""The report of a simulation as terminal text, JSON and CSV; the entry point of all its formats.

The text is a table that is read at a glance, the answer in words, and the workloads behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trellis.reports.formats import CsvCell, encode_csv, encode_json
from trellis.reports.simulation.comparison import MeasureGroup, compare_variants, has_scaling
from trellis.reports.simulation.headline import (
    NOT_PLAYED,
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
from trellis.reports.simulation.measures import has_nodes
from trellis.reports.simulation.page import as_html
from trellis.reports.text.numbers import format_count, format_money, format_share, format_significant
from trellis.reports.text.tables import align_columns, shorten, table_width, wrap_line, wrap_text
from trellis.sim.results import RunResult, SimulationTotals, WorkloadResult

_WORKLOADS = 5
_NAME = 34  # characters of a workload's name, and of fewer where there is no room
_SHORTER = (_NAME, 26, 18, 12)
_NARROWEST = 80


def as_text(result: RunResult, width: int = 100) -> list[str]:
    """Lines without colour, none wider than `width`, which is taken as 80 at least."""
    room = max(width, _NARROWEST)
    told = [*wrap_text(f"{result.scenario}: {', '.join(list_facts(result))}, seed {result.seed}", room)]
    told += list(_warnings(result, room))
    told += list(_not_played(result, room))
    result = select_comparable(result)
    if not result.variants:
        return told
    told += ["", *_table(result, room)]
    for number, sentence in enumerate(compare_all(result)):
        told += ([] if number else [""]) + wrap_text(sentence, room)
    told += list(_workloads(result, room))
    told += [""] if result.notes else []
    for note in result.notes:
        told += wrap_text(f"Note: {note}", room)
    return told


def _warnings(result: RunResult, room: int) -> Iterator[str]:
    if result.partial:
        yield from wrap_text("PARTIAL: not every variant came to its end; the figures are what there is.", room)
    for line in describe_stopped(result):
        yield from wrap_text(f"PARTIAL: {line}", room)


def _not_played(result: RunResult, room: int) -> Iterator[str]:
    """What of a dump is not played as it is in the cluster, a line for each kind and reason."""
    told = list(list_not_played(result))
    if told:
        yield from wrap_text(NOT_PLAYED, room)
    for what, reason in told:
        yield from wrap_line(f"  {what}: {reason}", room)


def _table(result: RunResult, room: int) -> list[str]:
    """As few parts as fit: each has the first variant and some of the others."""
    groups = compare_variants(result, everything=False)
    last = len(result.variants)
    told: list[str] = []
    begin = 1
    while begin < last or not told:
        end = last
        while end > begin + 1 and table_width(_part(result, groups, begin, end)) > room:
            end -= 1
        told += ([""] if told else []) + _part(result, groups, begin, end)
        begin = max(end, begin + 1)
    told += wrap_text(" ".join(_legend(result)), room)
    return told


def _legend(result: RunResult) -> Iterator[str]:
    if len(result.variants) > 1:
        yield f"Per cent beside a figure: against {result.variants[0].name}; = is within 0.5 %."
    if any(variant.fleet.money > 0 for variant in result.variants):
        yield f"Prices: {result.prices}."


def _part(result: RunResult, groups: list[MeasureGroup], begin: int, end: int) -> list[str]:
    """The first variant and those from `begin`: each value with its difference in one column, below one name."""
    chosen = (0, *range(begin, end))
    rows: list[list[str]] = [["", *(result.variants[number].name for number in chosen)]]
    wide = max(len(row.percent(number)) for group in groups for row in group.rows for number in chosen)
    for group in groups:
        rows.append([group.title])
        for row in group.rows:
            beside = [f"{row.values[number]} {row.percent(number):>{wide}}" for number in chosen[1:]]
            rows.append([f"  {row.title}", row.values[0], *beside])
    return align_columns(rows)


def _workloads(result: RunResult, room: int) -> Iterator[str]:
    priced = any(variant.fleet.money > 0 for variant in result.variants)
    title = f"Where the money goes, {result.currency}" if priced else "Where the cores go"
    ranked = rank_by_cost(result, _WORKLOADS)
    yield from _titled(title, _by_variant(result, ranked, lambda each: _cost(each, priced), room))
    moved = rank_by_scalings(result, _WORKLOADS) if has_scaling(result) else []
    yield from _titled("Pods running, mean, and changes of their count", _by_variant(result, moved, _pods, room))
    yield from _titled(
        "Where it hurts, each workload in its worst variant (over: time over its request)", _pains(result, room)
    )


def _titled(title: str, table: list[str]) -> Iterator[str]:
    if table:
        yield from ("", title, *table)


def _by_variant(
    result: RunResult, ranked: list[RankedWorkload], show: Callable[[WorkloadResult], str], room: int
) -> list[str]:
    """A row for each workload. Variants that do not fit are left out from the right: the page has them all."""
    table: list[str] = []
    for shown in range(len(result.variants), 0, -1):
        rows = [["  Workload", *(variant.name for variant in result.variants[:shown])]]
        rows += [[_named(each), *map(show, each.workloads[:shown])] for each in ranked]
        table = align_columns(rows)
        if table_width(table) <= room:
            break
    return table if ranked else []


def _cost(workload: WorkloadResult, priced: bool) -> str:
    return format_money(workload.totals.money) if priced else format_significant(workload.totals.requested.cpu)


def _pods(workload: WorkloadResult) -> str:
    found = workload.totals.scaled
    return f"{format_significant(found.replicas)} ({format_count(found.scalings)})"


def _pains(result: RunResult, room: int) -> list[str]:
    worst = []
    for each in rank_by_risk(result, _WORKLOADS):
        number = max(range(len(each.workloads)), key=lambda at: harm_score(each.workloads[at].totals))
        worst.append((each, result.variants[number].name, each.workloads[number].totals))
    lacking = ["overload"] if has_scaling(result) else []
    table: list[str] = []
    for most in _SHORTER:
        rows = [["  Workload", "variant", "OOM kills", "evictions", "over CPU", "over memory", *lacking]]
        for each, variant, totals in worst:
            over = [format_share(totals.time_over.cpu), format_share(totals.time_over.memory)]
            counts = [format_count(totals.oom_kills), format_count(totals.evictions)]
            overload = [format_significant(totals.scaled.overload) for _ in lacking]
            rows.append([_named(each, most), shorten(variant, most), *counts, *over, *overload])
        table = align_columns(rows, left=2)
        if table_width(table) <= room:
            break
    return table if worst else []


def _named(each: RankedWorkload, most: int = _NAME) -> str:
    first = each.workloads[0]
    return f"  {shorten(f'{first.namespace}/{first.name}', most)}"


__all__ = ["as_csv", "as_html", "as_json", "as_text"]

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
    """Everything, charts included."""
    return encode_json("SimulationResult", result)


def as_csv(result: RunResult) -> str:
    """A row for each workload in each variant."""
    more = (*(_SCALING if has_scaling(result) else ()), *(_WAITS if has_nodes(result) else ()))
    return encode_csv((*_COLUMNS, *more), _rows(result))


def _rows(result: RunResult) -> Iterator[list[CsvCell]]:
    scaled, noded = has_scaling(result), has_nodes(result)
    for variant in result.variants:
        for each in variant.workloads:
            row = [variant.name, each.namespace, each.name, each.kind, each.label, *_figures(each.totals)]
            found, waits = each.totals.scaled, each.totals.waited
            row += [found.replicas, found.scalings, found.overload] if scaled else []
            row += [waits.mean, waits.p95, waits.most] if noded else []
            yield row


def _figures(totals: SimulationTotals) -> list[CsvCell]:
    pairs = (totals.requested, totals.used, totals.slack, totals.footprint, totals.time_over, totals.overrun)
    return [
        *(value for pair in pairs for value in (pair.cpu, pair.memory)),
        *(totals.throttled_seconds, totals.container_seconds, totals.oom_kills, totals.evictions, totals.pressed_out),
        *(totals.resizes, totals.restarts, totals.boosts, totals.pods_made),
        *(totals.pending_seconds, totals.start_seconds, totals.money),
    ]
