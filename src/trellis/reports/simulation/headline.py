"""The answer of a simulation in sentences: each variant's cost and risk against the first, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from trellis.base.wording import pluralize
from trellis.reports.simulation.measures import CPU_OVER, CPU_REQUESTED, MEMORY_OVER, MEMORY_REQUESTED
from trellis.reports.simulation.recommendation import describe_recommended, variant_title
from trellis.reports.text.numbers import (
    format_count,
    format_days,
    format_interval,
    format_money,
    format_share,
    format_significant,
    format_span,
)
from trellis.reports.text.phrases import join_words
from trellis.sim.results import RunResult, ScalingTotals, SimulationTotals, VariantResult, WorkloadResult

# Above the list of objects of a dump that are not simulated as they are.
NOT_PLAYED = "Simulated differently than in the cluster:"
STOPPED = "Partial: the simulation was stopped; figures cover the time until then."

_SAME_COST = 0.005  # a difference that is not worth a word


class RankedWorkload(msgspec.Struct, frozen=True):
    """One workload in all variants, and how much of what it is ranked by it has."""

    workloads: list[WorkloadResult]
    weight: float


def list_facts(result: RunResult) -> list[str]:
    """What was simulated, a few words each."""
    workloads = max((len(variant.workloads) for variant in result.variants), default=0)
    scored = result.end - result.scored_from
    warm_up = result.scored_from - result.begin
    facts = [pluralize(workloads, "workload"), f"{format_days(scored)} scored"]
    if warm_up > 0:
        facts.append(f"after {format_days(warm_up)} of warm-up")
    return [*facts, f"usage {format_interval(result.step)}"]


def select_comparable(result: RunResult) -> RunResult:
    """The variants that ran longest: sums over less time are smaller and cannot be compared.

    Of a run that was stopped before anything was scored none are left.
    """
    reached = [_reached(variant, result) for variant in result.variants]
    farthest = max(reached, default=0.0)
    comparable = [variant for variant, end in zip(result.variants, reached, strict=True) if end == farthest]
    return msgspec.structs.replace(result, variants=comparable if farthest > result.scored_from else [])


def describe_stopped(result: RunResult) -> Iterator[str]:
    """A sentence for each variant that was stopped before its end."""
    compared = {variant.name for variant in select_comparable(result).variants}
    for variant in result.variants:
        if variant.partial_until is not None:
            done = (variant.partial_until - result.begin) / max(result.end - result.begin, 1.0)
            excluded = "" if variant.name in compared else ", too early for a comparison"
            yield f"{variant_title(variant)} was stopped after {format_share(done)} of the time{excluded}."


def list_not_played(result: RunResult) -> Iterator[tuple[str, str]]:
    """The differences of the simulation from the dumped cluster, with counts and reasons."""
    for item in () if result.not_played is msgspec.UNSET else result.not_played:
        yield (pluralize(item.count, item.kind) if item.count else item.kind), item.reason


def _reached(variant: VariantResult, result: RunResult) -> float:
    return result.end if variant.partial_until is None else variant.partial_until


def compare_all(result: RunResult) -> Iterator[str]:
    """Two sentences for each variant after the first, and which of them is recommended if the cheapest is not."""
    for variant in result.variants[1:]:
        yield " ".join(compare_variant(variant, result.variants[0], result.currency))
    yield from describe_recommended(result)


def compare_variant(variant: VariantResult, first: VariantResult, currency: str) -> tuple[str, str]:
    """The cost of a variant compared with the first, and the effect on the workloads and their waits for nodes."""
    waits = f"{_compare_waits(variant, first)} " if first.nodes is not msgspec.UNSET else ""
    return _compare_cost(variant, first, currency), f"{waits}{_compare_risk(variant, first)}"


def _compare_cost(variant: VariantResult, first: VariantResult, currency: str) -> str:
    """Its price against the first's, or its requests where nothing has a price."""
    own_cost, first_cost = variant.fleet, first.fleet
    if first.nodes is not msgspec.UNSET:
        money = (variant.node_money, first.node_money)
        return f"{_price_difference(variant, first, money, currency, ' for nodes')}."
    if first_cost.money > 0:
        return f"{_price_difference(variant, first, (own_cost.money, first_cost.money), currency)}."
    requests = [
        f"{measure.show(measure.read(own_cost))} {unit} instead of {measure.show(measure.read(first_cost))}"
        for measure, unit in ((CPU_REQUESTED, "cores"), (MEMORY_REQUESTED, "GiB"))
    ]
    return f"{variant_title(variant)} requests {join_words(requests)}."


