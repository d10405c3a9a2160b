"""Replicas share namespaces on virtual time: no namespace has two, and none is without one for long."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import virtual_time
from support.api_server.server import ModelServer
from support.replicas import Replica, wait_until
from trellis.base.replica_assignment import find_owner

NAMESPACES = [f"team-{number}" for number in range(40)]


def servers_of(replicas: Sequence[Replica], namespace: str) -> list[str]:
    return [replica.identity for replica in replicas if replica.serves(namespace)]


def all_served(replicas: Sequence[Replica]) -> bool:
    """Whether each namespace is served by the replica that owns it, among these."""
    members = tuple(sorted(replica.membership.name for replica in replicas))
    names = {replica.membership.name: replica.identity for replica in replicas}
    return all(
        servers_of(replicas, namespace) == [names[find_owner(namespace, members) or ""]] for namespace in NAMESPACES
    )


async def check_exclusive(replicas: Sequence[Replica]) -> None:
    while True:
        for namespace in NAMESPACES:
            writers = [replica.identity for replica in replicas if replica.may_write_in(namespace)]
            assert len(writers) <= 1, f"{namespace}: {writers}"
        await asyncio.sleep(0.2)


def test_the_first_replica_serves_all_namespaces_and_a_second_one_takes_its_part() -> None:
    async def main() -> None:
        server = ModelServer()
        first, second = Replica(server, "a", 1), Replica(server, "b", 2)
        checking = asyncio.create_task(check_exclusive((first, second)))
        first.start()
        assert await wait_until(lambda: all_served([first])) < 5
        second.start()
        assert await wait_until(lambda: all_served([first, second])) < 5
        assert 10 < sum(second.serves(namespace) for namespace in NAMESPACES) < 30
        assert not checking.done()

    virtual_time.run(main())


def test_the_namespaces_of_a_killed_replica_are_served_within_30_seconds_and_those_of_others_all_the_time() -> None:
    async def main() -> None:
        server = ModelServer()
        replicas = [Replica(server, name, number).start() for number, name in enumerate("abc")]
        checking = asyncio.create_task(check_exclusive(replicas))
        await wait_until(lambda: all_served(replicas))
        kept = [namespace for namespace in NAMESPACES if not replicas[0].serves(namespace)]
        await replicas[0].kill()
        alive = replicas[1:]

        async def check_kept() -> None:
            while True:
                assert all(servers_of(alive, namespace) for namespace in kept)
                await asyncio.sleep(0.1)

        checking_kept = asyncio.create_task(check_kept())
        assert await wait_until(lambda: all_served(alive)) < 20
        assert not checking.done()
        assert not checking_kept.done()

    virtual_time.run(main())


@pytest.mark.parametrize("seconds", [1.0, 8.0, 13.0, 14.5, 16.0])
def test_a_replica_that_starts_after_another_was_killed_does_not_wait_for_that_one_anew(seconds: float) -> None:
    async def main() -> None:
        server = ModelServer()
        replicas = [Replica(server, name, number).start() for number, name in enumerate("ab")]
        await wait_until(lambda: all_served(replicas))
        await replicas[0].kill()
        killed = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        replicas.append(Replica(server, "c", 2).start())
        checking = asyncio.create_task(check_exclusive(replicas))
        await wait_until(lambda: all_served(replicas[1:]))
        assert asyncio.get_running_loop().time() - killed < 20
        assert not checking.done()

    virtual_time.run(main())


def test_the_namespaces_of_a_replica_that_ends_in_order_are_served_within_2_seconds() -> None:
    async def main() -> None:
        server = ModelServer()
        replicas = [Replica(server, name, number).start() for number, name in enumerate("abc")]
        await wait_until(lambda: all_served(replicas))
        await replicas[0].stop()
        assert await wait_until(lambda: all_served(replicas[1:])) < 2

    virtual_time.run(main())


def test_a_namespace_is_served_only_once_its_last_holder_has_let_go() -> None:
    async def main() -> None:
        server = ModelServer()
        first, second = Replica(server, "a", 1), Replica(server, "b", 2)
        first.let_go_seconds = 6.0
        first.start()
        await wait_until(lambda: all_served([first]))
        second.start()
        await wait_until(lambda: len(first.sharding.shard.own) == 2)
        moving = [namespace for namespace in NAMESPACES if not first.serves(namespace)]
        assert moving
        await asyncio.sleep(5.0)
        # It writes their checkpoints meanwhile, and decides nothing for them.
        assert all(first.may_write_in(namespace) and not second.may_write_in(namespace) for namespace in moving)
        await wait_until(lambda: all_served([first, second]))
        assert all(second.serves(namespace) for namespace in moving)

    virtual_time.run(main())


def test_handing_over_takes_no_longer_than_its_limit() -> None:
    async def main() -> None:
        server = ModelServer()
        first, second = Replica(server, "a", 1), Replica(server, "b", 2)
        first.let_go_seconds = 1000.0
        first.start()
        await wait_until(lambda: all_served([first]))
        second.start()
        assert await wait_until(lambda: all_served([first, second])) < 20

    virtual_time.run(main())


def test_a_replica_that_cannot_renew_stops_before_others_take_its_namespaces() -> None:
    async def main() -> None:
        server = ModelServer()
        replicas = [Replica(server, name, number).start() for number, name in enumerate("ab")]
        checking = asyncio.create_task(check_exclusive(replicas))
        await wait_until(lambda: all_served(replicas))
        replicas[0].connection.cut = True
        await wait_until(lambda: all_served(replicas[1:]))
        assert "could not be renewed" in replicas[0].lost
        assert not checking.done()

    virtual_time.run(main())


def test_a_replica_that_is_cut_off_from_others_for_a_moment_keeps_its_namespaces() -> None:
    async def main() -> None:
        server = ModelServer()
        replicas = [Replica(server, name, number).start() for number, name in enumerate("ab")]
        await wait_until(lambda: all_served(replicas))
        before = {namespace: servers_of(replicas, namespace) for namespace in NAMESPACES}
        changes = [replica.changes for replica in replicas]
        replicas[0].connection.cut = True
        await asyncio.sleep(6.0)
        replicas[0].connection.cut = False
        await asyncio.sleep(30.0)
        assert {namespace: servers_of(replicas, namespace) for namespace in NAMESPACES} == before
        assert [replica.changes for replica in replicas] == changes

    virtual_time.run(main())


def test_a_replica_whose_watch_is_stuck_ends_and_takes_nothing_from_others() -> None:
    async def main() -> None:
        server = ModelServer()
        replicas = [Replica(server, name, number).start() for number, name in enumerate("ab")]
        checking = asyncio.create_task(check_exclusive(replicas))
        await wait_until(lambda: all_served(replicas))
        kept = [namespace for namespace in NAMESPACES if replicas[1].serves(namespace)]

        async def check_kept() -> None:
            while True:
                assert all(replicas[1].serves(namespace) for namespace in kept)
                await asyncio.sleep(0.1)

        checking_kept = asyncio.create_task(check_kept())
        replicas[0].connection.has_stuck_watches = True
        await wait_until(lambda: all_served(replicas[1:]), most=40.0)
        assert "the watch of Leases is stuck" in replicas[0].lost
        assert not checking.done()
        assert not checking_kept.done()

    virtual_time.run(main())


EVENTS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["cut", "mend", "kill", "stop", "start", "slow"]), st.floats(0.1, 25)),
    max_size=20,
)


class Fleet:
    """Replicas that come and go. `gone` are those that ended; what they still write counts."""

    def __init__(self, count: int) -> None:
        self.server = ModelServer()
        self.replicas = {number: self.create(number, "0") for number in range(count)}
        self.gone: list[Replica] = []

    def create(self, number: int, suffix: str) -> Replica:
        return Replica(self.server, f"{number}-{suffix}", number).start()

    async def apply(self, number: int, what: str, suffix: str) -> None:
        replica = self.replicas.get(number)
        if what == "start" and (replica is None or replica.lost):
            self.replicas[number] = self.create(number, suffix)
        elif replica is not None and what in ("kill", "stop"):
            await (replica.kill() if what == "kill" else replica.stop())
            self.gone.append(self.replicas.pop(number))
        elif replica is not None and what == "slow":
            replica.let_go_seconds = 3.0
        elif replica is not None:
            replica.connection.cut = what == "cut"

    async def mend(self) -> list[Replica]:
        """Mend all connections, and start anew those that lost their membership; at least one replica remains."""
        for number, replica in tuple(self.replicas.items()):
            replica.connection.cut = False
            if replica.lost:
                self.replicas[number] = self.create(number, "end")
        self.replicas.setdefault(9, self.create(9, "end"))
        await asyncio.sleep(60.0)
        return [replica for replica in self.replicas.values() if not replica.lost]

    async def check(self) -> None:
        while True:
            live = [*self.replicas.values(), *self.gone]
            writers = (namespace for namespace in NAMESPACES for replica in live if replica.may_write_in(namespace))
            assert all(count == 1 for count in Counter(writers).values())
            await asyncio.sleep(0.25)


@settings(max_examples=25, deadline=None)
@given(EVENTS)
def test_at_no_moment_may_two_replicas_write_in_one_namespace(events: list[tuple[int, str, float]]) -> None:
    async def main() -> None:
        fleet = Fleet(3)
        checking = asyncio.create_task(fleet.check())
        for step, (number, what, seconds) in enumerate(events, 1):
            await fleet.apply(number, what, str(step))
            await asyncio.sleep(seconds)
        remaining = await fleet.mend()
        await asyncio.sleep(30.0)
        assert not checking.done(), checking.result()
        assert all_served(remaining)

    virtual_time.run(main())
