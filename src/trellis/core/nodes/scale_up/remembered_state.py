"""What scale-up remembers from pass to pass, with the backoff of node groups that failed.

Losing it with the process never repeats an order, because orders are kept by the provider. Each failure of a group in a
row doubles its backoff, up to a maximum; after long enough without failures the backoff is reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.nodes.node_groups import GroupState, InstanceState
from trellis.core.nodes.provisioning.lifecycle import CAPACITY_IS_NOT_FOUND, RequestMemory, withdraw_bookings
from trellis.core.nodes.settings import ScaleUpSettings

GROUP_BACKED_OFF = Reason("GroupBackedOff", "The node group failed recently and backs off.", Severity.WARNING)


class GroupBackoff(msgspec.Struct, frozen=True):
    """A group that failed: when it last did, and for how many seconds nothing is ordered from it since."""

    failed_at: float
    seconds: float
    reason: str = ""

    @property
    def until(self) -> float:
        """When orders may be tried again."""
        return self.failed_at + self.seconds


def back_off(backoff: GroupBackoff | None, failed_at: float, reason: str, settings: ScaleUpSettings) -> GroupBackoff:
    """The backoff after a failure; a failure that is not newer than the last changes nothing."""
    if backoff is None or failed_at - backoff.until >= settings.node_group_backoff_reset_seconds:
        return GroupBackoff(failed_at, settings.initial_node_group_backoff_seconds, reason)
    if failed_at <= backoff.failed_at:
        return backoff
    if failed_at < backoff.until:
        # Further nodes of the same order: the group was not tried again in between.
        return backoff
    return GroupBackoff(failed_at, min(2 * backoff.seconds, settings.max_node_group_backoff_seconds), reason)


def select_active_backoffs(
    backoffs: Mapping[str, GroupBackoff], now: float, settings: ScaleUpSettings
) -> dict[str, GroupBackoff]:
    """The backoffs that are not reset yet."""
    reset = settings.node_group_backoff_reset_seconds
    return {group: backoff for group, backoff in backoffs.items() if now - backoff.until < reset}


class UnconfirmedOrder(msgspec.Struct, frozen=True):
    """An order that the group does not show yet: its target, and when it was made.

    `released` are ids of instances that were released since and that the group still counts. Once it counts them no
    longer, its target is lower than `target` by their number.
    """

    target: int
    ordered_at: float
    released: tuple[str, ...] = ()

    def without_confirmed_releases(self, state: GroupState) -> UnconfirmedOrder:
        """The order without the releases that the group shows."""
        if not self.released:
            return self
        instances = state.index_by_id()
        pending = tuple(
            instance
            for instance in self.released
            if instance in instances and instances[instance].state is not InstanceState.LEAVING
        )
        return UnconfirmedOrder(self.target - len(self.released) + len(pending), self.ordered_at, pending)


class ScaleUpMemory(msgspec.Struct, frozen=True):
    """`missing_since` has, by group, since when it has fewer instances than its target.

    `chunk_nodes` has, by the UID of a Buffer, the node of each chunk, empty for one without, and `pod_nodes`, by the
    UID of a pending pod, the node that is meant for it; an upcoming node is named by its row. `provisioned_at` has, by
    the UID of a Buffer, when all of its chunks last fitted. `vacated_nodes` has, by the UID of a Buffer, the nodes on
    which chunks made way for pods that are still pending. `missed_pods` are UIDs of pods that were counted as misses.
    `requests` has the ProvisioningRequests by their UIDs; booked pods of a request are in `chunk_nodes` by the UID of
    their set.
    """

    backoffs: Mapping[str, GroupBackoff] = MappingProxyType({})
    unconfirmed_orders: Mapping[str, UnconfirmedOrder] = MappingProxyType({})
    missing_since: Mapping[str, float] = MappingProxyType({})
    chunk_nodes: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    pod_nodes: Mapping[str, str] = MappingProxyType({})
    provisioned_at: Mapping[str, float] = MappingProxyType({})
    vacated_nodes: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    missed_pods: frozenset[str] = frozenset()
    requests: Mapping[str, RequestMemory] = MappingProxyType({})


def record_failed_order(
    memory: ScaleUpMemory, group: str, reason: str, now: float, settings: ScaleUpSettings
) -> ScaleUpMemory:
    """The memory after a provider refused an order or did not respond: the group is backed off."""
    backoff = back_off(memory.backoffs.get(group), now, reason, settings)
    memory = record_unfinished_order(memory, group)
    memory = msgspec.structs.replace(memory, backoffs={**memory.backoffs, group: backoff})
    return record_withdrawn_bookings(memory, group, reason, now, settings)


def record_withdrawn_bookings(
    memory: ScaleUpMemory, group: str, reason: str, now: float, settings: ScaleUpSettings
) -> ScaleUpMemory:
    """The memory after an order was not executed in full: requests that it was placed for are tried again later."""
    if not memory.requests:
        return memory
    failure = DetailedReason(CAPACITY_IS_NOT_FOUND, f"nodes of {group} could not be ordered: {reason}")
    return msgspec.structs.replace(memory, requests=withdraw_bookings(memory.requests, group, failure, now, settings))


def record_unfinished_order(memory: ScaleUpMemory, group: str) -> ScaleUpMemory:
    """The memory after an order was not written in full: the group shows the nodes that were."""
    unconfirmed_orders = {name: order for name, order in memory.unconfirmed_orders.items() if name != group}
    return msgspec.structs.replace(memory, unconfirmed_orders=unconfirmed_orders)


def record_release(memory: ScaleUpMemory, group: str, instance: str) -> ScaleUpMemory:
    """The memory after a release: the group never shows the full target of an unconfirmed order.

    Without this, one node would count as upcoming until the order counts as lost, and the next order would be for one
    node too many.
    """
    order = memory.unconfirmed_orders.get(group)
    if order is None:
        return memory
    order = msgspec.structs.replace(order, released=(*order.released, instance))
    return msgspec.structs.replace(memory, unconfirmed_orders={**memory.unconfirmed_orders, group: order})
