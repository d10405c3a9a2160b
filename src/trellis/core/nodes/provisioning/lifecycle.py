"""The phases of a ProvisioningRequest: waiting for capacity, booked, expired, failed.

The status of a request is what lasts. What has been decided and is not in the status yet is remembered, so that the
next pass goes on from it. A request that finds no capacity is tried again after a backoff that doubles each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import Demand
from trellis.core.fit.resources import ResourceCounts
from trellis.core.nodes.provisioning.requests import (
    FAILED_TO_CREATE_PODS,
    BookedPods,
    CapacityRequest,
    ProvisioningRequests,
)
from trellis.core.nodes.state.pods import PendingPod, PlacedPod

# How long capacity is booked, as in Cluster Autoscaler.
BOOKING_SECONDS: Final = 600.0

CAPACITY_IS_FOUND = Reason("CapacityIsFound", "All pods of the ProvisioningRequest fit on existing or upcoming nodes.")
CAPACITY_IS_PROVISIONED = Reason(
    "CapacityIsProvisioned", "Nodes are ordered for all pods of the ProvisioningRequest that fit on no existing node."
)
CAPACITY_IS_NOT_FOUND = Reason(
    "CapacityIsNotFound", "There is no capacity for all pods of the ProvisioningRequest.", Severity.WARNING
)
BOOKING_TIME_EXPIRED = Reason(
    "CapacityReservationTimeExpired", "The capacity is not booked for the ProvisioningRequest any more."
)
BOOKING_CONSUMED = Reason("CapacityBookingConsumed", "All pods of the ProvisioningRequest have a node.")
REQUEST_EXPIRED = Reason("Expired", "No capacity was found while the ProvisioningRequest was valid.", Severity.WARNING)


class RequestPhase(StrEnum):
    """The phase of a request. The last two are final."""

    WAITING = "Waiting"
    BOOKED = "Booked"
    EXPIRED = "Expired"
    FAILED = "Failed"


class RequestMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was decided about a request, and since when it holds; of a waiting one, when it was tried last.

    `backoff_seconds` is the pause between the last attempt and the next. `groups` are those of which nodes were ordered
    for it.
    """

    phase: RequestPhase
    since: float
    reason: DetailedReason
    backoff_seconds: float = 0.0
    groups: tuple[str, ...] = ()


class BackoffSettings(Protocol):
    """The pauses between attempts."""

    @property
    def provisioning_request_initial_backoff_seconds(self) -> float:
        """The first pause."""

    @property
    def provisioning_request_max_backoff_seconds(self) -> float:
        """The longest pause."""


def record_attempt_failed(
    memory: RequestMemory | None, reason: DetailedReason, now: float, settings: BackoffSettings
) -> RequestMemory:
    """The memory of a request that waits after an attempt: the pause is twice the last one."""
    before = memory.backoff_seconds if memory is not None else 0.0
    first, longest = (
        settings.provisioning_request_initial_backoff_seconds,
        settings.provisioning_request_max_backoff_seconds,
    )
    backoff_seconds = min(2 * before, longest) if before else first
    return RequestMemory(RequestPhase.WAITING, now, reason, backoff_seconds)


def withdraw_bookings(
    requests: Mapping[str, RequestMemory], group: str, reason: DetailedReason, now: float, settings: BackoffSettings
) -> Mapping[str, RequestMemory]:
    """The memory after an order of a group failed: requests that it was placed for in this pass wait again."""
    return {
        uid: record_attempt_failed(memory, reason, now, settings)
        if memory.phase is RequestPhase.BOOKED and memory.since == now and group in memory.groups
        else memory
        for uid, memory in requests.items()
    }


class ObservedRequest(msgspec.Struct, frozen=True):
    """A request at the beginning of a pass: its phase, its pods, and whether it is to be tried now.

    `remaining` are its pods without those that have a node, and, of a booked one, without those that are `pending`.
    `consumer_nodes` are the nodes of its pods.
    """

    request: CapacityRequest
    memory: RequestMemory | None
    remaining: tuple[BookedPods, ...] = ()
    pending: tuple[ObjectKey, ...] = ()
    consumer_nodes: tuple[str, ...] = ()
    is_due: bool = False

    @property
    def is_booked(self) -> bool:
        """Whether its capacity is booked."""
        return self.memory is not None and self.memory.phase is RequestPhase.BOOKED

    @property
    def bookings(self) -> tuple[BookedPods, ...]:
        """The pods for which capacity is booked."""
        return self.remaining if self.is_booked else ()


class RequestsView(msgspec.Struct, frozen=True):
    """All requests that are not over, the oldest first."""

    requests: tuple[ObservedRequest, ...] = ()

    @property
    def bookings(self) -> list[BookedPods]:
        """The pods for which capacity is booked, without those that exist."""
        return [pods for observed in self.requests for pods in observed.bookings]

    @property
    def due(self) -> list[ObservedRequest]:
        """The requests to try now."""
        return [observed for observed in self.requests if observed.is_due]

    def list_consumers(self, *, booked: bool | None = None) -> frozenset[ObjectKey]:
        """The pending pods of requests that are booked, of those that wait, or of both."""
        return frozenset(
            key for observed in self.requests if booked in {None, observed.is_booked} for key in observed.pending
        )

    def find_next_change(self, memories: Mapping[str, RequestMemory], now: float) -> float | None:
        """When a booking ends, or a request is tried again or fails. `memories` are those after the pass."""
        requests = (observed.request for observed in self.requests)
        times = (time for request in requests for time in _list_changes(request, memories.get(request.uid)))
        return min((time for time in times if time > now), default=None)


