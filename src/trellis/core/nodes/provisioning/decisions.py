"""The decisions about ProvisioningRequests, and what is remembered of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from trellis.base.reasons import DetailedReason
from trellis.core.cluster.store import ObjectKey
from trellis.core.nodes.provisioning.attempts import RequestAttempt
from trellis.core.nodes.provisioning.bookings import BookedPlacement
from trellis.core.nodes.provisioning.lifecycle import RequestMemory, RequestPhase, RequestsView
from trellis.core.nodes.provisioning.requests import FAILED_TO_CREATE_PODS, POD_TEMPLATE_MISSING
from trellis.core.nodes.state.simulation import ClusterSimulation
from trellis.core.usage.columns import IntColumn


class ProvisioningDecision(msgspec.Struct, frozen=True):
    """The decision about one request, with the places that are booked for its pods that do not exist yet.

    `since` is when its phase began, `ordered` for how many pods nodes are ordered in this pass, by group.
    """

    key: ObjectKey
    uid: str
    phase: RequestPhase
    reason: DetailedReason
    since: float
    pods: int = 0
    on_ready: int = 0
    on_upcoming: int = 0
    ordered: dict[str, int] = {}

    @property
    def is_accepted(self) -> bool:
        """Whether its pods can be read."""
        return self.reason.reason not in {POD_TEMPLATE_MISSING, FAILED_TO_CREATE_PODS}


class RequestPlacements(msgspec.Struct, frozen=True):
    """The booked places of a pass, and its attempts."""

    booked: tuple[BookedPlacement, ...] = ()
    attempts: tuple[RequestAttempt, ...] = ()

    def list_all(self) -> list[BookedPlacement]:
        """The places of all booked pods, those of this pass last."""
        return [*self.booked, *(places for attempt in self.attempts for places in attempt.placements)]


def decide_requests(
    view: RequestsView, placements: RequestPlacements, simulation: ClusterSimulation
) -> tuple[tuple[ProvisioningDecision, ...], dict[str, RequestMemory]]:
    """The decision about each request, and what to remember, by its UID."""
    attempts = {attempt.observed.request.uid: attempt.memory for attempt in placements.attempts}
    numbers: dict[ObjectKey, list[IntColumn]] = {}
    for placement in placements.list_all():
        numbers.setdefault(placement.pods.key, []).append(placement.numbers)
    decisions: list[ProvisioningDecision] = []
    memories: dict[str, RequestMemory] = {}
    for observed in view.requests:
        request, memory = observed.request, attempts.get(observed.request.uid, observed.memory)
        # A request that is due in a pass without attempts.
        if memory is None:
            continue
        memories[request.uid] = memory
        places = numbers.get(request.key, [])
        on_ready, on_upcoming, ordered = _count_places(
            np.concatenate(places) if places else simulation.ready[:0], simulation
        )
        decisions.append(
            ProvisioningDecision(
                request.key,
                request.uid,
                memory.phase,
                memory.reason,
                memory.since,
                request.pod_count,
                on_ready,
                on_upcoming,
                ordered,
            )
        )
    return tuple(decisions), memories


def _count_places(numbers: IntColumn, simulation: ClusterSimulation) -> tuple[int, int, dict[str, int]]:
    """The number of places on ready nodes, on upcoming ones, and on nodes to be ordered, by group."""
    new = numbers[simulation.build_mask(simulation.new)[numbers]]
    on_ready = int(np.count_nonzero(simulation.build_mask(simulation.ready)[numbers]))
    groups, counts = np.unique(simulation.get_groups(new), return_counts=True) if len(new) else (new, new)
    names = simulation.templates.names
    ordered = {names[group]: count for group, count in zip(groups.tolist(), counts.tolist(), strict=True)}
    return on_ready, len(numbers) - len(new) - on_ready, ordered


def correct_for_withdrawn_bookings(
    decisions: Iterable[ProvisioningDecision], requests: Mapping[str, RequestMemory]
) -> tuple[ProvisioningDecision, ...]:
    """The decisions after orders failed, by what is remembered then."""
    return tuple(
        replace(decision, phase=memory.phase, reason=memory.reason, since=memory.since, ordered={})
        if (memory := requests.get(decision.uid)) is not None and memory.phase is not decision.phase
        else decision
        for decision in decisions
    )