def _price_difference(
    variant: VariantResult, first: VariantResult, money: tuple[float, float], currency: str, subject: str = ""
) -> str:
    """What a variant costs more or less than the first, in per cent and in money."""
    own_price, first_price = money
    apart = own_price / first_price - 1 if first_price > 0 else 0.0
    price = f"{currency} {format_money(own_price)}{subject}"
    if abs(apart) < _SAME_COST:
        return f"{variant_title(variant)} costs the same as {variant_title(first)} ({price})"
    prices = f"{price} instead of {format_money(first_price)}"
    difference = f"{format_share(abs(apart))} {_choose_direction(apart)}"
    return f"{variant_title(variant)} costs {difference} than {variant_title(first)} ({prices})"


def _compare_waits(variant: VariantResult, first: VariantResult) -> str:
    """How long pods wait for a node, with the first's figures."""
    waits, others = variant.fleet.waited, first.fleet.waited
    figures = ((waits.mean, others.mean), (waits.p95, others.p95), (waits.most, others.most))
    mean, high, most = (f"{format_span(own)}{_format_baseline(format_span(other))}" for own, other in figures)
    return f"Pods wait {mean} for a node on average, 95 % of them at most {high}, the longest {most}."


def _choose_direction(apart: float) -> str:
    return "less" if apart < 0 else "more"


def _compare_risk(variant: VariantResult, first: VariantResult) -> str:
    """The effect on the workloads, with the first's figures."""
    totals, first_totals = variant.fleet, first.fleet
    cpu, memory = (
        (format_share(read(totals)), format_share(read(first_totals))) for read in (CPU_OVER.read, MEMORY_OVER.read)
    )
    over = f"Usage is above the CPU request {cpu[0]} of the time{_format_baseline(cpu[1])}, "
    over += f"above the memory request {memory[0]}{_format_baseline(memory[1])}"
    events = [f"{_format_count(totals.oom_kills, 'OOM kill')}{_format_baseline(first_totals.oom_kills)}"]
    if totals.evictions or first_totals.evictions:
        events.append(f"{_format_count(totals.evictions, 'eviction')}{_format_baseline(first_totals.evictions)}")
    if totals.resizes:
        events.append(f"{_format_count(totals.resizes, 'resize')} in place")
    if totals.scaling is not msgspec.UNSET:
        events += _compare_scaling(totals.scaled, first_totals.scaled)
    return f"{over}; {join_words(events)}."


def _compare_scaling(own: ScalingTotals, first: ScalingTotals) -> list[str]:
    lacking, others = format_significant(own.overload), format_significant(first.overload)
    changes = f"{_format_count(own.scalings, 'replica change')}{_format_baseline(first.scalings)}"
    return [changes, f"{lacking} core-hours of overload{_format_baseline(others)}"]


def _format_baseline(first: float | str) -> str:
    """The first's figure; also where it is the same, so that every sentence has it in the same places."""
    return f" (baseline: {first if isinstance(first, str) else format_count(first)})"


def _format_count(number: int, noun: str) -> str:
    return f"{format_count(number) if number else 'no'} {noun}{'' if number == 1 else 's'}"


def rank_by_cost(result: RunResult, most: int) -> list[RankedWorkload]:
    """The workloads whose price differs most between variants; by requested cores where nothing has a price."""
    priced = any(variant.fleet.money > 0 for variant in result.variants)
    return _rank(result, most, lambda totals: totals.money if priced else totals.requested.cpu, _get_range)


def rank_by_risk(result: RunResult, most: int) -> list[RankedWorkload]:
    """The workloads that suffer most in any variant: kills first, then evictions and time over requests."""
    return _rank(result, most, harm_score, max)


def rank_by_scalings(result: RunResult, most: int) -> list[RankedWorkload]:
    """The workloads whose count changes most often in any variant."""
    return _rank(result, most, lambda totals: totals.scaled.scalings, max)


def harm_score(totals: SimulationTotals) -> float:
    """A kill outweighs evictions, and an eviction a tenth of the time over a request; only the order matters.

    So does an hour of a core that was wanted and not had outweigh an eviction.
    """
    return (
        totals.scaled.overload
        + 10 * totals.oom_kills
        + totals.evictions
        + 10 * (totals.time_over.cpu + totals.time_over.memory)
    )


def _get_range(values: list[float]) -> float:
    return max(values) - min(values)


def _rank(
    result: RunResult, most: int, read: Callable[[SimulationTotals], float], weigh: Callable[[list[float]], float]
) -> list[RankedWorkload]:
    ranked = []
    for same in align_workloads(result):
        weight = weigh([read(workload.totals) for workload in same])
        if weight > 0:
            ranked.append(RankedWorkload(same, weight))
    ranked.sort(key=lambda workload: (-workload.weight, workload.workloads[0].namespace, workload.workloads[0].name))
    return ranked[:most]


def align_workloads(result: RunResult) -> Iterator[list[WorkloadResult]]:
    """Each workload that is in all variants: one that was stopped early may lack some."""
    tables = [
        {(workload.namespace, workload.name): workload for workload in variant.workloads} for variant in result.variants
    ]
    for key in tables[0] if tables else ():
        if all(key in table for table in tables):
            yield [table[key] for table in tables]
