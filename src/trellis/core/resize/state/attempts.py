"""Results of earlier attempts on the pods of a workload, and what follows from them for the next attempt.

Attempts on a pod are kept by its uid, so that a pod of the same name starts afresh. Evictions are kept by controller
too, because the pod itself is gone.

The API server answers alike when the tests of a patch fail and when it will never take the patch. So the first such
answer counts as a lost race, and only the second for the same requests as a refusal.

Evictions can loop. If the pod that came after an eviction requests just what its predecessor did, the eviction was
useless, and the next one would be too. The cause lies elsewhere: no webhook sizes new pods, or another one undoes it.
This needs a person, and until then evictions are tried at growing intervals.

The updater and its model in the simulator requeue workloads by the same delays: soon after a change, and after a write
that failed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.cluster.write_results import WriteResult
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.resize.actions import Action, ControllerKey, EvictPod, ResizePod, UnmarkPod
from trellis.core.resize.settings import UpdateSettings

EVICTION_LOOP = Reason(
    "EvictionLoop",
    "An eviction had no effect: the replacement has the old requests, as without an admission webhook.",
    Severity.WARNING,
)
BACKING_OFF = Reason("BackingOff", "The last attempt failed, and the next one backs off.")


def compute_backoff(times: int, first: float, longest: float) -> float:
    """The delay after a number of failures in a row."""
    return min(first * 2.0 ** min(max(times - 1, 0), 60), longest)


# A controller that replaces a pod makes several changes at once, which are one reconcile.
REQUEUE_AFTER_CHANGE_SECONDS: Final = 0.05
# A requeue time in the past must not cause a loop without a pause.
SHORTEST_REQUEUE_SECONDS: Final = 0.1
# A write that failed on its preconditions was made from an old view, which is renewed by then.
REQUEUE_AFTER_CONFLICT_SECONDS: Final = 2.0

_OUTDATED: Final = (WriteResult.CONFLICT, WriteResult.INVALID)
_FINAL: Final = (WriteResult.APPLIED, WriteResult.SKIPPED, WriteResult.GONE)


def find_requeue_delay(result: WriteResult) -> float | None:
    """In how many seconds to plan again after such a result of a write; None if a watch event will cause it."""
    if result in _OUTDATED:
        return REQUEUE_AFTER_CONFLICT_SECONDS
    return None if result in _FINAL else 0.0


# Requests by container.
ContainerRequests: TypeAlias = Mapping[str, ResourceAmounts]


# Sizes of evicted pods per controller: those of a rollout and of a few recommendations.
_MAX_RECORDS: Final = 4


class EvictionRecord(msgspec.Struct, frozen=True):
    """Evictions of pods of one controller that had the same requests.

    `first_at` and `last_at` are the times of the first and the last of them. `useless_evictions` counts those that
    changed nothing. `new_pods` are the uids of pods that existed at the first eviction, but whose creation time could
    also be later. `last_created` is the creation time of the newest evicted pod.
    """

    requests: ContainerRequests
    first_at: float
    last_at: float
    useless_evictions: int = 0
    new_pods: tuple[str, ...] = ()
    last_created: float = 0.0

    def is_repeated_by(self, uid: str, requests: ContainerRequests, created: float | None) -> bool:
        """Whether a pod was created after such an eviction with the same requests. Creation times are whole seconds."""
        was_created_after = created is not None and created >= math.floor(self.first_at) and uid not in self.new_pods
        return was_created_after and requests == self.requests


def find_loop_end(evicted: EvictionRecord, settings: UpdateSettings) -> float:
    """Until when no pod of a controller is evicted after a useless eviction."""
    return evicted.last_at + compute_backoff(
        evicted.useless_evictions + 1, settings.loop_backoff, settings.longest_loop_backoff
    )


def find_useless_eviction(
    records: Sequence[EvictionRecord], uid: str, requests: ContainerRequests, created: float | None
) -> EvictionRecord | None:
    """The evictions before a pod was created, if they were useless."""
    match = next((record for record in records if record.is_repeated_by(uid, requests, created)), None)
    if match is None or created is None:
        return None
    return (
        None if any(math.floor(record.first_at) <= created for record in _list_later_sizes(match, records)) else match
    )


def record_eviction(records: Sequence[EvictionRecord], action: EvictPod, now: float) -> tuple[EvictionRecord, ...]:
    """The records of a controller after one more eviction, the newest first."""
    last = next((record for record in records if record.requests == action.requests), None)
    newest = EvictionRecord(action.requests, now, now, new_pods=action.new_pods)
    if last is not None and not any(_list_later_sizes(last, records)):
        newest = EvictionRecord(
            action.requests,
            last.first_at,
            now,
            last.useless_evictions + action.repeats_useless,
            last.new_pods,
            last.last_created,
        )
    if action.created is not None:
        newest = msgspec.structs.replace(newest, last_created=max(newest.last_created, action.created))
    return (newest, *(record for record in records if record.requests != action.requests))[:_MAX_RECORDS]


def _list_later_sizes(evicted: EvictionRecord, records: Sequence[EvictionRecord]) -> Iterator[EvictionRecord]:
    """Records of pods of another size that were created after the first of these evictions, which was useful then.

    They are evicted later where the recommendation alternates, as by day and by night.
    """
    return (
        record for record in records if record.requests != evicted.requests and record.last_created > evicted.first_at
    )


_NO_REQUESTS: Final[ContainerRequests] = {}
_NO_NODE: Final[ResourceAmounts] = {}

# After these results a resize is decided anew and differently, so that there is no delay.
_DECIDED_ANEW: Final = (WriteResult.INFEASIBLE, WriteResult.INVALID)


class ActionResult(msgspec.Struct, frozen=True):
    """The result of an action. `retry_after` (seconds) and `message` are those of the API server's response."""

    action: Action
    result: WriteResult
    retry_after: float | None = None
    message: str = ""


