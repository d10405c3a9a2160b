"""Leader election among replicas, by a Lease with client-go's fields, so that it works with replicas of either kind.

| | default | meaning |
|---|---|---|
| `duration` | 15 s | a lease that has not been renewed for this time is free |
| `renew_deadline` | 10 s | a leader that could not renew for this time stops to lead |
| `retry_period` | 2 s | how often a leader renews and the candidates check |

Two rules make sure that there is never more than one leader, whatever the clocks say:

- A candidate counts how long *it* has observed the record unchanged, on its event loop's clock. The times in the record
  are for people and are never compared with a clock.
- A leader may write until `write_deadline` after it *sent* its last successful renewal. That is checked before each
  write, so a process that was stopped for a minute is fenced when it wakes, before it learns that it was deposed. The
  clock does not count a machine's sleep; what is then still written fails on its resource version.

A candidate watches the Lease beside its retries, so that a lease that is released is taken at once, and one whose
leader was killed as soon as it expires. Where the watch is forbidden, as by roles that grant `get` alone, retries are
enough.

A record that names this candidate but that it did not write belongs to another process with the same name: it is
respected.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec

from trellis.api.kube.coordination import Lease, LeaseSpec
from trellis.base.errors import Forbidden, InvalidInput, KubeError, NotFound, UnreadableObject
from trellis.kube.client import Client
from trellis.kube.flow_control import Draw, wait_for_tick
from trellis.kube.lease_records import (
    LeaseObservation,
    LeaseWriter,
    acquired_record,
    expires_at,
    observe_lease,
    record_document,
    released_record,
    renewed_record,
)
from trellis.kube.resources import LEASES
from trellis.kube.watch.watch_events import EventKind, WatchEvent
from trellis.kube.write.actions import CreateObject, Target
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer, WriterSettings

# By how much candidates extend their retries, as client-go: up to 2.2 times.
_JITTER: Final = 1.2

# The longest that a write may take.
_WRITE_SECONDS: Final = WriterSettings().timeout

# A shutdown takes a second; a lease that is not released within it expires.
_RELEASE_SECONDS: Final = 1.0

# How long one watch of a lease may take. A connection that died without a word costs no more than a retry period.
_WATCH_SECONDS: Final = 300


class LeaseTimes(msgspec.Struct, frozen=True):
    """Seconds. A leader retries before its deadline, and stops before its Lease can be taken.

    After a renewal it waits longer than after a failure, so that a process of six components writes half as often. If a
    Lease is short, a leader stops writing earlier than it stops to lead: until then it may still renew.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period * _JITTER > 0:
            rule = f"a lease must outlast its renewal deadline, and that {_JITTER} retry periods"
            raise InvalidInput(f"{self.duration:g} s, {self.renew_deadline:g} s, {self.retry_period:g} s", rule)

    @property
    def renew_period(self) -> float:
        """The wait after a renewal: two retry periods, unless fewer than three attempts remain before the deadline."""
        return max(self.retry_period, min(2 * self.retry_period, self.renew_deadline - 3 * self.retry_period))

    @property
    def write_deadline(self) -> float:
        """For how long after a renewal a leader may write: what it sends then ends before another one may lead."""
        return min(self.renew_deadline, max(self.duration - _WRITE_SECONDS, self.renew_period + self.retry_period))


