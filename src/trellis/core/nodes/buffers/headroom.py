"""Observes the headroom of Buffers on the existing nodes, whichever autoscaler manages them.

The placement is that of a scale-up plan without orders: pending pods first, then chunks, on ready nodes. `trellis
buffers` uses it where no `trellis nodes` runs, and `trellis nodes` while its provider does not answer.

For autoscalers that only know `KeepEmpty`, it also computes how many chunks of a `KeepMinimum` Buffer they have to keep
on top of what runs, so that its minimum of N chunks exists. With F chunks that fit if no ordinary pod ran, and E that
fit beside all pods:

- pods use the capacity of F - E chunks, so at least N - (F - E) have to be kept. If F is less than N, these are N - F
  more than fit now: nodes are added for what is missing, and for nothing else.
- if F is at least N, no more than E are kept: no node is added for the Buffer, however full its capacity is.
- between the two, pods use as many chunks as they request, in whichever resource these are the most. Pods that are
  spread out block more than that. If those counted as used, nodes could go that are missing once the pods have been
  moved together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from trellis.base.reasons import DetailedReason
from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import Demand, find_eligible_nodes
from trellis.core.fit.resources import PODS
from trellis.core.nodes.scale_up.decisions import BUFFER_NOT_PROVISIONED, NO_GROUP_FITS, BufferDecision
from trellis.core.nodes.scale_up.plan import ScaleUpPlacement, build_scale_up_plan, place_pods_and_chunks
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory
from trellis.core.nodes.scale_up.view import ScaleUpLimits, build_scale_up_view
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.pods import BufferChunks, PlacedPods
from trellis.core.nodes.state.simulation import ClusterSimulation, simulate_cluster
from trellis.core.nodes.state.snapshot import EXPENDABLE_PODS_PRIORITY_CUTOFF, ClusterSnapshot, ClusterSnapshotChanges


def count_chunks_on_top(
    simulation: ClusterSimulation, buffers: Sequence[BufferChunks], fixed: PlacedPods
) -> dict[str, int]:
    """By the UID of each `KeepMinimum` Buffer, how many of its chunks are to be kept on top of running pods.

    Pending pods and the chunks of `KeepEmpty` Buffers have been placed in `simulation`; `fixed` has the pods alone that
    belong to their nodes. Buffers follow each other as in any placement, so that no pod uses the capacity of two.
    """
    on_top: dict[str, int] = {}
    keep_minimum = [chunks for chunks in buffers if not chunks.on_top and chunks.count]
    if not keep_minimum:
        return on_top
    running, fixed = simulation.running.copy(), fixed.copy()
    for chunks in keep_minimum:
        demand, count = chunks.demand, chunks.count
        # Chunks that fit beyond twice the count make no difference; both are counted so far, or pods would seem to use
        # what only was not counted.
        fit_beside_pods = len(simulation.place(running.copy(), demand, 2 * count, simulation.ready))
        fit_without_pods = len(simulation.place(fixed.copy(), demand, 2 * count, simulation.ready))
        missing = count - (fit_without_pods - fit_beside_pods)
        unused = count - _count_chunks_requested(simulation, demand, running, fixed)
        chunks_on_top = min(max(missing, min(fit_beside_pods, unused), 0), count)
        on_top[chunks.uid] = chunks_on_top
        simulation.place(running, demand, chunks_on_top, simulation.ready)
        simulation.place(fixed, demand, count, simulation.ready)
    return on_top


def _count_chunks_requested(
    simulation: ClusterSimulation, demand: Demand, running: PlacedPods, fixed: PlacedPods
) -> int:
    """How many chunks the requests of ordinary pods amount to, on the ready nodes that could take one."""
    nodes = simulation.ready[find_eligible_nodes(simulation.table, demand)[simulation.ready]]
    rows = simulation.table.resources
    sized = [(rows[name], amount) for name, amount in demand.amounts if name != PODS and name in rows]
    ordinary = running.used.amounts[:, nodes] - fixed.used.amounts[:, nodes]
    sums = np.maximum(ordinary, 0).sum(axis=1)
    return max((int(sums[row]) // amount for row, amount in sized), default=0)


class ObservedHeadroom(msgspec.Struct, frozen=True):
    """The decision about each Buffer, and the memory for the next observation.

    `on_top` has, by the UID of a `KeepMinimum` Buffer, how many chunks an autoscaler that only knows `KeepEmpty` has to
    keep. `problems` are objects that cannot be read, by kind and name.
    """

    buffers: tuple[BufferDecision, ...]
    problems: Mapping[tuple[str, ObjectKey], DetailedReason]
    memory: ScaleUpMemory
    on_top: Mapping[str, int]


def observe_headroom(
    snapshot: ClusterSnapshot, memory: ScaleUpMemory, now: float, settings: ScaleUpSettings
) -> ObservedHeadroom:
    """Observe the headroom. The snapshot stays as it is, except that the arrivals of pods are popped."""
    view = build_scale_up_view(snapshot, memory, now, replace(settings, max_nodes_per_scaleup=0))
    limits = ScaleUpLimits(view)
    with simulate_cluster(snapshot, view.readiness, view.templates) as simulation:
        simulation.add_upcoming_nodes(view.upcoming)
        pending_pods, buffers = place_pods_and_chunks(view, memory, simulation)
        on_top = count_chunks_on_top(simulation, [placement.chunks for placement in buffers], snapshot.fixed)
        plan = build_scale_up_plan(view, memory, simulation, ScaleUpPlacement(pending_pods, buffers, limits))
    decisions = plan.buffers if snapshot.groups else tuple(_without_groups(decision) for decision in plan.buffers)
    return ObservedHeadroom(decisions, dict(snapshot.problems), plan.memory, on_top)


def _without_groups(decision: BufferDecision) -> BufferDecision:
    """The decision without refusals of groups, where no group is known."""
    is_unknown = decision.reason.reason is NO_GROUP_FITS
    return replace(decision, reason=DetailedReason(BUFFER_NOT_PROVISIONED)) if is_unknown else decision


class HeadroomObserver:
    """The snapshot, and the memory between observations. It is used in one thread only."""

    def __init__(self, settings: ScaleUpSettings, expendable_below: int = EXPENDABLE_PODS_PRIORITY_CUTOFF) -> None:
        self._settings = settings
        self._snapshot = ClusterSnapshot(expendable_below)
        self._memory = ScaleUpMemory()

    def update(self, changes: ClusterSnapshotChanges) -> None:
        """Update the snapshot."""
        changes.apply(self._snapshot)

    def observe(self, changes: ClusterSnapshotChanges, now: float) -> ObservedHeadroom:
        """Apply changes, and observe."""
        self.update(changes)
        observed = observe_headroom(self._snapshot, self._memory, now, self._settings)
        self._memory = observed.memory
        return observed
