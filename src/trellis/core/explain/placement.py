"""Placement of a Buffer's chunks, or of a pod without a node, as the scale-up plan has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from trellis.api.kube.pods import Pod
from trellis.base.reasons import Reason
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.explain.component_decisions.node_plans import NodeEvidence
from trellis.core.explain.explanation.node import GroupRefusalPart, PlacementPart
from trellis.core.explain.explanation.values import ObstaclePart, ReasonPart, build_reason_part
from trellis.core.fit import Demand, explain_unfit_nodes
from trellis.core.nodes.scale_up.decisions import GroupsRefusal, PendingPodsDecision
from trellis.core.nodes.state.pods import PlacedPods

SCALE_UP_NOT_NEEDED = Reason(
    "ScaleUpNotNeeded",
    "The pod triggers no scale-up: it has scheduling gates, belongs to a DaemonSet, or is expendable by its priority.",
)
AWAITING_SCHEDULER = Reason(
    "AwaitingScheduler", "The scheduler has not yet reported that the pod fits on no node, so no node is ordered."
)


def explain_buffer_placement(node_evidence: NodeEvidence, key: ObjectKey) -> PlacementPart | None:
    """The placement of a Buffer; None if its status has no pods that could be placed."""
    decision = next(
        (buffer_decision for buffer_decision in node_evidence.up.buffers if buffer_decision.key == key), None
    )
    if decision is None:
        return None
    chunks = node_evidence.snapshot.buffers[key]
    placed = node_evidence.snapshot.running if chunks.on_top else node_evidence.snapshot.fixed
    is_short = decision.on_ready < decision.chunks
    return PlacementPart(
        decision=build_reason_part(decision.reason),
        count=decision.chunks,
        ready=decision.on_ready,
        upcoming=decision.on_upcoming,
        ordered=decision.ordered,
        unplaced=decision.unplaced,
        nodes=dict(sorted(Counter(node for node in decision.nodes if node).items())),
        orders=_count_orders(node_evidence),
        refused=_refusals(decision.refused),
        obstacles=_find_obstacles(node_evidence, chunks.demand, placed) if is_short else (),
    )


def explain_pod_placement(node_evidence: NodeEvidence, pod: Pod) -> PlacementPart | None:
    """The placement of a pod without a node, or of the replacement that a resize needs; None for other pods."""
    key = key_of(pod)
    resize = next((decision for decision in node_evidence.up.resizes if key in decision.pods), None)
    if resize is not None:
        return _build_placement(node_evidence, resize)
    if pod.spec.node_name or key in node_evidence.snapshot.placed:
        return None
    problem = node_evidence.snapshot.problems.get(("Pod", key))
    if problem is not None:
        return PlacementPart(build_reason_part(problem), 1, unplaced=1)
    left_alone = node_evidence.snapshot.left_alone.get(key)
    if left_alone is not None:
        return PlacementPart(build_reason_part(left_alone.reason), 1, unplaced=1)
    pending_pods = node_evidence.snapshot.pending.get(key)
    decision = next((pod_decision for pod_decision in node_evidence.up.pods if key in pod_decision.pods), None)
    if pending_pods is None:
        return PlacementPart(ReasonPart(SCALE_UP_NOT_NEEDED), 1, unplaced=1)
    obstacles = _find_obstacles(node_evidence, pending_pods.demand, node_evidence.snapshot.running)
    if decision is None:
        return PlacementPart(
            ReasonPart(AWAITING_SCHEDULER),
            1,
            unplaced=1,
            orders=_count_orders(node_evidence),
            obstacles=obstacles,
        )
    return _build_placement(node_evidence, decision, obstacles)


def _build_placement(
    node_evidence: NodeEvidence, decision: PendingPodsDecision, obstacles: tuple[ObstaclePart, ...] = ()
) -> PlacementPart:
    return PlacementPart(
        decision=build_reason_part(decision.reason),
        count=len(decision.pods),
        ready=decision.on_ready,
        upcoming=decision.on_upcoming,
        ordered=decision.ordered,
        unplaced=decision.unplaced,
        orders=_count_orders(node_evidence),
        refused=_refusals(decision.refused),
        obstacles=obstacles,
    )


def _count_orders(node_evidence: NodeEvidence) -> dict[str, int]:
    return {order.group: order.count for order in node_evidence.up.orders}


def _refusals(refused: Iterable[GroupsRefusal]) -> tuple[GroupRefusalPart, ...]:
    return tuple(GroupRefusalPart(refusal.reason, refusal.groups, refusal.resource) for refusal in refused)


def _find_obstacles(node_evidence: NodeEvidence, demand: Demand, placed: PlacedPods) -> tuple[ObstaclePart, ...]:
    """The reasons why existing nodes do not take it."""
    obstacles = explain_unfit_nodes(node_evidence.snapshot.table, demand, placed.used, placed.existing_pods)
    return tuple(ObstaclePart(obstacle.reason, obstacle.nodes, obstacle.resource) for obstacle in obstacles)
