"""The scale-down plan: which nodes to remove, as one function of the snapshot.

A node that is underused, and whose pods and chunks would fit elsewhere, is unneeded. Once it has been unneeded for long
enough it is tainted, drained and released, within delays and parallelism limits. Every node that stays gets the reason.
Until then a soft taint makes the scheduler prefer other nodes.

    plan = plan_scale_down(view, memory, now, settings)

The plan is made before the scale-up plan: a pending pod that fits on a node which is kept after all needs no new node.
The scale-up plan counts on nodes with the taints that `SetTaints` leaves; put them into the snapshot first.
"""

from __future__ import annotations

import msgspec

from trellis.base.reasons import DetailedReason
from trellis.base.wording import pluralize
from trellis.core.fit.devices import find_device_nodes
from trellis.core.nodes.node_groups import InstanceState
from trellis.core.nodes.provisioning.lifecycle import observe_requests
from trellis.core.nodes.scale_down.decisions import (
    NODE_NOT_SIMULATED,
    NODE_TAINTED,
    NODE_TERMINATING,
    NODE_UNNEEDED,
    NODE_WITHOUT_GROUP,
    SCALE_DOWN_DELAYED,
    SCALE_DOWN_LIMITED,
    STALE_REMOVAL_TAINT,
    NodeDecision,
    NodeOutcome,
    ScaleDownAction,
    ScaleDownPlan,
)
from trellis.core.nodes.scale_down.drain_simulation import (
    DrainSimulation,
    DrainSimulationInput,
    OngoingRemoval,
    simulate_drains,
)
from trellis.core.nodes.scale_down.drainability import DisruptionBudgets
from trellis.core.nodes.scale_down.remembered_state import NEVER, NodeRemoval, ScaleDownMemory, UnremovableNode
from trellis.core.nodes.scale_down.removable_nodes import CandidateFilter, GroupMinimums, ScaleDownCandidate
from trellis.core.nodes.scale_down.removal_steps import (
    RemovalStep,
    find_new_pod,
    is_abandoned,
    keep_node,
    next_removal_step,
)
from trellis.core.nodes.scale_down.soft_taints import plan_soft_taints
from trellis.core.nodes.scale_down.view import ScaleDownInput, ScaleDownView, compute_node_utilization
from trellis.core.nodes.settings import ScaleDownSettings
from trellis.core.nodes.state.readiness import classify_nodes
from trellis.core.nodes.state.replacements import ReplacementDemands
from trellis.core.nodes.state.snapshot import ClusterSnapshot


class RemovalStart(msgspec.Struct, frozen=True):
    """The decision about an unneeded node; with a `removal`, its removal starts.

    A node that is `refused_by_budget` counts as unremovable for a while, so that others are tried first.
    """

    reason: DetailedReason
    removal: NodeRemoval | None = None
    recheck_at: float | None = None
    refused_by_budget: bool = False


class RemovalStarter:
    """Decides which unneeded nodes to remove, beside the removals in progress."""

    def __init__(self, builder: ScaleDownPlanBuilder, view: ScaleDownView) -> None:
        removals = list(builder.removals.values())
        self._count = len(removals)
        self._drains = sum(removal.drains for removal in removals)
        self._view = view
        settings = view.settings
        self._delayed_until = max(
            builder.last_added_at + settings.scale_down_delay_after_add_seconds,
            builder.last_deleted_at + settings.scale_down_delay_after_delete_seconds,
            builder.last_failed_at + settings.scale_down_delay_after_failure_seconds,
        )

    def decide(self, candidate: ScaleDownCandidate, since: float) -> RemovalStart:
        """Decide about a candidate that has been unneeded since then."""
        settings, now = self._view.settings, self._view.now
        own, ready = self._view.get_group_settings(candidate.group), candidate.is_ready
        removable_at = since + (own.scale_down_unneeded_seconds if ready else own.scale_down_unready_seconds)
        if now < removable_at:
            return RemovalStart(DetailedReason(NODE_UNNEEDED), recheck_at=removable_at)
        if now < self._delayed_until:
            return RemovalStart(DetailedReason(SCALE_DOWN_DELAYED), recheck_at=self._delayed_until)
        drains = not candidate.pods.is_empty
        if self._count >= settings.max_scale_down_parallelism:
            return RemovalStart(DetailedReason(SCALE_DOWN_LIMITED, pluralize(self._count, "node")))
        if drains and self._drains >= settings.max_drain_parallelism:
            return RemovalStart(DetailedReason(SCALE_DOWN_LIMITED, f"{pluralize(self._drains, 'node')} with pods"))
        refusals = (self._view.budgets.find_eviction_problem(pod.pod) for pod in candidate.pods.to_evict)
        refusal = next((refusal for refusal in refusals if refusal is not None), None)
        if refusal is not None:
            return RemovalStart(refusal, refused_by_budget=True)
        self._count += 1
        self._drains += drains
        uid, pods = self._view.snapshot.nodes[candidate.name].metadata.uid, candidate.pods.uids
        return RemovalStart(
            DetailedReason(NODE_TAINTED),
            NodeRemoval(candidate.name, uid, candidate.group, candidate.instance, now, now, pods, drains, len(pods)),
        )


