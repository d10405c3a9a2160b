"""The scale-up plan: which nodes to order, as one function of the snapshot.

What is booked for ProvisioningRequests keeps its place. Then come real pods, then requests to be tried, then the
chunks of Buffers. Each is placed on ready nodes, then on upcoming nodes, and nodes are ordered for the rest. Groups
below their minimum size come last. Pods and chunks that no order helps get the reason.

    plan = plan_scale_up(snapshot, memory, now, settings)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import numpy as np

from trellis.base.reasons import DetailedReason, Reason
from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import Demand, find_unfit_nodes
from trellis.core.nodes.buffers.hits_and_misses import ChunkHits, NodePrices, count_misses
from trellis.core.nodes.provisioning.attempts import RequestAttempt, try_requests
from trellis.core.nodes.provisioning.bookings import BookedPlacement, list_booked_placements, place_bookings
from trellis.core.nodes.provisioning.decisions import RequestPlacements, decide_requests
from trellis.core.nodes.provisioning.gang_attempts import try_gang
from trellis.core.nodes.scale_up.decisions import (
    BUFFER_AWAITS_NODES,
    BUFFER_NEEDS_NOTHING,
    BUFFER_NODES_ORDERED,
    BUFFER_PROVISIONED,
    FOR_BUFFERS,
    FOR_MINIMUM,
    FOR_PODS,
    FOR_REQUESTS,
    GROUPS_EXHAUSTED,
    INTER_POD_RULES_UNSATISFIABLE,
    NO_GROUP_FITS,
    NODE_ORDERED,
    POD_AWAITS_NODE,
    POD_CONSUMES_REQUEST,
    POD_FITS,
    BufferDecision,
    GroupsRefusal,
    NodeOrder,
    PendingPodsDecision,
    ReleaseFailedInstance,
    ScaleUpPlan,
)
from trellis.core.nodes.scale_up.estimator import NodeEstimator, UnplacedPods
from trellis.core.nodes.scale_up.expanders import find_similar_groups, get_expanders
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory, UnconfirmedOrder
from trellis.core.nodes.scale_up.view import ScaleUpLimits, ScaleUpView, build_scale_up_view, fill_to_minimum_sizes
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.placement import (
    NodePlaces,
    PodEquivalenceGroup,
    assign_nodes,
    build_equivalence_groups,
    place_chunks,
    resolve_claim_conflicts,
    restore_places,
)
from trellis.core.nodes.state.pods import BufferChunks, PendingPod, sort_for_placement
from trellis.core.nodes.state.replacements import (
    RESIZE_AWAITS_NODE,
    RESIZE_FITS_ELSEWHERE,
    RESIZE_WITHOUT_EVICTION,
)
from trellis.core.nodes.state.simulation import (
    ClusterSimulation,
    NodeTemplates,
    count_pods_per_new_node,
    simulate_cluster,
)
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.nodes.state.upcoming_nodes import ORDER_LOST
from trellis.core.usage.columns import IntColumn

_BY_REQUEST: Final = DetailedReason(POD_CONSUMES_REQUEST)


def plan_scale_up(
    snapshot: ClusterSnapshot, memory: ScaleUpMemory, now: float, settings: ScaleUpSettings
) -> ScaleUpPlan:
    """Plan a scale-up. The snapshot stays as it is, except that the arrivals of pods are popped."""
    view = build_scale_up_view(snapshot, memory, now, settings)
    # Before rows are added, because limits count the existing nodes.
    limits = ScaleUpLimits(view)
    with simulate_cluster(snapshot, view.readiness, view.templates) as simulation:
        simulation.add_upcoming_nodes(view.upcoming)
        return build_scale_up_plan(view, memory, simulation, _place_all(view, memory, simulation, limits))


def place_pods_and_chunks(
    view: ScaleUpView, memory: ScaleUpMemory, simulation: ClusterSimulation
) -> tuple[list[PendingPodsPlacement], list[ChunksPlacement]]:
    """Place what is booked, pending pods and replacements, then chunks of Buffers, on ready and upcoming nodes."""
    place_bookings(simulation, view.requests, memory.chunk_nodes)
    return _place_pods_and_replacements(view, memory, simulation), _place_buffers(view, memory, simulation)


def _place_pods_and_replacements(
    view: ScaleUpView, memory: ScaleUpMemory, simulation: ClusterSimulation
) -> list[PendingPodsPlacement]:
    """Place pending pods, then replacements of pods whose resizes do not fit on their nodes."""
    return [
        *_place_pending_pods(view, memory, simulation),
        *_place_pods(view, memory, simulation, view.resizes.pods),
    ]


def _place_pending_pods(
    view: ScaleUpView, memory: ScaleUpMemory, simulation: ClusterSimulation
) -> list[PendingPodsPlacement]:
    """Place pending pods, those with booked capacity first. Pods of a request that waits, and gangs, get no place."""
    gangs = {pod.key for gang in view.gangs for pod in gang.pods}
    pods = [
        pod
        for pod in resolve_claim_conflicts(view.snapshot.pending.values(), simulation)
        if not gangs or pod.key not in gangs
    ]
    booked, waiting = (view.requests.list_consumers(booked=is_booked) for is_booked in (True, False))
    if not booked and not waiting:
        return _place_pods(view, memory, simulation, pods)
    consumers = _place_pods(view, memory, simulation, [pod for pod in pods if pod.key in booked])
    without_place = build_equivalence_groups((pod for pod in pods if pod.key in waiting), view.largest_node)
    others = [pod for pod in pods if pod.key not in booked and pod.key not in waiting]
    return [
        *(msgspec.structs.replace(placement, held_back=_BY_REQUEST) for placement in consumers),
        *(
            PendingPodsPlacement(group, NodePlaces(), UnplacedPods(group.demand, len(group.pods)), _BY_REQUEST)
            for group in without_place
        ),
        *_place_pods(view, memory, simulation, others),
    ]


def _place_pods(
    view: ScaleUpView, memory: ScaleUpMemory, simulation: ClusterSimulation, pods: Iterable[PendingPod]
) -> list[PendingPodsPlacement]:
    groups = build_equivalence_groups(pods, view.largest_node)
    # Pods keep the upcoming node that was ordered for them before others are placed.
    previous_by_group = [
        [memory.pod_nodes.get(pod.uid, "") for pod in group.pods] if memory.pod_nodes else () for group in groups
    ]
    existing_nodes = np.concatenate((simulation.ready, simulation.upcoming))
    restored_by_group = [
        restore_places(simulation, simulation.running, group.demand, previous_nodes, existing_nodes, len(group.pods))
        for group, previous_nodes in zip(groups, previous_by_group, strict=True)
    ]
    return [
        _place_group(simulation, group, restored) for group, restored in zip(groups, restored_by_group, strict=True)
    ]


def _place_buffers(view: ScaleUpView, memory: ScaleUpMemory, simulation: ClusterSimulation) -> list[ChunksPlacement]:
    buffers = sort_for_placement(view.snapshot.buffers.values())
    return [
        ChunksPlacement(chunks, places, UnplacedPods(chunks.demand, chunks.count - places.count))
        for chunks, places in zip(buffers, place_chunks(simulation, buffers, memory.chunk_nodes), strict=True)
    ]


def _place_all(
    view: ScaleUpView, memory: ScaleUpMemory, simulation: ClusterSimulation, limits: ScaleUpLimits
) -> ScaleUpPlacement:
    booked = list_booked_placements(place_bookings(simulation, view.requests, memory.chunk_nodes))
    pending_pods = _place_pods_and_replacements(view, memory, simulation)
    similar = find_similar_groups([state.group for state in view.templates.states])
    balanced = similar if view.settings.balance_similar_node_groups else None
    estimator = NodeEstimator(simulation, limits, get_expanders(view.settings.expanders), balanced)
    # Chunks come after gangs and requests, whose attempts need to know which nodes are ordered for other pods.
    has_attempts = bool(view.gangs or view.requests.due)
    buffers = [] if has_attempts else _place_buffers(view, memory, simulation)
    estimator.place_on_new_nodes(
        _select_unplaced(
            placement.unplaced
            for placement in pending_pods
            if placement.group.needs_node and placement.held_back is None
        ),
        simulation.running,
    )
    attempts: list[RequestAttempt] = []
    if has_attempts:
        explain = partial(_describe_refusals, view.templates, limits)
        for gang in view.gangs:
            placed = try_gang(gang, view.largest_node, simulation, estimator, explain)
            pending_pods += [
                PendingPodsPlacement(part.group, part.places, part.unplaced, part.refusal) for part in placed
            ]
        attempts = try_requests(view, simulation, estimator, explain)
        buffers = _place_buffers(view, memory, simulation)
    estimator.place_on_new_nodes(
        _select_unplaced(placement.unplaced for placement in buffers if placement.chunks.on_top), simulation.running
    )
    estimator.place_on_new_nodes(
        _select_unplaced(placement.unplaced for placement in buffers if not placement.chunks.on_top), simulation.fixed
    )
    return ScaleUpPlacement(
        pending_pods,
        buffers,
        limits,
        fill_to_minimum_sizes(view, simulation, limits),
        RequestPlacements(tuple(booked), tuple(attempts)),
    )


def _place_group(
    simulation: ClusterSimulation, group: PodEquivalenceGroup, restored: IntColumn
) -> PendingPodsPlacement:
    """Place pods on ready nodes, then on upcoming ones."""
    count = len(group.pods) - len(restored)
    ready = simulation.place(simulation.running, group.demand, count, simulation.ready)
    upcoming = simulation.place(simulation.running, group.demand, count - len(ready), simulation.upcoming)
    is_ready = simulation.build_mask(simulation.ready)[restored]
    places = NodePlaces(np.concatenate((restored[is_ready], ready)), np.concatenate((restored[~is_ready], upcoming)))
    return PendingPodsPlacement(group, places, UnplacedPods(group.demand, len(group.pods) - places.count))


def _select_unplaced(needs: Iterable[UnplacedPods]) -> list[UnplacedPods]:
    return [pods for pods in needs if pods.count]


class PendingPodsPlacement(msgspec.Struct, frozen=True):
    """The places of equal pending pods, and the rest that fits on no existing or upcoming node.

    `held_back` is why no node is ordered for the rest: a ProvisioningRequest provides it, or too few of a gang fit.
    """

    group: PodEquivalenceGroup
    places: NodePlaces
    unplaced: UnplacedPods
    held_back: DetailedReason | None = None


class ChunksPlacement(msgspec.Struct, frozen=True):
    """The places of the chunks of a Buffer, and the rest."""

    chunks: BufferChunks
    places: NodePlaces
    unplaced: UnplacedPods


class ScaleUpPlacement(msgspec.Struct, frozen=True):
    """All placements of a plan; `notes` are about groups below their minimum size."""

    pending_pods: Sequence[PendingPodsPlacement]
    chunks: Sequence[ChunksPlacement]
    limits: ScaleUpLimits
    notes: Mapping[str, DetailedReason] = {}
    requests: RequestPlacements = RequestPlacements()


def explain_group_refusals(
    templates: NodeTemplates, limits: ScaleUpLimits, demand: Demand
) -> tuple[DetailedReason, tuple[GroupsRefusal, ...]]:
    """The reason for pods that no group can take, and the refusals of the groups; equal refusals are one."""
    names = templates.names
    able = count_pods_per_new_node(templates, demand) > 0
    allowed = limits.count_allowed_nodes_by_group() > 0
    unfit_groups: dict[tuple[Reason, str], list[int]] = {}
    for unfit in find_unfit_nodes(templates.table, demand, templates.used):
        unfit_groups.setdefault((unfit.reason, unfit.resource), []).extend(np.flatnonzero(unfit.nodes & ~able).tolist())
    for group in np.flatnonzero(able).tolist():
        reason = INTER_POD_RULES_UNSATISFIABLE if allowed[group] else limits.explain_limit(group).reason
        unfit_groups.setdefault((reason, ""), []).append(group)
    refusals = tuple(
        GroupsRefusal(reason, tuple(names[group] for group in sorted(groups)), resource)
        for (reason, resource), groups in unfit_groups.items()
        if groups
    )
    return _choose_refusal_reason(bool(able.any()), bool((able & ~allowed).any())), refusals


def _describe_refusals(templates: NodeTemplates, limits: ScaleUpLimits, demand: Demand) -> str:
    reason, refusals = explain_group_refusals(templates, limits, demand)
    return "; ".join((str(reason), *map(str, refusals)))


def _choose_refusal_reason(fits_somewhere: bool, is_limited: bool) -> DetailedReason:
    if not fits_somewhere:
        return DetailedReason(NO_GROUP_FITS)
    return DetailedReason(GROUPS_EXHAUSTED if is_limited else INTER_POD_RULES_UNSATISFIABLE)


def build_scale_up_plan(
    view: ScaleUpView, memory: ScaleUpMemory, simulation: ClusterSimulation, placement_result: ScaleUpPlacement
) -> ScaleUpPlan:
    orders = tuple(_build_orders(view, simulation, placement_result))
    needing_node = [placement for placement in placement_result.pending_pods if placement.group.needs_node]
    unschedulable = [placement for placement in needing_node if not placement.group.replaces]
    missing = [
        (placement.group, len(placement.group.pods) - len(placement.places.ready))
        for placement in unschedulable
        if placement.held_back is None
    ]
    on_top = [placement.chunks for placement in placement_result.chunks if placement.chunks.on_top]
    missed, uids = count_misses([pods for pods in missing if pods[1]], on_top, memory.missed_pods)
    builder = _DecisionBuilder(view, memory, simulation, placement_result, missed)
    buffers = tuple(builder.decide_buffer(placement) for placement in placement_result.chunks)
    pods = (*(builder.decide_pods(placement) for placement in unschedulable), *_list_left_alone(view))
    requests, request_memories = decide_requests(view.requests, placement_result.requests, simulation)
    for placement in placement_result.requests.list_all():
        builder.record_booking(placement)
    resizes = tuple(builder.decide_pods(placement) for placement in needing_node if placement.group.replaces)
    unconfirmed_orders = {order.group: _build_unconfirmed_order(view, order) for order in orders}
    group_failures = {failure.group: failure for failure in view.upcoming.failures if not failure.instance}
    memory_after = ScaleUpMemory(
        backoffs=view.backoffs,
        unconfirmed_orders={**view.upcoming.unconfirmed_orders, **unconfirmed_orders},
        missing_since=view.upcoming.missing_since,
        chunk_nodes=builder.chunk_nodes,
        pod_nodes=builder.pod_nodes,
        provisioned_at={
            decision.uid: decision.provisioned_at for decision in buffers if decision.provisioned_at is not None
        },
        vacated_nodes=builder.vacated_nodes,
        missed_pods=uids,
        requests=request_memories,
    )
    return ScaleUpPlan(
        orders=orders,
        releases=tuple(
            ReleaseFailedInstance(failure.group, failure.instance, failure.reason)
            for failure in view.upcoming.failures
            if failure.instance
        ),
        pods=pods,
        buffers=buffers,
        # A failure without an instance to release is reported nowhere else.
        notes={
            **view.templates.notes,
            **placement_result.notes,
            **{name: failure.reason for name, failure in group_failures.items()},
        },
        memory=memory_after,
        requeue_at=_find_requeue_time(view, view.requests.find_next_change(request_memories, view.now)),
        lost={
            name: failure.failed_at for name, failure in group_failures.items() if failure.reason.reason is ORDER_LOST
        },
        requests=requests,
        resizes=(*resizes, *_decide_without_eviction(view)),
    )


def _decide_without_eviction(view: ScaleUpView) -> Iterable[PendingPodsDecision]:
    if view.resizes.without_eviction:
        yield PendingPodsDecision(view.resizes.without_eviction, DetailedReason(RESIZE_WITHOUT_EVICTION))


def _list_left_alone(view: ScaleUpView) -> Iterator[PendingPodsDecision]:
    """The decisions about pods whose resource claims are not modelled: one for all that have the same reason."""
    keys_by_reason: dict[DetailedReason, list[ObjectKey]] = {}
    for key, pod in view.snapshot.left_alone.items():
        if pod.is_unschedulable:
            keys_by_reason.setdefault(pod.reason, []).append(key)
    for reason, keys in sorted(keys_by_reason.items(), key=lambda item: min(item[1])):
        yield PendingPodsDecision(tuple(sorted(keys)), reason, unplaced=len(keys))


class _DecisionBuilder:
    """Builds decisions from placements, and the memory of them."""

    def __init__(
        self,
        view: ScaleUpView,
        memory: ScaleUpMemory,
        simulation: ClusterSimulation,
        placement_result: ScaleUpPlacement,
        missed: Counter[str],
    ) -> None:
        self._view = view
        self._memory = memory
        self._simulation = simulation
        self._limits = placement_result.limits
        self._missed = missed
        expected = [
            name
            for placement in placement_result.pending_pods
            if not placement.group.replaces
            for name in simulation.get_names(placement.places.ready)
        ]
        self._hits = ChunkHits(view.snapshot.pop_arrivals(), expected)
        self._prices = NodePrices(view, simulation)
        self._new = simulation.build_mask(simulation.new)
        self.chunk_nodes: dict[str, tuple[str, ...]] = {}
        self.pod_nodes: dict[str, str] = {}
        self.vacated_nodes: dict[str, tuple[str, ...]] = {}

    def decide_pods(self, placement: PendingPodsPlacement) -> PendingPodsDecision:
        new, upcoming = self._split_places(placement.unplaced, placement.places)
        previous_nodes = [self._memory.pod_nodes.get(pod.uid, "") for pod in placement.group.pods]
        assigned = assign_nodes(
            previous_nodes,
            self._simulation.get_names(_join_places(placement.places, placement.unplaced)),
            len(previous_nodes),
        )
        self.pod_nodes.update((pod.uid, name) for pod, name in zip(placement.group.pods, assigned, strict=True) if name)
        has_node_ordered = len(placement.unplaced.places) > 0
        outcome: Reason = NODE_ORDERED if has_node_ordered else POD_AWAITS_NODE if upcoming else POD_FITS
        if placement.group.replaces:
            outcome = RESIZE_AWAITS_NODE if has_node_ordered or upcoming else RESIZE_FITS_ELSEWHERE
        reason, refused = self._explain_refusals(placement.unplaced, placement.group.demand, outcome)
        if placement.held_back is not None and placement.unplaced.count:
            reason, refused = placement.held_back, ()
        return PendingPodsDecision(
            pods=placement.group.keys,
            reason=reason,
            on_ready=len(placement.places.ready),
            on_upcoming=upcoming,
            ordered=self._count_ordered_by_group(new),
            unplaced=placement.unplaced.count,
            refused=refused,
        )

    def record_booking(self, placement: BookedPlacement) -> None:
        """Remember the nodes of booked pods."""
        uid, names = placement.pods.uid, self._simulation.get_names(placement.numbers)
        self.chunk_nodes[uid] = assign_nodes(self._memory.chunk_nodes.get(uid, ()), names, placement.pods.count)

    def decide_buffer(self, placement: ChunksPlacement) -> BufferDecision:
        chunks, places, unplaced = placement.chunks, placement.places, placement.unplaced
        new, upcoming = self._split_places(unplaced, places)
        previous_nodes = self._memory.chunk_nodes.get(chunks.uid, ())
        assigned = self.chunk_nodes[chunks.uid] = assign_nodes(
            previous_nodes, self._simulation.get_names(_join_places(places, unplaced)), chunks.count
        )
        ready = set(self._simulation.get_names(np.unique(places.ready)))
        nodes = tuple(name if name in ready else "" for name in assigned)
        hits = self._count_hits(chunks, previous_nodes, nodes) if chunks.on_top else 0
        is_provisioned = len(places.ready) == chunks.count
        if is_provisioned:
            outcome = BUFFER_PROVISIONED if chunks.count else BUFFER_NEEDS_NOTHING
        else:
            outcome = BUFFER_NODES_ORDERED if len(unplaced.places) else BUFFER_AWAITS_NODES
        reason, refused = self._explain_refusals(unplaced, chunks.demand, outcome)
        return BufferDecision(
            key=chunks.key,
            uid=chunks.uid,
            reason=reason,
            chunks=chunks.count,
            on_ready=len(places.ready),
            on_upcoming=upcoming,
            ordered=self._count_ordered_by_group(new),
            unplaced=unplaced.count,
            refused=refused,
            nodes=nodes,
            hits=hits,
            misses=self._missed[chunks.uid],
            price=self._prices.compute_price(chunks.demand, _join_places(places, unplaced)),
            provisioned_at=self._view.now if is_provisioned else self._memory.provisioned_at.get(chunks.uid),
        )

    def _count_hits(self, chunks: BufferChunks, previous_nodes: Sequence[str], nodes: Sequence[str]) -> int:
        hits, vacated = self._hits.count_hits((*previous_nodes, *self._memory.vacated_nodes.get(chunks.uid, ())), nodes)
        if vacated:
            self.vacated_nodes[chunks.uid] = vacated
        return hits

    def _explain_refusals(
        self, unplaced: UnplacedPods, demand: Demand, outcome: Reason
    ) -> tuple[DetailedReason, tuple[GroupsRefusal, ...]]:
        if not unplaced.count:
            return DetailedReason(outcome), ()
        return explain_group_refusals(self._view.templates, self._limits, demand)

    def _split_places(self, unplaced: UnplacedPods, places: NodePlaces) -> tuple[IntColumn, int]:
        """The places on new nodes, and the number of pods that are pending until upcoming nodes are ready.

        A pod that fits on an existing node only once others are placed counts among these.
        """
        is_new = self._new[unplaced.places]
        return unplaced.places[is_new], len(places.upcoming) + len(unplaced.places) - int(np.count_nonzero(is_new))

    def _count_ordered_by_group(self, new: IntColumn) -> dict[str, int]:
        names = self._view.templates.names
        counts = np.bincount(self._simulation.get_groups(new)) if len(new) else new
        return {names[group]: int(counts[group]) for group in np.flatnonzero(counts).tolist()}


def _join_places(places: NodePlaces, unplaced: UnplacedPods) -> IntColumn:
    return np.concatenate((places.ready, places.upcoming, unplaced.places))


def _build_orders(
    view: ScaleUpView, simulation: ClusterSimulation, placement_result: ScaleUpPlacement
) -> Iterable[NodeOrder]:
    pods, chunks = (
        _find_groups_serving(simulation, placements)
        for placements in (placement_result.pending_pods, placement_result.chunks)
    )
    requests = {name for attempt in placement_result.requests.attempts for name in attempt.memory.groups}
    for group, count in simulation.count_new_nodes().items():
        name = view.templates.states[group].group.name
        for_others = FOR_BUFFERS if group in chunks else FOR_MINIMUM
        reason = DetailedReason(FOR_PODS if group in pods else FOR_REQUESTS if name in requests else for_others)
        yield NodeOrder(name, count, view.get_target(name) + count, reason)


def _build_unconfirmed_order(view: ScaleUpView, order: NodeOrder) -> UnconfirmedOrder:
    unconfirmed = view.upcoming.unconfirmed_orders.get(order.group)
    return UnconfirmedOrder(order.target, view.now, unconfirmed.released if unconfirmed is not None else ())


def _find_groups_serving(
    simulation: ClusterSimulation, placements: Sequence[PendingPodsPlacement] | Sequence[ChunksPlacement]
) -> set[int]:
    """The groups whose new nodes are meant for some of these pods or chunks."""
    places = [placement.unplaced.places for placement in placements if len(placement.unplaced.places)]
    assigned = np.concatenate(places) if places else simulation.new[:0]
    return set(np.unique(simulation.get_groups(assigned[simulation.build_mask(simulation.new)[assigned]])).tolist())


def _find_requeue_time(view: ScaleUpView, next_request_change: float | None) -> float | None:
    times = [backoff.until for backoff in view.backoffs.values() if backoff.until > view.now]
    times += [time for time in (view.upcoming.requeue_at, next_request_change) if time is not None]
    return min(times, default=None)
