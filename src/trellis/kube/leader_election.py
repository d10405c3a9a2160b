"""Leader election among replicas, by a Lease with client-go's fields, so that it works with replicas of either kind.

| | default | meaning |
|---|---|---|
| `duration` | 15 s | a lease that has not been renewed for so long is free |
| `renew_deadline` | 10 s | a leader that could not renew for so long stops writing |
| `retry_period` | 2 s | how often a leader renews and the candidates check |

Two rules make sure that there is never more than one leader, whatever the clocks say:

- A candidate counts how long *it* has observed the record unchanged, on its event loop's clock. The times in the record
  are for people and are never compared with a clock.
- A leader may write until `renew_deadline` after it *sent* its last successful renewal. That is checked before each
  write, so a process that was stopped for a minute is fenced when it wakes, before it learns that it was deposed. The
  clock does not count a machine's sleep; what is then still written fails on its resource version.

A record that names this candidate but that it did not write belongs to another process with the same name: it is
respected.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from trellis.api.kube.coordination import LeaseSpec
from trellis.base.errors import InvalidInput, KubeError, NotFound, UnreadableObject
from trellis.kube.client import Client
from trellis.kube.flow_control import Draw
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
from trellis.kube.write.actions import CreateObject, Target
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer

# By how much candidates extend their retries, as client-go: up to 2.2 times.
_JITTER: Final = 1.2

# A shutdown takes a second; a lease that is not released within it expires.
_RELEASE_SECONDS: Final = 1.0


class LeaseTimes(msgspec.Struct, frozen=True):
    """Seconds. A leader retries before its deadline, and stops before its Lease can be taken."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period * _JITTER > 0:
            rule = f"a lease must outlast its renewal deadline, and that {_JITTER} retry periods"
            raise InvalidInput(f"{self.duration:g} s, {self.renew_deadline:g} s, {self.retry_period:g} s", rule)


class Election:
    """One candidate. Call `run` in its own task, and check `may_write` before each write.

    The writer does not check `may_write`: a candidate that does not lead must still be able to take the lease. With a
    read-only writer no candidate ever leads, because nothing is written.
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
    ) -> None:
        self.identity = identity
        self.last_error = ""
        self._client = client
        self._writer = writer
        self._lease_writer = LeaseWriter(client, writer)
        self._lease = Target(LEASES, name, namespace)
        self._now = now
        self._draw = draw
        self._times = times
        self._leading = asyncio.Event()
        self._observed: LeaseObservation | None = None
        # Records that this candidate has written or tried to: the response to one may have been lost.
        self._own_records: deque[LeaseSpec] = deque(maxlen=16)
        self._renewed_at = 0.0

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
        return self.is_leading and _clock() < self._renewed_at + self._times.renew_deadline

    async def wait_until_leading(self) -> None:
        """Return once this candidate leads."""
        await self._leading.wait()

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
        while not await self._try_acquire():
            wait = self._times.retry_period * (1 + _JITTER * self._draw())
            if self._observed is not None:
                remaining = expires_at(self._observed, self._times.duration) - _clock()
                wait = min(wait, remaining) if remaining > 0 else wait
            await asyncio.sleep(wait)

    async def _renew_until_lost(self) -> None:
        """Renew until renewals fail for too long, or another candidate is observed to lead."""
        while True:
            await asyncio.sleep(self._times.retry_period)
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
        try:
            lease = await self._client.get(LEASES, self._lease.name, self._lease.namespace)
        except NotFound:
            self._observed = None
            return await self._write(acquired_record(None, self.identity, self._times.duration, self._now()))
        except (KubeError, UnreadableObject) as error:
            self.last_error = str(error)
            return False
        self._observed = observation = observe_lease(self._observed, lease, _clock())
        if self._is_own_record(observation):
            return await self._write(renewed_record(observation.spec, self._now()))
        if _clock() < expires_at(observation, self._times.duration):
            return False
        return await self._write(acquired_record(observation.spec, self.identity, self._times.duration, self._now()))

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
        if self._observed is None:
            metadata = {"name": self._lease.name, "namespace": self._lease.namespace}
            lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}
            return await self._writer.write(CreateObject(self._lease, lease | {"spec": record_document(spec)}))
        target = msgspec.structs.replace(self._lease, resource_version=self._observed.resource_version)
        return await self._lease_writer.write(target, record_document(spec))

    def _is_own_record(self, observation: LeaseObservation) -> bool:
        return observation.spec in self._own_records


def _clock() -> float:
    return asyncio.get_running_loop().time()
