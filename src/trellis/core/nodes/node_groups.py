"""Node groups and their instances as providers report them, with the checks of their sizes and figures.

Planning and providers use the same size checks. A group with an impossible figure is left out, because it would spoil
the plan for all other groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.prices import EXAMPLE_PRICES
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.wording import choose_form, pluralize
from trellis.core.fit.resources import CPU, MEMORY, parse_nanos_or_zero


class GroupOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Settings of one group, in place of those of the autoscaler; None: those of the autoscaler apply.

    Each is named like the setting that it replaces.
    """

    scale_down_utilization_threshold: float | None = None
    scale_down_unneeded_seconds: float | None = None
    scale_down_unready_seconds: float | None = None
    max_node_provision_seconds: float | None = None
    scale_down_gpu_utilization_threshold: float | None = None


NO_OPTIONS: Final = GroupOptions()


class GroupDevices(msgspec.Struct, frozen=True):
    """Devices of each node of a group, for resource claims: how many a driver publishes of one device class."""

    device_class: str
    driver: str
    count: int


class NodeGroup(msgspec.Struct, frozen=True):
    """Equal nodes, of which more can be ordered.

    `template` is a node once it is up: its allocatable resources, labels and taints, without a name. `price` is the
    hourly price of a node, `boot_seconds` the usual time from the order until pods can be placed. `devices` are those
    that drivers of Dynamic Resource Allocation publish, and not in the template.
    """

    name: str
    template: Node
    max_size: int
    min_size: int = 0
    price: float = 0.0
    boot_seconds: float = 0.0
    priority: int = 0
    options: GroupOptions = NO_OPTIONS
    devices: tuple[GroupDevices, ...] = ()


def estimate_price(template: Node) -> float:
    """The hourly price of a node whose provider knows none, by its CPU and memory at the example prices.

    A price of 0 would make the group the cheapest one.
    """
    cores, bytes_ = (parse_nanos_or_zero(template.status.allocatable.get(name, "0")) / 1e9 for name in (CPU, MEMORY))
    return EXAMPLE_PRICES.cost_per_hour(cores, bytes_)


class InstanceState(StrEnum):
    """The state of an instance."""

    # Ordered, and not up yet.
    ORDERED = "Ordered"
    RUNNING = "Running"
    # Released, and not deleted yet.
    LEAVING = "Leaving"
    # It will never come up. It counts until it is released.
    FAILED = "Failed"


class Instance(msgspec.Struct, frozen=True):
    """A machine, or the order of one.

    `id` is assigned by the provider and never changes. `node` is empty as long as the provider does not know the name
    of the Node: its `spec.providerID` is then the id. `since` is when the instance entered its state, in seconds since
    the epoch.
    """

    id: str
    state: InstanceState
    since: float
    node: str = ""
    error: DetailedReason | None = None


class GroupState(msgspec.Struct, frozen=True):
    """A node group with its instances.

    `target` is how many instances have been ordered and not been released. It may differ from the number of
    `instances`: a provider may not list instances that it has not begun to create, or may still list some that it lost.
    `suspended` is why the size of the group cannot change now, such as a pause; its nodes count as usual.
    `removals_suspended` is why no running instance can be released now, although more can be ordered.
    """

    group: NodeGroup
    target: int
    instances: tuple[Instance, ...] = ()
    suspended: DetailedReason | None = None
    removals_suspended: DetailedReason | None = None

    @property
    def removal_problem(self) -> DetailedReason | None:
        """Why no running instance can be released now; None if they can."""
        return self.suspended or self.removals_suspended

    def index_by_id(self) -> dict[str, Instance]:
        """The instances by their ids."""
        return {instance.id: instance for instance in self.instances}

    def count(self, state: InstanceState) -> int:
        """How many instances are in a state."""
        return sum(instance.state is state for instance in self.instances)


GROUP_AT_MAXIMUM = Reason("GroupAtMaximum", "The node group would exceed its maximum size.", Severity.WARNING)
GROUP_AT_MINIMUM = Reason("GroupAtMinimum", "The node group would fall below its minimum size.")
UNKNOWN_INSTANCE = Reason("UnknownInstance", "The node group has no such instance.", Severity.WARNING)


