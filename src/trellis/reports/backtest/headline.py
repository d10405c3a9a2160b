"""The answer of a backtest in sentences: which recommender requests less than the first, and at what risk."""

from __future__ import annotations

import math
from collections.abc import Iterator

from trellis.reports.text.numbers import format_days, format_share, format_span
from trellis.reports.text.phrases import join_words
from trellis.sim.backtest.results import BacktestResult, OverallScore, VariantScore

_SAME = 0.005


def list_facts(result: BacktestResult) -> list[str]:
    """What was replayed, a few words each."""
    facts = [f"{len(result.facts)} series"]
    if result.facts:
        lengths = sorted(fact.end - fact.begin for fact in result.facts)
        middle = lengths[len(lengths) // 2]
        facts.append(
            f"{format_days(middle)} each" if lengths[0] > 0.9 * lengths[-1] else f"{format_days(middle)} in the middle"
        )
    facts.append(f"a decision every {format_span(result.step)}")
    if result.warm_up > 0:
        facts.append(f"the first {format_days(result.warm_up)} not scored")
    if result.threshold > 0:
        facts.append(f"changes below {result.threshold * 100:g} % not applied")
    return facts


def describe_stopped_backtest(result: BacktestResult) -> str:
    """The notice about a backtest that was stopped."""
    return (
        "Partial: it was stopped before its end; the scores are those of what was finished." if result.partial else ""
    )


def compare_all(result: BacktestResult) -> Iterator[str]:
    """Two sentences for each variant after the first."""
    for variant in result.variants[1:]:
        yield " ".join(compare_variant(variant, result.variants[0]))


def compare_variant(variant: VariantScore, first: VariantScore) -> tuple[str, str]:
    """The requests and the risk of a variant, compared with the first."""
    both = (("CPU", variant.cpu, first.cpu), ("memory", variant.memory, first.memory))
    requests = [f"{_format_ratio(score.footprint)} {name}" for name, score, _ in both if score is not None]
    risks = [f"{name} {_compare_risk(score, first_score)}" for name, score, first_score in both if score is not None]
    if not requests:
        return f"{variant.name} has nothing to be scored on.", ""
    risk = "; ".join(risks)
    return (
        f"{variant.name} requests {join_words(requests)} {_compare_requests(requests)} {first.name}.",
        f"Over its request: {risk}.",
    )


def describe_no_better(first: VariantScore) -> str:
    """The sentence for a backtest in which no variant is better than the first."""
    if first.cpu is None and first.memory is None:
        return "Nothing could be scored."
    resource = "memory" if first.cpu is None else "CPU"
    return f"No other requests less {resource} than {first.name} without more time over its request."


def _format_ratio(ratio: float) -> str:
    if abs(ratio - 1) < _SAME:
        return "as much"
    return f"{format_share(abs(ratio - 1))} {'less' if ratio < 1 else 'more'}"


def _compare_requests(requests: list[str]) -> str:
    return "as" if requests[-1].startswith("as much") else "than"


def _compare_risk(score: OverallScore, first_score: OverallScore | None) -> str:
    over = format_share(score.figures.time_over)
    before = format_share(first_score.figures.time_over) if first_score is not None else over
    return f"{over} of the time" + ("" if over == before else f" (against {before})")


def find_best(result: BacktestResult) -> int:
    """The variant that requests least CPU of those with no more time over than the first; 0 if that is the first.

    Where there is no CPU it is memory that counts.
    """
    best, least = 0, 1.0 - _SAME
    for number, variant in enumerate(result.variants):
        score = variant.cpu or variant.memory
        if score is None or not math.isfinite(score.footprint):
            continue
        safe = not (score.time_over > 1.0 + _SAME)  # NaN: the first has none, and neither is compared
        if safe and score.footprint < least:
            best, least = number, score.footprint
    return best
