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
    "An eviction changed nothing: the pod after it requests the same, as if no admission webhook were at work.",
    Severity.WARNING,
)
BACKING_OFF = Reason("BackingOff", "The last attempt failed, and it is too early for another.")


def backoff(times: int, first: float, longest: float) -> float:
    """How long to wait after something went wrong so many times in a row."""
    return min(first * 2.0 ** min(max(times - 1, 0), 60), longest)


# A controller that replaces a pod makes several changes in a moment, which are one look.
REQUEUE_AFTER_CHANGE_SECONDS: Final = 0.05
# A time that has come already must not make a loop without a pause.
SHORTEST_REQUEUE_SECONDS: Final = 0.1
# A write that failed on its preconditions was made from an old view, which is renewed by then.
REQUEUE_AFTER_CONFLICT_SECONDS: Final = 2.0

_OUTDATED: Final = (WriteResult.CONFLICT, WriteResult.INVALID)
_DONE_WITH: Final = (WriteResult.APPLIED, WriteResult.SKIPPED, WriteResult.GONE)


def requeue_delay(result: WriteResult) -> float | None:
    """In how many seconds to plan again after such a result of a write; None if a watch event will cause it."""
    if result in _OUTDATED:
        return REQUEUE_AFTER_CONFLICT_SECONDS
    return None if result in _DONE_WITH else 0.0


# Requests by container.
ContainerRequests: TypeAlias = Mapping[str, ResourceAmounts]


# Of one controller, so many sizes of evicted pods are remembered: a rollout and a few recommendations ago.
_KEPT: Final = 4


class EvictionRecord(msgspec.Struct, frozen=True):
    """What is remembered of evicted pods of a controller that requested the same, and how often it was to no use.

    `first` and `at` are the times of the first and the last eviction of pods that requested just that. `beside` are the
    uids of pods that were there at the first, and are so new that by their age they might have come after it. `newest`
    is when the last of the evicted pods had been made.
    """

    had: ContainerRequests
    first: float
    at: float
    useless: int = 0
    beside: tuple[str, ...] = ()
    newest: float = 0.0

    def is_repeated_by(self, uid: str, requests: ContainerRequests, created: float | None) -> bool:
        """Whether a pod came after such an eviction and requests the same. Times of creation are whole seconds."""
        came_after = created is not None and created >= math.floor(self.first) and uid not in self.beside
        return came_after and requests == self.had


def find_loop_end(evicted: EvictionRecord, settings: UpdateSettings) -> float:
    """Until when a controller's pods are left alone after an eviction to no use."""
    return evicted.at + backoff(evicted.useless + 1, settings.loop_backoff, settings.longest_loop_backoff)


def find_useless_eviction(
    records: Sequence[EvictionRecord], uid: str, requests: ContainerRequests, created: float | None
) -> EvictionRecord | None:
    """The evictions that a pod came after, if they were of no use."""
    match = next((record for record in records if record.is_repeated_by(uid, requests, created)), None)
    if match is None or created is None:
        return None
    return None if any(math.floor(record.first) <= created for record in _came_of(match, records)) else match


def record_eviction(records: Sequence[EvictionRecord], action: EvictPod, now: float) -> tuple[EvictionRecord, ...]:
    """What is remembered of a controller after one more eviction, the newest first."""
    last = next((record for record in records if record.had == action.had), None)
    newest = EvictionRecord(action.had, now, now, beside=action.beside)
    if last is not None and not any(_came_of(last, records)):
        newest = EvictionRecord(action.had, last.first, now, last.useless + action.again, last.beside, last.newest)
    if action.created is not None:
        newest = msgspec.structs.replace(newest, newest=max(newest.newest, action.created))
    return (newest, *(record for record in records if record.had != action.had))[:_KEPT]


def _came_of(evicted: EvictionRecord, records: Sequence[EvictionRecord]) -> Iterator[EvictionRecord]:
    """Those of another size that came after the first of these evictions, so that it was of use.

    They are evicted in their turn where what is recommended goes back and forth, as by day and by night.
    """
    return (record for record in records if record.had != evicted.had and record.newest > evicted.first)


_NOBODY: Final[ContainerRequests] = {}
_NO_NODE: Final[ResourceAmounts] = {}

# After these a resize is decided upon anew, with another result, so that there is nothing to wait for.
_DECIDED_ANEW: Final = (WriteResult.INFEASIBLE, WriteResult.INVALID)


class ActionResult(msgspec.Struct, frozen=True):
    """An action and what became of it; `retry_after` is what the server asks for, in seconds, `why` its own words."""

    action: Action
    told: WriteResult
    retry_after: float | None = None
    why: str = ""


