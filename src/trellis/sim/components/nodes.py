"""The node autoscaler in a simulation: the core's plans, and a provider of the model's machines.

A pass runs every few seconds, and a moment after the scheduler has marked a pod unschedulable. It is skipped where
nothing has changed and no plan has asked for another pass.

The provider executes orders at once: an ordered machine boots for the time of its group, and a deleted one is gone.
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
from trellis.core.nodes.scale_down.remembered_state import record_added_nodes, record_failed_removal
from trellis.core.nodes.scale_up.remembered_state import record_failed_order, record_release
from trellis.core.nodes.state.pods import is_unschedulable
from trellis.core.nodes.state.recommended_sizes import RecommendedSizes, SizingSources
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

    def boot(self, template: Node, name: str, price: float, seconds: float, on_ready: Callable[[], None]) -> None:
        """Order a machine; `on_ready` is called when its node is there."""

    def remove(self, name: str) -> None:
        """Remove a machine."""


class SimulatedNodeGroups:
    """The node groups. A node is named after its group and a number that is never reused. `ordered` counts orders."""

    def __init__(self, pools: Iterable[NodePool], kernel: Kernel, machines: Machines) -> None:
        self._kernel = kernel
        self._machines = machines
        self._groups: dict[str, NodeGroup] = {}
        self._names: dict[str, Iterator[int]] = {}
        self._instances: dict[str, dict[str, Instance]] = {}
        for pool in pools:
            initial_nodes = [f"{pool.name}-{number + 1}" for number in range(pool.count)]
            self._groups[pool.name] = _group(pool)
            self._names[pool.name] = count(pool.count + 1)
            self._instances[pool.name] = {
                node: Instance(node, InstanceState.RUNNING, kernel.now, node) for node in initial_nodes
            }
        self.ordered = 0
        self.removed = 0

    def list_states(self) -> list[GroupState]:
        """The state of every group."""
        return [self._state(name) for name in self._groups]

    def order(self, name: str, target: int) -> int:
        """Grow a group to a size, as far as its maximum allows; returns the number of machines ordered."""
        state = self._state(name)
        if find_order_problem(state, target) is not None:
            return 0
        group = self._groups[name]
        added = max(target - state.target, 0)
        for _ in range(added):
            node = f"{name}-{next(self._names[name])}"
            self._instances[name][node] = Instance(node, InstanceState.ORDERED, self._kernel.now)
            on_ready = partial(self._on_booted, name, node)
            self._machines.boot(group.template, node, group.price, group.boot_seconds, on_ready)
        self.ordered += added
        return added

    def release(self, name: str, instance: str) -> bool:
        """Remove an instance; returns whether the group allows it."""
        if find_release_problems(self._state(name), (instance,)):
            return False
        del self._instances[name][instance]
        self.removed += 1
        self._machines.remove(instance)
        return True

    def _state(self, name: str) -> GroupState:
        instances = self._instances[name]
        return GroupState(self._groups[name], len(instances), tuple(instances.values()))

    def _on_booted(self, name: str, node: str) -> None:
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


# Pods that are created together are planned for together.
_GATHER_SECONDS: Final = 1.0
# The longest time between two passes, whatever plans ask for.
_LONGEST_PAUSE_SECONDS: Final = 300.0


class SimulatedNodeAutoscaler:
    """The node autoscaler of a variant, with a Buffer controller beside it.

    `build_sizing` returns what recommended sizes of pods are computed from.
    """

    def __init__(
        self,
        fleet: Fleet,
        kernel: Kernel,
        cluster: ModelCluster,
        *,
        simulated_buffers: SimulatedBuffers,
        settings: SimulationSettings,
        build_sizing: Callable[[], SizingSources],
    ) -> None:
        self._kernel = kernel
        self._cluster = cluster
        self._buffers = simulated_buffers
        self._settings = settings
        self._build_sizing = build_sizing
        self._snapshot = ClusterSnapshot()
        self._sizes = RecommendedSizes()
        self._memory = AutoscalerMemory()
        self._has_changed = True
        self._last_pass = -_LONGEST_PAUSE_SECONDS
        self._next_pass: float | None = None
        self._wake_up: Ticket | None = None
        self._last_reasons: dict[str, str] = {}
        self.pools = SimulatedNodeGroups(fleet.pools, kernel, cluster.machines)
        self.buffer_accounting = BufferAccounting(fleet.clock.scored_from)
        self._moved = 0
        self._most = 0
        self._counts_before_scoring = (0, 0, 0, 0)
        self._scored_from = fleet.clock.scored_from
        self.verdicts: Counter[str] = Counter()
        """How many decisions were made, by reason; a decision that repeats the last one does not count."""

    def begin(self) -> None:
        """Schedule the time from which nodes are counted."""
        if self._scored_from > self._kernel.now:
            self._kernel.at(self._scored_from, self._begin_scoring, Priority.FAULT)

    def build_figures(self) -> NodeFigures:
        """The figures about nodes in the scored time."""
        ordered, removed, moved, preempted = (
            now - before for now, before in zip(self._counts(), self._counts_before_scoring, strict=True)
        )
        buffers = self.buffer_accounting.figures(self._kernel.now)
        return NodeFigures(ordered, removed, self._most, moved, preempted, buffers)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Handle a change of a pod."""
        present = new if new is not None else old
        if present is None:
            return
        self._snapshot.put_pod(key_of(present), new)
        self._sizes.note_changes({key_of(present): new})
        self._has_changed = True
        if new is None:
            self._last_reasons.pop(f"pod {'/'.join(key_of(present))}", None)
        elif not new.spec.node_name and is_unschedulable(new):
            self._wake()

    def on_node(self, name: str, new: Node | None) -> None:
        """Handle a change of a node."""
        self._snapshot.put_node(name, new)
        self._has_changed = True
        self._most = max(self._most, len(self._snapshot.nodes))
        if new is None:
            self._last_reasons.pop(f"node {name}", None)

    def on_daemon_set(self, key: ObjectKey, new: KubeObject | None) -> None:
        """Handle a change of a DaemonSet: its pods are placed on a new node before all others."""
        self._snapshot.put_daemon_set(key, new if isinstance(new, DaemonSet) else None)
        self._has_changed = True

    def on_governor(self) -> None:
        """Handle a change of a VPA or an Hvpa."""
        self._has_changed = True

    def run_if_due(self) -> None:
        """Run a pass if the cluster has changed, or a plan asked for one by now."""
        now = self._kernel.now
        next_pass = self._last_pass + _LONGEST_PAUSE_SECONDS
        if self._next_pass is not None:
            next_pass = min(next_pass, self._next_pass)
        if self._has_changed or now >= next_pass:
            self._plan(now)

    def _begin_scoring(self) -> None:
        self._counts_before_scoring = self._counts()
        self._most = len(self._snapshot.nodes)

    def _counts(self) -> tuple[int, int, int, int]:
        return self.pools.ordered, self.pools.removed, self._moved, self._cluster.preempted

    def _wake(self) -> None:
        if self._wake_up is None or not self._wake_up.is_pending:
            self._wake_up = self._kernel.after(_GATHER_SECONDS, self.run_if_due, Priority.NODES)

    def _plan(self, now: float) -> None:
        """Make both plans, then execute them, as the controller does."""
        self._last_pass, self._has_changed = now, False
        for buffer in self._buffers.translate_changed(self._snapshot.table, self._snapshot.nodes, now):
            self._put(buffer)
        budgets = tuple(self._cluster.targets.budgets())
        for key, size in self._sizes.find_changes(self._snapshot.placed, self._build_sizing()).items():
            self._snapshot.put_recommended_size(key, size)
        pass_input = PassInput(self.pools.list_states(), budgets, self._memory, now)
        plans = plan_pass(self._snapshot, pass_input, AutoscalerSettings(self._settings.up, self._settings.down))
        self._memory = self._execute(plans, now)
        self._record_plans(plans, now)
        next_times = [plans.down.requeue_at, plans.up.requeue_at, self._buffers.next_change]
        self._next_pass = min((time for time in next_times if time is not None), default=None)

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
                up = record_failed_order(up, order.group, "the group is full", now, self._settings.up)
        for action in plans.down.actions:
            if isinstance(action, SetTaints):
                self._cluster.machines.taint(action.node, action.taints)
            elif isinstance(action, DrainPod):
                placed = self._snapshot.placed[action.namespace, action.name]
                result = self._cluster.move(PodRef(action.namespace, action.name, action.uid))
                self._moved += result is WriteResult.APPLIED and not placed.is_fixed
            elif self.pools.release(action.group, action.instance):
                up = record_release(up, action.group, action.instance)
            else:
                down = record_failed_removal(down, action.node, now)
        for failed in plans.up.releases:
            if self.pools.release(failed.group, failed.instance):
                up = record_release(up, failed.group, failed.instance)
        return AutoscalerMemory(up, down)

    def _record_plans(self, plans: PassPlans, now: float) -> None:
        """Count decisions and account for Buffers."""
        self.buffer_accounting.record_decisions(plans.up.buffers, now)
        self._count_reasons((f"node {decision.node}", decision.reason.reason.code) for decision in plans.down.nodes)
        self._count_reasons((f"buffer {decision.uid}", decision.reason.reason.code) for decision in plans.up.buffers)
        self._count_reasons(
            (f"pod {'/'.join(key)}", decision.reason.reason.code)
            for decision in (*plans.up.pods, *plans.up.resizes)
            for key in decision.pods
        )

    def _count_reasons(self, reasons: Iterable[tuple[str, str]]) -> None:
        for about, code in reasons:
            if self._last_reasons.get(about) != code:
                self._last_reasons[about] = code
                self.verdicts[code] += 1
