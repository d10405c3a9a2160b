"""Why is a node there and why is it not removed, in sentences?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trellis.base.counted import counted
from trellis.core.explain.buffer_parts import Told
from trellis.core.explain.node_parts import GroupPart, NodePart, Share, Tenant
from trellis.reports.describe.words import clause, listed
from trellis.reports.explain_words import amount, amounts, moment, word
from trellis.reports.figures import share, trimmed

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
    """What is to be known first."""
    if node.told is None:
        yield "What becomes of it is not known."
        return
    yield f"{_OUTCOMES[node.outcome]} {told_sentence(node.told)}"
    if node.since and node.since != now:
        yield f"So it has been since {moment(node.since, now)}."
    if node.then is not None and node.next_look:
        yield f"If nothing else happens, at {moment(node.next_look, now)}, {told_sentence(node.then)}"
    elif node.next_look:
        yield f"Looked at again at {moment(node.next_look, now)}, or when something changes."
    if not node.ready:
        yield "It is not ready."
    used = f"Pods ask for {share(node.used)} of what it has of its scarcest resource"
    yield f"{used}; up to {share(node.threshold)} a node is underused."


def chapters(node: NodePart, now: str) -> Iterator[tuple[str, Iterator[str]]]:
    """All else, by titles."""
    if node.told is None:
        return
    yield "WHY IT IS THERE", _reason_lines(node, now)
    if node.tenants:
        yield "PODS ON IT", _tenant_lines(node)


def told_sentence(told: Told) -> str:
    """A code, what it means, and what it was in this case."""
    details = f" ({told.details})" if told.details else ""
    return f"{told.reason.code}: {clause(told.reason.meaning)}{details}."


def _reason_lines(node: NodePart, now: str) -> Iterator[str]:
    yield _group(node.group, now) if node.group is not None else "It is of no group that nodes are ordered from."
    if node.shares:
        yield f"Pods on it ask for {listed([_share(each) for each in node.shares])}."
    for buffer, count in node.chunks.items():
        yield f"{counted(count, 'chunk')} of Buffer {buffer} {'have' if count > 1 else 'has'} room here."


def _group(group: GroupPart, now: str) -> str:
    since = f" {moment(group.since, now)}" if group.since else ""
    came = f"It {_STATES[group.state]} at{since}" if since else f"Its instance is {group.state}"
    sizes = f"{counted(group.size, 'node')}, {group.least} at least and {group.most} at most"
    return f"{came}. Its group {group.name} has {sizes}; one costs {trimmed(group.hourly)} an hour."


def _share(found: Share) -> str:
    resource = found.resource
    return f"{amount(resource, found.asked)} of {amount(resource, found.offered)} {word(resource)}"


def _tenant_lines(node: NodePart) -> Iterator[str]:
    """First who holds the node, then who would be moved."""
    for fate, held in (("stay", True), ("moved", True), ("moved", False)):
        those = [each for each in node.tenants if each.fate == fate and (each.held is not None) is held]
        yield from map(_tenant, those[:_SHOWN])
        if len(those) > _SHOWN:
            yield f"{counted(len(those) - _SHOWN, 'other pod')}, of which the same is to be said."
    for fate, what in (("going", "deleted already"), ("fixed", "of the node itself")):
        names = [f"{each.namespace}/{each.name}" for each in node.tenants if each.fate == fate]
        more = len(names) - _SHOWN
        shown = [*names[:_SHOWN], counted(more, "other")] if more > 0 else names
        if names:
            yield f"{listed(shown)} {'is' if len(names) == 1 else 'are'} {what}."


def _tenant(tenant: Tenant) -> str:
    asks = amounts(tenant.requests) or "nothing"
    who = f"{tenant.namespace}/{tenant.name} asks for {asks}"
    if tenant.held is None:
        return f"{who}, and would be moved."
    what = "may not be moved" if tenant.fate == "stay" else "may not be evicted now"
    why = tenant.held.details.removeprefix(f"{tenant.namespace}/{tenant.name}: ")
    return f"{who}, and {what}, {tenant.held.reason.code}{f': {why}' if why else ''}."