_NO_SIMULATION = DrainSimulation({}, {}, frozenset())


def plan_scale_down(
    plan_input: ScaleDownInput, memory: ScaleDownMemory, now: float, settings: ScaleDownSettings
) -> ScaleDownPlan:
    """Plan a scale-down. The snapshot stays as it is."""
    return _ScaleDownPlanner(plan_input, memory, now, settings).plan()


class _ScaleDownPlanner:
    """Builds one plan."""

    def __init__(
        self, plan_input: ScaleDownInput, memory: ScaleDownMemory, now: float, settings: ScaleDownSettings
    ) -> None:
        snapshot = plan_input.snapshot
        readiness = classify_nodes(snapshot, now, settings)
        utilization = compute_node_utilization(snapshot.table, snapshot.running.used)
        self._input = plan_input
        self._snapshot = snapshot
        self._view = ScaleDownView(
            snapshot,
            readiness,
            utilization,
            find_device_nodes(snapshot.table),
            DisruptionBudgets(plan_input.budgets),
            memory,
            now,
            settings,
        )
        self._filter = CandidateFilter(self._view)
        self._builder = ScaleDownPlanBuilder(
            self._view, max(memory.last_added_at, _find_last_order_time(snapshot, now))
        )

    def plan(self) -> ScaleDownPlan:
        removals = self._view.memory.removals.values()
        ongoing_removals = [ongoing for removal in removals if (ongoing := self._continue_removal(removal)) is not None]
        candidates = self._find_candidates(frozenset(ongoing.removal.node for ongoing in ongoing_removals))
        simulation = (
            self._simulate_drains(ongoing_removals, candidates) if ongoing_removals or candidates else _NO_SIMULATION
        )
        for ongoing in ongoing_removals:
            self._apply_next_step(ongoing, simulation.needed.get(ongoing.removal.node))
        self._decide_candidates(candidates, simulation)
        return self._with_soft_taints(self._builder.build())

    def _with_soft_taints(self, plan: ScaleDownPlan) -> ScaleDownPlan:
        changed = frozenset(action.node for action in plan.actions)
        soft = plan_soft_taints(self._view, {decision.node: decision for decision in plan.nodes}, changed)
        times = [time for time in (plan.requeue_at, soft.requeue_at) if time is not None]
        return msgspec.structs.replace(
            plan,
            actions=(*plan.actions, *soft.actions),
            memory=msgspec.structs.replace(plan.memory, soft_tainted=soft.tainted),
            requeue_at=min(times, default=None),
        )

    def _continue_removal(self, removal: NodeRemoval) -> OngoingRemoval | None:
        """The removal if only a drain simulation can stop it; otherwise decide, and return None."""
        name = removal.node
        node = self._snapshot.nodes.get(name)
        if node is None or node.metadata.uid != removal.uid:
            self._builder.record_deleted()
            return None
        if self._view.is_being_deleted(name):
            self._builder.await_deletion(removal, DetailedReason(NODE_TERMINATING))
            return None
        ongoing = OngoingRemoval(removal, self._snapshot.table.find(name), self._filter.find_pods(name))
        if removal.released_at is not None:
            self._apply_next_step(ongoing, None)
            return None
        reason = self._filter.find_removal_problem(node) or ongoing.pods.refusal or find_new_pod(removal, ongoing.pods)
        group = self._view.get_group(name)
        if group != removal.group:
            reason = DetailedReason(NODE_WITHOUT_GROUP)
        elif reason is None:
            reason = self._snapshot.groups[group].removal_problem
        if reason is not None:
            self._apply_next_step(ongoing, reason)
            return None
        return ongoing

    def _apply_next_step(self, ongoing: OngoingRemoval, needed: DetailedReason | None) -> None:
        name = ongoing.removal.node
        node = self._snapshot.nodes[name]
        step = (
            next_removal_step(ongoing.removal, node, ongoing.pods, self._view)
            if needed is None
            else keep_node(node, needed)
        )
        self._builder.apply_step(name, step)

    def _find_candidates(self, ongoing_removals: frozenset[str]) -> list[ScaleDownCandidate]:
        """The candidates in drain order. All other nodes get a decision."""
        candidates: list[ScaleDownCandidate] = []
        for name, node in self._snapshot.nodes.items():
            if name in ongoing_removals or self._builder.is_decided(name):
                continue
            is_in_group = bool(self._view.get_group(name))
            if is_abandoned(node, self._view.now, is_in_group=is_in_group) and not self._view.is_being_deleted(name):
                self._builder.apply_step(name, keep_node(node, DetailedReason(STALE_REMOVAL_TAINT)))
                continue
            result = self._filter.check(name, node)
            if isinstance(result, ScaleDownCandidate):
                candidates.append(result)
            elif isinstance(result, UnremovableNode):
                self._builder.keep_unremovable(name, result)
            else:
                self._builder.keep_node(name, result)
        return sorted(candidates, key=lambda candidate: candidate.drain_order)

    def _simulate_drains(
        self, ongoing_removals: list[OngoingRemoval], candidates: list[ScaleDownCandidate]
    ) -> DrainSimulation:
        # The group still counts a released node until it shows it as leaving.
        released = [
            removal
            for removal in self._builder.removals.values()
            if self._view.get_group(removal.node) == removal.group
        ]
        minimums = GroupMinimums(
            self._snapshot.groups, [*released, *(ongoing.removal for ongoing in ongoing_removals)], candidates
        )
        for removal in released:
            minimums.count_removal(removal.group)
        plan_input, view = self._input, self._view
        snapshot = self._snapshot
        replacements = ReplacementDemands(snapshot.storage, snapshot.growth, snapshot.device_claims)
        max_drained = view.settings.max_nodes_tried
        drain_input = DrainSimulationInput(
            self._snapshot,
            view.readiness,
            plan_input.chunk_nodes,
            replacements,
            ongoing_removals,
            candidates,
            max_drained,
            view.settings.transient_taints,
            observe_requests(self._snapshot, plan_input.requests, view.now),
            holds_resizes=plan_input.holds_resizes,
            keeps_headroom=view.settings.scale_down_recommendation_headroom,
        )
        return simulate_drains(drain_input, minimums)

    def _decide_candidates(self, candidates: list[ScaleDownCandidate], simulation: DrainSimulation) -> None:
        view, builder = self._view, self._builder
        starter = RemovalStarter(builder, view)
        until = view.now + view.settings.unremovable_node_recheck_seconds
        for candidate in candidates:
            since, reason = (
                view.now if candidate.unneeded_since is None else candidate.unneeded_since,
                simulation.candidates.get(candidate.name),
            )
            if reason is not None and reason.reason is NODE_NOT_SIMULATED and candidate.unneeded_since is not None:
                builder.keep_unneeded(candidate.name, reason, since, None)
            elif reason is not None and candidate.name in simulation.undrainable:
                builder.keep_unremovable(candidate.name, UnremovableNode(reason, until))
            elif reason is not None:
                builder.keep_node(candidate.name, reason)
            else:
                self._apply_start(candidate, starter.decide(candidate, since), since, until)

    def _apply_start(self, candidate: ScaleDownCandidate, start: RemovalStart, since: float, until: float) -> None:
        name = candidate.name
        if start.removal is not None:
            self._apply_next_step(OngoingRemoval(start.removal, candidate.number, candidate.pods), None)
        elif start.refused_by_budget:
            self._builder.keep_unremovable(name, UnremovableNode(start.reason, until, since))
        else:
            self._builder.keep_unneeded(name, start.reason, since, start.recheck_at)


def _find_last_order_time(snapshot: ClusterSnapshot, now: float) -> float:
    """The time of the newest order in flight, which an earlier process may have placed."""
    since = (
        instance.since
        for state in snapshot.groups.values()
        for instance in state.instances
        if instance.state is InstanceState.ORDERED
    )
    return min(max(since, default=NEVER), now)


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
