"""The answer of a backtest in sentences: which recommender requests less than the first, and at what risk."""

from __future__ import annotations

import math
from collections.abc import Iterator

from trellis.reports.text.numbers import format_days, format_interval, format_rate, format_share
from trellis.reports.text.phrases import join_words
from trellis.sim.backtest.results import BacktestResult, OverallScore, VariantScore
from trellis.sim.scores.risk import KILLS, MEMORY_TIME_ABOVE

_SAME = 0.005


def list_facts(result: BacktestResult) -> list[str]:
    """What was replayed, a few words each."""
    facts = [f"{len(result.facts)} series"]
    if result.facts:
        lengths = sorted(fact.end - fact.begin for fact in result.facts)
        middle = lengths[len(lengths) // 2]
        facts.append(
            f"{format_days(middle)} each" if lengths[0] > 0.9 * lengths[-1] else f"{format_days(middle)} each (median)"
        )
    facts.append(f"a recommendation {format_interval(result.step)}")
    if result.warm_up > 0:
        facts.append(f"the first {format_days(result.warm_up)} not scored")
    if result.threshold > 0:
        facts.append(f"changes below {result.threshold * 100:g} % not applied")
    return facts


def describe_stopped_backtest(result: BacktestResult) -> str:
    """The notice about a backtest that was stopped."""
    return "Partial: the backtest was stopped; scores cover the series that were finished." if result.partial else ""


def describe_answer(result: BacktestResult) -> Iterator[str]:
    """The best variant compared with the first, or that none is better; then what is rejected for its risk."""
    first, best = result.variants[0], find_best(result)
    yield " ".join(compare_variant(result.variants[best], first)) if best else describe_no_better(first)
    yield from describe_rejected(result)


def list_remarks(result: BacktestResult) -> list[str]:
    """What was skipped, and notes on the data."""
    return [*(f"Skipped: {line}" for line in result.left_out), *(f"Note: {line}" for line in result.notes)]


def compare_all(result: BacktestResult) -> Iterator[str]:
    """Two sentences for each variant after the first."""
    for variant in result.variants[1:]:
        yield " ".join(compare_variant(variant, result.variants[0]))


def compare_variant(variant: VariantScore, first: VariantScore) -> tuple[str, str]:
    """The requests and the risk of a variant, compared with the first."""
    both = (("CPU", variant.cpu, first.cpu), ("memory", variant.memory, first.memory))
    requests = [f"{_format_ratio(score.footprint)} {name}" for name, score, _ in both if score is not None]
    risks = [
        f"above the {name} request {_compare_risk(score, first_score, first.name)}"
        for name, score, first_score in both
        if score is not None
    ]
    if not requests:
        return f"{variant.name} has no scores.", ""
    return (
        f"{variant.name} requests {join_words(requests)} {_compare_requests(requests)} {first.name}.",
        f"Usage is {', '.join(risks)}.",
    )


def describe_no_better(first: VariantScore) -> str:
    """The sentence for a backtest in which no variant is better than the first."""
    if first.cpu is None and first.memory is None:
        return "No series could be scored."
    resource = "memory" if first.cpu is None else "CPU"
    return f"No recommender requests less {resource} than {first.name} without more time above the request."


def _format_ratio(ratio: float) -> str:
    if abs(ratio - 1) < _SAME:
        return "as much"
    return f"{format_share(abs(ratio - 1))} {'less' if ratio < 1 else 'more'}"


def _compare_requests(requests: list[str]) -> str:
    return "as" if requests[-1].startswith("as much") else "than"


def _compare_risk(score: OverallScore, first_score: OverallScore | None, first: str) -> str:
    over = format_share(score.figures.time_over)
    before = format_share(first_score.figures.time_over) if first_score is not None else over
    return f"{over} of the time" + ("" if over == before else f" ({first}: {before})")


def find_best(result: BacktestResult) -> int:
    """The variant that requests least CPU without more risk than the first; 0 if that is the first.

    More risk is more time above the request, or much more time above the memory request or many more kills. Where
    there is no CPU, memory counts.
    """
    best, least = 0, 1.0 - _SAME
    for number, variant in enumerate(result.variants):
        score = variant.cpu or variant.memory
        if score is None or not math.isfinite(score.footprint):
            continue
        if score.footprint < least and not _list_risks(variant, result.variants[0]):
            best, least = number, score.footprint
    return best


def describe_rejected(result: BacktestResult) -> Iterator[str]:
    """A sentence for the variant that requests least, if it is not the best one because of its risk."""
    first = result.variants[0]
    ratios = [_get_ratio(variant) for variant in result.variants]
    least = min(ratios)
    variant = result.variants[ratios.index(least)]
    risks = _list_risks(variant, first)
    if risks and least < 1.0 - _SAME:
        resource = "memory" if variant.cpu is None else "CPU"
        yield f"{variant.name} requests {_format_ratio(least)} {resource}, and is not recommended: {join_words(risks)}."


def _get_ratio(variant: VariantScore) -> float:
    score = variant.cpu or variant.memory
    return score.footprint if score is not None and math.isfinite(score.footprint) else math.inf


def _list_risks(variant: VariantScore, first: VariantScore) -> list[str]:
    """How a variant is riskier than the first, in words with both figures."""
    risks = []
    for name, score, first_score in (("CPU", variant.cpu, first.cpu), ("memory", variant.memory, first.memory)):
        if score is None or first_score is None:
            continue
        own, other = score.figures.time_over, first_score.figures.time_over
        decides = score is (variant.cpu or variant.memory)
        # NaN: the first is never above its request, and only the limit counts.
        if (decides and score.time_over > 1.0 + _SAME) or MEMORY_TIME_ABOVE.is_exceeded(own, other):
            shares = f"{format_share(own)} of the time ({first.name}: {format_share(other)})"
            risks.append(f"usage is above the {name} request {shares}")
    if variant.memory is not None and first.memory is not None:
        own, other = variant.memory.figures.kills, first.memory.figures.kills
        if KILLS.is_exceeded(own, other):
            risks.append(
                f"containers are OOM-killed {format_rate(own)} times per week ({first.name}: {format_rate(other)})"
            )
    return risks
