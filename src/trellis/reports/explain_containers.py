"""How does what is recommended for a container come about, in sentences?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trellis.core.explain.explained import Container, Curve, Step
from trellis.reports.describe.words import clause
from trellis.reports.explain_words import amount, amounts, between, moment, sparkline, word
from trellis.reports.figures import count, share, trimmed

_SOURCES: Final = {
    "checkpoint": "from its checkpoint and what is used now",
    "series": "from the series that were collected",
    "now": "from what is used now alone: it has no checkpoint",
}
_CURVES: Final = {
    "series": "usage",
    "hours": "the highest of each hour",
    "histogram": "how often how much",
}


def container_lines(container: Container, parameters: Mapping[str, Any], now: str, *, plain: bool) -> Iterator[str]:
    """One container, the result first."""
    decided = container.decided
    yield from _result(decided)
    yield from _history(container, now)
    for curve in container.usage:
        yield _curve(curve, plain=plain)
    yield from _said(decided, parameters)
    for step in container.steps:
        yield f"  {step_sentence(step)}"
    for name, shadow in decided.get("shadows", {}).items():
        found = shadow["found"].get("target")
        told = shadow["failure"] or (f"would have found {amounts(found)}" if found else "would have found nothing")
        yield f"  {name} {told}"


def _result(decided: Mapping[str, Any]) -> Iterator[str]:
    recommended, published = (decided[name].get("target", {}) for name in ("recommended", "published"))
    if not recommended:
        yield f"Nothing is recommended: {clause(decided['meaning'])}."
    elif recommended == published:
        yield f"Recommended and published: {amounts(recommended)}."
    else:
        yield f"Recommended now: {amounts(recommended)}."
    if published and recommended != published:
        yield f"Published: {amounts(published)}, which is what pods are sized by."
    low, high = (decided["recommended"].get(name, {}) for name in ("lowerBound", "upperBound"))
    ranges = [
        f"{word(resource)} {amount(resource, low[resource])} to {amount(resource, high[resource])}"
        for resource in low
        if resource in high
    ]
    if recommended and ranges:
        yield f"Bounds, outside of which a pod is changed at once: {', '.join(ranges)}."


def _history(container: Container, now: str) -> Iterator[str]:
    decided = container.decided
    first, last = decided["firstSample"], decided["lastSample"]
    confidence = decided["confidence"]
    told = f"{count(decided['samples'])} CPU samples {_SOURCES[container.history]}"
    if first and last:
        told += f", the first at {moment(first, now)}, the last at {moment(last, now)}"
    yield f"{told}."
    if confidence is not None and decided["samples"]:
        wide = ": below 1, bounds are wider than a longer history would have them" if confidence < 1 else ""
        yield f"Confidence {trimmed(confidence)}{wide}."


def _curve(curve: Curve, *, plain: bool) -> str:
    drawn = sparkline(curve.values, plain=plain)
    ends = f"{amount(curve.resource, curve.least)} to {amount(curve.resource, curve.most)}"
    when = f" over {between(curve.since, curve.until)}" if curve.since else ""
    return f"  {word(curve.resource):6}  {drawn}  {ends}, {_CURVES[curve.source]}{when}"


def _said(decided: Mapping[str, Any], parameters: Mapping[str, Any]) -> Iterator[str]:
    """What the recommender says for itself: in sentences where it is a percentile with a margin, else as it says it."""
    said = dict(decided["explanation"])
    found = decided["found"].get("target", {})
    margin = parameters.get("recommendation-margin-fraction")
    for resource in found:
        fraction = parameters.get(f"target-{resource}-percentile")
        used, least = said.get(f"{resource}-used"), said.get(f"least-{resource}")
        if fraction is None or margin is None or not isinstance(used, float) or not isinstance(least, float):
            continue
        del said[f"{resource}-used"], said[f"least-{resource}"]
        unit = "m" if resource == "cpu" else ""
        most, small = (amount(resource, f"{value:.0f}{unit}") for value in (used, least))
        yield (
            f"  {word(resource)}: {share(fraction)} of its usage is at most {most}; with a margin of {share(margin)}, "
            f"and at least {small} as its share of a small pod, {decided['recommender']} found "
            f"{amount(resource, found[resource])}"
        )
    rest = [f"{name}: {_value(value)}" for name, value in sorted(said.items()) if value is not None]
    if found and rest:
        yield f"  {decided['recommender']} found {amounts(found)} ({', '.join(rest)})"


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else trimmed(value)


def step_sentence(step: Step) -> str:
    """One step: `memory 422Mi -> 256Mi, CappedToMaxAllowed: the recommendation was ...`."""
    changed = f"{amount(step.resource, step.before)} -> {amount(step.resource, step.after)}"
    shown = amount(step.resource, step.after) if step.before == step.after else changed
    return f"{word(step.resource)} {shown}, {step.reason.code}: {clause(step.reason.meaning)}"
