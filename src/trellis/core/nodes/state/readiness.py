"""Readiness of nodes, and upcoming nodes: ordered and not ready yet; with orders that failed or are overdue.

An ordered node counts as if it existed, so nothing is ordered twice for the same need, whether the provider reports it
as an instance, only in its target, or not yet at all. After `max_node_provision_seconds` it counts no longer: the group
is backed off, and the rest of the order is released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np

from trellis.api.kube.nodes import Node
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.wording import pluralize
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState
from trellis.core.nodes.scale_up.memory import UnconfirmedOrder
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.usage.columns import BoolColumn

# Keeps pods away from a node that this autoscaler is about to remove.
LEAVING_TAINT: Final = "trellis.x-k8s.io/leaving"
# Taints of nodes that this or another autoscaler is about to remove.
_LEAVING_TAINTS: Final = frozenset({LEAVING_TAINT, "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"})
# Taints that a control plane removes a moment after a node is Ready; until then no pod is placed on it.
_NOT_READY_TAINTS: Final = frozenset(
    f"node.kubernetes.io/{suffix}" for suffix in ("not-ready", "unreachable", "network-unavailable")
)
_NOT_UP: Final = (InstanceState.ORDERED, InstanceState.FAILED)


class NodeReadiness(msgspec.Struct, frozen=True):
    """Masks over the table; every node is in one of them.

    A node that is `starting` belongs to an instance that is not up yet: the template of its group counts, and not what
    the node reports. A node that is `leaving` is deleted, or tainted because it will be.
    """

    ready: BoolColumn
    starting: BoolColumn
    leaving: BoolColumn
    unready: BoolColumn


def classify_nodes(snapshot: ClusterSnapshot, now: float, max_provision_seconds: float) -> NodeReadiness:
    """Classify all nodes. Until its instance is `max_provision_seconds` old, a node that is not ready is starting."""
    table, instances = snapshot.table, snapshot.node_instances.instances
    starting, leaving = (np.zeros(table.numbers_end, dtype=np.bool_) for _ in range(2))
    is_up = table.ready[: table.numbers_end].copy()
    for name, node in snapshot.nodes.items():
        number, member = table.find(name), instances.get(name)
        instance = member[1] if member is not None else None
        is_up[number] &= not has_not_ready_taint(node)
        if is_leaving(node) or (instance is not None and instance.state is InstanceState.LEAVING):
            leaving[number] = True
        elif instance is not None:
            starting[number] = instance.state in _NOT_UP or (
                not is_up[number] and now - instance.since < max_provision_seconds
            )
    remaining = table.exists & ~starting & ~leaving
    ready = remaining & is_up
    return NodeReadiness(ready, starting, leaving, remaining & ~ready)


def has_not_ready_taint(node: Node) -> bool:
    """Whether a control plane keeps pods away from a node, although its condition may be Ready."""
    return any(taint.key in _NOT_READY_TAINTS for taint in node.spec.taints)


def is_leaving(node: Node) -> bool:
    """Whether a node is deleted, or marked as one that will be."""
    if node.metadata.deletion_timestamp is not None:
        return True
    return any(taint.key in _LEAVING_TAINTS for taint in node.spec.taints)


INSTANCE_FAILED = Reason("InstanceFailed", "The provider says that the node will not come up.", Severity.WARNING)
INSTANCE_OVERDUE = Reason("InstanceOverdue", "The node was ordered long ago and has not come up.", Severity.WARNING)
INSTANCE_WITHOUT_NODE = Reason(
    "InstanceWithoutNode", "The provider says that a machine is up, and it has not become a node.", Severity.WARNING
)
ORDER_LOST = Reason("OrderLost", "Nodes were ordered long ago, and the provider has none to show.", Severity.WARNING)


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
    max_provision_seconds = settings.max_node_provision_seconds
    groups = {
        name: _find_upcoming_in_group(
            snapshot, state, unconfirmed_orders.get(name), (missing.get(name, now), now, max_provision_seconds)
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
    times: tuple[float, float, float],
) -> _GroupUpcomingNodes:
    missing_since, now, max_provision_seconds = times
    name = state.group.name
    upcoming = [instance for instance in state.instances if _is_upcoming(name, instance, snapshot)]
    timely = [instance for instance in upcoming if now - instance.since < max_provision_seconds]
    deadlines = [instance.since + max_provision_seconds for instance in timely]
    failures = [
        *_find_failures(name, state, now, max_provision_seconds),
        *_find_instances_without_node(name, snapshot, state, now, max_provision_seconds),
    ]
    unlisted, since, unconfirmed_order = _find_unlisted(state, unconfirmed_order, missing_since)
    if unlisted and now - since >= max_provision_seconds:
        lost = DetailedReason(ORDER_LOST, f"{pluralize(unlisted, 'node')} of {name} never came")
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


def _is_upcoming(name: str, instance: Instance, snapshot: ClusterSnapshot) -> bool:
    """Whether the node of an instance will be ready later, and is not now."""
    node = snapshot.node_instances.nodes.get((name, instance.id))
    if node is not None and is_leaving(snapshot.nodes[node]):
        return False
    if instance.state is not InstanceState.RUNNING:
        return instance.state is InstanceState.ORDERED
    if node is None or has_not_ready_taint(snapshot.nodes[node]):
        return True
    return not snapshot.table.ready[snapshot.table.find(node)]


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
            reason = DetailedReason(INSTANCE_OVERDUE, f"{instance.id} has not come up in {max_provision_seconds:g} s")
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
                DetailedReason(INSTANCE_WITHOUT_NODE, f"{instance.id} has become no node"),
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
