"""Membership: the live replicas of a group, known by their member Leases.

Each replica holds one Lease, `<group>-member-<n>`, and renews it like a leader. It is live until its Lease has been
observed unchanged for its duration. A replica that ends releases its Lease, and the next one takes it again: the number
of Leases is limited, so that rights can name them, and none is ever left over to be deleted. The Lease of a replica
that was killed is released by the one that observes its expiry first, so that a replica that has just started need not
observe it for as long.

What a replica reports of itself is in annotations of its Lease, written with the record. `has_observed_own_report`
is whether the informer has shown the last report. As all changes of a kind arrive in the order of their versions, it
has then shown as well what every other replica had reported before.
"""

from __future__ import annotations

import asyncio
import math
import socket
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec

from trellis.api.kube.coordination import Lease
from trellis.base.replica_assignment import MAX_MEMBERS, list_member_leases
from trellis.kube.client import Client
from trellis.kube.flow_control import Draw
from trellis.kube.leader_election import Election, LeaseTimes
from trellis.kube.lease_records import (
    LeaseObservation,
    LeaseWriter,
    expires_at,
    observe_lease,
    record_document,
    released_record,
)
from trellis.kube.resources import LEASES
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import WatchInformer
from trellis.kube.watch.selection import Selection
from trellis.kube.write.actions import Target
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.runtime.tasks import cancel_all, wait_for_first
from trellis.runtime.telemetry.logs import Logger

GROUP_LABEL: Final = "trellis.x-k8s.io/replicas-of"

# How long a free Lease may take to be acquired before another one is tried.
_JOIN_SECONDS: Final = 1.0

# How often expiries are looked for while there are no members.
_IDLE_SECONDS: Final = 1.0

_log: Final = Logger("trellis.replicas")


class Member(msgspec.Struct, frozen=True):
    """A live replica: the name of its Lease, its identity, and what it reports."""

    name: str
    identity: str
    report: Mapping[str, str]


class _ObservedMember(msgspec.Struct, frozen=True):
    """A member Lease as it was last observed."""

    observation: LeaseObservation
    report: Mapping[str, str]


