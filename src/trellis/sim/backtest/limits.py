"""Is a variant worse than it may be? Limits for its figures, each as so many times what the first variant has."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from trellis.base.errors import InvalidInput
from trellis.base.names import nearest
from trellis.sim.backtest.results import BacktestResult, VariantScore

# What can be limited, and where it stands.
MEASURES: Mapping[str, tuple[str, str]] = {
    "footprint": ("cpu", "footprint"),
    "time-over": ("cpu", "time_over"),
    "overrun": ("cpu", "overrun"),
    "memory-footprint": ("memory", "footprint"),
    "kills": ("memory", "kills"),
}


def read_limits(texts: Sequence[str]) -> dict[str, float]:
    """What was written as `measure=ratio`; the last of two counts."""
    limits: dict[str, float] = {}
    for text in texts:
        measure, _, ratio = text.partition("=")
        if measure not in MEASURES:
            guess = nearest(measure, MEASURES)
            hint = f" (did you mean {guess}?)" if guess else ""
            raise InvalidInput(text, f"there is no measure {measure}{hint}, but {', '.join(MEASURES)}")
        try:
            limits[measure] = float(ratio)
        except ValueError:
            raise InvalidInput(text, "must be written as measure=ratio, such as time-over=1.1") from None
    return limits


def exceeded(result: BacktestResult, limits: Mapping[str, float]) -> Iterator[str]:
    """A line for each variant and limit that it is beyond. What cannot be compared is within it."""
    for each in result.variants[1:]:
        for measure, limit in limits.items():
            ratio = _ratio(each, *MEASURES[measure])
            if ratio > limit:
                first = result.variants[0].name
                yield f"{each.name} has {ratio:.3f} times the {measure} of {first}, and {limit:g} is the most"


def _ratio(variant: VariantScore, resource: str, measure: str) -> float:
    overall = getattr(variant, resource)
    return float(getattr(overall, measure)) if overall is not None else math.nan
