"""The recommended variant: the cheapest that is not much riskier than the baseline, and why not a cheaper one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from trellis.base.wording import choose_form
from trellis.reports.simulation.measures import THROTTLED, has_nodes
from trellis.reports.text.numbers import format_count, format_share, format_significant, format_span
from trellis.reports.text.phrases import join_words
from trellis.sim.results import RunResult, SimulationTotals, VariantResult
from trellis.sim.scores.risk import find_excessive_risks

_HOUR = 3600.0
_MAX_REASONS = 2
# What is wrong with a variant, by the keys of `trellis.sim.scores.risk`; the braces are for its figure.
_REASONS: Mapping[str, tuple[str, Callable[[SimulationTotals], str]]] = {
    "oom_kills": ("it has {}", lambda fleet: _count_kills(fleet.oom_kills)),
    "time_above_memory": (
        "usage is above the memory request {} of the time",
        lambda fleet: format_share(fleet.time_over.memory),
    ),
    "time_above_cpu": (
        "usage is above the CPU request {} of the time",
        lambda fleet: format_share(fleet.time_over.cpu),
    ),
    "throttled": ("containers are throttled {} of the time", lambda fleet: format_share(THROTTLED.read(fleet))),
    "overload": ("{} core-hours of demand are not served", lambda fleet: format_significant(fleet.scaled.overload)),
    "wait": ("95 % of pods wait up to {} for a node", lambda fleet: format_span(fleet.waited.p95)),
}


def _count_kills(kills: int) -> str:
    return f"{format_count(kills)} {choose_form(kills, 'OOM kill', 'OOM kills')}"


class Recommendation(msgspec.Struct, frozen=True):
    """The number of the recommended variant, and of those that cost less and are much riskier, the cheapest first."""

    variant: int
    rejected: tuple[int, ...]


def variant_title(variant: VariantResult) -> str:
    """The name of a variant in sentences."""
    return variant.title or variant.name


def recommend_variant(result: RunResult) -> Recommendation:
    """The cheapest of the variants that are not much riskier than the first; without prices, the fewest cores."""
    costs = [get_cost(result, variant) for variant in result.variants]
    risky = {number for number in range(1, len(costs)) if any(_list_risks(result, number))}
    chosen = min((number for number in range(len(costs)) if number not in risky), key=costs.__getitem__, default=0)
    rejected = [number for number in risky if costs[number] < costs[chosen]]
    return Recommendation(chosen, tuple(sorted(rejected, key=lambda number: (costs[number], number))))


def get_cost(result: RunResult, variant: VariantResult) -> float:
    """Money for nodes or for requests; requested cores where nothing has a price."""
    if has_nodes(result):
        return variant.node_money
    priced = any(variant.fleet.money > 0 for variant in result.variants)
    return variant.fleet.money if priced else variant.fleet.requested.cpu


def describe_recommended(result: RunResult) -> Iterator[str]:
    """Sentences about the choice where the cheapest variant is not recommended."""
    recommended = recommend_variant(result)
    if recommended.rejected:
        first = variant_title(result.variants[0])
        if recommended.variant:
            title = variant_title(result.variants[recommended.variant])
            yield f"Recommended: {title}, the cheapest variant that is not much riskier than {first}."
        else:
            yield f"Recommended: {first}; every variant that costs less is much riskier."
        yield from describe_rejected(result)


def describe_rejected(result: RunResult) -> Iterator[str]:
    """A sentence for each variant that costs less than the recommended one and is not recommended."""
    first = result.variants[0]
    cost = get_cost(result, first)
    for number in recommend_variant(result).rejected:
        variant = result.variants[number]
        risks = [_REASONS[key] for key in _list_risks(result, number)[:_MAX_REASONS]]
        reasons = join_words([phrase.format(show(variant.fleet)) for phrase, show in risks])
        baseline = join_words([show(first.fleet) for _, show in risks])
        saves = format_share(1 - get_cost(result, variant) / cost)
        yield (
            f"{variant_title(variant)} would cost {saves} less, and is not recommended because "
            f"{reasons} ({variant_title(first)}: {baseline})."
        )


def _list_risks(result: RunResult, number: int) -> list[str]:
    hours = (result.end - result.scored_from) / _HOUR
    return list(find_excessive_risks(result.variants[number].fleet, result.variants[0].fleet, hours))
