"""Explains in sentences why a node exists and is not removed, and which nodes a pod or chunk gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from trellis.base.wording import pluralize
from trellis.core.explain.explanation.node import (
    GroupRefusalPart,
    NodeGroupPart,
    NodePart,
    NodePodPart,
    PlacementPart,
    ResourceSharePart,
)
from trellis.core.explain.explanation.values import ObstaclePart, ReasonPart
from trellis.core.nodes.state.readiness import UNNEEDED_TAINT
from trellis.reports.text.numbers import format_share, format_trimmed
from trellis.reports.text.phrases import format_clause, join_words
from trellis.reports.text.quantities import format_moment, format_quantities, format_quantity, get_resource_word

_OUTCOMES: Final = {
    "Kept": "It is kept.",
    "Unneeded": "It is not removed yet.",
    "Leaving": "It is being removed.",
}
_STATES: Final = {
    "Ordered": "has been ordered since",
    "Running": "has been running since",
    "Leaving": "has been in removal since",
    "Failed": "failed at",
}
_SHOWN: Final = 20


def summary_lines(node: NodePart, now: str) -> Iterator[str]:
    """The lines at the top of an explanation."""
    if node.decision is None:
        yield "The decision about it is unknown."
        return
    yield f"{_OUTCOMES[node.outcome]} {describe_reason(node.decision)}"
    if node.since and node.since != now:
        yield f"This has been so since {format_moment(node.since, now)}."
    if node.avoided:
        yield f"New pods prefer other nodes: it has the taint {UNNEEDED_TAINT}."
    if node.later_decision is not None and node.next_check:
        decision = describe_reason(node.later_decision)
        yield f"If nothing changes, the decision at {format_moment(node.next_check, now)}, is {decision}"
    elif node.next_check:
        yield f"Next check: at {format_moment(node.next_check, now)}, or when an object that it depends on changes."
    if not node.ready:
        yield "It is not ready."
    yield f"Its utilization, the highest requested share of a resource, is {format_share(node.used)}."
    yield f"Scale-down considers nodes with a utilization of at most {format_share(node.threshold)}."


def chapters(node: NodePart, now: str) -> Iterator[tuple[str, Iterator[str]]]:
    """The lines below the summary, by titles."""
    if node.decision is None:
        return
    yield "NODE GROUP AND REQUESTS", _reason_lines(node, now)
    if node.pods:
        yield "PODS ON THE NODE", _node_pod_lines(node)


def describe_reason(reason: ReasonPart) -> str:
    """A reason with its meaning and details."""
    details = f" ({reason.details})" if reason.details else ""
    return f"{reason.reason.code}: {format_clause(reason.reason.meaning)}{details}."


def _reason_lines(node: NodePart, now: str) -> Iterator[str]:
    yield (_describe_group(node.group, now) if node.group is not None else "It belongs to no node group.")
    if node.shares:
        yield f"Pods request {join_words([_describe_share(share) for share in node.shares])}."
    for buffer, count in node.chunks.items():
        yield f"{pluralize(count, 'chunk')} of Buffer {buffer} {'are' if count > 1 else 'is'} placed on it."


def _describe_group(group: NodeGroupPart, now: str) -> str:
    since = f" {format_moment(group.since, now)}" if group.since else ""
    transition = f"It {_STATES[group.state]}{since}" if since else f"Its instance is {group.state}"
    sizes = f"{pluralize(group.size, 'node')} (minimum {group.least}, maximum {group.most})"
    return f"{transition}. Node group {group.name} has {sizes}; a node costs {format_trimmed(group.hourly)} an hour."


def _describe_share(share: ResourceSharePart) -> str:
    resource = share.resource
    requested, offered = format_quantity(resource, share.requested), format_quantity(resource, share.offered)
    return f"{requested} of {offered} {get_resource_word(resource)}"


def _node_pod_lines(node: NodePart) -> Iterator[str]:
    """The pods that keep the node, then the pods that would be moved."""
    for fate, held in (("stay", True), ("moved", True), ("moved", False)):
        node_pods = [
            node_pod for node_pod in node.pods if node_pod.fate == fate and (node_pod.held is not None) is held
        ]
        yield from map(_describe_node_pod, node_pods[:_SHOWN])
        if len(node_pods) > _SHOWN:
            yield f"The same holds for {pluralize(len(node_pods) - _SHOWN, 'other pod')}."
    for fate, one, several in (
        ("going", "is being deleted", "are being deleted"),
        ("fixed", "belongs to the node", "belong to the node"),
    ):
        names = [f"{tenant.namespace}/{tenant.name}" for tenant in node.pods if tenant.fate == fate]
        more = len(names) - _SHOWN
        shown = [*names[:_SHOWN], pluralize(more, "other")] if more > 0 else names
        if names:
            yield f"{join_words(shown)} {one if len(names) == 1 else several}."


def _describe_node_pod(node_pod: NodePodPart) -> str:
    requests = format_quantities(node_pod.requests) or "nothing"
    subject = f"{node_pod.namespace}/{node_pod.name} requests {requests}"
    if node_pod.held is None:
        return f"{subject}, and would be evicted."
    restriction = "prevents the removal" if node_pod.fate == "stay" else "may not be evicted now"
    details = node_pod.held.details.removeprefix(f"{node_pod.namespace}/{node_pod.name}: ")
    return f"{subject}, and {restriction}, {node_pod.held.reason.code}{f': {details}' if details else ''}."


def placement_lines(placing: PlacementPart, noun: str) -> Iterator[str]:
    """The placement of a number of chunks or equivalent pods."""
    yield describe_placement_decision(placing)
    if placing.count:
        yield f"{pluralize(placing.count, noun)}: {'; '.join(_placement_counts(placing))}."
    if placing.obstacles:
        obstacles = join_words([format_obstacle(obstacle) for obstacle in placing.obstacles])
        yield f"No further {noun} fits on existing nodes: {obstacles}."
    for refusal in placing.refused:
        yield _describe_refusal(refusal)
    if placing.orders:
        yield f"The next scale-up, for all pods and Buffers: {_format_orders(placing.orders)}."
    elif placing.unplaced:
        yield "The next scale-up orders no node."


def describe_placement_decision(placing: PlacementPart) -> str:
    """The decision about the pods; an order in it is part of the next plan and was not carried out."""
    sentence = describe_reason(placing.decision)
    return f"With the next scale-up, {sentence}" if placing.ordered else sentence


def _placement_counts(placing: PlacementPart) -> Iterator[str]:
    if placing.ready:
        on = (
            f" ({join_words([f'{count} on {name}' for name, count in placing.nodes.items()])})" if placing.nodes else ""
        )
        yield f"{placing.ready} on ready nodes{on}"
    if placing.upcoming:
        yield f"{placing.upcoming} on upcoming nodes"
    for group, count in placing.ordered.items():
        yield f"{count} on nodes of {group} that would be ordered"
    if placing.unplaced:
        yield f"{placing.unplaced} without a node"


def _describe_refusal(refusal: GroupRefusalPart) -> str:
    resource = f" ({refusal.resource})" if refusal.resource else ""
    groups = join_words(list(refusal.groups))
    which = f"Node group {groups} is" if len(refusal.groups) == 1 else f"Node groups {groups} are"
    return f"{which} excluded: {refusal.reason.code}{resource}."


def format_obstacle(obstacle: ObstaclePart) -> str:
    resource = f" ({obstacle.resource})" if obstacle.resource else ""
    return f"{pluralize(obstacle.nodes, 'node')}, {obstacle.reason.code}{resource}"


def _format_orders(orders: Mapping[str, int]) -> str:
    return join_words([f"{pluralize(count, 'node')} of {group}" for group, count in orders.items()])
