"""Describes a kwok node group in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from trellis.api.kinds.kwok_node_group import DEFAULT_BOOT_TIME, GroupFailure, GroupFailureMode, KwokNodeGroup
from trellis.base.durations import describe_span, parse_span
from trellis.base.wording import pluralize
from trellis.reports.text.phrases import join_words

_FAILURES: Mapping[str, str] = {
    GroupFailureMode.REFUSE_ORDERS: "orders are refused",
    GroupFailureMode.LOSE_ORDERS: "orders are confirmed and lost",
    GroupFailureMode.HANG: "orders are never answered",
    GroupFailureMode.NEVER_COME_UP: "nodes never come up",
    GroupFailureMode.FAIL_TO_START: "nodes fail to start",
}


def describe_kwok_group(group: KwokNodeGroup) -> list[str]:
    """How many nodes there may be, what each has, when it is up and what goes wrong."""
    spec = group.spec
    shape = _describe_resources(spec.resources)
    sizes = f"{spec.min_size or 0} to {pluralize(spec.max_size or 0, 'node')}"
    boot = describe_span(parse_span(spec.boot_time or DEFAULT_BOOT_TIME))
    sentences = [f"A group of {sizes} with {shape} each.", f"A node is up {boot} after it was ordered."]
    if spec.price is not None:
        sentences.append(f"A node costs {spec.price:g} an hour.")
    if spec.taints:
        keys = [f"{taint.key}:{taint.effect}" for taint in spec.taints]
        sentences.append(f"Keeps away pods that do not tolerate {join_words(keys)}.")
    if spec.fails is not None:
        sentences.append(_describe_failure(spec.fails))
    return sentences


def _describe_failure(failure: GroupFailure) -> str:
    mishap = _FAILURES.get(failure.how) or f"nodes come up with {_describe_resources(failure.resources)}"
    return f"Goes wrong: {mishap}, beyond the first {failure.after}." if failure.after else f"Goes wrong: {mishap}."


def _describe_resources(resources: Mapping[str, object] | None) -> str:
    return join_words([f"{amount} {name}" for name, amount in (resources or {}).items()])