class PodAttempts(msgspec.Struct, frozen=True):
    """What is remembered of a pod: how often in a row it failed, when it may be tried again, and what was refused.

    `resized_at` and `written_at` are when it last was resized, and changed in any way; `written` is that last change,
    and `asked` the requests it should show. An eviction changes a pod too, and is written as nothing.
    """

    failures: int = 0
    not_before: float = -math.inf
    resized_at: float | None = None
    written_at: float = -math.inf
    written: tuple[PatchOp, ...] = ()
    asked: ContainerRequests = _NOBODY
    doubted: ContainerRequests = _NOBODY
    refused: ContainerRequests = _NOBODY
    node: ResourceAmounts = _NO_NODE
    why: str = ""

    def is_fresh(self, now: float, settings: UpdateSettings) -> bool:
        """Whether what was written last may not be seen yet."""
        return now < self.written_at + settings.catch_up

    def is_unseen(self, requests: ContainerRequests, now: float, settings: UpdateSettings) -> bool:
        """Whether a pod that shows these requests in its spec does not show yet what it was resized to."""
        return self.is_fresh(now, settings) and any(
            requests.get(name, _NO_NODE).get(resource) != amount
            for name, amounts in self.asked.items()
            for resource, amount in amounts.items()
        )

    def was_evicted(self, now: float, settings: UpdateSettings) -> bool:
        """Whether the pod is going, although it may not be seen yet."""
        return not self.written and self.is_fresh(now, settings)

    def repeats(self, patch: Collection[PatchOp], now: float, settings: UpdateSettings) -> bool:
        """Whether a patch would write once more what was written last."""
        return self.is_fresh(now, settings) and all(op in self.written for op in patch)

    def is_refused(self, requests: ContainerRequests, node: ResourceAmounts) -> bool:
        """Whether a wish would be refused again: it is nowhere lower, and the node is what it was."""
        if not self.refused or node != self.node:
            return False
        lower = (
            amount < self.refused.get(name, {}).get(resource, 0)
            for name, amounts in requests.items()
            for resource, amount in amounts.items()
        )
        return not any(lower)


class WorkloadAttempts(msgspec.Struct, frozen=True):
    """What is remembered of one workload.

    `without_policy` is when a boost of a pod was first observed to have no policy, by uid.
    """

    pods: Mapping[str, PodAttempts] = {}
    groups: Mapping[ControllerKey, tuple[EvictionRecord, ...]] = {}
    without_policy: Mapping[str, float] = {}

    def kept(self, pods: Collection[str], groups: Collection[ControllerKey]) -> WorkloadAttempts:
        """The same without pods and controllers that are gone."""
        return WorkloadAttempts(
            {uid: attempt for uid, attempt in self.pods.items() if uid in pods},
            {key: evictions for key, evictions in self.groups.items() if key in groups},
            self.without_policy,
        )

    def observed_without_policy(self, pods: Iterable[str], now: float) -> WorkloadAttempts:
        """The same when these and no other pods have a boost without a policy."""
        since = {uid: self.without_policy.get(uid, now) for uid in pods}
        return self if since == self.without_policy else msgspec.structs.replace(self, without_policy=since)


def record_result(
    attempts: WorkloadAttempts, outcome: ActionResult, now: float, settings: UpdateSettings
) -> WorkloadAttempts:
    """What is remembered after an action."""
    action = outcome.action
    if outcome.told is WriteResult.SKIPPED:
        return attempts
    if outcome.told is WriteResult.GONE:
        rest = {uid: attempt for uid, attempt in attempts.pods.items() if uid != action.pod.uid}
        return msgspec.structs.replace(attempts, pods=rest)
    before = attempts.pods.get(action.pod.uid, PodAttempts())
    pods = {**attempts.pods, action.pod.uid: _after(before, outcome, now, settings)}
    if isinstance(action, EvictPod) and outcome.told is WriteResult.APPLIED:
        again = record_eviction(attempts.groups.get(action.group, ()), action, now)
        return msgspec.structs.replace(attempts, pods=pods, groups={**attempts.groups, action.group: again})
    return msgspec.structs.replace(attempts, pods=pods)


def _after(before: PodAttempts, outcome: ActionResult, now: float, settings: UpdateSettings) -> PodAttempts:
    action, result = outcome.action, outcome.told
    if result is WriteResult.APPLIED:
        return _applied(before, action, now, settings)
    if result is WriteResult.REFUSED:
        pause = max(settings.budget_retry, outcome.retry_after or 0.0)
        return msgspec.structs.replace(before, not_before=now + pause, why=outcome.why)
    changed = msgspec.structs.replace(before, failures=before.failures + 1, why=outcome.why)
    if isinstance(action, ResizePod) and not action.unboosts:
        changed = _judged(changed, action, result)
    return msgspec.structs.replace(changed, not_before=now + _pause(changed, outcome, settings))


def _applied(before: PodAttempts, action: Action, now: float, settings: UpdateSettings) -> PodAttempts:
    """A success makes everything before it forgotten, but for what is not seen yet."""
    if isinstance(action, EvictPod):
        return PodAttempts(written_at=now)
    written = action.patch + (before.written if before.is_fresh(now, settings) else ())
    if isinstance(action, UnmarkPod):
        # A resize of the same pod may have failed at the same time, and keeps its pause.
        return msgspec.structs.replace(before, written_at=now, written=written)
    return PodAttempts(resized_at=now, written_at=now, written=written, asked=action.wanted)


def _judged(before: PodAttempts, action: ResizePod, result: WriteResult) -> PodAttempts:
    """Whether a resize was refused for what it asks."""
    again = result is WriteResult.INVALID and before.doubted == action.wanted
    if result is WriteResult.INFEASIBLE or again:
        return msgspec.structs.replace(before, refused=action.wanted, node=action.node, doubted=_NOBODY)
    return msgspec.structs.replace(before, doubted=action.wanted) if result is WriteResult.INVALID else before


def _pause(attempt: PodAttempts, outcome: ActionResult, settings: UpdateSettings) -> float:
    action, result = outcome.action, outcome.told
    if isinstance(action, UnmarkPod) or (isinstance(action, ResizePod) and action.unboosts):
        pause = backoff(attempt.failures, settings.unboost_retry, settings.longest_unboost_retry)
    elif result is WriteResult.CONFLICT or (isinstance(action, ResizePod) and result in _DECIDED_ANEW):
        return 0.0
    else:
        pause = backoff(attempt.failures, settings.retry, settings.longest_retry)
    return max(pause, outcome.retry_after or 0.0)
