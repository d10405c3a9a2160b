"""A simulation for a terminal: a table that is read at a glance, the answer in words, and the workloads behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trellis.reports.figures import count, money, share, significant
from trellis.reports.simulation_compared import Group, compared, scales
from trellis.reports.simulation_headline import (
    NOT_PLAYED,
    Ranked,
    by_money,
    by_risk,
    by_scalings,
    comparable,
    facts,
    not_played,
    sentences,
    stopped,
    suffered,
)
from trellis.reports.text_tables import cut, fitted, lines, width, wrapped
from trellis.sim.results import RunResult, WorkloadResult

_WORKLOADS = 5
_NAME = 34  # characters of a workload's name, and of fewer where there is no room
_SHORTER = (_NAME, 26, 18, 12)
_NARROWEST = 80


def as_text(result: RunResult, width: int = 100) -> list[str]:
    """Lines without colour, none wider than `width`, which is taken as 80 at least."""
    room = max(width, _NARROWEST)
    told = [*wrapped(f"{result.scenario}: {', '.join(facts(result))}, seed {result.seed}", room)]
    told += list(_warnings(result, room))
    told += list(_not_played(result, room))
    result = comparable(result)
    if not result.variants:
        return told
    told += ["", *_table(result, room)]
    for number, sentence in enumerate(sentences(result)):
        told += ([] if number else [""]) + wrapped(sentence, room)
    told += list(_workloads(result, room))
    told += [""] if result.notes else []
    for note in result.notes:
        told += wrapped(f"Note: {note}", room)
    return told


def _warnings(result: RunResult, room: int) -> Iterator[str]:
    if result.partial:
        yield from wrapped("PARTIAL: not every variant came to its end; the figures are what there is.", room)
    for line in stopped(result):
        yield from wrapped(f"PARTIAL: {line}", room)


def _not_played(result: RunResult, room: int) -> Iterator[str]:
    """What of a dump is not played as it is in the cluster, a line for each kind and reason."""
    told = list(not_played(result))
    if told:
        yield from wrapped(NOT_PLAYED, room)
    for what, reason in told:
        yield from fitted(f"  {what}: {reason}", room)


def _table(result: RunResult, room: int) -> list[str]:
    """As few parts as fit: each has the first variant and some of the others."""
    groups = compared(result, everything=False)
    last = len(result.variants)
    told: list[str] = []
    begin = 1
    while begin < last or not told:
        end = last
        while end > begin + 1 and width(_part(result, groups, begin, end)) > room:
            end -= 1
        told += ([""] if told else []) + _part(result, groups, begin, end)
        begin = max(end, begin + 1)
    told += wrapped(" ".join(_legend(result)), room)
    return told


def _legend(result: RunResult) -> Iterator[str]:
    if len(result.variants) > 1:
        yield f"Per cent beside a figure: against {result.variants[0].name}; = is within 0.5 %."
    if any(variant.fleet.money > 0 for variant in result.variants):
        yield f"Prices: {result.prices}."


def _part(result: RunResult, groups: list[Group], begin: int, end: int) -> list[str]:
    """The first variant and those from `begin`: each value with its difference in one column, below one name."""
    chosen = (0, *range(begin, end))
    rows: list[list[str]] = [["", *(result.variants[number].name for number in chosen)]]
    wide = max(len(row.percent(number)) for group in groups for row in group.rows for number in chosen)
    for group in groups:
        rows.append([group.title])
        for row in group.rows:
            beside = [f"{row.values[number]} {row.percent(number):>{wide}}" for number in chosen[1:]]
            rows.append([f"  {row.title}", row.values[0], *beside])
    return lines(rows)


def _workloads(result: RunResult, room: int) -> Iterator[str]:
    priced = any(variant.fleet.money > 0 for variant in result.variants)
    title = f"Where the money goes, {result.currency}" if priced else "Where the cores go"
    ranked = by_money(result, _WORKLOADS)
    yield from _titled(title, _by_variant(result, ranked, lambda each: _cost(each, priced), room))
    moved = by_scalings(result, _WORKLOADS) if scales(result) else []
    yield from _titled("Pods running, mean, and changes of their count", _by_variant(result, moved, _pods, room))
    yield from _titled(
        "Where it hurts, each workload in its worst variant (over: time over its request)", _pains(result, room)
    )


def _titled(title: str, table: list[str]) -> Iterator[str]:
    if table:
        yield from ("", title, *table)


def _by_variant(result: RunResult, ranked: list[Ranked], show: Callable[[WorkloadResult], str], room: int) -> list[str]:
    """A row for each workload. Variants that do not fit are left out from the right: the page has them all."""
    table: list[str] = []
    for shown in range(len(result.variants), 0, -1):
        rows = [["  Workload", *(variant.name for variant in result.variants[:shown])]]
        rows += [[_named(each), *map(show, each.workloads[:shown])] for each in ranked]
        table = lines(rows)
        if width(table) <= room:
            break
    return table if ranked else []


def _cost(workload: WorkloadResult, priced: bool) -> str:
    return money(workload.totals.money) if priced else significant(workload.totals.requested.cpu)


def _pods(workload: WorkloadResult) -> str:
    found = workload.totals.scaled
    return f"{significant(found.replicas)} ({count(found.scalings)})"


def _pains(result: RunResult, room: int) -> list[str]:
    worst = []
    for each in by_risk(result, _WORKLOADS):
        number = max(range(len(each.workloads)), key=lambda at: suffered(each.workloads[at].totals))
        worst.append((each, result.variants[number].name, each.workloads[number].totals))
    lacking = ["overload"] if scales(result) else []
    table: list[str] = []
    for most in _SHORTER:
        rows = [["  Workload", "variant", "OOM kills", "evictions", "over CPU", "over memory", *lacking]]
        for each, variant, totals in worst:
            over = [share(totals.time_over.cpu), share(totals.time_over.memory)]
            counts = [count(totals.oom_kills), count(totals.evictions)]
            overload = [significant(totals.scaled.overload) for _ in lacking]
            rows.append([_named(each, most), cut(variant, most), *counts, *over, *overload])
        table = lines(rows, left=2)
        if width(table) <= room:
            break
    return table if worst else []


def _named(each: Ranked, most: int = _NAME) -> str:
    first = each.workloads[0]
    return f"  {cut(f'{first.namespace}/{first.name}', most)}"
