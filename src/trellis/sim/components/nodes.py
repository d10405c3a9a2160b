"""The node autoscaler in a simulation: the core's plans, and a provider of the model's machines.

A pass is made every few seconds, and a moment after the scheduler has marked a pod unschedulable. Where nothing has
changed and no plan has asked for another pass, a pass would find the same, and is left out.

The provider does what it is asked, at once: a machine that is ordered boots for the time of its group, and one that is
deleted is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Final, Protocol

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.workloads import DaemonSet
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.cluster.write_results import WriteResult
from trellis.core.nodes.autoscaler_pass import AutoscalerMemory, AutoscalerSettings, PassInput, PassPlans, plan_pass
from trellis.core.nodes.node_groups import (
    GroupState,
    Instance,
    InstanceState,
    NodeGroup,
    find_order_problem,
    find_release_problems,
)
from trellis.core.nodes.scale_down.decisions import DrainPod, SetTaints
from trellis.core.nodes.scale_down.drainability import StartupBoosts
from trellis.core.nodes.scale_down.memory import record_added_nodes, record_failed_removal
from trellis.core.nodes.scale_up.memory import record_failed_order, record_release
from trellis.core.nodes.state.pods import is_unschedulable
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.resize.actions import PodRef
from trellis.sim.cluster.cluster import ModelCluster
from trellis.sim.cluster.nodes import build_node
from trellis.sim.components.buffers import BufferAccounting, SimulatedBuffers
from trellis.sim.components.settings import SimulationSettings
from trellis.sim.fleet import Fleet, NodePool
from trellis.sim.kernel import Kernel, Priority, Ticket
from trellis.sim.results import NodeFigures


class Machines(Protocol):
    """Where machines boot and end."""

    def boot(self, template: Node, name: str, price: float, seconds: float, up: Callable[[], None]) -> None:
        """Begin with one; `up` is told when it is a node."""

    def remove(self, name: str) -> None:
        """Remove a machine."""


class SimulatedNodeGroups:
    """All groups. Nodes are called after their group, and no name comes twice. `ordered` counts them."""

    def __init__(self, pools: Iterable[NodePool], kernel: Kernel, machines: Machines) -> None:
        self._kernel = kernel
        self._machines = machines
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
        if find_order_problem(state, target) is not None:
            return 0
        group = self._groups[name]
        more = max(target - state.target, 0)
        for _ in range(more):
            node = f"{name}-{next(self._names[name])}"
            self._instances[name][node] = Instance(node, InstanceState.ORDERED, self._kernel.now)
            up = partial(self._came_up, name, node)
            self._machines.boot(group.template, node, group.price, group.boot_seconds, up)
        self.ordered += more
        return more

    def release(self, name: str, instance: str) -> bool:
        """Give one back; whether the group took it."""
        if find_release_problems(self._state(name), (instance,)):
            return False
        del self._instances[name][instance]
        self.removed += 1
        self._machines.remove(instance)
        return True

    def _state(self, name: str) -> GroupState:
        there = self._instances[name]
        return GroupState(self._groups[name], len(there), tuple(there.values()))

    def _came_up(self, name: str, node: str) -> None:
        self._instances[name][node] = Instance(node, InstanceState.RUNNING, self._kernel.now, node)


def _group(pool: NodePool) -> NodeGroup:
    return NodeGroup(
        name=pool.name,
        template=build_node(convert_object(pool.document, Node), "", 0.0),
        max_size=pool.max_size,
        min_size=pool.min_size,
        price=pool.price,
        boot_seconds=pool.boot_seconds,
        priority=pool.priority,
    )


# Pods that come together are looked at together.
_SETTLING_SECONDS: Final = 1.0
# Nothing goes unseen for longer, whatever plans say.
_AT_LEAST_EVERY: Final = 300.0


class SimulatedNodeAutoscaler:
    """The node autoscaler of a variant, with a Buffer controller beside it. `starts` is about boosts of moved pods."""

    def __init__(
        self,
        fleet: Fleet,
        kernel: Kernel,
        cluster: ModelCluster,
        *,
        translating: SimulatedBuffers,
        figures: SimulationSettings,
        starts: StartupBoosts,
    ) -> None:
        self._kernel = kernel
        self._cluster = cluster
        self._translating = translating
        self._figures = figures
        self._starts = starts
        self._snapshot = ClusterSnapshot()
        self._memory = AutoscalerMemory()
        self._has_changed = True
        self._looked = -_AT_LEAST_EVERY
        self._next_look: float | None = None
        self._woken: Ticket | None = None
        self._told: dict[str, str] = {}
        self.pools = SimulatedNodeGroups(fleet.pools, kernel, cluster.machines)
        self.keeping = BufferAccounting(fleet.clock.scored_from)
        self._moved = 0
        self._most = 0
        self._before = (0, 0, 0, 0)
        self._scored_from = fleet.clock.scored_from
        self.verdicts: Counter[str] = Counter()
        """How often nodes, pods and Buffers were told what, each as often as it was told something else."""

    def begin(self) -> None:
        """Schedule the time from which nodes are counted."""
        if self._scored_from > self._kernel.now:
            self._kernel.at(self._scored_from, self._begin_scoring, Priority.FAULT)

    def figures(self) -> NodeFigures:
        """How nodes came and went, in the time that is scored."""
        ordered, removed, moved, preempted = (
            now - then for now, then in zip(self._counts(), self._before, strict=True)
        )
        buffers = self.keeping.figures(self._kernel.now)
        return NodeFigures(ordered, removed, self._most, moved, preempted, buffers)

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed."""
        either = new if new is not None else old
        if either is None:
            return
        self._snapshot.put_pod(key_of(either), new)
        self._has_changed = True
        if new is None:
            self._told.pop(f"pod {'/'.join(key_of(either))}", None)
        elif not new.spec.node_name and is_unschedulable(new):
            self._wake()

    def node(self, name: str, new: Node | None) -> None:
        """A node changed."""
        self._snapshot.put_node(name, new)
        self._has_changed = True
        self._most = max(self._most, len(self._snapshot.nodes))
        if new is None:
            self._told.pop(f"node {name}", None)

    def daemon_set(self, key: ObjectKey, new: KubeObject | None) -> None:
        """A DaemonSet changed: a new node has its pods before any others."""
        self._snapshot.put_daemon_set(key, new if isinstance(new, DaemonSet) else None)
        self._has_changed = True

    def look(self) -> None:
        """Look, if there is anything new to see."""
        now = self._kernel.now
        due = self._looked + _AT_LEAST_EVERY
        if self._next_look is not None:
            due = min(due, self._next_look)
        if self._has_changed or now >= due:
            self._plan(now)

    def _begin_scoring(self) -> None:
        self._before = self._counts()
        self._most = len(self._snapshot.nodes)

    def _counts(self) -> tuple[int, int, int, int]:
        return self.pools.ordered, self.pools.removed, self._moved, self._cluster.preempted

    def _wake(self) -> None:
        if self._woken is None or not self._woken.waits:
            self._woken = self._kernel.after(_SETTLING_SECONDS, self.look, Priority.NODES)

    def _plan(self, now: float) -> None:
        """Make both plans, then execute them, as the controller does."""
        self._looked, self._has_changed = now, False
        for buffer in self._translating.changed(self._snapshot.table, self._snapshot.nodes, now):
            self._put(buffer)
        budgets = tuple(self._cluster.targets.budgets())
        given = PassInput(self.pools.states(), budgets, self._memory, now, self._starts)
        plans = plan_pass(self._snapshot, given, AutoscalerSettings(self._figures.up, self._figures.down))
        self._memory = self._execute(plans, now)
        self._count(plans, now)
        looks = [plans.down.requeue_at, plans.up.requeue_at, self._translating.next_change]
        self._next_look = min((time for time in looks if time is not None), default=None)

    def _put(self, buffer: Buffer) -> None:
        self._snapshot.put_buffer((buffer.metadata.namespace, buffer.metadata.name), buffer)

    def _execute(self, plans: PassPlans, now: float) -> AutoscalerMemory:
        """Execute orders, then the scale-down, then releases of failed instances; return what to remember.

        Orders come first: their targets count the instances that are released after them.
        """
        up, down = plans.up.memory, plans.down.memory
        for order in plans.up.orders:
            if self.pools.order(order.group, order.target):
                down = record_added_nodes(down, now)
            else:
                up = record_failed_order(up, order.group, "the group is full", now, self._figures.up)
        for action in plans.down.actions:
            if isinstance(action, SetTaints):
                self._cluster.machines.taint(action.node, action.taints)
            elif isinstance(action, DrainPod):
                result = self._cluster.move(PodRef(action.namespace, action.name, action.uid))
                self._moved += result is WriteResult.APPLIED
            elif self.pools.release(action.group, action.instance):
                up = record_release(up, action.group, action.instance)
            else:
                down = record_failed_removal(down, action.node, now)
        for failed in plans.up.releases:
            if self.pools.release(failed.group, failed.instance):
                up = record_release(up, failed.group, failed.instance)
        return AutoscalerMemory(up, down)

    def _count(self, plans: PassPlans, now: float) -> None:
        """Count decisions and account for Buffers."""
        self.keeping.told(plans.up.buffers, now)
        self._tell((f"node {decision.node}", decision.reason.reason.code) for decision in plans.down.nodes)
        self._tell((f"buffer {decision.uid}", decision.reason.reason.code) for decision in plans.up.buffers)
        self._tell(
            (f"pod {'/'.join(key)}", decision.reason.reason.code) for decision in plans.up.pods for key in decision.pods
        )

    def _tell(self, said: Iterable[tuple[str, str]]) -> None:
        for about, code in said:
            if self._told.get(about) != code:
                self._told[about] = code
                self.verdicts[code] += 1
