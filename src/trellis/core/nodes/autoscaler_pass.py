"""The node autoscaler's pass on one snapshot: plan the scale-down, apply its taints, plan the scale-up.

Scale-down comes first because a pending pod that fits on a node which is kept after all needs no new node. The
controller, the replay, the simulator and `trellis explain` all call `plan_pass`, so that they decide alike.

Both plans are made before any of them is executed. The target of an order counts the instances of its group at that
time: execute the order of a group before releases of the same group, or the provider orders what was released again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trellis.api.kube.policies import PodDisruptionBudget
from trellis.base.reasons import DetailedReason
from trellis.core.cluster.store import ObjectKey
from trellis.core.nodes.buffers.headroom import observe_headroom
from trellis.core.nodes.node_groups import GroupState
from trellis.core.nodes.scale_down.decisions import ScaleDownAction, ScaleDownPlan, SetTaints
from trellis.core.nodes.scale_down.plan import plan_scale_down
from trellis.core.nodes.scale_down.remembered_state import ScaleDownMemory
from trellis.core.nodes.scale_down.view import ScaleDownInput
from trellis.core.nodes.scale_up.decisions import BufferDecision, ScaleUpPlan
from trellis.core.nodes.scale_up.plan import plan_scale_up
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings
from trellis.core.nodes.state.recommended_sizes import NO_SIZING, RecommendedSize, RecommendedSizes, SizingSources
from trellis.core.nodes.state.snapshot import ClusterSnapshot, ClusterSnapshotChanges


class AutoscalerMemory(msgspec.Struct, frozen=True):
    """The memory of both plans from pass to pass. All of it may be lost with a process."""

    up: ScaleUpMemory = ScaleUpMemory()
    down: ScaleDownMemory = ScaleDownMemory()


class AutoscalerSettings(msgspec.Struct, frozen=True):
    """The settings of both plans."""

    up: ScaleUpSettings = ScaleUpSettings()
    down: ScaleDownSettings = ScaleDownSettings()


class PassInput(msgspec.Struct, frozen=True):
    """The input of a pass beside the snapshot. `sizing` is what recommended sizes of pods are computed from."""

    groups: Sequence[GroupState]
    budgets: Iterable[PodDisruptionBudget]
    memory: AutoscalerMemory
    now: float
    sizing: SizingSources = NO_SIZING


class PassPlans(msgspec.Struct, frozen=True):
    """Both plans of a pass, and the problems of objects that cannot be read, by kind and name."""

    up: ScaleUpPlan
    down: ScaleDownPlan
    problems: Mapping[tuple[str, ObjectKey], DetailedReason]


def plan_pass(snapshot: ClusterSnapshot, pass_input: PassInput, settings: AutoscalerSettings) -> PassPlans:
    """Plan a pass. The snapshot then shows the groups, and nodes with the taints that the plan sets."""
    snapshot.put_groups(pass_input.groups)
    view = ScaleDownInput(
        snapshot,
        tuple(pass_input.budgets),
        pass_input.memory.up.chunk_nodes,
        pass_input.memory.up.requests,
        holds_resizes=settings.up.scale_up_for_resizes,
    )
    down = plan_scale_down(view, pass_input.memory.down, pass_input.now, settings.down)
    apply_taints(snapshot, down.actions)
    up = plan_scale_up(snapshot, pass_input.memory.up, pass_input.now, settings.up)
    return PassPlans(up, down, dict(snapshot.problems))


def apply_taints(snapshot: ClusterSnapshot, actions: Iterable[ScaleDownAction]) -> None:
    """Show nodes in the snapshot as `SetTaints` will leave them."""
    for action in actions:
        if isinstance(action, SetTaints):
            node = snapshot.nodes[action.node]
            spec = msgspec.structs.replace(node.spec, taints=action.taints)
            snapshot.put_node(action.node, msgspec.structs.replace(node, spec=spec))


class ObservedBuffers(msgspec.Struct, frozen=True):
    """The decisions about Buffers while nothing can be ordered, and the problems of objects that cannot be read."""

    buffers: tuple[BufferDecision, ...]
    problems: Mapping[tuple[str, ObjectKey], DetailedReason]


class NodePlanner:
    """Keeps the snapshot from pass to pass and plans on it. To be used in one thread."""

    def __init__(self, settings: AutoscalerSettings, expendable_below: int) -> None:
        self._settings = settings
        self._snapshot = ClusterSnapshot(expendable_below)
        self._sizes = RecommendedSizes()

    def update(self, changes: ClusterSnapshotChanges) -> None:
        """Apply changes to the snapshot without planning."""
        changes.apply(self._snapshot)
        self._sizes.note_changes(changes.pods)

    def put_sizes(self, sizes: Mapping[ObjectKey, RecommendedSize | None]) -> None:
        """Put recommended sizes that have changed into the snapshot."""
        for key, size in sizes.items():
            self._snapshot.put_recommended_size(key, size)

    def plan(self, changes: ClusterSnapshotChanges, pass_input: PassInput) -> PassPlans:
        """Apply changes to the snapshot and plan a pass."""
        self.update(changes)
        self.put_sizes(self._sizes.find_changes(self._snapshot.placed, pass_input.sizing))
        return plan_pass(self._snapshot, pass_input, self._settings)

    def observe_buffers(self, changes: ClusterSnapshotChanges, memory: ScaleUpMemory, now: float) -> ObservedBuffers:
        """Decide about Buffers by the groups of the last pass. The next pass plans as it would have without this."""
        self.update(changes)
        snapshot = self._snapshot
        arrivals = snapshot.pop_arrivals()
        observed = observe_headroom(snapshot, memory, now, self._settings.up)
        snapshot.restore_arrivals(arrivals)
        return ObservedBuffers(observed.buffers, observed.problems)