class PodAttempts(msgspec.Struct, frozen=True):
    """Earlier attempts on a pod: failures in a row, when it may be tried again, and which requests were refused.

    `resized_at` and `written_at` are when the pod was last resized, and last written in any way. `last_patch` is that
    write, empty for an eviction, and `requested` the requests that the pod should show after it. `refused_once` are
    requests whose refusal may have been a lost race, `refused` those that are not tried again on `refusing_node`.
    """

    failures: int = 0
    not_before: float = -math.inf
    resized_at: float | None = None
    written_at: float = -math.inf
    last_patch: tuple[PatchOp, ...] = ()
    requested: ContainerRequests = _NO_REQUESTS
    refused_once: ContainerRequests = _NO_REQUESTS
    refused: ContainerRequests = _NO_REQUESTS
    refusing_node: ResourceAmounts = _NO_NODE
    message: str = ""

    def is_fresh(self, now: float, settings: UpdateSettings) -> bool:
        """Whether the watch may not have shown the last write yet."""
        return now < self.written_at + settings.catch_up

    def is_resize_unobserved(self, requests: ContainerRequests, now: float, settings: UpdateSettings) -> bool:
        """Whether the last resize does not show yet in a pod with these requests."""
        return self.is_fresh(now, settings) and any(
            requests.get(name, _NO_NODE).get(resource) != amount
            for name, amounts in self.requested.items()
            for resource, amount in amounts.items()
        )

    def was_evicted(self, now: float, settings: UpdateSettings) -> bool:
        """Whether the pod was evicted, although the watch may not have shown it yet."""
        return not self.last_patch and self.is_fresh(now, settings)

    def repeats(self, patch: Collection[PatchOp], now: float, settings: UpdateSettings) -> bool:
        """Whether a patch repeats the last write."""
        return self.is_fresh(now, settings) and all(op in self.last_patch for op in patch)

    def is_refused(self, requests: ContainerRequests, node: ResourceAmounts) -> bool:
        """Whether a resize would be refused again: no request is lower than before, and the node is unchanged."""
        if not self.refused or node != self.refusing_node:
            return False
        lower = (
            amount < self.refused.get(name, {}).get(resource, 0)
            for name, amounts in requests.items()
            for resource, amount in amounts.items()
        )
        return not any(lower)