def find_order_problem(state: GroupState, target: int) -> DetailedReason | None:
    """The problem of an order of `instances` in all; None if there is none."""
    group = state.group
    if target > state.target and state.suspended is not None:
        return state.suspended
    if target <= max(group.max_size, state.target):
        # Where the maximum was lowered below the target, the target may still be ordered again.
        return None
    request = f"{target} {choose_form(target, 'was', 'were')} requested"
    return DetailedReason(
        GROUP_AT_MAXIMUM, f"{group.name} has a maximum of {pluralize(group.max_size, 'node')}, and {request}"
    )


def find_release_problems(state: GroupState, instances: Iterable[str]) -> dict[str, DetailedReason]:
    """The problems of releases, by the id of the instance. Instances are released in their order.

    The minimum size forbids releases of running instances only: an instance that never came up is no capacity.
    """
    refused: dict[str, DetailedReason] = {}
    group, remaining, instances_by_id = state.group, state.target, state.index_by_id()
    for instance_id in dict.fromkeys(instances):
        instance = instances_by_id.get(instance_id)
        if instance is None:
            refused[instance_id] = DetailedReason(UNKNOWN_INSTANCE, f"{group.name} has no instance {instance_id}")
        elif state.suspended is not None and instance.state is not InstanceState.LEAVING:
            refused[instance_id] = state.suspended
        elif state.removals_suspended is not None and instance.state is InstanceState.RUNNING:
            refused[instance_id] = state.removals_suspended
        elif instance.state is InstanceState.RUNNING and remaining <= group.min_size:
            refused[instance_id] = DetailedReason(
                GROUP_AT_MINIMUM, f"{group.name} keeps {pluralize(group.min_size, 'node')}"
            )
        elif instance.state is not InstanceState.LEAVING:
            remaining -= 1
    return refused


NODE_GROUP_INCONSISTENT = Reason(
    "NodeGroupInconsistent", "The provider's answer about a node group is inconsistent.", Severity.ERROR
)

# Upcoming nodes are rows of a table: an endless target would be as many rows.
_MAX_NODES: Final = 100_000
_MAX_PRIORITY: Final = 2**31
_MAX_PRICE: Final = 1e9
_MAX_DEVICES: Final = 100_000
_MAX_SECONDS: Final = 366 * 86_400.0


def find_group_problem(state: GroupState) -> DetailedReason | None:
    """The first figure of a group that is impossible, with its rule; None if there is none."""
    group = state.group
    figures: tuple[tuple[str, float, float, float], ...] = (
        ("target", state.target, 0, _MAX_NODES),
        ("max_size", group.max_size, 0, _MAX_NODES),
        ("min_size", group.min_size, 0, _MAX_NODES),
        ("priority", group.priority, -_MAX_PRIORITY, _MAX_PRIORITY),
        ("price", group.price, 0, _MAX_PRICE),
        *_list_options(group.options),
        *(("devices", devices.count, 0, _MAX_DEVICES) for devices in group.devices),
    )
    for name, value, minimum, maximum in figures:
        # NaN is not between any two numbers.
        if not minimum <= value <= maximum:
            return DetailedReason(
                NODE_GROUP_INCONSISTENT, f"{group.name}: {name} is {value}, but must be {minimum:g} to {maximum:g}"
            )
    return _find_instance_problem(state)


def _list_options(options: GroupOptions) -> Iterator[tuple[str, float, float, float]]:
    """The options that a group has, with their bounds."""
    for name, value in msgspec.structs.asdict(options).items():
        if value is not None:
            yield name, value, 0, 1 if name.endswith("_threshold") else _MAX_SECONDS


def _find_instance_problem(state: GroupState) -> DetailedReason | None:
    group = state.group
    ids: set[str] = set()
    for instance in state.instances:
        if instance.id in ids:
            return DetailedReason(NODE_GROUP_INCONSISTENT, f"{group.name}: instance {instance.id} is listed twice")
        ids.add(instance.id)
        if not math.isfinite(instance.since):
            return DetailedReason(
                NODE_GROUP_INCONSISTENT,
                f"{group.name}: the time of instance {instance.id} is invalid: {instance.since}",
            )
    return None
