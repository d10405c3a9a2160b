"""Describes an Hvpa in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from trellis.api.buckets import RESOURCES, get_amount_bounds, list_replica_steps, uses_binary_units
from trellis.api.kinds.hvpa import Bucket
from trellis.api.kinds.parts import TargetReference
from trellis.api.resolve import EffectiveHvpa, ReplicaSizing, ScaleMode, ScalePolicy
from trellis.base.wording import RESOURCE_WORDS, format_amount, pluralize
from trellis.core.explain.update_preview import UpdatePreview
from trellis.reports.describe.running_pods import describe_change, describe_restarts
from trellis.reports.text.phrases import format_duration, format_time_of_day, join_words

# More steps than this make an unreadable sentence.
_MOST_STEPS = 8


def describe_hvpa(hvpa: EffectiveHvpa, target: TargetReference, expected: tuple[UpdatePreview, ...]) -> list[str]:
    """What is scaled, from which demand, along which buckets, how running pods get their size, and when."""
    name = f"{target.kind} {target.name}"
    fewest, most = hvpa.replicas
    sentences = [
        f"Sets the replica count of {name} between {fewest} and {most}, and the size of its pods.",
        _describe_sources(hvpa),
    ]
    for bucket in hvpa.buckets:
        sentences += _describe_bucket(bucket)
    sentences.append(_describe_size(hvpa))
    sentences += _describe_running_pods(expected)
    sentences += [_describe_direction("up", hvpa.up, hvpa), _describe_direction("down", hvpa.down, hvpa)]
    return sentences


def _describe_sources(hvpa: EffectiveHvpa) -> str:
    match hvpa.deploys_hpa, hvpa.deploys_vpa:
        case True, True:
            return "Demand comes from an HPA and a VPA that it owns; for each resource the higher one decides."
        case True, False:
            return "Demand comes from an HPA that it owns, and from a VPA of yours in mode Off if there is one."
        case False, True:
            return "Demand comes from a VPA that it owns, and from an HPA of yours if one targets it."
        case _:
            return "Demand comes from an HPA and a VPA of yours; it owns neither."


def _describe_bucket(bucket: Bucket) -> Iterator[str]:
    first, last = bucket.replicas.min or 1, bucket.replicas.max or 1
    at = f"At {pluralize(first, 'replica')}" if first == last else f"At {first} to {last} replicas"
    ranges = {resource: get_amount_bounds(getattr(bucket, resource)) for resource in RESOURCES}
    binary = uses_binary_units([bucket])

    def format_value(value: Fraction, resource: str) -> str:
        return format_amount(value, resource, binary)

    if all(low == high for low, high in ranges.values()):
        fixed = [f"{format_value(low, resource)} {RESOURCE_WORDS[resource]}" for resource, (low, _) in ranges.items()]
        yield f"{at} only the count changes: each replica has {join_words(fixed)}."
        return
    spread = [
        f"{format_value(low, resource)} to {format_value(high, resource)} {RESOURCE_WORDS[resource]}"
        for resource, (low, high) in ranges.items()
    ]
    yield f"{at} each replica has {join_words(spread)}."
    if first < last and last - first < _MOST_STEPS:
        for resource in RESOURCES:
            totals = [
                f"{step.count} for up to {format_value(step.maximum_total, resource)}"
                for step in list_replica_steps(bucket, resource)
            ]
            yield f"  Replicas by {RESOURCE_WORDS[resource]} in total: {', '.join(totals)}."


def _describe_size(hvpa: EffectiveHvpa) -> str:
    rules = {
        ReplicaSizing.SHARE: "the total divided by the count",
        ReplicaSizing.AT_LEAST_RECOMMENDED: "the total divided by the count, but never below the VPA's target",
    }
    return f"A replica's CPU is {rules[hvpa.cpu]}; its memory is {rules[hvpa.memory]}."


def _describe_running_pods(expected: tuple[UpdatePreview, ...]) -> Iterator[str]:
    """How running pods get their size, where the files have the workload."""
    if not expected:
        return
    fewest, most = expected[0], expected[-1]
    changes = describe_change(most)
    alone = f"; at {pluralize(fewest.replicas, 'replica')} none is evicted" if most.evicted > fewest.evicted else ""
    yield f"{changes[:1].upper()}{changes[1:]}{alone}."
    yield from describe_restarts(most)
    if fewest.waiting:
        resources = join_words([RESOURCE_WORDS[resource] for resource in sorted(fewest.waiting)], "or")
        yield (
            f"At {pluralize(fewest.replicas, 'replica')} {resources} is not changed: at least {fewest.minimum} "
            "replicas must run before a container is restarted or a pod evicted."
        )


def _describe_direction(way: str, policy: ScalePolicy, hvpa: EffectiveHvpa) -> str:
    if policy.mode is ScaleMode.OFF or (policy.mode is ScaleMode.MAINTENANCE_WINDOW and hvpa.window is None):
        return f"It never scales {way}."
    when = "at any time"
    if policy.mode is ScaleMode.MAINTENANCE_WINDOW and hvpa.window is not None:
        when = (
            f"only between {format_time_of_day(hvpa.window.begin)} and {format_time_of_day(hvpa.window.end)} every day"
        )
    extreme = "highest" if way == "down" else "lowest"
    held = (
        f", by the {extreme} demand of the last {format_duration(policy.stabilization)}"
        if policy.stabilization.nanos
        else ""
    )
    sentence = f"It scales {way} {when}{held}"
    if way == "down":
        sentence += (
            f". The count is kept until demand is {policy.overlap_percent} % below what the next lower count can hold, "
            f"and a decrease in size of less than {policy.min_change_percent} % is not applied"
        )
    return f"{sentence}."
