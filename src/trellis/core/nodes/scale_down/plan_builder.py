"""Collects the decisions, actions and memory of a scale-down plan until every node is decided."""

from __future__ import annotations

from trellis.base.reasons import DetailedReason
from trellis.core.nodes.scale_down.decisions import NodeDecision, NodeOutcome, ScaleDownAction, ScaleDownPlan
from trellis.core.nodes.scale_down.memory import NodeRemoval, ScaleDownMemory, UnremovableNode
from trellis.core.nodes.scale_down.removal_steps import RemovalStep
from trellis.core.nodes.scale_down.view import ScaleDownView


class ScaleDownPlanBuilder:
    """Verdicts, actions, and what to remember. `removals` are those that go on."""

    def __init__(self, view: ScaleDownView, added: float) -> None:
        self.removals: dict[str, NodeRemoval] = {}
        self.deleted = view.memory.last_deleted_at
        self.failed = view.memory.last_failed_at
        self.added = added
        self._look = view
        self._actions: list[ScaleDownAction] = []
        self._verdicts: dict[str, NodeDecision] = {}
        self._unneeded: dict[str, float] = {}
        self._held: dict[str, UnremovableNode] = {}

    def has(self, name: str) -> bool:
        """Whether something has been said of a node already."""
        return name in self._verdicts

    def gone(self) -> None:
        """A node that was being removed is there no more."""
        self.deleted = self._look.now

    def keep(self, name: str, reason: DetailedReason) -> None:
        self._tell(name, NodeOutcome.KEPT, reason)

    def hold(self, name: str, held: UnremovableNode) -> None:
        """A node stays, and is not tried again for a while."""
        self._held[name] = held
        outcome = NodeOutcome.KEPT if held.since is None else NodeOutcome.UNNEEDED
        self._tell(name, outcome, held.reason, held.since, held.until)

    def unneeded(self, name: str, reason: DetailedReason, since: float, look: float | None) -> None:
        """A node is not needed, and stays for now."""
        self._unneeded[name] = since
        self._tell(name, NodeOutcome.UNNEEDED, reason, since, look)

    def leave(self, removal: NodeRemoval, reason: DetailedReason) -> None:
        """A node is on its way out without our help."""
        self.removals[removal.node] = removal
        self._tell(removal.node, NodeOutcome.LEAVING, reason, removal.started_at)

    def step(self, name: str, stepped: RemovalStep) -> None:
        """A node comes a step nearer to its end, or is kept after all."""
        self._actions += stepped.actions
        removal = stepped.removal
        if removal is None:
            self.failed = self._look.now if stepped.failed else self.failed
            self._tell(name, NodeOutcome.KEPT, stepped.said)
        else:
            self.removals[name] = removal
            self._tell(name, NodeOutcome.LEAVING, stepped.said, removal.started_at, stepped.look)

    def plan(self) -> ScaleDownPlan:
        memory = ScaleDownMemory(self._unneeded, self._held, self.removals, self.added, self.deleted, self.failed)
        looks = [decision.recheck_at for decision in self._verdicts.values() if decision.recheck_at is not None]
        return ScaleDownPlan(tuple(self._actions), tuple(self._verdicts.values()), memory, min(looks, default=None))

    def _tell(
        self,
        name: str,
        outcome: NodeOutcome,
        reason: DetailedReason,
        since: float | None = None,
        look: float | None = None,
    ) -> None:
        used = float(self._look.used[self._look.snapshot.table.find(name)])
        self._verdicts[name] = NodeDecision(name, outcome, reason, used, since, look)
