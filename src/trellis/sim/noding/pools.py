"""Which nodes can be had, and which have been? A provider of the model's machines.

It does what it is asked, at once: a machine that is ordered boots for the time of its group, and what is given back is
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Protocol

from trellis.api.kube.decode import convert_object
from trellis.api.kube.nodes import Node
from trellis.core.nodes.groups import GroupState, Instance, InstanceState, NodeGroup
from trellis.core.nodes.sizes import why_no_order, why_no_release
from trellis.sim.cluster.nodes import made
from trellis.sim.fleet import NodePool
from trellis.sim.kernel import Kernel


class Machines(Protocol):
    """Where machines boot and end."""

    def boot(self, template: Node, name: str, price: float, seconds: float, up: Callable[[], None]) -> None:
        """Begin with one; `up` is told when it is a node."""

    def remove(self, name: str) -> None:
        """End one."""


class Pools:
    """All groups. Nodes are called after their group, and no name comes twice. `ordered` counts them."""

    machines: Machines

    def __init__(self, pools: Iterable[NodePool], kernel: Kernel) -> None:
        self._kernel = kernel
        self._groups: dict[str, NodeGroup] = {}
        self._names: dict[str, Iterator[int]] = {}
        self._instances: dict[str, dict[str, Instance]] = {}
        for pool in pools:
            first = [f"{pool.name}-{number + 1}" for number in range(pool.count)]
            self._groups[pool.name] = _group(pool)
            self._names[pool.name] = count(pool.count + 1)
            self._instances[pool.name] = {
                node: Instance(node, InstanceState.RUNNING, kernel.now, node) for node in first
            }
        self.ordered = 0
        self.removed = 0

    def states(self) -> list[GroupState]:
        """What every group has."""
        return [self._state(name) for name in self._groups]

    def order(self, name: str, target: int) -> int:
        """Have a group grow to so many, as far as it may; how many that is more."""
        state = self._state(name)
        if why_no_order(state, target) is not None:
            return 0
        group = self._groups[name]
        more = max(target - state.target, 0)
        for _ in range(more):
            node = f"{name}-{next(self._names[name])}"
            self._instances[name][node] = Instance(node, InstanceState.ORDERED, self._kernel.now)
            up = partial(self._came_up, name, node)
            self.machines.boot(group.template, node, group.price, group.boot_seconds, up)
        self.ordered += more
        return more

    def release(self, name: str, instance: str) -> bool:
        """Give one back; whether the group took it."""
        if why_no_release(self._state(name), (instance,)):
            return False
        del self._instances[name][instance]
        self.removed += 1
        self.machines.remove(instance)
        return True

    def _state(self, name: str) -> GroupState:
        there = self._instances[name]
        return GroupState(self._groups[name], len(there), tuple(there.values()))

    def _came_up(self, name: str, node: str) -> None:
        self._instances[name][node] = Instance(node, InstanceState.RUNNING, self._kernel.now, node)


def _group(pool: NodePool) -> NodeGroup:
    return NodeGroup(
        name=pool.name,
        template=made(convert_object(pool.document, Node), "", 0.0),
        max_size=pool.max_size,
        min_size=pool.min_size,
        price=pool.price,
        boot_seconds=pool.boot_seconds,
        priority=pool.priority,
    )
