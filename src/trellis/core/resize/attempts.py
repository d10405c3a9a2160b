"""What became of earlier attempts, and what follows from it for the next?

Attempts on a pod are remembered by its uid, so that a namesake starts afresh. Evictions are remembered by controller
too, because the pod itself is gone (`loops`).

A patch whose tests fail and one that the API server will never take get the same answer. So the first of them counts as
a lost race, and only the second for the same wish as a refusal.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from trellis.base.reason import Reason
from trellis.core.model.patches import PatchOp
from trellis.core.model.told import Told
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.resize.actions import Action, EvictPod, GroupKey, ResizePod, UnmarkPod
from trellis.core.resize.loops import Evicted, Wanted, evicted_again
from trellis.core.resize.settings import UpdateSettings, backoff

BACKING_OFF = Reason("BackingOff", "The last attempt failed, and it is too early for another.")

_NOBODY: Final[Wanted] = {}
_NO_NODE: Final[Counts] = {}

# After these a resize is decided upon anew, with another result, so that there is nothing to wait for.
_DECIDED_ANEW: Final = (Told.INFEASIBLE, Told.INVALID)


class Outcome(msgspec.Struct, frozen=True):
    """An action and what became of it; `retry_after` is what the server asks for, in seconds, `why` its own words."""

    action: Action
    told: Told
    retry_after: float | None = None
    why: str = ""


class Attempt(msgspec.Struct, frozen=True):
    """What is remembered of a pod: how often in a row it failed, when it may be tried again, and what was refused.

    `resized_at` and `written_at` are when it last was resized, and changed in any way; `written` is that last change,
    and `asked` the requests it should show. An eviction changes a pod too, and is written as nothing.
    """

    failures: int = 0
    not_before: float = -math.inf
    resized_at: float | None = None
    written_at: float = -math.inf
    written: tuple[PatchOp, ...] = ()
    asked: Wanted = _NOBODY
    doubted: Wanted = _NOBODY
    refused: Wanted = _NOBODY
    node: Counts = _NO_NODE
    why: str = ""

    def is_fresh(self, now: float, settings: UpdateSettings) -> bool:
        """Whether what was written last may not be seen yet."""
        return now < self.written_at + settings.catch_up

    def is_unseen(self, requests: Wanted, now: float, settings: UpdateSettings) -> bool:
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

    def is_refused(self, wanted: Wanted, node: Counts) -> bool:
        """Whether a wish would be refused again: it is nowhere lower, and the node is what it was."""
        if not self.refused or node != self.node:
            return False
        lower = (
            amount < self.refused.get(name, {}).get(resource, 0)
            for name, amounts in wanted.items()
            for resource, amount in amounts.items()
        )
        return not any(lower)


class Attempts(msgspec.Struct, frozen=True):
    """What is remembered of one workload.

    `without_policy` is when a boost of a pod was first observed to have no policy, by uid.
    """

    pods: Mapping[str, Attempt] = {}
    groups: Mapping[GroupKey, tuple[Evicted, ...]] = {}
    without_policy: Mapping[str, float] = {}

    def kept(self, pods: Collection[str], groups: Collection[GroupKey]) -> Attempts:
        """The same without pods and controllers that are gone."""
        return Attempts(
            {uid: each for uid, each in self.pods.items() if uid in pods},
            {key: each for key, each in self.groups.items() if key in groups},
            self.without_policy,
        )

    def observed_without_policy(self, pods: Iterable[str], now: float) -> Attempts:
        """The same when these and no other pods have a boost without a policy."""
        since = {uid: self.without_policy.get(uid, now) for uid in pods}
        return self if since == self.without_policy else msgspec.structs.replace(self, without_policy=since)


def fold(attempts: Attempts, outcome: Outcome, now: float, settings: UpdateSettings) -> Attempts:
    """What is remembered after an action."""
    action = outcome.action
    if outcome.told is Told.SKIPPED:
        return attempts
    if outcome.told is Told.GONE:
        rest = {uid: each for uid, each in attempts.pods.items() if uid != action.pod.uid}
        return msgspec.structs.replace(attempts, pods=rest)
    before = attempts.pods.get(action.pod.uid, Attempt())
    pods = {**attempts.pods, action.pod.uid: _after(before, outcome, now, settings)}
    if isinstance(action, EvictPod) and outcome.told is Told.APPLIED:
        again = evicted_again(attempts.groups.get(action.group, ()), action, now)
        return msgspec.structs.replace(attempts, pods=pods, groups={**attempts.groups, action.group: again})
    return msgspec.structs.replace(attempts, pods=pods)


def _after(before: Attempt, outcome: Outcome, now: float, settings: UpdateSettings) -> Attempt:
    action, told = outcome.action, outcome.told
    if told is Told.APPLIED:
        return _applied(before, action, now, settings)
    if told is Told.REFUSED:
        pause = max(settings.budget_retry, outcome.retry_after or 0.0)
        return msgspec.structs.replace(before, not_before=now + pause, why=outcome.why)
    changed = msgspec.structs.replace(before, failures=before.failures + 1, why=outcome.why)
    if isinstance(action, ResizePod) and not action.unboosts:
        changed = _judged(changed, action, told)
    return msgspec.structs.replace(changed, not_before=now + _pause(changed, outcome, settings))


def _applied(before: Attempt, action: Action, now: float, settings: UpdateSettings) -> Attempt:
    """A success makes everything before it forgotten, but for what is not seen yet."""
    if isinstance(action, EvictPod):
        return Attempt(written_at=now)
    written = action.patch + (before.written if before.is_fresh(now, settings) else ())
    if isinstance(action, UnmarkPod):
        # A resize of the same pod may have failed at the same time, and keeps its pause.
        return msgspec.structs.replace(before, written_at=now, written=written)
    return Attempt(resized_at=now, written_at=now, written=written, asked=action.wanted)


def _judged(before: Attempt, action: ResizePod, told: Told) -> Attempt:
    """Whether a resize was refused for what it asks."""
    again = told is Told.INVALID and before.doubted == action.wanted
    if told is Told.INFEASIBLE or again:
        return msgspec.structs.replace(before, refused=action.wanted, node=action.node, doubted=_NOBODY)
    return msgspec.structs.replace(before, doubted=action.wanted) if told is Told.INVALID else before


def _pause(attempt: Attempt, outcome: Outcome, settings: UpdateSettings) -> float:
    action, told = outcome.action, outcome.told
    if isinstance(action, UnmarkPod) or (isinstance(action, ResizePod) and action.unboosts):
        pause = backoff(attempt.failures, settings.unboost_retry, settings.longest_unboost_retry)
    elif told is Told.CONFLICT or (isinstance(action, ResizePod) and told in _DECIDED_ANEW):
        return 0.0
    else:
        pause = backoff(attempt.failures, settings.retry, settings.longest_retry)
    return max(pause, outcome.retry_after or 0.0)
