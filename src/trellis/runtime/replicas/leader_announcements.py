"""Announces leaders by Events of the Lease, in the words of client-go."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason
from trellis.kube.client import Client
from trellis.kube.events import EventRecorder, EventReporter
from trellis.kube.leader_election import Election
from trellis.kube.resources import LEASES
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer

LEADER_ELECTION: Final = Reason("LeaderElection", "A replica became the leader, or stopped leading.")

# What the last Event may take of a shutdown.
_FLUSH_SECONDS: Final = 0.3
_RETRY_SECONDS: Final = 5.0


class LeaderAnnouncer:
    """Announces the elections of one component. `run` in a task of its own."""

    def __init__(self, client: Client, component: str, report: Callable[[WriteOutcome], None]) -> None:
        reporter = EventReporter(component, socket.gethostname())
        self._announced = asyncio.Event()
        self._posting = asyncio.Lock()
        # Its writer does not ask who leads: one Event is about having stopped.
        self._recorder = EventRecorder(Writer(client, record=report), reporter, now=lambda: datetime.now(UTC))

    def announce(self, election: Election, *, is_leading: bool) -> None:
        """Announce that this replica leads or has stopped leading."""
        lease = election.lease
        about = ObjectReference(LEASES.kind, lease.namespace, lease.name, election.lease_uid, LEASES.api_version)
        change = "became leader" if is_leading else "stopped leading"
        self._recorder.record(about, LEADER_ELECTION, f"{election.identity} {change}")
        self._announced.set()

    async def run(self) -> None:
        """Post Events until cancelled."""
        while True:
            await self._announced.wait()
            self._announced.clear()
            async with self._posting:
                is_posted = await self._recorder.flush()
            if not is_posted:
                await asyncio.sleep(_RETRY_SECONDS)
                self._announced.set()

    async def flush(self) -> None:
        """Post what is left, and wait for what is being posted, within a moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS), self._posting:
                await self._recorder.flush()
