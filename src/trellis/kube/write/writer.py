"""The writer: the one way to change the cluster. Actions in, one outcome for each out.

An error of the API server is an outcome, never an exception, and every outcome is also passed to `record`, which logs
and counts it: no write is lost silently. Right before each request the writer checks that it may still write. A
leader that has lost its lease is stopped there, however long its action has waited in the queue.
"""

from __future__ import annotations

import asyncio
from collections import Counter
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
from trellis.kube.write.outcomes import DRY_RUN, NOT_LEADING, READ_ONLY, REPLACED, Result, WriteOutcome, build_outcome

# Attempts at a write that the server throttles, the first one included.
_ATTEMPTS: Final = 3

# A longer pause is left to the next pass, which decides on a newer view.
_MAX_PAUSE: Final = 30.0

# The pause after a 429 without `Retry-After`. The API server's own have one, mostly of this length.
_DEFAULT_PAUSE: Final = 1.0


class WriterSettings(msgspec.Struct, frozen=True):
    """How the writer writes.

    `read_only` makes every write a no-op that is recorded. `dry_run` sends each one and has the server check it without
    storing anything. `concurrency` is how many requests are under way at once: the API server gives all workloads of a
    priority level some tens of seats. `rate` is off unless given, because the server protects itself (429).

    `timeout` bounds a request in seconds. A leader stops writing as long before others may take its lease
    (`LeaseTimes.write_deadline`): a write that was under way at that moment is over by then.
    """

    read_only: bool = False
    dry_run: bool = False
    concurrency: int = 8
    rate: Rate | None = None
    timeout: float = 5.0


