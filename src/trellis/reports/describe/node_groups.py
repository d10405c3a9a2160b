"""Describes declared node groups in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trellis.api.kinds.claim_node_group import ClaimNodeGroup, ClaimRequirement
from trellis.api.kinds.kwok_node_group import DEFAULT_BOOT_TIME, GroupFailure, GroupFailureMode, KwokNodeGroup
from trellis.api.kinds.node_group import NodeGroupSpec
from trellis.api.kinds.parts import NodeTaint
from trellis.base.durations import describe_span, parse_span
from trellis.base.wording import pluralize
from trellis.reports.text.phrases import join_words

_FAILURES: Mapping[str, str] = {
    GroupFailureMode.REFUSE_ORDERS: "orders are refused",
    GroupFailureMode.LOSE_ORDERS: "orders are confirmed and lost",
    GroupFailureMode.HANG: "orders are never answered",
    GroupFailureMode.NEVER_COME_UP: "nodes never become Ready",
    GroupFailureMode.FAIL_TO_START: "nodes fail to start",
}


def describe_kwok_group(group: KwokNodeGroup) -> list[str]:
    """How many nodes there may be, what each has, when it is up and what goes wrong."""
    spec = group.spec
    boot = describe_span(parse_span(spec.boot_time or DEFAULT_BOOT_TIME))
    sentences = [*_describe_nodes(spec), f"A node is Ready {boot} after it was ordered.", *_describe_terms(spec)]
    if spec.fails is not None:
        sentences.append(_describe_failure(spec.fails))
    return sentences


def describe_claim_group(group: ClaimNodeGroup) -> list[str]:
    """How many nodes there may be, what each has, and what Karpenter launches for it."""
    spec = group.spec
    sentences = [*_describe_nodes(spec)]
    if spec.node_class_ref is not None:
        sentences.append(
            f"Karpenter launches a machine for each by a NodeClaim of {spec.node_class_ref.kind} "
            f"{spec.node_class_ref.name}."
        )
    if spec.requirements:
        sentences.append(
            f"Its machines have {join_words([_describe_requirement(each) for each in spec.requirements])}."
        )
    sentences += _describe_terms(spec)
    if spec.startup_taints:
        sentences.append(f"A node is up when {join_words(_list_taints(spec.startup_taints))} has been removed from it.")
    return sentences


def _describe_nodes(spec: NodeGroupSpec) -> list[str]:
    sizes = f"{spec.min_size or 0} to {pluralize(spec.max_size or 0, 'node')}"
    sentences = [f"A group of {sizes} with {_describe_resources(spec.resources)} each."]
    if spec.devices:
        counts = [
            f"{pluralize(devices.count or 0, 'device')} of class {devices.device_class} (driver "
            f"{devices.driver or devices.device_class})"
            for devices in spec.devices
        ]
        sentences.append(f"A node is up when it has {join_words(counts)}.")
    return sentences


def _describe_terms(spec: NodeGroupSpec) -> list[str]:
    sentences = []
    if spec.price is not None:
        sentences.append(f"A node costs {spec.price:g} an hour.")
    if spec.taints:
        taints = join_words(_list_taints(spec.taints))
        sentences.append(f"Its taints exclude pods that do not tolerate {taints}.")
    return sentences


def _list_taints(taints: Sequence[NodeTaint]) -> list[str]:
    return [f"{taint.key}:{taint.effect}" for taint in taints]


def _describe_requirement(requirement: ClaimRequirement) -> str:
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def _describe_failure(failure: GroupFailure) -> str:
    mishap = _FAILURES.get(failure.how) or f"nodes become Ready with {_describe_resources(failure.resources)}"
    return (
        f"Simulated failure after the first {pluralize(failure.after, 'node')}: {mishap}."
        if failure.after
        else f"Simulated failure: {mishap}."
    )


def _describe_resources(resources: Mapping[str, object] | None) -> str:
    return join_words([f"{amount} {name}" for name, amount in (resources or {}).items()])
