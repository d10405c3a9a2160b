"""Node groups and their instances as providers report them, with the checks of their sizes and figures.

Planning and providers use the same size checks. A group with an impossible figure is left out, because it would spoil
the plan for all other groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.wording import choose_form, pluralize


class NodeGroup(msgspec.Struct, frozen=True):
    """Nodes alike, of which more can be ordered.

    `template` is a node as it would be once it is up: what it offers, its labels and taints, and no name. `price` is
    money for an hour of one, `boot_seconds` how long it usually takes from the order until pods can be placed.
    """

    name: str
    template: Node
    max_size: int
    min_size: int = 0
    price: float = 0.0
    boot_seconds: float = 0.0
    priority: int = 0


class InstanceState(StrEnum):
    """How far an instance is."""

    # Asked for, and not up yet.
    ORDERED = "Ordered"
    RUNNING = "Running"
    # Given back, and not gone yet.
    LEAVING = "Leaving"
    # It will not come up any more. It counts until it is given back.
    FAILED = "Failed"


class Instance(msgspec.Struct, frozen=True):
    """One machine, or what is to become one.

    `id` is the provider's own and never changes. `node` is empty as long as the provider does not know the node's name:
    its `spec.providerID` is then the id. `since` is when it got into its state, in seconds since the epoch.
    """

    id: str
    state: InstanceState
    since: float
    node: str = ""
    error: DetailedReason | None = None


class GroupState(msgspec.Struct, frozen=True):
    """A group and what it has.

    `target` is how many instances have been asked for and not been given back. It may differ from the number of
    `instances`: a provider may not list what it has not begun with, or hold on to what it lost.
    """

    group: NodeGroup
    target: int
    instances: tuple[Instance, ...] = ()

    def by_id(self) -> dict[str, Instance]:
        """The instances by their ids."""
        return {instance.id: instance for instance in self.instances}

    def count(self, state: InstanceState) -> int:
        """How many instances are in a state."""
        return sum(instance.state is state for instance in self.instances)


GROUP_AT_MAXIMUM = Reason("GroupAtMaximum", "The group may not have so many nodes.", Severity.WARNING)
GROUP_AT_MINIMUM = Reason("GroupAtMinimum", "The group may not have so few nodes.")
UNKNOWN_INSTANCE = Reason("UnknownInstance", "The group has no such instance.", Severity.WARNING)


def why_no_order(state: GroupState, target: int) -> DetailedReason | None:
    """What forbids that a group gets as many instances; None if nothing does."""
    group = state.group
    if target <= max(group.max_size, state.target):
        # Where limits were lowered below what there is, what there is may still be asked for again.
        return None
    request = f"{target} {choose_form(target, 'was', 'were')} asked for"
    return DetailedReason(GROUP_AT_MAXIMUM, f"{group.name} may have {pluralize(group.max_size, 'node')}, and {request}")


def why_no_release(state: GroupState, instances: Iterable[str]) -> dict[str, DetailedReason]:
    """Which of these instances cannot be given back, and why; those that come first go first.

    Only one that runs is held by the minimum: giving back what never came up takes no room away.
    """
    refused: dict[str, DetailedReason] = {}
    group, left, instances_by_id = state.group, state.target, state.by_id()
    for instance in dict.fromkeys(instances):
        member = instances_by_id.get(instance)
        if member is None:
            refused[instance] = DetailedReason(UNKNOWN_INSTANCE, f"{group.name} has no instance {instance}")
        elif member.state is InstanceState.RUNNING and left <= group.min_size:
            refused[instance] = DetailedReason(
                GROUP_AT_MINIMUM, f"{group.name} keeps {pluralize(group.min_size, 'node')}"
            )
        elif member.state is not InstanceState.LEAVING:
            left -= 1
    return refused


GROUP_UNSOUND = Reason("NodeGroupUnsound", "What the provider says of a group cannot be true.", Severity.ERROR)

# What is on its way is counted node by node: a target without end would be as many rows.
_MOST_NODES: Final = 100_000
_HIGHEST: Final = 2**31
_DEAREST: Final = 1e9


def find_group_problem(state: GroupState) -> DetailedReason | None:
    """The first figure of a group that cannot be, with its rule; None if all can."""
    group = state.group
    figures: tuple[tuple[str, float, float, float], ...] = (
        ("target", state.target, 0, _MOST_NODES),
        ("max_size", group.max_size, 0, _MOST_NODES),
        ("min_size", group.min_size, 0, _MOST_NODES),
        ("priority", group.priority, -_HIGHEST, _HIGHEST),
        ("price", group.price, 0, _DEAREST),
    )
    for name, value, least, most in figures:
        # Whatever is not a number is not between any two.
        if not least <= value <= most:
            return DetailedReason(GROUP_UNSOUND, f"{group.name}: {name} is {value}, and must be {least:g} to {most:g}")
    ids: set[str] = set()
    for instance in state.instances:
        if instance.id in ids:
            return DetailedReason(GROUP_UNSOUND, f"{group.name}: instance {instance.id} is there twice")
        ids.add(instance.id)
        if not math.isfinite(instance.since):
            return DetailedReason(
                GROUP_UNSOUND, f"{group.name}: instance {instance.id} is as it is since {instance.since}"
            )
    return None
