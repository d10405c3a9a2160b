"""Which nodes come and go in a variant? The plans of the core, made as the live node autoscaler makes them.

It looks every few seconds, and a moment after the scheduler has said that a pod fits nowhere. Where nothing has changed
and no plan has asked for another look, a look would find the same, and is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from trellis.api.buffer import Buffer
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.workloads import DaemonSet
from trellis.core.model.keys import Key, key_of
from trellis.core.model.told import Told
from trellis.core.nodes.down import DownView, plan_down
from trellis.core.nodes.down_actions import DownAction, EvictPod, SetTaints
from trellis.core.nodes.down_memory import DownMemory, nodes_added, removal_failed
from trellis.core.nodes.memory import UpMemory, order_failed
from trellis.core.nodes.moves import Starts
from trellis.core.nodes.pods import is_unschedulable
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.nodes.up import plan_up
from trellis.core.nodes.verdicts import Order
from trellis.core.resize.actions import PodRef
from trellis.sim.cluster.cluster import Cluster
from trellis.sim.figures import Figures
from trellis.sim.fleet import Fleet
from trellis.sim.kernel import Kernel, Priority, Ticket
from trellis.sim.noding.keeping import Keeping
from trellis.sim.noding.pools import Pools
from trellis.sim.noding.translating import Translating
from trellis.sim.results import NodeFigures

# Pods that come together are looked at together.
_SETTLING_SECONDS: Final = 1.0
# Nothing goes unseen for longer, whatever plans say.
_AT_LEAST_EVERY: Final = 300.0


class Noding:
    """The node autoscaler of a variant, with a Buffer controller beside it. `starts` is about boosts of moved pods."""

    cluster: Cluster

    def __init__(
        self, fleet: Fleet, kernel: Kernel, translating: Translating, figures: Figures, starts: Starts
    ) -> None:
        self._kernel = kernel
        self._translating = translating
        self._figures = figures
        self._starts = starts
        self._snapshot = Snapshot()
        self._up = UpMemory()
        self._down = DownMemory()
        self._has_changed = True
        self._looked = -_AT_LEAST_EVERY
        self._next_look: float | None = None
        self._woken: Ticket | None = None
        self._told: dict[str, str] = {}
        self.pools = Pools(fleet.pools, kernel)
        self.keeping = Keeping(fleet.clock.scored_from)
        self._moved = 0
        self._most = 0
        self._before = (0, 0, 0, 0)
        self._scored_from = fleet.clock.scored_from
        self.verdicts: Counter[str] = Counter()
        """How often nodes, pods and Buffers were told what, each as often as it was told something else."""

    def begin(self, cluster: Cluster) -> None:
        """The cluster is there."""
        self.cluster = self._translating.cluster = cluster
        self.pools.machines = cluster.joining
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

    def daemon_set(self, key: Key, new: KubeObject | None) -> None:
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
        return self.pools.ordered, self.pools.removed, self._moved, self.cluster.preempted

    def _wake(self) -> None:
        if self._woken is None or not self._woken.waits:
            self._woken = self._kernel.after(_SETTLING_SECONDS, self.look, Priority.NODES)

    def _plan(self, now: float) -> None:
        """Fewer nodes first: what waits for one that is kept after all needs no other."""
        self._looked, self._has_changed = now, False
        for buffer in self._translating.changed(self._snapshot.table, self._snapshot.nodes, now):
            self._put(buffer)
        looks = [self._fewer(now), self._more(now), self._translating.next_change]
        self._next_look = min((each for each in looks if each is not None), default=None)

    def _put(self, buffer: Buffer) -> None:
        self._snapshot.put_buffer((buffer.metadata.namespace, buffer.metadata.name), buffer)

    def _fewer(self, now: float) -> float | None:
        self._snapshot.put_groups(self.pools.states())
        view = DownView(
            self._snapshot, tuple(self.cluster.targets.budgets()), seats=self._up.seats, starts=self._starts
        )
        plan = plan_down(view, self._down, now, self._figures.down)
        self._down = plan.memory
        for action in plan.actions:
            self._do(action, now)
        self._tell((f"node {each.node}", each.said.reason.code) for each in plan.nodes)
        return plan.next_look

    def _more(self, now: float) -> float | None:
        self._snapshot.put_groups(self.pools.states())
        plan = plan_up(self._snapshot, self._up, now, self._figures.up)
        self._up = plan.memory
        for order in plan.orders:
            self._order(order, now)
        for each in plan.give_backs:
            self.pools.release(each.group, each.instance)
        self.keeping.told(plan.buffers, now)
        self._tell((f"buffer {each.uid}", each.said.reason.code) for each in plan.buffers)
        self._tell((f"pod {'/'.join(key)}", each.said.reason.code) for each in plan.pods for key in each.pods)
        return plan.next_look

    def _order(self, order: Order, now: float) -> None:
        if self.pools.order(order.group, order.target):
            self._down = nodes_added(self._down, now)
        else:
            self._up = order_failed(self._up, order.group, "the group is full", now, self._figures.up)

    def _do(self, action: DownAction, now: float) -> None:
        if isinstance(action, SetTaints):
            self.cluster.joining.taint(action.node, action.taints)
        elif isinstance(action, EvictPod):
            told = self.cluster.move(PodRef(action.namespace, action.name, action.uid))
            self._moved += told is Told.APPLIED
        elif not self.pools.release(action.group, action.instance):
            self._down = removal_failed(self._down, action.node, now)

    def _tell(self, said: Iterable[tuple[str, str]]) -> None:
        for about, code in said:
            if self._told.get(about) != code:
                self._told[about] = code
                self.verdicts[code] += 1
