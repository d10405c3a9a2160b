"""Builds the scale-up plan from placements: orders, decisions with reasons, and what to remember."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from trellis.base.reasons import DetailedReason, Reason
from trellis.core.fit import Demand, find_unfit_nodes
from trellis.core.nodes.buffers.effectiveness import ChunkHits, NodePrices, count_misses
from trellis.core.nodes.buffers.placement import NodePlaces, assign_nodes_to_chunks
from trellis.core.nodes.buffers.virtual_pods import BufferChunks
from trellis.core.nodes.scale_up.decisions import (
    BUFFER_AWAITS_NODES,
    BUFFER_NEEDS_NOTHING,
    BUFFER_NODES_ORDERED,
    BUFFER_PROVISIONED,
    FOR_BUFFERS,
    FOR_MINIMUM,
    FOR_PODS,
    GROUPS_EXHAUSTED,
    NO_GROUP_FITS,
    NODE_ORDERED,
    NOT_BESIDE_OTHERS,
    POD_AWAITS_NODE,
    POD_HAS_ROOM,
    BufferDecision,
    GroupsRefusal,
    NodeOrder,
    PendingPodsDecision,
    ReleaseFailedInstance,
    ScaleUpPlan,
)
from trellis.core.nodes.scale_up.estimator import UnplacedPods
from trellis.core.nodes.scale_up.limits import ScaleUpLimits
from trellis.core.nodes.scale_up.memory import ScaleUpMemory, UnconfirmedOrder
from trellis.core.nodes.scale_up.view import ScaleUpView
from trellis.core.nodes.state.node_templates import NodeTemplates, pods_per_new_node
from trellis.core.nodes.state.pending_pods import PodEquivalenceGroup
from trellis.core.nodes.state.simulation import ClusterSimulation
from trellis.core.nodes.state.upcoming_nodes import ORDER_LOST
from trellis.core.usage.columns import IntColumn


class PendingPodsPlacement(msgspec.Struct, frozen=True):
    """Pods that wait: where they have room, and what was ordered for the others."""

    group: PodEquivalenceGroup
    seats: NodePlaces
    need: UnplacedPods


class ChunksPlacement(msgspec.Struct, frozen=True):
    """The chunks of a Buffer: the same."""

    chunks: BufferChunks
    seats: NodePlaces
    need: UnplacedPods


class ScaleUpPlacement(msgspec.Struct, frozen=True):
    """All that was found; `notes` are about groups that have fewer nodes than they are to have."""

    waiting: Sequence[PendingPodsPlacement]
    kept: Sequence[ChunksPlacement]
    limits: ScaleUpLimits
    notes: Mapping[str, DetailedReason] = {}


def explain_group_refusals(
    templates: NodeTemplates, limits: ScaleUpLimits, demand: Demand
) -> tuple[DetailedReason, tuple[GroupsRefusal, ...]]:
    """What to say of pods that no group could take, and why of each group; those that fail alike are told together."""
    names = templates.names
    able = pods_per_new_node(templates, demand) > 0
    allowed = limits.rooms() > 0
    unfit_groups: dict[tuple[Reason, str], list[int]] = {}
    for unfit in find_unfit_nodes(templates.table, demand, templates.used):
        unfit_groups.setdefault((unfit.reason, unfit.resource), []).extend(np.flatnonzero(unfit.nodes & ~able).tolist())
    for group in np.flatnonzero(able).tolist():
        reason = NOT_BESIDE_OTHERS if allowed[group] else limits.why_none(group).reason
        unfit_groups.setdefault((reason, ""), []).append(group)
    refusals = tuple(
        GroupsRefusal(reason, tuple(names[group] for group in sorted(groups)), resource)
        for (reason, resource), groups in unfit_groups.items()
        if groups
    )
    return _refusal_reason(bool(able.any()), bool((able & ~allowed).any())), refusals


def _refusal_reason(fits_somewhere: bool, is_limited: bool) -> DetailedReason:
    if not fits_somewhere:
        return DetailedReason(NO_GROUP_FITS)
    return DetailedReason(GROUPS_EXHAUSTED if is_limited else NOT_BESIDE_OTHERS)


def build_scale_up_plan(
    view: ScaleUpView, memory: ScaleUpMemory, simulation: ClusterSimulation, decided: ScaleUpPlacement
) -> ScaleUpPlan:
    orders = tuple(_orders(view, simulation, decided))
    wanted = [placement for placement in decided.waiting if placement.group.is_wanted]
    missing = [(placement.group, len(placement.group.pods) - len(placement.seats.ready)) for placement in wanted]
    on_top = [placement.chunks for placement in decided.kept if placement.chunks.on_top]
    missed, uids = count_misses([pods for pods in missing if pods[1]], on_top, memory.missed_pods)
    teller = _DecisionBuilder(view, memory, simulation, decided, missed)
    buffers = tuple(teller.buffer(placement) for placement in decided.kept)
    pods = tuple(teller.pods(placement) for placement in wanted)
    promised = {order.group: _unconfirmed(view, order) for order in orders}
    ended = {failure.group: failure for failure in view.coming.failures if not failure.instance}
    remembered = ScaleUpMemory(
        backoffs=view.backoffs,
        unconfirmed_orders={**view.coming.promises, **promised},
        missing_since=view.coming.missing,
        chunk_nodes=teller.seats,
        pod_nodes=teller.places,
        provisioned_at={
            decision.uid: decision.provisioned_at for decision in buffers if decision.provisioned_at is not None
        },
        vacated_nodes=teller.left,
        missed_pods=uids,
    )
    return ScaleUpPlan(
        orders=orders,
        releases=tuple(
            ReleaseFailedInstance(failure.group, failure.instance, failure.said)
            for failure in view.coming.failures
            if failure.instance
        ),
        pods=pods,
        buffers=buffers,
        # A failure without an instance to release is reported nowhere else.
        notes={**view.templates.notes, **decided.notes, **{name: failure.said for name, failure in ended.items()}},
        memory=remembered,
        requeue_at=_next_look(view),
        lost={name: failure.at for name, failure in ended.items() if failure.said.reason is ORDER_LOST},
    )


class _DecisionBuilder:
    """Puts into words what was found."""

    def __init__(
        self,
        view: ScaleUpView,
        memory: ScaleUpMemory,
        simulation: ClusterSimulation,
        decided: ScaleUpPlacement,
        missed: Counter[str],
    ) -> None:
        self._seen = view
        self._memory = memory
        self._tried = simulation
        self._limits = decided.limits
        self._missed = missed
        expected = [name for placement in decided.waiting for name in simulation.names(placement.seats.ready)]
        self._hits = ChunkHits(view.snapshot.take_arrivals(), expected)
        self._prices = NodePrices(view, simulation)
        self._new = simulation.mask(simulation.new)
        # What is meant for whom, to be remembered.
        self.seats: dict[str, tuple[str, ...]] = {}
        self.places: dict[str, str] = {}
        self.left: dict[str, tuple[str, ...]] = {}

    def pods(self, placement: PendingPodsPlacement) -> PendingPodsDecision:
        new, coming = self._split(placement.need, placement.seats)
        before = [self._memory.pod_nodes.get(pod.uid, "") for pod in placement.group.pods]
        meant = assign_nodes_to_chunks(
            before, self._tried.names(_all_places(placement.seats, placement.need)), len(before)
        )
        self.places.update((pod.uid, name) for pod, name in zip(placement.group.pods, meant, strict=True) if name)
        outcome: Reason = NODE_ORDERED if len(placement.need.places) else POD_AWAITS_NODE if coming else POD_HAS_ROOM
        reason, refused = self._refused(placement.need, placement.group.demand, outcome)
        return PendingPodsDecision(
            pods=placement.group.keys,
            reason=reason,
            on_ready=len(placement.seats.ready),
            on_upcoming=coming,
            ordered=self._ordered(new),
            unplaced=placement.need.left,
            refused=refused,
        )

    def buffer(self, placement: ChunksPlacement) -> BufferDecision:
        chunks, seats, need = placement.chunks, placement.seats, placement.need
        new, coming = self._split(need, seats)
        before = self._memory.chunk_nodes.get(chunks.uid, ())
        meant = self.seats[chunks.uid] = assign_nodes_to_chunks(
            before, self._tried.names(_all_places(seats, need)), chunks.count
        )
        ready = set(self._tried.names(np.unique(seats.ready)))
        nodes = tuple(name if name in ready else "" for name in meant)
        hits = self._hits_of(chunks, before, nodes) if chunks.on_top else 0
        is_full = len(seats.ready) == chunks.count
        if is_full:
            outcome = BUFFER_PROVISIONED if chunks.count else BUFFER_NEEDS_NOTHING
        else:
            outcome = BUFFER_NODES_ORDERED if len(need.places) else BUFFER_AWAITS_NODES
        reason, refused = self._refused(need, chunks.demand, outcome)
        return BufferDecision(
            key=chunks.key,
            uid=chunks.uid,
            reason=reason,
            chunks=chunks.count,
            on_ready=len(seats.ready),
            on_upcoming=coming,
            ordered=self._ordered(new),
            unplaced=need.left,
            refused=refused,
            nodes=nodes,
            hits=hits,
            misses=self._missed[chunks.uid],
            price=self._prices.of(chunks.demand, _all_places(seats, need)),
            provisioned_at=self._seen.now if is_full else self._memory.provisioned_at.get(chunks.uid),
        )

    def _hits_of(self, chunks: BufferChunks, before: Sequence[str], nodes: Sequence[str]) -> int:
        hits, left = self._hits.take((*before, *self._memory.vacated_nodes.get(chunks.uid, ())), nodes)
        if left:
            self.left[chunks.uid] = left
        return hits

    def _refused(
        self, need: UnplacedPods, demand: Demand, outcome: Reason
    ) -> tuple[DetailedReason, tuple[GroupsRefusal, ...]]:
        if not need.left:
            return DetailedReason(outcome), ()
        return explain_group_refusals(self._seen.templates, self._limits, demand)

    def _split(self, need: UnplacedPods, seats: NodePlaces) -> tuple[IntColumn, int]:
        """The new nodes among the places of a need, and how many wait for any others.

        What fits a node that is there only once others have come, waits as well.
        """
        is_new = self._new[need.places]
        return need.places[is_new], len(seats.coming) + len(need.places) - int(np.count_nonzero(is_new))

    def _ordered(self, new: IntColumn) -> dict[str, int]:
        names = self._seen.templates.names
        counts = np.bincount(self._tried.groups_of(new)) if len(new) else new
        return {names[group]: int(counts[group]) for group in np.flatnonzero(counts).tolist()}


def _all_places(seats: NodePlaces, need: UnplacedPods) -> IntColumn:
    return np.concatenate((seats.ready, seats.coming, need.places))


def _orders(view: ScaleUpView, simulation: ClusterSimulation, decided: ScaleUpPlacement) -> Iterable[NodeOrder]:
    pods, chunks = (_groups_serving(simulation, needs) for needs in (decided.waiting, decided.kept))
    for group, count in simulation.orders().items():
        name = view.templates.states[group].group.name
        why = DetailedReason(FOR_PODS if group in pods else FOR_BUFFERS if group in chunks else FOR_MINIMUM)
        yield NodeOrder(name, count, view.target(name) + count, why)


def _unconfirmed(view: ScaleUpView, order: NodeOrder) -> UnconfirmedOrder:
    before = view.coming.promises.get(order.group)
    return UnconfirmedOrder(order.target, view.now, before.released if before is not None else ())


def _groups_serving(
    simulation: ClusterSimulation, placements: Sequence[PendingPodsPlacement] | Sequence[ChunksPlacement]
) -> set[int]:
    """The groups of which new nodes are meant for some of these."""
    places = [placement.need.places for placement in placements if len(placement.need.places)]
    meant = np.concatenate(places) if places else simulation.new[:0]
    return set(np.unique(simulation.groups_of(meant[simulation.mask(simulation.new)[meant]])).tolist())


def _next_look(view: ScaleUpView) -> float | None:
    moments = [backoff.until for backoff in view.backoffs.values() if backoff.until > view.now]
    if view.coming.next_look is not None:
        moments.append(view.coming.next_look)
    return min(moments, default=None)
