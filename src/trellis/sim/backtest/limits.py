"""Limits for the figures of a variant, each as a multiple of what the first variant has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.base.wording import RESOURCE_WORDS
from trellis.sim.backtest.results import BacktestResult, OverallScore

# The figures that can be limited, and where they stand in a score.
MEASURES: Mapping[str, tuple[str, str]] = {
    "footprint": ("cpu", "footprint"),
    "time-over": ("cpu", "time_over"),
    "overrun": ("cpu", "overrun"),
    "memory-footprint": ("memory", "footprint"),
    "kills": ("memory", "kills"),
}


def read_limits(texts: Sequence[str]) -> dict[str, float]:
    """Read limits written as `measure=ratio`; the last one of a measure counts."""
    limits: dict[str, float] = {}
    for text in texts:
        measure, _, ratio = text.partition("=")
        if measure not in MEASURES:
            guess = suggest_name(measure, MEASURES)
            hint = f" (did you mean {guess}?)" if guess else ""
            raise InvalidInput(text, f"unknown measure {measure}{hint}; the measures are {', '.join(MEASURES)}")
        try:
            limits[measure] = float(ratio)
        except ValueError:
            raise InvalidInput(text, "must be written as measure=ratio, such as time-over=1.1") from None
    return limits


def find_exceeded(result: BacktestResult, limits: Mapping[str, float]) -> Iterator[str]:
    """Report each variant that exceeds a limit. Where the first variant has 0, any figure exceeds it."""
    for variant in result.variants[1:]:
        for measure, limit in limits.items():
            resource, field = MEASURES[measure]
            overall: OverallScore | None = getattr(variant, resource)
            if overall is None:
                continue
            first, ratio = result.variants[0].name, float(getattr(overall, field))
            if ratio > limit:
                yield (f"{variant.name} has {ratio:.3f} times the {measure} of {first}; the limit is {limit:g}")
            elif math.isnan(ratio) and getattr(overall.figures, field) > 0:
                yield (f"{variant.name} has {measure} and {first} has none; the limit is {limit:g} times that")


def find_uncompared(result: BacktestResult, limits: Mapping[str, float]) -> Iterator[str]:
    """Report each limit that no variant could be compared by."""
    if limits and len(result.variants) == 1:
        yield f"no variant to compare with {result.variants[0].name}; add --recommenders, --set or --sweep"
        return
    for measure in limits:
        resource, _ = MEASURES[measure]
        if all(getattr(variant, resource) is None for variant in result.variants):
            yield (
                f"nothing was scored for {measure}: no series has enough {RESOURCE_WORDS[resource]} usage after its "
                "warm-up; give longer series, or a shorter --warm-up or --step"
            )
