"""A lease that all replicas of a group hold together, against holders that do not belong to the group.

Replicas that share the work of a component hold the lease of its single leader under one identity. Upstream's
component, or a replica that does not share, waits for that lease as for any other; the lease is released by the last
replica.

Each replica reads the lease every retry period and renews it if no other replica has. A record that another replica has
written since the last read was written after that read was sent, which is from when this replica counts its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from trellis.kube.client import Client
from trellis.kube.flow_control import Draw
from trellis.kube.leader_election import Election, LeaseTimes
from trellis.kube.lease_records import LeaseObservation, renewed_record
from trellis.kube.write.writer import Writer


class SharedElection(Election):
    """A candidate that leads together with all others of the same identity. `is_last` is whether no other is left."""

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
        times: LeaseTimes,
        is_last: Callable[[], bool],
    ) -> None:
        super().__init__(
            client, writer, name=name, namespace=namespace, identity=identity, now=now, draw=draw, times=times
        )
        self._is_last = is_last
        self._read_at = 0.0

    async def _renew(self) -> bool:
        previous, previous_read, sent = self._observed, max(self._read_at, self._renewed_at), _clock()
        if not await self._read():
            return False
        self._read_at = sent
        current = self._observed
        if current is None:
            return await self._try_acquire()
        if not self._is_own_record(current):
            return False
        if previous is not None and previous.spec != current.spec:
            self._renewed_at, self.last_error = previous_read, ""
            return True
        return await self._write(renewed_record(current.spec, self._now()))

    async def _release(self) -> None:
        if self._is_last():
            await super()._release()

    def _is_own_record(self, observation: LeaseObservation) -> bool:
        return observation.spec.holder_identity == self.identity


def _clock() -> float:
    return asyncio.get_running_loop().time()