class Membership:
    """One replica of a group. `run` in a task of its own."""

    def __init__(
        self,
        client: Client,
        *,
        group: str,
        namespace: str,
        identity: str,
        draw: Draw,
        times: LeaseTimes,
        report: Callable[[WriteOutcome], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.group = group
        self.identity = identity
        self._client = client
        self._namespace = namespace
        self._draw = draw
        self._times = times
        self._record = report
        self._now = now
        self._lease_writer = LeaseWriter(client, Writer(client, record=report))
        self._names = frozenset(list_member_leases(group))
        self._observed: dict[str, _ObservedMember] = {}
        self._reported: dict[str, str] = {}
        self._election: Election | None = None
        self._subscribers: list[Callable[[], None]] = []
        self._informer = WatchInformer(
            client, LEASES, draw=draw, selection=Selection((namespace,), label_selector=f"{GROUP_LABEL}={group}")
        )
        self._informer.subscribe(self._observe)

    @property
    def name(self) -> str:
        """The name of this replica's Lease; empty before it has one."""
        return self._election.lease.name if self._election is not None and self._election.is_leading else ""

    @property
    def has_observed_own_report(self) -> bool:
        """Whether everything that others reported before this replica's last report is known."""
        own = self._observed.get(self.name)
        return (
            own is not None
            and own.observation.spec.holder_identity == self.identity
            and self._reported.items() <= own.report.items()
        )

    @property
    def last_error(self) -> str:
        """The error of the last try to hold a Lease; empty if there was none."""
        return self._election.last_error if self._election is not None else ""

    def may_write(self) -> bool:
        """Whether no other replica can take this one for dead yet."""
        return self._election is not None and self._election.may_write()

    def list_live(self) -> dict[str, Member]:
        """The live replicas by the names of their Leases, this one among them."""
        now = asyncio.get_running_loop().time()
        return {
            name: Member(name, member.observation.spec.holder_identity, member.report)
            for name, member in sorted(self._observed.items())
            if member.observation.spec.holder_identity and now < expires_at(member.observation, self._times.duration)
        }

    def is_fresh(self, name: str) -> bool:
        """Whether a renewal of a Lease was observed lately.

        A live replica whose Lease is not fresh has probably been killed. If this replica's own Lease is not, the watch
        is behind: what is known of others is no reason to act.
        """
        return self._has_observed(name, within=self._times.renew_period + 1.5 * self._times.retry_period)

    def _has_observed(self, name: str, *, within: float) -> bool:
        member = self._observed.get(name)
        return member is not None and asyncio.get_running_loop().time() - member.observation.since < within

    def report(self, values: Mapping[str, str]) -> None:
        """Publish what this replica reports of itself, at once."""
        if dict(values) != self._reported:
            self._reported = dict(values)
            if self._election is not None:
                self._election.renew_soon()

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call this when members or their reports may have changed."""
        self._subscribers.append(on_change)

    async def run(self, *, rejoins: bool = False) -> str:
        """Join the group and stay a member until cancelled, and leave it then; the result is why it was lost.

        With `rejoins`, a replica that loses its Lease takes another one.
        """
        tasks = [
            asyncio.create_task(self._informer.run(), name="watch members"),
            asyncio.create_task(self._watch_expiries(), name="member expiries"),
        ]
        staying = asyncio.create_task(self._join_and_stay(rejoins), name="member lease")
        try:
            await wait_for_first([*tasks, staying])
            return staying.result()
        finally:
            await cancel_all([staying])
            await cancel_all(tasks)

    async def _join_and_stay(self, rejoins: bool) -> str:
        await self._informer.wait_until_synced()
        while True:
            if (name := self._choose_lease()) is None:
                _log.warning("no member Lease is free", group=self.group, most=MAX_MEMBERS)
                await asyncio.sleep(self._times.retry_period)
                continue
            lost = asyncio.Event()
            self._election = election = self._create_election(name)
            holding = asyncio.create_task(election.run(partial(_set_unless_leading, lost)))
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_JOIN_SECONDS):
                        await election.wait_until_leading()
                if election.is_leading:
                    _log.info("joined", group=self.group, lease=name, identity=self.identity)
                    self._notify()
                    why = await self._wait_until_lost(election, lost)
                    _log.warning("lost the member Lease", group=self.group, lease=name, why=why)
                    if not rejoins:
                        return why
            finally:
                await cancel_all([holding])

    async def _wait_until_lost(self, election: Election, lost: asyncio.Event) -> str:
        """Why this replica is no member any more: its Lease is lost, or it would not observe what others report."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._times.duration):
                    await lost.wait()
                    return election.last_error or f"held by {election.holder}"
            if not self._has_observed(election.lease.name, within=self._times.duration):
                return "its own renewals are not observed: the watch of Leases is stuck"

    def _choose_lease(self) -> str | None:
        """A Lease that is free, the same one for the same host where possible: then members keep their names."""
        names, live = list_member_leases(self.group), self.list_live()
        begin = zlib.crc32(socket.gethostname().encode()) % len(names)
        return next((name for name in (*names[begin:], *names[:begin]) if name not in live), None)

    def _create_election(self, name: str) -> Election:
        return Election(
            self._client,
            Writer(self._client, record=self._record),
            name=name,
            namespace=self._namespace,
            identity=self.identity,
            now=self._now,
            draw=self._draw,
            times=self._times,
            metadata=lambda: {"labels": {GROUP_LABEL: self.group}, "annotations": dict(self._reported)},
        )

    def _observe(self, change: ObjectChange[Lease]) -> None:
        name, lease = change.key[1], change.new
        if name not in self._names:
            return
        if lease is None:
            self._observed.pop(name, None)
        else:
            previous = self._observed.get(name)
            observation = observe_lease(
                previous.observation if previous else None, lease, asyncio.get_running_loop().time()
            )
            self._observed[name] = _ObservedMember(observation, lease.metadata.annotations)
        self._notify()

    async def _watch_expiries(self) -> None:
        """Notify when a member Lease expires, which no watch shows."""
        clock = asyncio.get_running_loop().time
        live = self.list_live().keys()
        while True:
            # A renewal moves the expiry: whatever has expired by then is found, and little else wakes this process.
            expiries = [expires_at(self._observed[name].observation, self._times.duration) for name in live]
            await asyncio.sleep(max(min(expiries, default=math.inf) - clock(), 0.0) if expiries else _IDLE_SECONDS)
            if (now_live := self.list_live().keys()) != live:
                gone, live = live - now_live, now_live
                self._notify()
                await self._release_expired(gone)

    async def _release_expired(self, names: Iterable[str]) -> None:
        """Release Leases that have expired, as any candidate may take them now. One that was renewed is left alone."""
        for name in names:
            member = self._observed.get(name)
            if member is None or not member.observation.spec.holder_identity or not self.may_write():
                continue
            target = Target(LEASES, name, self._namespace, resource_version=member.observation.resource_version)
            record = record_document(released_record(member.observation.spec, self._now()))
            await self._lease_writer.write(target, record)

    def _notify(self) -> None:
        for on_change in self._subscribers:
            on_change()


def _set_unless_leading(lost: asyncio.Event, is_leading: bool) -> None:
    if not is_leading:
        lost.set()