class WorkloadAttempts(msgspec.Struct, frozen=True):
    """Earlier attempts on the pods of one workload, by uid, and evictions by controller.

    `without_policy` is when a boost of a pod was first observed to have no policy, by uid.
    """

    pods: Mapping[str, PodAttempts] = {}
    evictions: Mapping[ControllerKey, tuple[EvictionRecord, ...]] = {}
    without_policy: Mapping[str, float] = {}

    def retain(self, pods: Collection[str], controllers: Collection[ControllerKey]) -> WorkloadAttempts:
        """Drop the pods and controllers that no longer exist."""
        return WorkloadAttempts(
            {uid: attempt for uid, attempt in self.pods.items() if uid in pods},
            {key: records for key, records in self.evictions.items() if key in controllers},
            self.without_policy,
        )

    def with_boosts_without_policy(self, pods: Iterable[str], now: float) -> WorkloadAttempts:
        """Record which pods have a boost without a policy, with the time of the first observation."""
        since = {uid: self.without_policy.get(uid, now) for uid in pods}
        return self if since == self.without_policy else msgspec.structs.replace(self, without_policy=since)


def record_result(
    attempts: WorkloadAttempts, outcome: ActionResult, now: float, settings: UpdateSettings
) -> WorkloadAttempts:
    """The attempts after an action."""
    action = outcome.action
    if outcome.result is WriteResult.SKIPPED:
        return attempts
    if outcome.result is WriteResult.GONE:
        rest = {uid: attempt for uid, attempt in attempts.pods.items() if uid != action.pod.uid}
        return msgspec.structs.replace(attempts, pods=rest)
    before = attempts.pods.get(action.pod.uid, PodAttempts())
    pods = {**attempts.pods, action.pod.uid: _record_attempt(before, outcome, now, settings)}
    if isinstance(action, EvictPod) and outcome.result is WriteResult.APPLIED:
        records = record_eviction(attempts.evictions.get(action.controller, ()), action, now)
        return msgspec.structs.replace(
            attempts, pods=pods, evictions={**attempts.evictions, action.controller: records}
        )
    return msgspec.structs.replace(attempts, pods=pods)


def _record_attempt(before: PodAttempts, outcome: ActionResult, now: float, settings: UpdateSettings) -> PodAttempts:
    action, result = outcome.action, outcome.result
    if result is WriteResult.APPLIED:
        return _record_success(before, action, now, settings)
    if result is WriteResult.REFUSED:
        pause = max(settings.budget_retry, outcome.retry_after or 0.0)
        return msgspec.structs.replace(before, not_before=now + pause, message=outcome.message)
    changed = msgspec.structs.replace(before, failures=before.failures + 1, message=outcome.message)
    if isinstance(action, ResizePod) and not action.unboosts:
        changed = _record_refusal(changed, action, result)
    return msgspec.structs.replace(changed, not_before=now + _find_pause(changed, outcome, settings))


def _record_success(before: PodAttempts, action: Action, now: float, settings: UpdateSettings) -> PodAttempts:
    """After a success nothing earlier counts, except writes that the watch has not shown yet."""
    if isinstance(action, EvictPod):
        return PodAttempts(written_at=now)
    last_patch = action.patch + (before.last_patch if before.is_fresh(now, settings) else ())
    if isinstance(action, UnmarkPod):
        # A resize of the same pod may have failed at the same time, and keeps its pause.
        return msgspec.structs.replace(before, written_at=now, last_patch=last_patch)
    return PodAttempts(resized_at=now, written_at=now, last_patch=last_patch, requested=action.requests)


def _record_refusal(before: PodAttempts, action: ResizePod, result: WriteResult) -> PodAttempts:
    """Record whether a resize was refused for its requests, and not because of a lost race."""
    is_repeated = result is WriteResult.INVALID and before.refused_once == action.requests
    if result is WriteResult.INFEASIBLE or is_repeated:
        return msgspec.structs.replace(
            before, refused=action.requests, refusing_node=action.node_allocatable, refused_once=_NO_REQUESTS
        )
    return msgspec.structs.replace(before, refused_once=action.requests) if result is WriteResult.INVALID else before


def _find_pause(attempt: PodAttempts, outcome: ActionResult, settings: UpdateSettings) -> float:
    action, result = outcome.action, outcome.result
    if isinstance(action, UnmarkPod) or (isinstance(action, ResizePod) and action.unboosts):
        pause = compute_backoff(attempt.failures, settings.unboost_retry, settings.longest_unboost_retry)
    elif result is WriteResult.CONFLICT or (isinstance(action, ResizePod) and result in _DECIDED_ANEW):
        return 0.0
    else:
        pause = compute_backoff(attempt.failures, settings.retry, settings.longest_retry)
    return max(pause, outcome.retry_after or 0.0)
