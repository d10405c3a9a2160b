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
from trellis.core.nodes.scale_up.decisions import GroupsRefusal
from trellis.core.nodes.state.pods import PlacedPods

NO_NODE_SOUGHT = Reason(
    "NoNodeSought",
    "No node is ordered for the pod: it is held back, is of a DaemonSet, or makes way for all others.",
)
SCHEDULER_HAS_NOT_LOOKED = Reason(
    "SchedulerHasNotLooked", "The scheduler has not said yet that it has no node for the pod, so that none is ordered."
)


def explain_buffer_placement(noded: NodeEvidence, key: ObjectKey) -> PlacementPart | None:
    """What is found for a Buffer; None if its status has no pods that could be placed."""
    verdict = next((each for each in noded.up.buffers if each.key == key), None)
    if verdict is None:
        return None
    chunks = noded.snapshot.buffers[key]
    world = noded.snapshot.running if chunks.on_top else noded.snapshot.fixed
    is_short = verdict.on_ready < verdict.chunks
    return PlacementPart(
        told=build_reason_part(verdict.said),
        count=verdict.chunks,
        ready=verdict.on_ready,
        coming=verdict.on_coming,
        ordered=verdict.ordered,
        unplaced=verdict.unplaced,
        nodes=dict(sorted(Counter(each for each in verdict.nodes if each).items())),
        orders=_orders(noded),
        refused=_refusals(verdict.refused),
        obstacles=_obstacles(noded, chunks.demand, world) if is_short else (),
    )


def explain_pod_placement(noded: NodeEvidence, pod: Pod) -> PlacementPart | None:
    """What is found for a pod without a node; None if it has one."""
    key = key_of(pod)
    if pod.spec.node_name or key in noded.snapshot.placed:
        return None
    problem = noded.snapshot.problems.get(("Pod", key))
    if problem is not None:
        return PlacementPart(build_reason_part(problem), 1, unplaced=1)
    waiting = noded.snapshot.pending.get(key)
    verdict = next((each for each in noded.up.pods if key in each.pods), None)
    if waiting is None:
        return PlacementPart(ReasonPart(NO_NODE_SOUGHT), 1, unplaced=1)
    obstacles = _obstacles(noded, waiting.demand, noded.snapshot.running)
    if verdict is None:
        return PlacementPart(
            ReasonPart(SCHEDULER_HAS_NOT_LOOKED), 1, unplaced=1, orders=_orders(noded), obstacles=obstacles
        )
    return PlacementPart(
        told=build_reason_part(verdict.said),
        count=len(verdict.pods),
        ready=verdict.on_ready,
        coming=verdict.on_coming,
        ordered=verdict.ordered,
        unplaced=verdict.unplaced,
        orders=_orders(noded),
        refused=_refusals(verdict.refused),
        obstacles=obstacles,
    )


def _orders(noded: NodeEvidence) -> dict[str, int]:
    return {each.group: each.count for each in noded.up.orders}


def _refusals(refused: Iterable[GroupsRefusal]) -> tuple[GroupRefusalPart, ...]:
    return tuple(GroupRefusalPart(each.reason, each.groups, each.resource) for each in refused)


def _obstacles(noded: NodeEvidence, demand: Demand, world: PlacedPods) -> tuple[ObstaclePart, ...]:
    """What keeps it from the nodes that there are."""
    found = explain_unfit_nodes(noded.snapshot.table, demand, world.used, world.near)
    return tuple(ObstaclePart(each.reason, each.nodes, each.resource) for each in found)
