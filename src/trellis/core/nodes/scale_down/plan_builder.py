"""Collects the decisions, actions and memory of a scale-down plan until every node is decided."""

from __future__ import annotations

from trellis.base.reasons import DetailedReason
from trellis.core.nodes.scale_down.decisions import NodeDecision, NodeOutcome, ScaleDownAction, ScaleDownPlan
from trellis.core.nodes.scale_down.memory import NodeRemoval, ScaleDownMemory, UnremovableNode
from trellis.core.nodes.scale_down.removal_steps import RemovalStep
from trellis.core.nodes.scale_down.view import ScaleDownView


class ScaleDownPlanBuilder:
    """Collects decisions, actions and memory. `removals` are those in progress."""

    def __init__(self, view: ScaleDownView, last_added_at: float) -> None:
        self.removals: dict[str, NodeRemoval] = {}
        self.last_deleted_at = view.memory.last_deleted_at
        self.last_failed_at = view.memory.last_failed_at
        self.last_added_at = last_added_at
        self._view = view
        self._actions: list[ScaleDownAction] = []
        self._decisions: dict[str, NodeDecision] = {}
        self._unneeded_since: dict[str, float] = {}
        self._unremovable: dict[str, UnremovableNode] = {}

    def is_decided(self, name: str) -> bool:
        """Whether there is a decision about a node."""
        return name in self._decisions

    def record_deleted(self) -> None:
        """Record that a node whose removal was in progress is deleted."""
        self.last_deleted_at = self._view.now

    def keep_node(self, name: str, reason: DetailedReason) -> None:
        self._decide(name, NodeOutcome.KEPT, reason)

    def keep_unremovable(self, name: str, unremovable: UnremovableNode) -> None:
        """Keep a node, and do not try it again for a while."""
        self._unremovable[name] = unremovable
        outcome = NodeOutcome.KEPT if unremovable.since is None else NodeOutcome.UNNEEDED
        self._decide(name, outcome, unremovable.reason, unremovable.since, unremovable.until)

    def keep_unneeded(self, name: str, reason: DetailedReason, since: float, recheck_at: float | None) -> None:
        """Keep an unneeded node for now."""
        self._unneeded_since[name] = since
        self._decide(name, NodeOutcome.UNNEEDED, reason, since, recheck_at)

    def await_deletion(self, removal: NodeRemoval, reason: DetailedReason) -> None:
        """Record that a node is being deleted, and needs no further step."""
        self.removals[removal.node] = removal
        self._decide(removal.node, NodeOutcome.LEAVING, reason, removal.started_at)

    def apply_step(self, name: str, step: RemovalStep) -> None:
        """Apply the next step of a removal, or keep the node."""
        self._actions += step.actions
        removal = step.removal
        if removal is None:
            self.last_failed_at = self._view.now if step.failed else self.last_failed_at
            self._decide(name, NodeOutcome.KEPT, step.reason)
        else:
            self.removals[name] = removal
            self._decide(name, NodeOutcome.LEAVING, step.reason, removal.started_at, step.recheck_at)

    def build(self) -> ScaleDownPlan:
        memory = ScaleDownMemory(
            self._unneeded_since,
            self._unremovable,
            self.removals,
            self.last_added_at,
            self.last_deleted_at,
            self.last_failed_at,
        )
        recheck_times = [
            decision.recheck_at for decision in self._decisions.values() if decision.recheck_at is not None
        ]
        return ScaleDownPlan(
            tuple(self._actions), tuple(self._decisions.values()), memory, min(recheck_times, default=None)
        )

    def _decide(
        self,
        name: str,
        outcome: NodeOutcome,
        reason: DetailedReason,
        since: float | None = None,
        recheck_at: float | None = None,
    ) -> None:
        used = float(self._view.utilization[self._view.snapshot.table.find(name)])
        self._decisions[name] = NodeDecision(name, outcome, reason, used, since, recheck_at)
