"""The scale-up plan: which nodes to order, as one function of the snapshot.

Real pods come first, then the chunks of Buffers. Each is placed on ready nodes, then on upcoming nodes, and nodes are
ordered for the rest. Groups below their minimum size come last. Pods and chunks that no order helps get the reason.

    plan = plan_scale_up(snapshot, memory, now, settings)
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trellis.core.nodes.buffers.placement import NodePlaces, place_chunks, restore_places
from trellis.core.nodes.buffers.virtual_pods import in_placement_order
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
    """Plan a scale-up. The snapshot stays as it is, except that the arrivals of pods are taken."""
    view = build_scale_up_view(snapshot, memory, now, settings)
    # Before rows are added: limits count the nodes that there are.
    limits = ScaleUpLimits(view)
    with simulate_cluster(snapshot, view.readiness, view.templates) as simulation:
        simulation.add_upcoming_nodes(view.upcoming)
        return build_scale_up_plan(view, memory, simulation, _decide(view, memory, simulation, limits))


def place_pods_and_chunks(
    view: ScaleUpView, memory: ScaleUpMemory, simulation: ClusterSimulation
) -> tuple[list[PendingPodsPlacement], list[ChunksPlacement]]:
    """Place pending pods, then chunks of Buffers, on ready and upcoming nodes."""
    groups = build_equivalence_groups(
        resolve_claim_conflicts(view.snapshot.pending.values(), simulation), view.largest_node
    )
    # Pods keep the upcoming node that was ordered for them before others are placed.
    nodes_before = [
        [memory.pod_nodes.get(pod.uid, "") for pod in group.pods] if memory.pod_nodes else () for group in groups
    ]
    existing_nodes = np.concatenate((simulation.ready, simulation.upcoming))
    restored_places = [
        restore_places(simulation, simulation.running, group.demand, before, existing_nodes, len(group.pods))
        for group, before in zip(groups, nodes_before, strict=True)
    ]
    pending_pods = [
        _place_group(simulation, group, restored) for group, restored in zip(groups, restored_places, strict=True)
    ]
    buffers = in_placement_order(view.snapshot.buffers.values())
    chunk_placements = [
        ChunksPlacement(chunks, places, UnplacedPods(chunks.demand, chunks.count - places.count))
        for chunks, places in zip(buffers, place_chunks(simulation, buffers, memory.chunk_nodes), strict=True)
    ]
    return pending_pods, chunk_placements


def _decide(
    view: ScaleUpView, memory: ScaleUpMemory, simulation: ClusterSimulation, limits: ScaleUpLimits
) -> ScaleUpPlacement:
    pending_pods, buffers = place_pods_and_chunks(view, memory, simulation)
    similar = find_similar_groups([state.group for state in view.templates.states])
    balanced = similar if view.settings.balance_similar_node_groups else None
    estimator = NodeEstimator(simulation, limits, expanders_by_name(view.settings.expanders), balanced)
    estimator.place_on_new_nodes(
        _unplaced(placement.unplaced for placement in pending_pods if placement.group.needs_node), simulation.running
    )
    estimator.place_on_new_nodes(
        _unplaced(placement.unplaced for placement in buffers if placement.chunks.on_top), simulation.running
    )
    estimator.place_on_new_nodes(
        _unplaced(placement.unplaced for placement in buffers if not placement.chunks.on_top), simulation.fixed
    )
    return ScaleUpPlacement(pending_pods, buffers, limits, fill_to_minimum_sizes(view, simulation, limits))


def _place_group(
    simulation: ClusterSimulation, group: PodEquivalenceGroup, restored: IntColumn
) -> PendingPodsPlacement:
    """Place pods on ready nodes, then on upcoming ones."""
    count = len(group.pods) - len(restored)
    ready = simulation.place(simulation.running, group.demand, count, simulation.ready)
    upcoming = simulation.place(simulation.running, group.demand, count - len(ready), simulation.upcoming)
    there = simulation.mask(simulation.ready)[restored]
    places = NodePlaces(np.concatenate((restored[there], ready)), np.concatenate((restored[~there], upcoming)))
    return PendingPodsPlacement(group, places, UnplacedPods(group.demand, len(group.pods) - places.count))


def _unplaced(needs: Iterable[UnplacedPods]) -> list[UnplacedPods]:
    return [pods for pods in needs if pods.count]