class Election:
    """One candidate. Call `run` in its own task, and check `may_write` before each write.

    The writer does not check `may_write`: a candidate that does not lead must still be able to take the lease. With a
    read-only writer no candidate ever leads, because nothing is written.

    `hold_back` is for how many seconds a candidate leaves a free lease to others. `metadata` has labels and
    annotations, which are written with every record.
    """

    def __init__(
        self,
        client: Client,
        writer: Writer,
        *,
        name: str,
        namespace: str,
        identity: str,
        now: Callable[[], datetime],
        draw: Draw,
        times: LeaseTimes = LeaseTimes(),  # noqa: B008 - frozen
        hold_back: Callable[[], float] = lambda: 0.0,
        metadata: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.identity = identity
        self.last_error = ""
        self.lease_uid = ""
        self._client = client
        self._writer = writer
        self._lease_writer = LeaseWriter(client, writer)
        self._lease = Target(LEASES, name, namespace)
        self._now = now
        self._draw = draw
        self._times = times
        self._hold_back = hold_back
        self._metadata = metadata
        self._leading = asyncio.Event()
        self._observed: LeaseObservation | None = None
        # Records that this candidate has written or tried to: the response to one may have been lost.
        self._own_records: deque[LeaseSpec] = deque(maxlen=16)
        self._renewed_at = 0.0
        self._woken = asyncio.Event()

    @property
    def lease(self) -> Target:
        """The Lease."""
        return self._lease

    @property
    def is_leading(self) -> bool:
        """Whether this candidate holds the lease, by its last renewal."""
        return self._leading.is_set()

    @property
    def holder(self) -> str:
        """The identity of the leader, as last observed; empty if there is none."""
        return self._observed.spec.holder_identity if self._observed else ""

    def may_write(self) -> bool:
        """Whether this candidate leads and no other can have taken the lease yet."""
        return self.is_leading and _clock() < self._renewed_at + self._times.write_deadline

    async def wait_until_leading(self) -> None:
        """Return once this candidate leads."""
        await self._leading.wait()

    def renew_soon(self) -> None:
        """Renew the lease now, with changed metadata."""
        self._woken.set()

    async def run(self, on_change: Callable[[bool], None] = lambda _leading: None) -> None:
        """Take part in the election until cancelled, and then release the lease.

        `on_change` is called when this candidate begins and when it stops to lead.
        """
        try:
            while True:
                await self._acquire()
                self._leading.set()
                on_change(True)
                try:
                    await self._renew_until_lost()
                finally:
                    self._leading.clear()
                    on_change(False)
        finally:
            await self._release()

    async def _acquire(self) -> None:
        if await self._try_acquire():
            return
        watching = asyncio.create_task(self._watch(), name=f"watch lease {self._lease.name}")
        try:
            while True:
                await self._sleep(self._next_attempt_in())
                if self._is_free() and (delay := self._hold_back()) > 0.0:
                    await asyncio.sleep(delay)
                if await self._try_acquire():
                    return
        finally:
            watching.cancel()
            await asyncio.wait({watching})

    async def _sleep(self, seconds: float) -> None:
        """Sleep so long, or until woken."""
        timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
            self._woken.clear()

    def _is_free(self) -> bool:
        return self._observed is None or _clock() >= expires_at(self._observed, self._times.duration)

    def _next_attempt_in(self) -> float:
        wait = self._times.retry_period * (1 + _JITTER * self._draw())
        if self._observed is None:
            return wait
        remaining = expires_at(self._observed, self._times.duration) - _clock()
        return min(wait, remaining) if remaining > 0 else wait

    async def _watch(self) -> None:
        """Observe the Lease until cancelled, or as long as that is allowed."""
        while True:
            try:
                async with (
                    asyncio.timeout(_WATCH_SECONDS + self._times.duration),
                    self._client.watch(
                        LEASES,
                        self._lease.namespace,
                        resource_version=self._observed.resource_version if self._observed else "",
                        field_selector=f"metadata.name={self._lease.name}",
                        timeout_seconds=_WATCH_SECONDS,
                    ) as events,
                ):
                    async for event in events:
                        self._observe_event(event)
            except Forbidden:
                return
            except (KubeError, UnreadableObject, TimeoutError) as error:
                self.last_error = str(error)
            await asyncio.sleep(self._times.retry_period)

    def _observe_event(self, event: WatchEvent[Lease]) -> None:
        """Note a change of the Lease, and wake the candidate if it is free."""
        if event.kind is EventKind.DELETED:
            self._woken.set()
        elif event.object is not None:
            self._observed = observe_lease(self._observed, event.object, _clock())
            if not event.object.spec.holder_identity:
                self._woken.set()

    async def _renew_until_lost(self) -> None:
        """Renew until renewals fail for too long, or another candidate is observed to lead."""
        while True:
            await self._sleep(wait_for_tick(self._times.renew_period, _clock()))
            try:
                async with asyncio.timeout_at(self._renewed_at + self._times.renew_deadline):
                    while not await self._renew():
                        if self._observed is not None and not self._is_own_record(self._observed):
                            return
                        await asyncio.sleep(self._times.retry_period)
            except TimeoutError:
                self.last_error = (
                    f"the lease could not be renewed for {self._times.renew_deadline:g} s; {self.last_error}"
                )
                return

    async def _try_acquire(self) -> bool:
        """Read the lease, and take it if it is free."""
        if not await self._read():
            return False
        if self._observed is None:
            return await self._write(acquired_record(None, self.identity, self._times.duration, self._now()))
        if self._is_own_record(self._observed):
            return await self._write(renewed_record(self._observed.spec, self._now()))
        if not self._is_free():
            return False
        return await self._write(acquired_record(self._observed.spec, self.identity, self._times.duration, self._now()))

    async def _read(self) -> bool:
        """Observe the lease as it is now, or that there is none; False if that failed."""
        try:
            lease = await self._client.get(LEASES, self._lease.name, self._lease.namespace)
        except NotFound:
            self._observed = None
        except (KubeError, UnreadableObject) as error:
            self.last_error = str(error)
            return False
        else:
            self._observed = observe_lease(self._observed, lease, _clock())
        return True

    async def _renew(self) -> bool:
        """Renew from the last observed record; read the lease only if that has changed."""
        if self._observed is not None and await self._write(renewed_record(self._observed.spec, self._now())):
            return True
        return await self._try_acquire()

    async def _write(self, spec: LeaseSpec) -> bool:
        sent = _clock()
        self._own_records.append(spec)
        outcome = await self._write_record(spec)
        if outcome.applied:
            self._observed = LeaseObservation(spec, outcome.resource_version, _clock())
            self._renewed_at = sent
            self.lease_uid = outcome.uid
            self.last_error = ""
        else:
            self.last_error = outcome.message
        return outcome.applied

    async def _release(self) -> None:
        if self._observed is None or not self._is_own_record(self._observed):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_RELEASE_SECONDS):
                await self._write_record(released_record(self._observed.spec, self._now()))

    async def _write_record(self, spec: LeaseSpec) -> WriteOutcome:
        """Write the record, on condition that the lease still has the observed version."""
        metadata = self._metadata()
        if self._observed is None:
            named = {"name": self._lease.name, "namespace": self._lease.namespace, **metadata}
            lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": named}
            return await self._writer.write(CreateObject(self._lease, lease | {"spec": record_document(spec)}))
        target = msgspec.structs.replace(self._lease, resource_version=self._observed.resource_version)
        return await self._lease_writer.write(target, record_document(spec), metadata)

    def _is_own_record(self, observation: LeaseObservation) -> bool:
        return observation.spec in self._own_records


def _clock() -> float:
    return asyncio.get_running_loop().time()
