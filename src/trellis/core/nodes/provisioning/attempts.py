"""Attempts to provide the capacity of ProvisioningRequests, for all pods of a request or for none.

Requests are tried one after the other, the oldest first. A check-capacity request has to fit on ready nodes. For a
best-effort-atomic-scale-up request, nodes are ordered for the pods that fit on no existing or upcoming node. What was
found is booked at once, so that no later request counts on it. An attempt that fails leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from trellis.base.reasons import DetailedReason
from trellis.base.wording import pluralize
from trellis.core.fit import Demand
from trellis.core.nodes.provisioning.bookings import BookedPlacement
from trellis.core.nodes.provisioning.lifecycle import (
    CAPACITY_IS_FOUND,
    CAPACITY_IS_NOT_FOUND,
    CAPACITY_IS_PROVISIONED,
    ObservedRequest,
    RequestMemory,
    RequestPhase,
    record_attempt_failed,
)
from trellis.core.nodes.provisioning.requests import BookedPods, ProvisioningClass
from trellis.core.nodes.scale_up.estimator import NodeEstimator, UnplacedPods
from trellis.core.nodes.scale_up.tentative_placement import TentativePlacement
from trellis.core.nodes.scale_up.view import ScaleUpView
from trellis.core.nodes.state.placement import compute_relative_size
from trellis.core.nodes.state.pods import depends_on_other_pods
from trellis.core.nodes.state.simulation import ClusterSimulation

# Explains why no group has nodes for a demand.
ExplainRefusal = Callable[[Demand], str]


class RequestAttempt(msgspec.Struct, frozen=True):
    """The outcome of an attempt. If it failed, it has no placements."""

    observed: ObservedRequest
    memory: RequestMemory
    placements: tuple[BookedPlacement, ...] = ()


def try_requests(
    view: ScaleUpView, simulation: ClusterSimulation, estimator: NodeEstimator, explain: ExplainRefusal
) -> list[RequestAttempt]:
    """Try all requests that are due."""
    return [_try_request(observed, view, simulation, estimator, explain) for observed in view.requests.due]


def _try_request(
    observed: ObservedRequest,
    view: ScaleUpView,
    simulation: ClusterSimulation,
    estimator: NodeEstimator,
    explain: ExplainRefusal,
) -> RequestAttempt:
    is_atomic = observed.request.provisioning_class is ProvisioningClass.BEST_EFFORT_ATOMIC_SCALE_UP
    nodes = np.concatenate((simulation.ready, simulation.upcoming)) if is_atomic else simulation.ready
    pod_sets = _sort_pod_sets(observed.remaining, view.largest_node)
    tentative = TentativePlacement(simulation, estimator)
    existing = [tentative.place(pods.demand, pods.count, nodes) for pods in pod_sets]
    unplaced = [
        UnplacedPods(pods.demand, pods.count - len(numbers)) for pods, numbers in zip(pod_sets, existing, strict=True)
    ]
    if is_atomic:
        tentative.place_on_new_nodes(unplaced)
    if any(pods.count for pods in unplaced):
        reason = _explain_failure(observed, unplaced, explain if is_atomic else None)
        tentative.undo()
        return RequestAttempt(observed, _record_failure(observed, reason, view))
    placements = tuple(
        BookedPlacement(pods, np.concatenate((numbers, rest.places)))
        for pods, numbers, rest in zip(pod_sets, existing, unplaced, strict=True)
    )
    groups = _list_groups_to_order(placements, simulation)
    memory = RequestMemory(
        RequestPhase.BOOKED,
        view.now,
        DetailedReason(CAPACITY_IS_PROVISIONED if groups else CAPACITY_IS_FOUND),
        observed.memory.backoff_seconds if observed.memory is not None else 0.0,
        groups,
    )
    return RequestAttempt(observed, memory, placements)


def _list_groups_to_order(placements: Sequence[BookedPlacement], simulation: ClusterSimulation) -> tuple[str, ...]:
    """The groups with new nodes among the places."""
    numbers = np.concatenate([placement.numbers for placement in placements]) if placements else simulation.new[:0]
    new = numbers[simulation.build_mask(simulation.new)[numbers]]
    names = simulation.templates.names
    return tuple(names[group] for group in np.unique(simulation.get_groups(new)).tolist())


def _sort_pod_sets(pod_sets: Sequence[BookedPods], largest_node: tuple[float, float]) -> list[BookedPods]:
    """Sets with constraints first, then the largest, so that those that fit anywhere take what is left."""
    return sorted(
        pod_sets,
        key=lambda pods: (
            not (pods.demand.selector or pods.demand.node_affinity or depends_on_other_pods(pods.demand)),
            -compute_relative_size(pods.demand, largest_node),
            pods.uid,
        ),
    )


def _explain_failure(
    observed: ObservedRequest, unplaced: Sequence[UnplacedPods], explain: ExplainRefusal | None
) -> DetailedReason:
    missing = sum(pods.count for pods in unplaced)
    text = f"{missing} of {pluralize(observed.request.pod_count, 'pod')} fit on no node"
    if explain is not None:
        text += f": {explain(next(pods.demand for pods in unplaced if pods.count))}"
    return DetailedReason(CAPACITY_IS_NOT_FOUND, text)


def _record_failure(observed: ObservedRequest, reason: DetailedReason, view: ScaleUpView) -> RequestMemory:
    if not observed.request.is_retried and observed.request.provisioning_class is ProvisioningClass.CHECK_CAPACITY:
        return RequestMemory(RequestPhase.FAILED, view.now, reason)
    return record_attempt_failed(observed.memory, reason, view.now, view.settings)
