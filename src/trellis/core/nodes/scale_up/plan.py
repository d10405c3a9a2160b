"""The scale-up plan: which nodes to order, as one function of the snapshot.

Real pods come first, then the chunks of Buffers. Each is placed on ready nodes, then on upcoming nodes, and nodes are
ordered for the rest. Groups below their minimum size come last. Pods and chunks that no order helps get the reason.

    plan = plan_scale_up(snapshot, memory, now, settings)
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trellis.core.nodes.buffers.chunks import in_placement_order
from trellis.core.nodes.buffers.placement import NodePlaces, place_chunks, restore_places
from trellis.core.nodes.scale_up.decisions import ScaleUpPlan
from trellis.core.nodes.scale_up.estimator import NodeEstimator, UnplacedPods
from trellis.core.nodes.scale_up.expanders import expanders_by_name
from trellis.core.nodes.scale_up.limits import ScaleUpLimits, fill_to_minimum_sizes
from trellis.core.nodes.scale_up.memory import ScaleUpMemory
from trellis.core.nodes.scale_up.plan_builder import (
    ChunksPlacement,
    PendingPodsPlacement,
    ScaleUpPlacement,
    build_scale_up_plan,
)
from trellis.core.nodes.scale_up.similar_groups import find_similar_groups
from trellis.core.nodes.scale_up.view import ScaleUpView, build_scale_up_view
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.pending_pods import PodEquivalenceGroup, build_equivalence_groups, resolve_claim_conflicts
from trellis.core.nodes.state.simulation import ClusterSimulation, simulate_cluster
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.usage.columns import IntColumn


def plan_scale_up(
    snapshot: ClusterSnapshot, memory: ScaleUpMemory, now: float, settings: ScaleUpSettings
) -> ScaleUpPlan:
    """The plan. The snapshot is as before afterwards, but for the arrivals of pods, which are taken."""
    seen = build_scale_up_view(snapshot, memory, now, settings)
    # Before rows are added: limits count the nodes that there are.
    limits = ScaleUpLimits(seen)
    with simulate_cluster(snapshot, seen.stands, seen.templates) as tried:
        tried.await_nodes(seen.coming)
        return build_scale_up_plan(seen, memory, tried, _decide(seen, memory, tried, limits))


def place_pods_and_chunks(
    seen: ScaleUpView, memory: ScaleUpMemory, tried: ClusterSimulation
) -> tuple[list[PendingPodsPlacement], list[ChunksPlacement]]:
    """Put pending pods and then the chunks of Buffers on nodes that are ready, or on their way."""
    groups = build_equivalence_groups(resolve_claim_conflicts(seen.snapshot.pending.values(), tried), seen.largest)
    # Who was meant for a node that has been ordered stays so, before others look for room.
    meant = [[memory.places.get(pod.uid, "") for pod in group.pods] if memory.places else () for group in groups]
    here = np.concatenate((tried.ready, tried.coming))
    back = [
        restore_places(tried, tried.running, group.demand, before, here, len(group.pods))
        for group, before in zip(groups, meant, strict=True)
    ]
    waiting = [_place_group(tried, group, kept) for group, kept in zip(groups, back, strict=True)]
    buffers = in_placement_order(seen.snapshot.buffers.values())
    kept = [
        ChunksPlacement(chunks, seats, UnplacedPods(chunks.demand, chunks.count - seats.count))
        for chunks, seats in zip(buffers, place_chunks(tried, buffers, memory.seats), strict=True)
    ]
    return waiting, kept


def _decide(
    seen: ScaleUpView, memory: ScaleUpMemory, tried: ClusterSimulation, limits: ScaleUpLimits
) -> ScaleUpPlacement:
    waiting, kept = place_pods_and_chunks(seen, memory, tried)
    similar = find_similar_groups([state.group for state in seen.templates.states])
    balanced = similar if seen.settings.balance_similar_node_groups else None
    opening = NodeEstimator(tried, limits, expanders_by_name(seen.settings.expanders), balanced)
    opening.open(_unplaced(placement.need for placement in waiting if placement.group.is_wanted), tried.running)
    opening.open(_unplaced(placement.need for placement in kept if placement.chunks.on_top), tried.running)
    opening.open(_unplaced(placement.need for placement in kept if not placement.chunks.on_top), tried.fixed)
    return ScaleUpPlacement(waiting, kept, limits, fill_to_minimum_sizes(seen, tried, limits))


def _place_group(tried: ClusterSimulation, group: PodEquivalenceGroup, kept: IntColumn) -> PendingPodsPlacement:
    """Put pods on the nodes there are, then on those on their way."""
    count = len(group.pods) - len(kept)
    ready = tried.put(tried.running, group.demand, count, tried.ready)
    coming = tried.put(tried.running, group.demand, count - len(ready), tried.coming)
    there = tried.mask(tried.ready)[kept]
    seats = NodePlaces(np.concatenate((kept[there], ready)), np.concatenate((kept[~there], coming)))
    return PendingPodsPlacement(group, seats, UnplacedPods(group.demand, len(group.pods) - seats.count))


def _unplaced(needs: Iterable[UnplacedPods]) -> list[UnplacedPods]:
    return [pods for pods in needs if pods.left]