class Writer:
    """Executes actions, some at a time. `may_write` is checked before each request; without it, all are sent.

    `may_write_in` is checked as well, with the namespace of the object.
    """

    def __init__(
        self,
        client: Client,
        *,
        record: Callable[[WriteOutcome], None],
        may_write: Callable[[], bool] = lambda: True,
        may_write_in: Callable[[str], bool] = lambda _namespace: True,
        settings: WriterSettings = WriterSettings(),  # noqa: B008 - frozen
    ) -> None:
        self._client = client
        self._record = record
        self._may_write = may_write
        self._may_write_in = may_write_in
        # How many requests are in flight, by namespace.
        self._in_flight: Counter[str] = Counter()
        self._response_received = asyncio.Event()
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._bucket: TokenBucket | None = None
        self._paused_until = 0.0

    def for_cluster(self, client: Client) -> Writer:
        """A writer to another API server, by the same rules and with the same reports."""
        return Writer(
            client,
            record=self._record,
            may_write=self._may_write,
            may_write_in=self._may_write_in,
            settings=self._settings,
        )

    @property
    def concurrency(self) -> int:
        """How many writes are in flight at most; further callers wait in the queue."""
        return self._settings.concurrency

    async def write(self, action: Action) -> WriteOutcome:
        """Execute an action, and record its outcome."""
        outcome = await self.write_unrecorded(action)
        self.record(outcome)
        return outcome

    async def write_unrecorded(self, action: Action) -> WriteOutcome:
        """Execute an action without recording its outcome, for callers that can fall back."""
        if self._settings.read_only:
            return _build_skipped(action, READ_ONLY, "skipped: read-only")
        async with self._slots:
            return await self._write_with_retries(action)

    def record(self, outcome: WriteOutcome) -> None:
        """Record the outcome of an unrecorded write."""
        self._record(outcome)

    async def write_all(self, actions: Iterable[Action]) -> tuple[WriteOutcome, ...]:
        """Execute actions concurrently, those on one object in order. Outcomes are in the order of the actions."""
        numbered = list(enumerate(actions))
        by_object: dict[tuple[str, str, str], list[tuple[int, Action]]] = {}
        for numbered_action in numbered:
            by_object.setdefault(_identity(numbered_action[1].target), []).append(numbered_action)
        outcomes: dict[int, WriteOutcome] = {}
        groups = iter(by_object.values())

        async def work() -> None:
            # A few workers share one iterator: ten thousand actions are not ten thousand tasks.
            for group in groups:
                for number, action in group:
                    outcomes[number] = await self.write(action)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(self._settings.concurrency, len(by_object))):
                workers.create_task(work())
        return tuple(outcomes[number] for number, _ in numbered)

    async def _write_with_retries(self, action: Action) -> WriteOutcome:
        outcome = await self._write_once(action)
        for _ in range(_ATTEMPTS - 1):
            if not self._should_retry(outcome):
                break
            outcome = await self._write_once(action)
        return outcome

    def _should_retry(self, outcome: WriteOutcome) -> bool:
        if outcome.result is Result.THROTTLED:
            return self._remaining_pause() <= _MAX_PAUSE
        # The version was read a moment before for this write, and the decision does not depend on it.
        return outcome.result is Result.CONFLICT and build_precondition_read(outcome.action) is not None

    async def _write_once(self, action: Action) -> WriteOutcome:
        await asyncio.sleep(self._reserve_token())
        while (pause := self._remaining_pause()) > 0:
            if pause > _MAX_PAUSE:
                message = f"the API server asks to wait for {pause:.0f} s"
                return WriteOutcome(action, Result.THROTTLED, "Paused", message, retry_after=pause)
            await asyncio.sleep(pause)
        try:
            pinned = await self._add_version(action)
            # Nothing may wait between this check and the request.
            if not self._may_write():
                return _build_skipped(action, NOT_LEADING, "skipped: not leading")
            if not self._may_write_in(action.target.namespace):
                return _build_skipped(action, NOT_LEADING, "skipped: another replica serves the namespace")
            manager = self._client.field_manager
            request = build_request(pinned, dry_run=self._settings.dry_run, field_manager=manager)
            response = await self._send_counted(request, action.target.namespace)
        except KubeError as error:
            return self._note_failure(action, error)
        if self._settings.dry_run:
            return _build_skipped(action, DRY_RUN, "dry run: the API server accepts it")
        written = _read_metadata(response)
        return WriteOutcome(
            action,
            Result.APPLIED,
            name=written.name,
            uid=written.uid,
            resource_version=written.resource_version,
            body=response.body if _keeps_body(action) else b"",
        )

    def _note_failure(self, action: Action, error: KubeError) -> WriteOutcome:
        outcome = build_outcome(action, error)
        if outcome.result is Result.THROTTLED:
            # The pause applies to all writes: a server that throttles one throttles the others.
            until = _now() + (outcome.retry_after or _DEFAULT_PAUSE)
            self._paused_until = max(self._paused_until, until)
        return outcome

    async def _add_version(self, action: Action) -> Action:
        """The action with the current version added, where the server would not check the UID alone."""
        reading = build_precondition_read(action)
        if reading is None:
            return action
        current = _read_metadata(await self._send(reading))
        expected_uid = action.target.uid
        if current.uid != expected_uid:
            raise Conflict(
                409, REPLACED, f"the UID in precondition is {expected_uid}, and that of the object {current.uid}"
            )
        target = msgspec.structs.replace(action.target, resource_version=current.resource_version)
        return msgspec.structs.replace(action, target=target)

    async def wait_for_writes(self, ignores: Callable[[str], bool]) -> None:
        """Return once no write is in flight, but for those to namespaces that are ignored."""
        while any(not ignores(namespace) for namespace in self._in_flight):
            self._response_received.clear()
            await self._response_received.wait()

    async def _send_counted(self, request: Request, namespace: str) -> Response:
        self._in_flight[namespace] += 1
        try:
            return await self._send(request)
        finally:
            self._in_flight[namespace] -= 1
            if not self._in_flight[namespace]:
                del self._in_flight[namespace]
            self._response_received.set()

    async def _send(self, request: Request) -> Response:
        return await self._client.send(msgspec.structs.replace(request, timeout=self._settings.timeout))

    def _remaining_pause(self) -> float:
        return self._paused_until - _now()

    def _reserve_token(self) -> float:
        """The wait of the rate limit; 0 without one."""
        if self._settings.rate is None:
            return 0.0
        if self._bucket is None:
            self._bucket = TokenBucket(self._settings.rate, _now())
        return self._bucket.reserve(_now())


def _build_skipped(action: Action, reason: str, cause: str) -> WriteOutcome:
    return WriteOutcome(action, Result.SKIPPED, reason, f"{cause}: {describe_action(action)}")


def _keeps_body(action: Action) -> bool:
    """Whether the response is of use: a spec comes back with defaults. Bodies of status writes are dropped."""
    return isinstance(action, CreateObject) or (isinstance(action, PatchObject) and not action.subresource)


def _identity(target: Target) -> tuple[str, str, str]:
    return target.resource.full_name, target.namespace, target.name


def _read_metadata(response: Response) -> ObjectMeta:
    """The metadata of the written object; empty for an eviction, whose response is a `Status`."""
    try:
        return decode_object(response.body, KubeObject).metadata
    except UnreadableObject:
        return ObjectMeta()


def _now() -> float:
    return asyncio.get_running_loop().time()
