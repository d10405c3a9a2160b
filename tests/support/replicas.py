"""Replicas of a component on one API server in memory, whose connections can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from support.api_server.connections import Connection
from support.api_server.server import ModelServer
from trellis.kube.client import Client
from trellis.kube.leader_election import LeaseTimes
from trellis.kube.write.writer import Writer
from trellis.runtime.replicas.membership import Membership
from trellis.runtime.replicas.namespace_sharding import NamespaceSharding
from trellis.runtime.tasks import cancel_all

WALL = datetime(2026, 11, 19, 12, 0, 0, tzinfo=UTC)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def wall() -> datetime:
    return WALL + timedelta(seconds=asyncio.get_running_loop().time())


class Replica:
    """A member of the group `shards`, that shares namespaces. It notes what it lets go of, and how often it changes."""

    def __init__(self, server: ModelServer, identity: str, number: int = 0) -> None:
        self.connection = Connection(server)
        self.client = Client(self.connection)
        self.identity = identity
        self.let_go_seconds = 0.0
        self.changes = 0
        self.lost = ""
        self.membership = Membership(
            self.client,
            group="shards",
            namespace="kube-system",
            identity=identity,
            draw=lambda: (number % 7) / 7,
            times=LeaseTimes(),
            report=lambda _outcome: None,
            now=wall,
        )
        self.sharding = NamespaceSharding(self.membership)
        self.writer = Writer(self.client, record=lambda _outcome: None)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> Replica:
        self._tasks = [asyncio.create_task(self._stay()), asyncio.create_task(self.sharding.run(self))]
        return self

    async def _stay(self) -> None:
        self.lost = await self.membership.run()

    def on_shard_changed(self) -> None:
        self.changes += 1

    async def let_go(self, covers: Callable[[str], bool]) -> None:  # noqa: ARG002 - all namespaces take their time
        await asyncio.sleep(self.let_go_seconds)

    async def wait_for_writes(self, covers: Callable[[str], bool]) -> None:
        await self.writer.wait_for_writes(covers)

    async def stop(self) -> None:
        """As SIGTERM: the Lease is released."""
        await cancel_all(self._tasks)

    async def kill(self) -> None:
        """As SIGKILL: nothing is released."""
        self.connection.cut = True
        await cancel_all(self._tasks)

    def serves(self, namespace: str) -> bool:
        """Whether it decides for a namespace and may write its decisions."""
        return self.membership.may_write() and self.sharding.covers(namespace)

    def may_write_in(self, namespace: str) -> bool:
        return self.membership.may_write() and self.sharding.may_write_in(namespace)


async def wait_until(condition: Callable[[], bool], most: float = 60.0) -> float:
    """How many seconds it takes until a condition holds."""
    began = asyncio.get_running_loop().time()
    with suppress(TimeoutError):
        async with asyncio.timeout(most):
            while not condition():  # noqa: ASYNC110 - conditions are of state that sets no event
                await asyncio.sleep(0.05)
    assert condition()
    return asyncio.get_running_loop().time() - began
