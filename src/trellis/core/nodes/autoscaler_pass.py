"""The node autoscaler's pass on one snapshot: plan the scale-down, apply its taints, plan the scale-up.

Scale-down comes first because a pod that waits for a node which is kept after all needs no new node. The snapshot shows
the taints of the scale-down plan before the scale-up is planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trellis.api.kube.policies import PodDisruptionBudget
from trellis.base.reasons import DetailedReason
from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import Storage
from trellis.core.nodes.buffers.headroom import observe_headroom
from trellis.core.nodes.node_groups import GroupState
from trellis.core.nodes.scale_down.decisions import ScaleDownPlan, SetTaints
from trellis.core.nodes.scale_down.memory import ScaleDownMemory
from trellis.core.nodes.scale_down.plan import plan_scale_down
from trellis.core.nodes.scale_down.replacement_pods import StartupBoosts, no_boosts
from trellis.core.nodes.scale_down.view import ScaleDownInput
from trellis.core.nodes.scale_up.decisions import BufferDecision, ScaleUpPlan
from trellis.core.nodes.scale_up.memory import ScaleUpMemory
from trellis.core.nodes.scale_up.plan import plan_scale_up
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings
from trellis.core.nodes.state.snapshot import ClusterSnapshot, ClusterSnapshotChanges


class AutoscalerMemory(msgspec.Struct, frozen=True):
    """What is remembered from pass to pass. All of it may be lost with a process."""

    up: ScaleUpMemory = ScaleUpMemory()
    down: ScaleDownMemory = ScaleDownMemory()


class PassInput(msgspec.Struct, frozen=True):
    """What a pass is about, beside what is new in the cluster."""

    groups: Sequence[GroupState]
    budgets: Iterable[PodDisruptionBudget]
    memory: AutoscalerMemory
    now: float
    starts: StartupBoosts = no_boosts


class PassPlans(msgspec.Struct, frozen=True):
    """What to do, and what is wrong with objects that cannot be read, by kind and name."""

    up: ScaleUpPlan
    down: ScaleDownPlan
    problems: Mapping[tuple[str, ObjectKey], DetailedReason]


class ObservedBuffers(msgspec.Struct, frozen=True):
    """What is true of Buffers while nothing can be ordered, and what is wrong with objects that cannot be read."""

    buffers: tuple[BufferDecision, ...]
    problems: Mapping[tuple[str, ObjectKey], DetailedReason]


class NodePlanner:
    """The snapshot and the figures. To be used in one thread."""

    def __init__(self, up: ScaleUpSettings, down: ScaleDownSettings, expendable_below: int) -> None:
        self._up = up
        self._down = down
        self._snapshot = ClusterSnapshot(expendable_below)
        self._storage = Storage()

    def take_in(self, news: ClusterSnapshotChanges) -> None:
        """Have the snapshot show what is new."""
        self._storage = news.storage or self._storage
        news.put_into(self._snapshot)

    def plan(self, news: ClusterSnapshotChanges, asked: PassInput) -> PassPlans:
        """Both plans. Nodes that are to be kept after all are there for whoever waits for one."""
        self.take_in(news)
        snapshot, memory = self._snapshot, asked.memory
        snapshot.put_groups(asked.groups)
        view = ScaleDownInput(snapshot, tuple(asked.budgets), self._storage, memory.up.seats, asked.starts)
        down = plan_scale_down(view, memory.down, asked.now, self._down)
        for each in down.actions:
            if isinstance(each, SetTaints):
                node = snapshot.nodes[each.node]
                spec = msgspec.structs.replace(node.spec, taints=each.taints)
                snapshot.put_node(each.node, msgspec.structs.replace(node, spec=spec))
        up = plan_scale_up(snapshot, memory.up, asked.now, self._up)
        return PassPlans(up, down, dict(snapshot.problems))

    def look(self, news: ClusterSnapshotChanges, memory: ScaleUpMemory, now: float) -> ObservedBuffers:
        """What is true by the groups of the last plan. The next one is the same as if nobody had looked."""
        self.take_in(news)
        snapshot = self._snapshot
        arrived = snapshot.take_arrivals()
        observed = observe_headroom(snapshot, memory, now, self._up)
        snapshot.put_arrivals(arrived)
        return ObservedBuffers(observed.buffers, observed.problems)
