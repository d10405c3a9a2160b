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
from trellis.reports.text.numbers import format_share, format_trimmed
from trellis.reports.text.phrases import format_clause, join_words
from trellis.reports.text.quantities import format_moment, format_quantities, format_quantity, get_resource_word

_OUTCOMES: Final = {
    "Kept": "It is kept.",
    "Unneeded": "It is not needed, and still there.",
    "Leaving": "It is on its way out.",
}
_STATES: Final = {
    "Ordered": "was ordered",
    "Running": "came up",
    "Leaving": "is being removed",
    "Failed": "failed",
}
_SHOWN: Final = 20


def summary_lines(node: NodePart, now: str) -> Iterator[str]:
    """The lines at the top of an explanation."""
    if node.decision is None:
        yield "What becomes of it is not known."
        return
    yield f"{_OUTCOMES[node.outcome]} {describe_reason(node.decision)}"
    if node.since and node.since != now:
        yield f"So it has been since {format_moment(node.since, now)}."
    if node.later_decision is not None and node.next_check:
        decision = describe_reason(node.later_decision)
        yield f"If nothing else happens, at {format_moment(node.next_check, now)}, {decision}"
    elif node.next_check:
        yield f"Looked at again at {format_moment(node.next_check, now)}, or when something changes."
    if not node.ready:
        yield "It is not ready."
    used = f"Pods ask for {format_share(node.used)} of what it has of its scarcest resource"
    yield f"{used}; up to {format_share(node.threshold)} a node is underused."


def chapters(node: NodePart, now: str) -> Iterator[tuple[str, Iterator[str]]]:
    """The lines below the summary, by titles."""
    if node.decision is None:
        return
    yield "WHY IT IS THERE", _reason_lines(node, now)
    if node.pods:
        yield "PODS ON IT", _node_pod_lines(node)


def describe_reason(reason: ReasonPart) -> str:
    """A reason with its meaning and details."""
    details = f" ({reason.details})" if reason.details else ""
    return f"{reason.reason.code}: {format_clause(reason.reason.meaning)}{details}."


def _reason_lines(node: NodePart, now: str) -> Iterator[str]:
    yield (
        _describe_group(node.group, now) if node.group is not None else "It is of no group that nodes are ordered from."
    )
    if node.shares:
        yield f"Pods on it ask for {join_words([_describe_share(share) for share in node.shares])}."
    for buffer, count in node.chunks.items():
        yield f"{pluralize(count, 'chunk')} of Buffer {buffer} {'fit' if count > 1 else 'fits'} here."


def _describe_group(group: NodeGroupPart, now: str) -> str:
    since = f" {format_moment(group.since, now)}" if group.since else ""
    transition = f"It {_STATES[group.state]} at{since}" if since else f"Its instance is {group.state}"
    sizes = f"{pluralize(group.size, 'node')}, {group.least} at least and {group.most} at most"
    return f"{transition}. Its group {group.name} has {sizes}; one costs {format_trimmed(group.hourly)} an hour."


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
            yield f"{pluralize(len(node_pods) - _SHOWN, 'other pod')}, of which the same is to be said."
    for fate, state in (("going", "deleted already"), ("fixed", "of the node itself")):
        names = [f"{tenant.namespace}/{tenant.name}" for tenant in node.pods if tenant.fate == fate]
        more = len(names) - _SHOWN
        shown = [*names[:_SHOWN], pluralize(more, "other")] if more > 0 else names
        if names:
            yield f"{join_words(shown)} {'is' if len(names) == 1 else 'are'} {state}."


def _describe_node_pod(node_pod: NodePodPart) -> str:
    requests = format_quantities(node_pod.requests) or "nothing"
    subject = f"{node_pod.namespace}/{node_pod.name} asks for {requests}"
    if node_pod.held is None:
        return f"{subject}, and would be moved."
    restriction = "may not be moved" if node_pod.fate == "stay" else "may not be evicted now"
    details = node_pod.held.details.removeprefix(f"{node_pod.namespace}/{node_pod.name}: ")
    return f"{subject}, and {restriction}, {node_pod.held.reason.code}{f': {details}' if details else ''}."


def placement_lines(placing: PlacementPart, noun: str) -> Iterator[str]:
    """The placement of a number of chunks or equivalent pods."""
    yield describe_placement_decision(placing)
    if placing.count:
        yield f"Of {pluralize(placing.count, noun)}: {'; '.join(_placement_counts(placing))}."
    if placing.obstacles:
        obstacles = join_words([format_obstacle(obstacle) for obstacle in placing.obstacles])
        yield f"The nodes that there are take no more: {obstacles}."
    for refusal in placing.refused:
        yield _describe_refusal(refusal)
    if placing.orders:
        yield f"The next order, for all who need nodes: {_format_orders(placing.orders)}."
    elif placing.unplaced:
        yield "No node would be ordered now."


def describe_placement_decision(placing: PlacementPart) -> str:
    """The decision about the pods; an order in it is part of the next plan and was not carried out."""
    sentence = describe_reason(placing.decision)
    return f"By the next plan, {sentence}" if placing.ordered else sentence


def _placement_counts(placing: PlacementPart) -> Iterator[str]:
    if placing.ready:
        on = (
            f" ({join_words([f'{count} on {name}' for name, count in placing.nodes.items()])})" if placing.nodes else ""
        )
        yield f"{placing.ready} on ready nodes{on}"
    if placing.upcoming:
        yield f"{placing.upcoming} on upcoming nodes"
    for group, count in placing.ordered.items():
        yield f"{count} for which nodes of {group} would be ordered"
    if placing.unplaced:
        yield f"{placing.unplaced} without any"


def _describe_refusal(refusal: GroupRefusalPart) -> str:
    resource = f" ({refusal.resource})" if refusal.resource else ""
    groups = join_words(list(refusal.groups))
    which = f"Group {groups} does" if len(refusal.groups) == 1 else f"Groups {groups} do"
    return f"{which} not help: {refusal.reason.code}{resource}."


def format_obstacle(obstacle: ObstaclePart) -> str:
    resource = f" ({obstacle.resource})" if obstacle.resource else ""
    return f"{pluralize(obstacle.nodes, 'node')}, {obstacle.reason.code}{resource}"


def _format_orders(orders: Mapping[str, int]) -> str:
    return join_words([f"{pluralize(count, 'node')} of {group}" for group, count in orders.items()])
