"""Upcoming nodes: ordered and not ready yet; and orders that failed or are overdue.

An ordered node counts as if it existed, so nothing is ordered twice for the same need, whether the provider reports it
as an instance, only in its target, or not yet at all. After `max_node_provision_seconds` it counts no longer: the group
is backed off, and the rest of the order is released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.wording import pluralize
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState
from trellis.core.nodes.scale_up.memory import UnconfirmedOrder
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.readiness import has_not_ready_taint, is_leaving
from trellis.core.nodes.state.snapshot import ClusterSnapshot

INSTANCE_FAILED = Reason("InstanceFailed", "The provider says that the node will not come up.", Severity.WARNING)
INSTANCE_OVERDUE = Reason("InstanceOverdue", "The node was ordered long ago and has not come up.", Severity.WARNING)
INSTANCE_WITHOUT_NODE = Reason(
    "InstanceWithoutNode", "The provider says that a machine is up, and it has not become a node.", Severity.WARNING
)
ORDER_LOST = Reason("OrderLost", "Nodes were ordered long ago, and the provider has none to show.", Severity.WARNING)


class ProvisioningFailure(msgspec.Struct, frozen=True):
    """What went wrong with a group, and when. `instance` is to be given back; it is empty if there is none to give."""

    group: str
    at: float
    said: DetailedReason
    instance: str = ""


class UpcomingNodes(msgspec.Struct, frozen=True):
    """What is on its way, by group; what failed; orders not yet shown, and since when groups have less than they say.

    `nodes` are the names of those on their way whose Node is there already. `next_look` is when something is overdue,
    if nothing happens before.
    """

    counts: Mapping[str, int]
    nodes: Mapping[str, tuple[str, ...]] = {}
    failures: tuple[ProvisioningFailure, ...] = ()
    promises: Mapping[str, UnconfirmedOrder] = {}
    missing: Mapping[str, float] = {}
    next_look: float | None = None


class _UpcomingOfGroup(NamedTuple):
    """The same of one group; `until` are the moments at which something of it is overdue."""

    coming: int
    nodes: tuple[str, ...]
    failures: list[ProvisioningFailure]
    promise: UnconfirmedOrder | None
    missing_since: float | None
    until: list[float]


def find_upcoming_nodes(
    snapshot: ClusterSnapshot,
    promises: Mapping[str, UnconfirmedOrder],
    missing: Mapping[str, float],
    now: float,
    settings: ScaleUpSettings,
) -> UpcomingNodes:
    """What is on its way. `promises` and `missing` are those of the last look."""
    patience = settings.max_node_provision_seconds
    groups = {
        name: _upcoming_of_group(snapshot, state, promises.get(name), (missing.get(name, now), now, patience))
        for name, state in snapshot.groups.items()
    }
    return UpcomingNodes(
        counts={name: group.coming for name, group in groups.items()},
        nodes={name: group.nodes for name, group in groups.items()},
        failures=tuple(failure for group in groups.values() for failure in group.failures),
        promises={name: group.promise for name, group in groups.items() if group.promise is not None},
        missing={name: group.missing_since for name, group in groups.items() if group.missing_since is not None},
        next_look=min((moment for group in groups.values() for moment in group.until), default=None),
    )


def _upcoming_of_group(
    snapshot: ClusterSnapshot, state: GroupState, promise: UnconfirmedOrder | None, times: tuple[float, float, float]
) -> _UpcomingOfGroup:
    missing_since, now, patience = times
    name = state.group.name
    coming = [instance for instance in state.instances if _is_upcoming(name, instance, snapshot)]
    timely = [instance for instance in coming if now - instance.since < patience]
    until = [instance.since + patience for instance in timely]
    failures = [*_failures(name, state, now, patience), *_without_node(name, snapshot, state, now, patience)]
    unseen, since, promise = _unlisted(state, promise, missing_since)
    if unseen and now - since >= patience:
        lost = DetailedReason(ORDER_LOST, f"{pluralize(unseen, 'node')} of {name} never came")
        failures.append(ProvisioningFailure(name, since + patience, lost))
        unseen, promise = 0, None
    elif unseen:
        until.append(since + patience)
    names = (snapshot.ties.nodes.get((name, instance.id)) for instance in timely)
    return _UpcomingOfGroup(
        coming=len(timely) + unseen,
        nodes=tuple(sorted(node for node in names if node is not None)),
        failures=failures,
        promise=promise if unseen else None,
        missing_since=missing_since if state.target > _listed(state) else None,
        until=until,
    )


def _is_upcoming(name: str, instance: Instance, snapshot: ClusterSnapshot) -> bool:
    """Whether pods could be placed on its node later, but not now."""
    node = snapshot.ties.nodes.get((name, instance.id))
    if node is not None and is_leaving(snapshot.nodes[node]):
        return False
    if instance.state is not InstanceState.RUNNING:
        return instance.state is InstanceState.ORDERED
    if node is None or has_not_ready_taint(snapshot.nodes[node]):
        return True
    return not snapshot.table.ready[snapshot.table.find(node)]


def _failures(name: str, state: GroupState, now: float, patience: float) -> Iterator[ProvisioningFailure]:
    for instance in state.instances:
        if instance.state is InstanceState.FAILED:
            details = f": {instance.error}" if instance.error is not None else ""
            yield ProvisioningFailure(
                name, instance.since, DetailedReason(INSTANCE_FAILED, f"{instance.id} failed{details}"), instance.id
            )
        elif instance.state is InstanceState.ORDERED and now - instance.since >= patience:
            reason = DetailedReason(INSTANCE_OVERDUE, f"{instance.id} has not come up in {patience:g} s")
            yield ProvisioningFailure(name, instance.since + patience, reason, instance.id)


def _without_node(
    name: str, snapshot: ClusterSnapshot, state: GroupState, now: float, patience: float
) -> Iterator[ProvisioningFailure]:
    """Machines that should be nodes by now. They are not released: pods may run on them under another node name.

    One that came up long before had a node once, or was not missed.
    """
    for instance in state.instances:
        is_up = instance.state is InstanceState.RUNNING and patience <= now - instance.since < 2 * patience
        if is_up and (name, instance.id) not in snapshot.ties.nodes:
            yield ProvisioningFailure(
                name,
                instance.since + patience,
                DetailedReason(INSTANCE_WITHOUT_NODE, f"{instance.id} has become no node"),
            )


def _listed(state: GroupState) -> int:
    return len(state.instances) - state.count(InstanceState.LEAVING)


def _unlisted(
    state: GroupState, promise: UnconfirmedOrder | None, missing_since: float
) -> tuple[int, float, UnconfirmedOrder | None]:
    """How many are ordered without an instance, since when, and the order that the target does not show yet."""
    if promise is not None:
        promise = promise.without_shown_releases(state)
        if promise.target <= state.target:
            promise = None
    target = promise.target if promise is not None else state.target
    since = promise.ordered_at if promise is not None else missing_since
    return max(target - _listed(state), 0), since, promise
