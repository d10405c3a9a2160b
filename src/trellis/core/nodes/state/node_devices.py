"""Devices of Dynamic Resource Allocation in the cluster snapshot, as resources of nodes and groups, by driver.

A node has the devices that are published for it, at most as many as its group declares, because a driver may publish
other kinds of devices beside them. Devices that claims have are used, whichever pods have the claims. The template of a
group has the devices that it declares.

Counts are kept from pass to pass, so that a pass recounts what has changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from trellis.api.kube.machines.devices import DeviceClaim, ResourceSlice
from trellis.api.kube.nodes import Node
from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import Demand
from trellis.core.fit.constraints.device_claims import DeviceObjects
from trellis.core.fit.devices import build_driver_resource, is_driver_resource
from trellis.core.nodes.node_groups import GroupDevices, GroupState

_TAINTS_AGAINST_PODS: Final = ("NoSchedule", "NoExecute")

# The number of devices by driver.
DriverCounts: TypeAlias = Mapping[str, int]
# The driver and the name of a pool.
Pool: TypeAlias = tuple[str, str]
# The groups' declarations, by the nodes of those that have any.
DevicesByNode: TypeAlias = Mapping[str, tuple[GroupDevices, ...]]


class NodeDevices(msgspec.Struct, frozen=True):
    """The devices of a node by resource, and how many of them claims have."""

    offered: Mapping[str, int]
    used: Demand


class DeviceCounts:
    """The devices of all nodes that have any."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeDevices] = {}
        self._objects = DeviceObjects()
        self._declared: DevicesByNode = {}
        self._published: Mapping[str, DriverCounts] = {}
        self._pool_nodes: Mapping[Pool, str] = {}
        # How many claims have each device, and how many devices of each pool claims have.
        self._claimants: Counter[tuple[Pool, str]] = Counter()
        self._used: Counter[Pool] = Counter()
        # What the devices of each node were counted from.
        self._counted: dict[str, tuple[object, ...]] = {}

    def find(self, node: str) -> NodeDevices | None:
        """The devices of a node; None if it has none."""
        return self._nodes.get(node)

    def update(self, objects: DeviceObjects, declared: DevicesByNode) -> list[str]:
        """Count anew; returns the nodes whose devices have changed."""
        before, self._objects = self._objects, objects
        if objects is before and declared == self._declared:
            return []
        self._declared = declared
        # Unchanged slices are identical, so that this compares no contents.
        if objects.slices != before.slices:
            self._published = count_published(objects.slices.values())
            self._pool_nodes = {_get_pool(it): it.spec.node_name for it in objects.slices.values()}
        self._recount_claims(before.claims, objects.claims)
        return [*self._recount_nodes()]

    def _recount_claims(self, before: Mapping[ObjectKey, DeviceClaim], now: Mapping[ObjectKey, DeviceClaim]) -> None:
        for key, claim in before.items():
            if now.get(key) is not claim:
                self._count_claim(claim, -1)
        for key, claim in now.items():
            if before.get(key) is not claim:
                self._count_claim(claim, 1)

    def _count_claim(self, claim: DeviceClaim, times: int) -> None:
        """Count the devices of a claim, each that several claims have only once."""
        for pool, device in list_allocated(claim):
            was_used = self._claimants[pool, device] > 0
            self._claimants[pool, device] += times
            is_used = self._claimants[pool, device] > 0
            self._used[pool] += is_used - was_used
            if not is_used:
                del self._claimants[pool, device]

    def _recount_nodes(self) -> Iterator[str]:
        used: dict[str, dict[str, int]] = {}
        for pool, count in self._used.items():
            node = self._pool_nodes.get(pool)
            if count and node:
                counts = used.setdefault(node, {})
                counts[pool[0]] = counts.get(pool[0], 0) + count
        for name, published in self._published.items():
            sources = (published, self._declared.get(name, ()), used.get(name, {}))
            if self._counted.get(name) != sources:
                self._counted[name], self._nodes[name] = sources, _build_node_devices(*sources)
                yield name
        for name in [name for name in self._counted if name not in self._published]:
            del self._counted[name], self._nodes[name]
            yield name


def _build_node_devices(published: DriverCounts, declared: tuple[GroupDevices, ...], used: DriverCounts) -> NodeDevices:
    most = count_declared(declared)
    offered = {build_driver_resource(driver): count for driver, count in published.items()}
    amounts = tuple(sorted((build_driver_resource(driver), count) for driver, count in used.items()))
    return NodeDevices(
        {resource: min(count, most.get(resource, count)) for resource, count in offered.items()},
        Demand(amounts=amounts),
    )


def count_published(slices: Iterable[ResourceSlice]) -> dict[str, DriverCounts]:
    """The devices of each node that pods can get: those without taints.

    Of each pool the slices of its newest generation count, if all of them are there: the scheduler uses no others.
    """
    pools: dict[Pool, list[ResourceSlice]] = {}
    for resource_slice in slices:
        if resource_slice.spec.node_name:
            pools.setdefault(_get_pool(resource_slice), []).append(resource_slice)
    counts: dict[str, Counter[str]] = {}
    for (driver, _), all_slices in pools.items():
        newest = max(it.spec.pool.generation for it in all_slices)
        current = [it for it in all_slices if it.spec.pool.generation == newest]
        if len(current) >= max(it.spec.pool.resource_slice_count for it in current):
            for it in current:
                counts.setdefault(it.spec.node_name, Counter())[driver] += _count_usable(it)
    return dict(counts)


def _count_usable(resource_slice: ResourceSlice) -> int:
    return sum(
        all(taint.effect not in _TAINTS_AGAINST_PODS for taint in device.taints)
        for device in resource_slice.spec.devices
    )


def list_allocated(claim: DeviceClaim) -> set[tuple[Pool, str]]:
    """The devices that a claim has, apart from those it only administers."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return {((it.driver, it.pool), it.device) for it in results if not it.admin_access}


def _get_pool(resource_slice: ResourceSlice) -> Pool:
    return resource_slice.spec.driver, resource_slice.spec.pool.name


def count_declared(declared: Iterable[GroupDevices]) -> dict[str, int]:
    """The devices of a node of a group, by resource."""
    counts: dict[str, int] = {}
    for devices in declared:
        resource = build_driver_resource(devices.driver)
        counts[resource] = counts.get(resource, 0) + devices.count
    return counts


def with_devices(node: Node, counts: Mapping[str, int]) -> Node:
    """The node with these devices, in place of those that it had."""
    before = node.status.allocatable
    if not counts and not any(map(is_driver_resource, before)):
        return node
    allocatable = {name: text for name, text in before.items() if not is_driver_resource(name)}
    allocatable |= {name: str(count) for name, count in counts.items()}
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=allocatable))


def with_declared_devices(state: GroupState) -> GroupState:
    """The group with its devices in its template."""
    group = state.group
    if not group.devices:
        return state
    template = with_devices(group.template, count_declared(group.devices))
    return msgspec.structs.replace(state, group=msgspec.structs.replace(group, template=template))
