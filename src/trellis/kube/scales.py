"""What do the scales of these targets say? Asked of the API server, and remembered for a while.

For kinds that nobody here knows: their scale says which pods are theirs. Well-known kinds are watched, and never come
here. Only `get` of `*/scale` and discovery are needed, and nothing is written.

An answer is good for five to ten minutes, so that those asked for together are not asked for together again. A problem
is good for one minute: a target that was missing may have been created, and a right granted. While the server does not
answer, the last answer that it gave stands, as everything else does that is known of the cluster.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from typing import Final

from trellis.base.errors import KubeError, UnreadableObject
from trellis.core.model.owners import ScaleAnswer, TargetRef, missing
from trellis.core.model.target_problems import (
    TARGET_FORBIDDEN,
    TARGET_NOT_FOUND,
    TARGET_UNREACHABLE,
    TargetProblem,
    reason_of,
    unread,
)
from trellis.kube.backoff import Draw
from trellis.kube.client import Client
from trellis.kube.event_series import Recent
from trellis.kube.scalable_kinds import LookupTimes, ScalableKinds

# So many targets are remembered, at less than a kilobyte each.
_KEPT: Final = 50_000
# So many are asked for at once: a small part of what an API server lets one client have in flight.
_TOGETHER: Final = 16


class ScaleLookups:
    """Scales by target. Never raises for what the server says: a problem is an answer too."""

    def __init__(
        self,
        client: Client,
        *,
        draw: Draw,
        times: LookupTimes = LookupTimes(),  # noqa: B008 - frozen
        kept: int = _KEPT,
    ) -> None:
        self._draw = draw
        self._times = times
        self._entries: Recent[TargetRef, _Entry] = Recent(kept)
        self._kinds = ScalableKinds(client, times)
        self._together = asyncio.Semaphore(_TOGETHER)

    async def find_all(self, targets: Collection[TargetRef]) -> dict[TargetRef, ScaleAnswer]:
        """What every one of them says; those that are known cost nothing."""
        now = _clock()
        answers = {target: self._entry(target).answer_at(now) for target in targets}
        unknown = [target for target, answer in answers.items() if answer is None]
        found = await asyncio.gather(*map(self.find, unknown))
        known = {target: answer for target, answer in answers.items() if answer is not None}
        return known | dict(zip(unknown, found, strict=True))

    async def find(self, target: TargetRef) -> ScaleAnswer:
        """What one of them says. Who asks while somebody else does waits for the same answer."""
        entry = self._entry(target)
        async with entry.lock:
            answer = entry.answer_at(_clock())
            if answer is None:
                answer = await self._ask(target)
                # Half of the time at least, so that a thousand answers of one second do not end in one second.
                fresh = self._times.fresh * (1 - self._draw() / 2)
                answer = entry.take(answer, _clock() + (self._times.retry if answer.problem else fresh))
            return answer

    def _entry(self, target: TargetRef) -> _Entry:
        return self._entries.get(target, _Entry)

    async def _ask(self, target: TargetRef) -> ScaleAnswer:
        async with self._together:
            try:
                found = await self._kinds.read(target)
            except (KubeError, UnreadableObject) as error:
                return ScaleAnswer(problem=_problem(target, error))
        if isinstance(found, TargetProblem):
            return ScaleAnswer(problem=found)
        return ScaleAnswer(found.scale.status.selector, found.scale.metadata.controller)


class _Entry:
    """What is known of one target, and the lock that makes one request of many."""

    __slots__ = ("_answer", "_until", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._answer = ScaleAnswer()
        self._until = -math.inf

    def answer_at(self, now: float) -> ScaleAnswer | None:
        """The answer, while it is good."""
        return self._answer if now < self._until else None

    def take(self, answer: ScaleAnswer, until: float) -> ScaleAnswer:
        """Remember an answer; one that only says that there is none does not replace a good one."""
        was_good = math.isfinite(self._until) and self._answer.problem is None
        if not (was_good and answer.problem is not None and answer.problem.reason is TARGET_UNREACHABLE):
            self._answer = answer
        self._until = until
        return self._answer


def _problem(target: TargetRef, error: KubeError | UnreadableObject) -> TargetProblem:
    reason = reason_of(error)
    if reason is TARGET_NOT_FOUND:
        return unread(reason, missing(target))
    refused = " may not be read" if reason is TARGET_FORBIDDEN else ""
    return unread(reason, f"the scale sub-resource of {target}{refused}: {error}")


def _clock() -> float:
    return asyncio.get_running_loop().time()
