"""The scale-down plan: which nodes to remove, as one function of the snapshot.

A node that is underused, and whose pods and chunks would fit elsewhere, is unneeded. Once it has been unneeded for long
enough it is tainted, drained and released, within delays and parallelism limits. Every node that stays gets the reason.

    plan = plan_scale_down(view, memory, now, settings)

The plan is made before the scale-up plan: a pod that waits for a node which is kept after all needs no new node. Put
nodes into the snapshot as `SetTaints` leaves them, and the scale-up plan counts on them.
"""

from __future__ import annotations

import msgspec

from trellis.base.reasons import DetailedReason
from trellis.base.wording import pluralize
from trellis.core.nodes.node_groups import InstanceState
from trellis.core.nodes.scale_down.decisions import (
    MARK_LEFT_BEHIND,
    NODE_GOING,
    NODE_MARKED,
    NODE_NOT_TRIED,
    NODE_OF_NO_GROUP,
    NODE_UNNEEDED,
    SCALE_DOWN_DELAYED,
    SCALE_DOWN_LIMITED,
    ScaleDownPlan,
)
from trellis.core.nodes.scale_down.disruption_budgets import DisruptionBudgets
from trellis.core.nodes.scale_down.drain_simulation import (
    DrainSimulation,
    DrainSimulationInput,
    OngoingRemoval,
    simulate_drains,
)
from trellis.core.nodes.scale_down.memory import NEVER, NodeRemoval, ScaleDownMemory, UnremovableNode
from trellis.core.nodes.scale_down.plan_builder import ScaleDownPlanBuilder
from trellis.core.nodes.scale_down.removable_nodes import CandidateFilter, GroupMinimums, ScaleDownCandidate
from trellis.core.nodes.scale_down.removal_steps import find_new_pod, is_abandoned, keep_node, next_removal_step
from trellis.core.nodes.scale_down.replacement_pods import ReplacementDemands
from trellis.core.nodes.scale_down.view import ScaleDownInput, ScaleDownView, node_utilization
from trellis.core.nodes.settings import ScaleDownSettings
from trellis.core.nodes.state.readiness import classify_nodes
from trellis.core.nodes.state.snapshot import ClusterSnapshot


class RemovalStart(msgspec.Struct, frozen=True):
    """What is said of an unneeded node; with a `removal` it goes.

    If a budget has `forbidden` it, others are to be tried before it is asked about again.
    """

    said: DetailedReason
    removal: NodeRemoval | None = None
    look: float | None = None
    forbidden: bool = False


class RemovalStarter:
    """Decides about one node after the other, beside the removals that go on."""

    def __init__(self, notes: ScaleDownPlanBuilder, view: ScaleDownView) -> None:
        under_way = list(notes.removals.values())
        self._count = len(under_way)
        self._drains = sum(removal.drains for removal in under_way)
        self._look = view
        settings = view.settings
        self._delayed_until = max(
            notes.added + settings.scale_down_delay_after_add_seconds,
            notes.deleted + settings.scale_down_delay_after_delete_seconds,
            notes.failed + settings.scale_down_delay_after_failure_seconds,
        )

    def decide(self, candidate: ScaleDownCandidate, since: float) -> RemovalStart:
        """Whether this one goes now, which has been unneeded since then."""
        settings, now = self._look.settings, self._look.now
        ready = candidate.is_ready
        due = since + (settings.scale_down_unneeded_seconds if ready else settings.scale_down_unready_seconds)
        if now < due:
            return RemovalStart(DetailedReason(NODE_UNNEEDED), look=due)
        if now < self._delayed_until:
            return RemovalStart(DetailedReason(SCALE_DOWN_DELAYED), look=self._delayed_until)
        drains = not candidate.tenants.is_empty
        if self._count >= settings.max_scale_down_parallelism:
            return RemovalStart(DetailedReason(SCALE_DOWN_LIMITED, pluralize(self._count, "node")))
        if drains and self._drains >= settings.max_drain_parallelism:
            return RemovalStart(DetailedReason(SCALE_DOWN_LIMITED, f"{pluralize(self._drains, 'node')} with pods"))
        forbidden = (self._look.budgets.why_not(pod.pod) for pod in candidate.tenants.moving)
        refusal = next((refusal for refusal in forbidden if refusal is not None), None)
        if refusal is not None:
            return RemovalStart(refusal, forbidden=True)
        self._count += 1
        self._drains += drains
        uid, pods = self._look.snapshot.nodes[candidate.name].metadata.uid, candidate.tenants.uids
        return RemovalStart(
            DetailedReason(NODE_MARKED),
            NodeRemoval(candidate.name, uid, candidate.group, candidate.instance, now, now, pods, drains, len(pods)),
        )


_NO_SIMULATION = DrainSimulation({}, {}, frozenset())


def plan_scale_down(
    view: ScaleDownInput, memory: ScaleDownMemory, now: float, settings: ScaleDownSettings
) -> ScaleDownPlan:
    """The plan. The snapshot is as before afterwards."""
    return _ScaleDownPlanner(view, memory, now, settings).plan()


