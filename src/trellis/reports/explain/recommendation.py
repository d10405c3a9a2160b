"""Explains in sentences each step of the recommendation for a container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trellis.core.explain.explanation.document import AmountChangePart, ContainerRecommendationPart, UsageCurvePart
from trellis.reports.text.numbers import format_count, format_share, format_trimmed
from trellis.reports.text.phrases import format_clause
from trellis.reports.text.quantities import (
    draw_sparkline,
    format_elapsed,
    format_moment,
    format_quantities,
    format_quantity,
    get_resource_word,
    merge_values,
)

_SOURCES: Final = {
    "checkpoint": "from the checkpoint and current usage",
    "series": "from the collected series",
    "now": "from current usage alone: there is no checkpoint",
}
_CURVES: Final = {
    "series": "usage",
    "hours": "maximum of each hour",
    "histogram": "histogram",
}


def container_lines(
    container: ContainerRecommendationPart, parameters: Mapping[str, Any], now: str, width: int, *, plain: bool
) -> Iterator[str]:
    """One container, the result first; drawings are no wider than `width`."""
    decided = container.decided
    yield from _result_lines(decided)
    yield from _history_lines(container, now)
    for curve in container.usage:
        yield from _draw_curve(curve, width, plain=plain)
    yield from _explanation_lines(decided, parameters)
    for step in container.steps:
        yield f"  {describe_step(step)}"
    for name, shadow in decided.get("shadows", {}).items():
        target = shadow["found"].get("target")
        result = shadow["failure"] or (f"computes {format_quantities(target)}" if target else "computes nothing")
        yield f"  Shadow recommender {name}: {result}"


def _result_lines(decided: Mapping[str, Any]) -> Iterator[str]:
    recommended, published = (decided[name].get("target", {}) for name in ("recommended", "published"))
    if not recommended:
        yield f"Nothing is recommended: {format_clause(decided['meaning'])}."
    elif recommended == published:
        yield f"Recommended and published: {format_quantities(recommended)}."
    else:
        yield f"Recommended now: {format_quantities(recommended)}."
    if published and recommended != published:
        yield f"Published: {format_quantities(published)}. Pods are sized by the published values."
    low, high = (decided["recommended"].get(name, {}) for name in ("lowerBound", "upperBound"))
    ranges = [
        f"{get_resource_word(name)} {format_quantity(name, low[name])} to {format_quantity(name, high[name])}"
        for name in low
        if name in high
    ]
    if recommended and ranges:
        yield f"Bounds: {', '.join(ranges)}. A pod with requests outside of them is changed at any age."


def _history_lines(container: ContainerRecommendationPart, now: str) -> Iterator[str]:
    decided = container.decided
    first, last = decided["firstSample"], decided["lastSample"]
    confidence = decided["confidence"]
    history = f"{format_count(decided['samples'])} CPU samples {_SOURCES[container.history]}"
    if first and last:
        history += f", the first at {format_moment(first, now)}, the last at {format_moment(last, now)}"
    yield f"{history}."
    if confidence is not None and decided["samples"]:
        wide = ": below 1, the bounds are wider than with a longer history" if confidence < 1 else ""
        yield f"Confidence {format_trimmed(confidence)}{wide}."


def _draw_curve(curve: UsageCurvePart, width: int, *, plain: bool) -> Iterator[str]:
    """The drawing, with its meaning beside it, or below it where the line is too narrow for both."""
    head = f"  {get_resource_word(curve.resource):6}  "
    drawn = draw_sparkline(merge_values(curve.values, width - len(head)), plain=plain)
    ends = f"{format_quantity(curve.resource, curve.least)} to {format_quantity(curve.resource, curve.most)}"
    when = f" over {format_elapsed(curve.since, curve.until)}" if curve.since else ""
    meaning = f"{ends}, {_CURVES[curve.source]}{when}"
    line = f"{head}{drawn}  {meaning}"
    yield from (line,) if len(line) <= width else (f"{head}{drawn}", f"    {meaning}")


def _explanation_lines(decided: Mapping[str, Any], parameters: Mapping[str, Any]) -> Iterator[str]:
    """The recommender's explanation: in sentences for a percentile with a margin, else as it is given."""
    explanation = dict(decided["explanation"])
    target = decided["found"].get("target", {})
    margin = parameters.get("recommendation-margin-fraction")
    for resource in target:
        fraction = parameters.get(f"target-{resource}-percentile")
        used, least = explanation.get(f"{resource}-used"), explanation.get(f"least-{resource}")
        if fraction is None or margin is None or not isinstance(used, float) or not isinstance(least, float):
            continue
        del explanation[f"{resource}-used"], explanation[f"least-{resource}"]
        unit = "m" if resource == "cpu" else ""
        most, small = (format_quantity(resource, f"{value:.0f}{unit}") for value in (used, least))
        yield (
            f"  {get_resource_word(resource)}: P{format_trimmed(fraction * 100)} of usage is {most}; with a margin of "
            f"{format_share(margin)} and a minimum of {small} (its share of the pod minimum), "
            f"the recommender {decided['recommender']} computes {format_quantity(resource, target[resource])}"
        )
    rest = [f"{name}: {_format_value(value)}" for name, value in sorted(explanation.items()) if value is not None]
    if target and rest:
        yield f"  The recommender {decided['recommender']} computes {format_quantities(target)} ({', '.join(rest)})"


def _format_value(value: float | str) -> str:
    return value if isinstance(value, str) else format_trimmed(value)


def describe_step(step: AmountChangePart) -> str:
    """One step: `memory 422Mi -> 256Mi, CappedToMaxAllowed: the recommendation was ...`."""
    changed = f"{format_quantity(step.resource, step.before)} -> {format_quantity(step.resource, step.after)}"
    shown = format_quantity(step.resource, step.after) if step.before == step.after else changed
    return f"{get_resource_word(step.resource)} {shown}, {step.reason.code}: {format_clause(step.reason.meaning)}"
