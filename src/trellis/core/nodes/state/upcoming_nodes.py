"""Upcoming nodes: ordered and not ready yet; with orders that failed or are overdue.

An ordered node counts as if it existed, so nothing is ordered twice for the same need, whether the provider reports it
as an instance, only in its target, or not yet at all. After the group's `max_node_provision_seconds` it counts no
longer: the group is backed off, and the rest of the order is released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.wording import pluralize
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState
from trellis.core.nodes.scale_up.remembered_state import UnconfirmedOrder
from trellis.core.nodes.settings import ScaleUpSettings, apply_options
from trellis.core.nodes.state.readiness import (
    find_device_rows,
    has_not_ready_taint,
    is_leaving,
    lacks_devices,
)
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.nodes.state.transient_taints import TransientTaints

INSTANCE_FAILED = Reason("InstanceFailed", "The provider reports that the node failed to start.", Severity.WARNING)
INSTANCE_OVERDUE = Reason(
    "InstanceOverdue", "The node was ordered long ago and has not become ready.", Severity.WARNING
)
INSTANCE_WITHOUT_NODE = Reason(
    "InstanceWithoutNode",
    "The provider reports the machine as running, but it has not registered as a node.",
    Severity.WARNING,
)
ORDER_LOST = Reason("OrderLost", "Nodes were ordered long ago, and the provider reports none.", Severity.WARNING)


class ProvisioningFailure(msgspec.Struct, frozen=True):
    """A failure of a group. `instance` is to be released; it is empty if there is none."""

    group: str
    failed_at: float
    reason: DetailedReason
    instance: str = ""


class UpcomingNodes(msgspec.Struct, frozen=True):
    """The number of upcoming nodes by group, failures, unconfirmed orders, and since when instances are missing.

    `nodes` are the names of upcoming nodes whose Node is registered. `requeue_at` is when the next of them is overdue.
    """

    counts: Mapping[str, int]
    nodes: Mapping[str, tuple[str, ...]] = {}
    failures: tuple[ProvisioningFailure, ...] = ()
    unconfirmed_orders: Mapping[str, UnconfirmedOrder] = {}
    missing_since: Mapping[str, float] = {}
    requeue_at: float | None = None


class _GroupUpcomingNodes(NamedTuple):
    """The upcoming nodes of one group; `deadlines` are the times at which they become overdue."""

    node_count: int
    nodes: tuple[str, ...]
    failures: list[ProvisioningFailure]
    unconfirmed_order: UnconfirmedOrder | None
    missing_since: float | None
    deadlines: list[float]


def find_upcoming_nodes(
    snapshot: ClusterSnapshot,
    unconfirmed_orders: Mapping[str, UnconfirmedOrder],
    missing: Mapping[str, float],
    now: float,
    settings: ScaleUpSettings,
) -> UpcomingNodes:
    """Find upcoming nodes. `unconfirmed_orders` and `missing` are those of the last pass."""
    groups = {
        name: _find_upcoming_in_group(
            snapshot,
            state,
            unconfirmed_orders.get(name),
            (missing.get(name, now), now),
            apply_options(settings, state.group.options),
        )
        for name, state in snapshot.groups.items()
    }
    return UpcomingNodes(
        counts={name: group.node_count for name, group in groups.items()},
        nodes={name: group.nodes for name, group in groups.items()},
        failures=tuple(failure for group in groups.values() for failure in group.failures),
        unconfirmed_orders={
            name: group.unconfirmed_order for name, group in groups.items() if group.unconfirmed_order is not None
        },
        missing_since={name: group.missing_since for name, group in groups.items() if group.missing_since is not None},
        requeue_at=min((moment for group in groups.values() for moment in group.deadlines), default=None),
    )


def _find_upcoming_in_group(
    snapshot: ClusterSnapshot,
    state: GroupState,
    unconfirmed_order: UnconfirmedOrder | None,
    times: tuple[float, float],
    settings: ScaleUpSettings,
) -> _GroupUpcomingNodes:
    (missing_since, now), max_provision_seconds = times, settings.max_node_provision_seconds
    name, taints = state.group.name, settings.transient_taints
    device_rows = find_device_rows(snapshot.table, state.group)
    upcoming = [instance for instance in state.instances if _is_upcoming(name, instance, snapshot, taints, device_rows)]
    timely = [instance for instance in upcoming if now - instance.since < max_provision_seconds]
    deadlines = [instance.since + max_provision_seconds for instance in timely]
    failures = [
        *_find_failures(name, state, now, max_provision_seconds),
        *_find_instances_without_node(name, snapshot, state, now, max_provision_seconds),
    ]
    unlisted, since, unconfirmed_order = _find_unlisted(state, unconfirmed_order, missing_since)
    if unlisted and now - since >= max_provision_seconds:
        lost = DetailedReason(ORDER_LOST, f"{pluralize(unlisted, 'node')} of {name} never appeared")
        failures.append(ProvisioningFailure(name, since + max_provision_seconds, lost))
        unlisted, unconfirmed_order = 0, None
    elif unlisted:
        deadlines.append(since + max_provision_seconds)
    names = (snapshot.node_instances.nodes.get((name, instance.id)) for instance in timely)
    return _GroupUpcomingNodes(
        node_count=len(timely) + unlisted,
        nodes=tuple(sorted(node for node in names if node is not None)),
        failures=failures,
        unconfirmed_order=unconfirmed_order if unlisted else None,
        missing_since=missing_since if state.target > _count_listed(state) else None,
        deadlines=deadlines,
    )


def _is_upcoming(
    name: str,
    instance: Instance,
    snapshot: ClusterSnapshot,
    transient_taints: TransientTaints,
    device_rows: Sequence[int],
) -> bool:
    """Whether the node of an instance will be ready later, and is not now."""
    node = snapshot.node_instances.nodes.get((name, instance.id))
    if node is not None and is_leaving(snapshot.nodes[node]):
        return False
    if instance.state is not InstanceState.RUNNING:
        return instance.state is InstanceState.ORDERED
    if node is None or has_not_ready_taint(snapshot.nodes[node], transient_taints):
        return True
    number = snapshot.table.find(node)
    return not snapshot.table.ready[number] or lacks_devices(snapshot.table, number, device_rows)


def _find_failures(
    name: str, state: GroupState, now: float, max_provision_seconds: float
) -> Iterator[ProvisioningFailure]:
    for instance in state.instances:
        if instance.state is InstanceState.FAILED:
            details = f": {instance.error}" if instance.error is not None else ""
            yield ProvisioningFailure(
                name, instance.since, DetailedReason(INSTANCE_FAILED, f"{instance.id} failed{details}"), instance.id
            )
        elif instance.state is InstanceState.ORDERED and now - instance.since >= max_provision_seconds:
            reason = DetailedReason(
                INSTANCE_OVERDUE, f"{instance.id} has not become ready in {max_provision_seconds:g} s"
            )
            yield ProvisioningFailure(name, instance.since + max_provision_seconds, reason, instance.id)


def _find_instances_without_node(
    name: str, snapshot: ClusterSnapshot, state: GroupState, now: float, max_provision_seconds: float
) -> Iterator[ProvisioningFailure]:
    """Machines that should be nodes by now. They are not released: pods may run on them under another node name.

    An instance that came up long before had a node once, or was reported before.
    """
    for instance in state.instances:
        is_up = (
            instance.state is InstanceState.RUNNING
            and max_provision_seconds <= now - instance.since < 2 * max_provision_seconds
        )
        if is_up and (name, instance.id) not in snapshot.node_instances.nodes:
            yield ProvisioningFailure(
                name,
                instance.since + max_provision_seconds,
                DetailedReason(INSTANCE_WITHOUT_NODE, f"{instance.id} has not registered as a node"),
            )


def _count_listed(state: GroupState) -> int:
    return len(state.instances) - state.count(InstanceState.LEAVING)


def _find_unlisted(
    state: GroupState, unconfirmed_order: UnconfirmedOrder | None, missing_since: float
) -> tuple[int, float, UnconfirmedOrder | None]:
    """The number of ordered nodes without an instance, since when, and the order that the target does not show yet."""
    if unconfirmed_order is not None:
        unconfirmed_order = unconfirmed_order.without_confirmed_releases(state)
        if unconfirmed_order.target <= state.target:
            unconfirmed_order = None
    target = unconfirmed_order.target if unconfirmed_order is not None else state.target
    since = unconfirmed_order.ordered_at if unconfirmed_order is not None else missing_since
    return max(target - _count_listed(state), 0), since, unconfirmed_order