class _ScaleDownPlanner:
    """One plan while it is made up."""

    def __init__(self, view: ScaleDownInput, memory: ScaleDownMemory, now: float, settings: ScaleDownSettings) -> None:
        snapshot = view.snapshot
        stands = classify_nodes(snapshot, now, settings.max_node_provision_seconds)
        used = node_utilization(snapshot.table, snapshot.running.used)
        self._view = view
        self._snapshot = snapshot
        self._look = ScaleDownView(snapshot, stands, used, DisruptionBudgets(view.budgets), memory, now, settings)
        self._screen = CandidateFilter(self._look)
        self._notes = ScaleDownPlanBuilder(self._look, max(memory.last_added_at, _last_order(snapshot, now)))

    def plan(self) -> ScaleDownPlan:
        removals = self._look.memory.removals.values()
        going = [ongoing for removal in removals if (ongoing := self._go_on(removal)) is not None]
        candidates = self._candidates(frozenset(ongoing.removal.node for ongoing in going))
        simulation = self._try_out(going, candidates) if going or candidates else _NO_SIMULATION
        for ongoing in going:
            self._step(ongoing, simulation.needed.get(ongoing.removal.node))
        self._start(candidates, simulation)
        return self._notes.plan()

    def _go_on(self, removal: NodeRemoval) -> OngoingRemoval | None:
        """A removal that could go on; what becomes of others is clear."""
        name = removal.node
        node = self._snapshot.nodes.get(name)
        if node is None or node.metadata.uid != removal.uid:
            self._notes.gone()
            return None
        if self._look.is_going(name):
            self._notes.leave(removal, DetailedReason(NODE_GOING))
            return None
        going = OngoingRemoval(removal, self._snapshot.table.find(name), self._screen.tenants(name))
        if removal.released_at is not None:
            self._step(going, None)
            return None
        reason = self._screen.why_kept(node) or going.tenants.stays or find_new_pod(removal, going.tenants)
        if self._look.group_of(name) != removal.group:
            reason = DetailedReason(NODE_OF_NO_GROUP)
        if reason is not None:
            self._step(going, reason)
            return None
        return going

    def _step(self, going: OngoingRemoval, needed: DetailedReason | None) -> None:
        name = going.removal.node
        node = self._snapshot.nodes[name]
        stepped = (
            next_removal_step(going.removal, node, going.tenants, self._look)
            if needed is None
            else keep_node(node, needed)
        )
        self._notes.step(name, stepped)

    def _candidates(self, going: frozenset[str]) -> list[ScaleDownCandidate]:
        """The nodes to be tried, in their turn; of all others it is said why they are none."""
        candidates: list[ScaleDownCandidate] = []
        for name, node in self._snapshot.nodes.items():
            if name in going or self._notes.has(name):
                continue
            is_ours = bool(self._look.group_of(name))
            if is_abandoned(node, self._look.now, is_ours=is_ours) and not self._look.is_going(name):
                self._notes.step(name, keep_node(node, DetailedReason(MARK_LEFT_BEHIND)))
                continue
            result = self._screen.look_at(name, node)
            if isinstance(result, ScaleDownCandidate):
                candidates.append(result)
            elif isinstance(result, UnremovableNode):
                self._notes.hold(name, result)
            else:
                self._notes.keep(name, result)
        return sorted(candidates, key=lambda candidate: candidate.turn)

    def _try_out(self, going: list[OngoingRemoval], candidates: list[ScaleDownCandidate]) -> DrainSimulation:
        # The group still counts a node that it was given back and does not show as leaving.
        released = [
            removal for removal in self._notes.removals.values() if self._look.group_of(removal.node) == removal.group
        ]
        minimums = GroupMinimums(
            self._snapshot.groups, [*released, *(ongoing.removal for ongoing in going)], candidates
        )
        for removal in released:
            minimums.take(removal.group)
        view, look = self._view, self._look
        successors = ReplacementDemands(self._snapshot.storage, view.starts)
        most = look.settings.max_nodes_tried
        given = DrainSimulationInput(self._snapshot, look.stands, view.seats, successors, going, candidates, most)
        return simulate_drains(given, minimums)

    def _start(self, candidates: list[ScaleDownCandidate], simulation: DrainSimulation) -> None:
        look, notes = self._look, self._notes
        starting = RemovalStarter(notes, look)
        until = look.now + look.settings.unremovable_node_recheck_seconds
        for candidate in candidates:
            since, reason = (
                look.now if candidate.since is None else candidate.since,
                simulation.candidates.get(candidate.name),
            )
            if reason is not None and reason.reason is NODE_NOT_TRIED and candidate.since is not None:
                notes.unneeded(candidate.name, reason, since, None)
            elif reason is not None and candidate.name in simulation.in_vain:
                notes.hold(candidate.name, UnremovableNode(reason, until))
            elif reason is not None:
                notes.keep(candidate.name, reason)
            else:
                self._begin(candidate, starting.decide(candidate, since), since, until)

    def _begin(self, candidate: ScaleDownCandidate, start: RemovalStart, since: float, until: float) -> None:
        name = candidate.name
        if start.removal is not None:
            self._step(OngoingRemoval(start.removal, candidate.number, candidate.tenants), None)
        elif start.forbidden:
            self._notes.hold(name, UnremovableNode(start.said, until, since))
        else:
            self._notes.unneeded(name, start.said, since, start.look)


def _last_order(snapshot: ClusterSnapshot, now: float) -> float:
    """When the newest of the instances that are on their way was ordered: an older process may have done it."""
    since = (
        instance.since
        for state in snapshot.groups.values()
        for instance in state.instances
        if instance.state is InstanceState.ORDERED
    )
    return min(max(since, default=NEVER), now)
