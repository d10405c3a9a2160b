"""Replicas that share namespaces hold one Lease together, and other candidates wait for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from support import virtual_time
from support.api_server.connections import Connection
from support.api_server.server import ModelServer
from support.replicas import LEASES, wait_until, wall
from trellis.kube.client import Client
from trellis.kube.leader_election import Election, LeaseTimes
from trellis.kube.shared_election import SharedElection
from trellis.kube.write.writer import Writer
from trellis.runtime.tasks import cancel_all

LEASE = f"{LEASES}/updater"


class Candidate:
    """A candidate of its own, or one of a group that holds the Lease together."""

    def __init__(self, server: ModelServer, identity: str, group: set[str] | None = None) -> None:
        self.connection = Connection(server)
        self._name = identity
        self._group = group
        client = Client(self.connection)
        writer = Writer(client, record=lambda _outcome: None)
        given: dict[str, Any] = {
            "name": "updater",
            "namespace": "kube-system",
            "now": wall,
            "draw": lambda: 0.5,
            "times": LeaseTimes(),
        }
        self.election = (
            Election(client, writer, identity=identity, **given)
            if group is None
            else SharedElection(client, writer, identity="shards", is_last=lambda: group <= {identity}, **given)
        )
        self._running: asyncio.Task[None] | None = None

    def start(self) -> Candidate:
        if self._group is not None:
            self._group.add(self._name)
        self._running = asyncio.create_task(self.election.run())
        return self

    async def stop(self) -> None:
        assert self._running is not None
        await cancel_all([self._running])
        if self._group is not None:
            self._group.discard(self._name)

    async def kill(self) -> None:
        self.connection.cut = True
        await self.stop()


def run(play: Callable[[ModelServer], Coroutine[Any, Any, None]]) -> None:
    virtual_time.run(play(ModelServer()))


def test_all_replicas_of_a_group_lead_while_another_candidate_waits() -> None:
    async def play(server: ModelServer) -> None:
        group: set[str] = set()
        first, second = Candidate(server, "a", group).start(), Candidate(server, "b", group).start()
        await wait_until(lambda: first.election.may_write() and second.election.may_write(), most=10.0)
        other = Candidate(server, "upstream").start()
        for _ in range(600):
            await asyncio.sleep(0.1)
            assert first.election.may_write()
            assert second.election.may_write()
            assert not other.election.may_write()

    run(play)


def test_a_group_waits_for_another_holder() -> None:
    async def play(server: ModelServer) -> None:
        other = Candidate(server, "upstream").start()
        await wait_until(other.election.may_write)
        group: set[str] = set()
        replicas = [Candidate(server, name, group).start() for name in "ab"]
        await asyncio.sleep(60.0)
        assert not any(replica.election.may_write() for replica in replicas)
        await other.stop()
        assert await wait_until(lambda: all(replica.election.may_write() for replica in replicas)) < 5.0

    run(play)


def test_the_others_of_a_group_keep_the_lease_when_one_is_killed_or_ends() -> None:
    async def play(server: ModelServer) -> None:
        group: set[str] = set()
        replicas = [Candidate(server, name, group).start() for name in "abc"]
        await wait_until(lambda: all(replica.election.may_write() for replica in replicas))
        other = Candidate(server, "upstream").start()
        await replicas[0].kill()
        await replicas[1].stop()
        for _ in range(600):
            await asyncio.sleep(0.1)
            assert replicas[2].election.may_write()
            assert not other.election.may_write()

    run(play)


def test_the_last_of_a_group_releases_the_lease_when_it_ends() -> None:
    async def play(server: ModelServer) -> None:
        group: set[str] = set()
        replicas = [Candidate(server, name, group).start() for name in "ab"]
        await wait_until(lambda: all(replica.election.may_write() for replica in replicas))
        other = Candidate(server, "upstream").start()
        await replicas[0].stop()
        assert server.objects[LEASE]["spec"]["holderIdentity"] == "shards"
        await replicas[1].stop()
        assert not server.objects[LEASE]["spec"].get("holderIdentity")
        assert await wait_until(other.election.may_write) < 1.0

    run(play)


def test_a_replica_that_is_cut_off_stops_in_time_although_others_renew_the_lease() -> None:
    async def play(server: ModelServer) -> None:
        group: set[str] = set()
        replicas = [Candidate(server, name, group).start() for name in "ab"]
        await wait_until(lambda: all(replica.election.may_write() for replica in replicas))
        replicas[0].connection.cut = True
        assert await wait_until(lambda: not replicas[0].election.may_write()) <= LeaseTimes().renew_deadline
        assert replicas[1].election.may_write()
        replicas[0].connection.cut = False
        assert await wait_until(replicas[0].election.may_write) < 10.0

    run(play)
