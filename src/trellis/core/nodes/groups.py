"""Which nodes can be had, and which have been asked for? What every provider tells of its groups, as values."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from trellis.api.kube.nodes import Node
from trellis.core.buffers.said import Said


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

    `id` is the provider's own and never changes. `node` is empty as long as nobody knows the node by name: its
    `spec.providerID` is then the id. `since` is when it got into its state, in seconds since the epoch.
    """

    id: str
    state: InstanceState
    since: float
    node: str = ""
    error: Said | None = None


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
        return {each.id: each for each in self.instances}

    def count(self, state: InstanceState) -> int:
        """How many instances are in a state."""
        return sum(each.state is state for each in self.instances)
