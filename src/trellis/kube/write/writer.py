"""The writer: the one way to change the cluster. Actions in, one outcome for each out.

An error of the API server is an outcome, never an exception, and every outcome is also passed to `record`, which logs
and counts it: no write is lost silently. Right before each request the writer checks that it may still write. A
leader that has lost its lease is stopped there, however long its action has waited in the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from trellis.api.kube.decoder import decode_object
from trellis.api.kube.meta import KubeObject, ObjectMeta
from trellis.base.errors import Conflict, KubeError, UnreadableObject
from trellis.kube.client import Client
from trellis.kube.flow_control import Rate, TokenBucket
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.kube.write.actions import (
    Action,
    CreateObject,
    PatchObject,
    Target,
    build_precondition_read,
    build_request,
    describe_action,
)
from trellis.kube.write.outcomes import DRY_RUN, NOT_LEADING, READ_ONLY, REPLACED, Result, WriteOutcome, outcome_of

# How often a write that the server is too busy for is tried, the first time included.
_ATTEMPTS: Final = 3

# A server that wants more patience than this gets it from the next pass, which decides on a newer view.
_LONGEST_PAUSE: Final = 30.0

# Where a 429 does not say how long. The API server's own always do, and mostly say this.
_USUAL_PAUSE: Final = 1.0


class WriterSettings(msgspec.Struct, frozen=True):
    """How the writer writes.

    `read_only` makes every write a no-op that is recorded. `dry_run` sends each one and has the server check it without
    storing anything. `concurrency` is how many requests are under way at once: the API server gives all workloads of a
    priority level some tens of seats. `rate` is off unless given, because the server protects itself (429).

    `timeout` bounds a request in seconds. A leader stops writing 5 s before others may take its lease (15 s less a
    renewal's 10 s); a write that was under way at that moment must be over by then.
    """

    read_only: bool = False
    dry_run: bool = False
    concurrency: int = 8
    rate: Rate | None = None
    timeout: float = 5.0


class Writer:
    """Executes actions, some at a time. `may_write` is checked before each request; without it, all are sent."""

    def __init__(
        self,
        client: Client,
        *,
        record: Callable[[WriteOutcome], None],
        may_write: Callable[[], bool] = lambda: True,
        settings: WriterSettings = WriterSettings(),  # noqa: B008 - frozen
    ) -> None:
        self._client = client
        self._record = record
        self._may_write = may_write
        self._settings = settings
        self._seats = asyncio.Semaphore(settings.concurrency)
        self._bucket: TokenBucket | None = None
        self._paused_until = 0.0

    @property
    def concurrency(self) -> int:
        """How many writes are under way at most; more callers than this wait in line."""
        return self._settings.concurrency

    async def write(self, action: Action) -> WriteOutcome:
        """Carry one action out."""
        outcome = await self.attempt(action)
        self.record(outcome)
        return outcome

    async def attempt(self, action: Action) -> WriteOutcome:
        """The same without a record, for those who have another way if it is refused."""
        if self._settings.read_only:
            return _skipped(action, READ_ONLY, "read-only: not done")
        async with self._seats:
            return await self._attempt(action)

    def record(self, outcome: WriteOutcome) -> None:
        """Pass on how something went that was attempted."""
        self._record(outcome)

    async def write_all(self, actions: Iterable[Action]) -> tuple[WriteOutcome, ...]:
        """Carry all out, side by side; those on one object in the order given. Outcomes stand as the actions do."""
        numbered = list(enumerate(actions))
        by_object: dict[tuple[str, str, str], list[tuple[int, Action]]] = {}
        for numbered_action in numbered:
            by_object.setdefault(_identity(numbered_action[1].target), []).append(numbered_action)
        outcomes: dict[int, WriteOutcome] = {}
        waiting = iter(by_object.values())

        async def work() -> None:
            # A few workers share one iterator: ten thousand actions are not ten thousand tasks.
            for group in waiting:
                for number, action in group:
                    outcomes[number] = await self.write(action)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(self._settings.concurrency, len(by_object))):
                workers.create_task(work())
        return tuple(outcomes[number] for number, _ in numbered)

    async def _attempt(self, action: Action) -> WriteOutcome:
        outcome = await self._try_once(action)
        for _ in range(_ATTEMPTS - 1):
            if not self._is_worth_another(outcome):
                break
            outcome = await self._try_once(action)
        return outcome

    def _is_worth_another(self, outcome: WriteOutcome) -> bool:
        if outcome.result is Result.THROTTLED:
            return self._pause() <= _LONGEST_PAUSE
        # The version was read by us a moment before, and the decision does not depend on it.
        return outcome.result is Result.CONFLICT and build_precondition_read(outcome.action) is not None

    async def _try_once(self, action: Action) -> WriteOutcome:
        await asyncio.sleep(self._reserve())
        while (pause := self._pause()) > 0:
            if pause > _LONGEST_PAUSE:
                message = f"the server wants no requests for another {pause:.0f} s"
                return WriteOutcome(action, Result.THROTTLED, "Paused", message, retry_after=pause)
            await asyncio.sleep(pause)
        try:
            pinned = await self._pinned(action)
            # Nothing may wait between this question and the request.
            if not self._may_write():
                return _skipped(action, NOT_LEADING, "not the leader, or no longer: not done")
            manager = self._client.field_manager
            response = await self._ask(build_request(pinned, dry_run=self._settings.dry_run, field_manager=manager))
        except KubeError as error:
            return self._refused(action, error)
        if self._settings.dry_run:
            return _skipped(action, DRY_RUN, "dry run: the server would have done it")
        written = _metadata_in(response)
        return WriteOutcome(
            action,
            Result.APPLIED,
            name=written.name,
            uid=written.uid,
            resource_version=written.resource_version,
            body=response.body if _says_all(action) else b"",
        )

    def _refused(self, action: Action, error: KubeError) -> WriteOutcome:
        outcome = outcome_of(action, error)
        if outcome.result is Result.THROTTLED:
            # For all writes: a server that is too busy for one is too busy for the others.
            until = _now() + (outcome.retry_after or _USUAL_PAUSE)
            self._paused_until = max(self._paused_until, until)
        return outcome

    async def _pinned(self, action: Action) -> Action:
        """The action with a version to go with its UID, where the server would not check a UID alone."""
        reading = build_precondition_read(action)
        if reading is None:
            return action
        current = _metadata_in(await self._ask(reading))
        expected_uid = action.target.uid
        if current.uid != expected_uid:
            raise Conflict(
                409, REPLACED, f"the UID in precondition is {expected_uid}, and that of the object {current.uid}"
            )
        target = msgspec.structs.replace(action.target, resource_version=current.resource_version)
        return msgspec.structs.replace(action, target=target)

    async def _ask(self, request: Request) -> Response:
        return await self._client.send(msgspec.structs.replace(request, timeout=self._settings.timeout))

    def _pause(self) -> float:
        return self._paused_until - _now()

    def _reserve(self) -> float:
        """The wait that our own rate asks for; none if there is no rate."""
        if self._settings.rate is None:
            return 0.0
        if self._bucket is None:
            self._bucket = TokenBucket(self._settings.rate, _now())
        return self._bucket.reserve(_now())


def _skipped(action: Action, reason: str, cause: str) -> WriteOutcome:
    return WriteOutcome(action, Result.SKIPPED, reason, f"{cause}: {describe_action(action)}")


def _says_all(action: Action) -> bool:
    """Whether it writes a spec, which a server fills in. Bodies of status writes are not read: they are many."""
    return isinstance(action, CreateObject) or (isinstance(action, PatchObject) and not action.subresource)


def _identity(target: Target) -> tuple[str, str, str]:
    return target.resource.full_name, target.namespace, target.name


def _metadata_in(response: Response) -> ObjectMeta:
    """The metadata of the written object; empty for an eviction, which is answered with a `Status`."""
    try:
        return decode_object(response.body, KubeObject).metadata
    except UnreadableObject:
        return ObjectMeta()


def _now() -> float:
    return asyncio.get_running_loop().time()