NO_REQUESTS: Final = RequestsView()


class RequestSource(Protocol):
    """The parts of a snapshot that requests depend on."""

    provisioning: ProvisioningRequests
    placed: dict[ObjectKey, PlacedPod]
    pending: dict[ObjectKey, PendingPod]


def observe_requests(source: RequestSource, memory: Mapping[str, RequestMemory], now: float) -> RequestsView:
    """The requests with their phases at this time."""
    requests = source.provisioning.requests
    if not requests:
        return NO_REQUESTS
    ordered = sorted(requests.values(), key=lambda request: (request.created_at, request.key))
    return RequestsView(
        tuple(_observe(request, source, memory.get(request.uid), now) for request in ordered if not request.has_ended)
    )


def _observe(
    request: CapacityRequest, source: RequestSource, memory: RequestMemory | None, now: float
) -> ObservedRequest:
    if memory is None and request.provisioned_at is not None:
        memory = RequestMemory(RequestPhase.BOOKED, request.provisioned_at, DetailedReason(CAPACITY_IS_FOUND))
    if memory is not None and memory.phase in {RequestPhase.EXPIRED, RequestPhase.FAILED}:
        return ObservedRequest(request, memory)
    consumers = source.provisioning.list_consumers(request.key)
    pending = tuple(key for key in consumers if key in source.pending)
    placed = [source.placed[key] for key in consumers if key in source.placed]
    demands = [pod.demand for pod in placed]
    if memory is None or memory.phase is RequestPhase.WAITING:
        return _observe_waiting(request, memory, subtract_consumers(request.pod_sets, demands), pending, now)
    ended = _find_booking_end(request, memory, len(placed), now)
    if ended is not None:
        return ObservedRequest(request, RequestMemory(RequestPhase.EXPIRED, now, DetailedReason(ended)))
    remaining = subtract_consumers(request.pod_sets, [*demands, *(source.pending[key].demand for key in pending)])
    return ObservedRequest(request, memory, remaining, pending, tuple(pod.node for pod in placed))


def _observe_waiting(
    request: CapacityRequest,
    memory: RequestMemory | None,
    remaining: tuple[BookedPods, ...],
    pending: tuple[ObjectKey, ...],
    now: float,
) -> ObservedRequest:
    problem = request.problem
    if problem is not None and problem.reason is FAILED_TO_CREATE_PODS:
        return ObservedRequest(request, RequestMemory(RequestPhase.FAILED, now, problem))
    if now >= request.valid_until:
        return ObservedRequest(request, RequestMemory(RequestPhase.FAILED, now, DetailedReason(REQUEST_EXPIRED)))
    if problem is not None:
        # Without a pause: it is tried as soon as it can be read.
        is_known = memory is not None and memory.reason == problem
        waiting = memory if is_known else RequestMemory(RequestPhase.WAITING, now, problem)
        return ObservedRequest(request, waiting, pending=pending)
    is_due = memory is None or now >= memory.since + memory.backoff_seconds
    return ObservedRequest(request, memory, remaining, pending, is_due=is_due)


def _find_booking_end(request: CapacityRequest, memory: RequestMemory, placed: int, now: float) -> Reason | None:
    if request.pod_sets and placed >= request.pod_count:
        return BOOKING_CONSUMED
    return BOOKING_TIME_EXPIRED if now >= memory.since + BOOKING_SECONDS else None


def _list_changes(request: CapacityRequest, memory: RequestMemory | None) -> Iterable[float]:
    if memory is None:
        return
    if memory.phase is RequestPhase.WAITING:
        yield request.valid_until
        yield memory.since + memory.backoff_seconds
    elif memory.phase is RequestPhase.BOOKED:
        yield memory.since + BOOKING_SECONDS


def subtract_consumers(pod_sets: Iterable[BookedPods], consumers: Iterable[Demand]) -> tuple[BookedPods, ...]:
    """The pods of a request that do not exist yet.

    A pod does not say of which set it is: it belongs to one that requests the same, or else to the first with pods
    left, because admission may have changed what it requests.
    """
    remaining = [*pod_sets]
    others = 0
    for demand, count in Counter(consumers).items():
        others += _take(remaining, count, demand.requests)
    _take(remaining, others, None)
    return tuple(pods for pods in remaining if pods.count)


def _take(remaining: list[BookedPods], count: int, requests: ResourceCounts | None) -> int:
    """Take pods off the sets that request this, or off any; return how many are left over."""
    for at, pods in enumerate(remaining):
        if requests is None or pods.demand.requests == requests:
            taken = min(count, pods.count)
            remaining[at] = replace(pods, count=pods.count - taken)
            count -= taken
    return count
