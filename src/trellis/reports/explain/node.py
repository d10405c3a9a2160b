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
from trellis.reports.text.phrases import as_clause, join_words
from trellis.reports.text.quantities import format_moment, format_quantities, format_quantity, resource_word

_OUTCOMES: Final = {
    "Kept": "It is kept.",
    "Unneeded": "It is not needed, and still there.",
    "Leaving": "It is on its way out.",
}
_STATES: Final = {
    "Ordered": "was ordered",
    "Running": "came up",
    "Leaving": "was given back",
    "Failed": "failed",
}
_SHOWN: Final = 20


def summary_lines(node: NodePart, now: str) -> Iterator[str]:
    """The lines at the top of an explanation."""
    if node.decision is None:
        yield "What becomes of it is not known."
        return
    yield f"{_OUTCOMES[node.outcome]} {reason_sentence(node.decision)}"
    if node.since and node.since != now:
        yield f"So it has been since {format_moment(node.since, now)}."
    if node.later_decision is not None and node.next_check:
        decision = reason_sentence(node.later_decision)
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
        yield "PODS ON IT", _tenant_lines(node)


def reason_sentence(told: ReasonPart) -> str:
    """A code, what it means, and what it was in this case."""
    details = f" ({told.details})" if told.details else ""
    return f"{told.reason.code}: {as_clause(told.reason.meaning)}{details}."


def _reason_lines(node: NodePart, now: str) -> Iterator[str]:
    yield _group(node.group, now) if node.group is not None else "It is of no group that nodes are ordered from."
    if node.shares:
        yield f"Pods on it ask for {join_words([_share(share) for share in node.shares])}."
    for buffer, count in node.chunks.items():
        yield f"{pluralize(count, 'chunk')} of Buffer {buffer} {'have' if count > 1 else 'has'} room here."


def _group(group: NodeGroupPart, now: str) -> str:
    since = f" {format_moment(group.since, now)}" if group.since else ""
    came = f"It {_STATES[group.state]} at{since}" if since else f"Its instance is {group.state}"
    sizes = f"{pluralize(group.size, 'node')}, {group.least} at least and {group.most} at most"
    return f"{came}. Its group {group.name} has {sizes}; one costs {format_trimmed(group.hourly)} an hour."


def _share(share: ResourceSharePart) -> str:
    resource = share.resource
    requested, offered = format_quantity(resource, share.requested), format_quantity(resource, share.offered)
    return f"{requested} of {offered} {resource_word(resource)}"


def _tenant_lines(node: NodePart) -> Iterator[str]:
    """First who holds the node, then who would be moved."""
    for fate, held in (("stay", True), ("moved", True), ("moved", False)):
        those = [tenant for tenant in node.pods if tenant.fate == fate and (tenant.held is not None) is held]
        yield from map(_tenant, those[:_SHOWN])
        if len(those) > _SHOWN:
            yield f"{pluralize(len(those) - _SHOWN, 'other pod')}, of which the same is to be said."
    for fate, state in (("going", "deleted already"), ("fixed", "of the node itself")):
        names = [f"{tenant.namespace}/{tenant.name}" for tenant in node.pods if tenant.fate == fate]
        more = len(names) - _SHOWN
        shown = [*names[:_SHOWN], pluralize(more, "other")] if more > 0 else names
        if names:
            yield f"{join_words(shown)} {'is' if len(names) == 1 else 'are'} {state}."


def _tenant(tenant: NodePodPart) -> str:
    asks = format_quantities(tenant.requests) or "nothing"
    subject = f"{tenant.namespace}/{tenant.name} asks for {asks}"
    if tenant.held is None:
        return f"{subject}, and would be moved."
    restriction = "may not be moved" if tenant.fate == "stay" else "may not be evicted now"
    details = tenant.held.details.removeprefix(f"{tenant.namespace}/{tenant.name}: ")
    return f"{subject}, and {restriction}, {tenant.held.reason.code}{f': {details}' if details else ''}."


def placement_lines(placing: PlacementPart, noun: str) -> Iterator[str]:
    """What is found for so many of something: chunks, or pods that are alike."""
    yield placement_sentence(placing)
    if placing.count:
        yield f"Of {pluralize(placing.count, noun)}: {'; '.join(_placement_counts(placing))}."
    if placing.obstacles:
        obstacles = join_words([format_obstacle(obstacle) for obstacle in placing.obstacles])
        yield f"The nodes that there are take no more: {obstacles}."
    for refusal in placing.refused:
        yield _refusal(refusal)
    if placing.orders:
        yield f"The next order, for all who need nodes: {_nodes(placing.orders)}."
    elif placing.unplaced:
        yield "No node would be ordered now."


def placement_sentence(placing: PlacementPart) -> str:
    """The decision about the pods; an order in it is part of the next plan and was not carried out."""
    sentence = reason_sentence(placing.decision)
    return f"By the next plan, {sentence}" if placing.ordered else sentence


def _placement_counts(placing: PlacementPart) -> Iterator[str]:
    if placing.ready:
        on = (
            f" ({join_words([f'{count} on {name}' for name, count in placing.nodes.items()])})" if placing.nodes else ""
        )
        yield f"{placing.ready} with room on nodes that are ready{on}"
    if placing.upcoming:
        yield f"{placing.upcoming} with room on nodes on their way"
    for group, count in placing.ordered.items():
        yield f"{count} for which nodes of {group} would be ordered"
    if placing.unplaced:
        yield f"{placing.unplaced} without any"


def _refusal(refusal: GroupRefusalPart) -> str:
    resource = f" ({refusal.resource})" if refusal.resource else ""
    groups = join_words(list(refusal.groups))
    which = f"Group {groups} does" if len(refusal.groups) == 1 else f"Groups {groups} do"
    return f"{which} not help: {refusal.reason.code}{resource}."


def format_obstacle(obstacle: ObstaclePart) -> str:
    resource = f" ({obstacle.resource})" if obstacle.resource else ""
    return f"{pluralize(obstacle.nodes, 'node')}, {obstacle.reason.code}{resource}"


def _nodes(orders: Mapping[str, int]) -> str:
    return join_words([f"{pluralize(count, 'node')} of {group}" for group, count in orders.items()])
