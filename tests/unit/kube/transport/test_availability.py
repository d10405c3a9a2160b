"""After an outage all watches of a process are back soon after its first answer, and no server is run over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from support import virtual_time
from support.api_server.server import ModelServer, pod_path
from trellis.base.errors import Unreachable
from trellis.kube.resources import DAEMON_SETS, HPAS, NAMESPACES, NODES, PDBS, PODS, Resource
from trellis.kube.transport.requests import Request, build_raw_get
from trellis.kube.watch.informer import WatchInformer
from trellis.testing.scripted_transport import ScriptedResponse, StreamScript, error_response

KINDS: tuple[Resource[Any], ...] = (PODS, NODES, DAEMON_SETS, NAMESPACES, PDBS, HPAS)
AWAY = Unreachable("nobody listens")


class World:
    """A process that follows six kinds, and a server that can be away, for all or for some requests."""

    def __init__(self) -> None:
        self.server = ModelServer()
        self.server.before = self._before
        self.fault: Callable[[Request], ScriptedResponse | None] = lambda _request: None
        # When each request came, and for what.
        self.asked: list[tuple[float, str]] = []
        draw = random.Random(7).random  # noqa: S311 - moments, not secrets
        self.informers: list[WatchInformer[Any]] = [
            WatchInformer(self.server.client, kind, draw=draw) for kind in KINDS
        ]

    def leave(self) -> None:
        self.fault = lambda _request: AWAY
        self.server.break_watches()

    def come_back(self) -> None:
        self.fault = lambda _request: None
        self.asked.clear()

    def only_fails(self, kind: Resource[Any], fault: ScriptedResponse) -> None:
        self.fault = lambda request: fault if request.path.endswith(f"/{kind.plural}") else None

    async def answered(self) -> None:
        """Somebody else of the process is answered, as one who renews a lease is."""
        await self.server.client.send(build_raw_get(pod_path("lease")))

    def connected(self) -> int:
        return sum(informer.staleness().connected for informer in self.informers)

    def times(self, kind: Resource[Any]) -> list[float]:
        return [at for at, path in self.asked if path.endswith(f"/{kind.plural}")]

    def run(self, play: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            self.server.put(pod_path("lease"), {})
            tasks = [asyncio.create_task(informer.run()) for informer in self.informers]
            await asyncio.sleep(5.0)
            assert self.connected() == len(KINDS)
            await play()
            for task in tasks:
                assert not task.done()
                task.cancel()

        virtual_time.run(main())

    def _before(self, request: Request) -> ScriptedResponse | None:
        self.asked.append((asyncio.get_running_loop().time(), request.path))
        return self.fault(request)


def test_a_response_after_an_outage_wakes_all_watches_at_random_moments() -> None:
    world = World()

    async def play() -> None:
        world.leave()
        await asyncio.sleep(300.0)
        world.come_back()
        await world.answered()
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(1.7)
        assert world.connected() == len(KINDS)
        came = [at - began for at, path in world.asked if not path.endswith("/lease")]
        assert len(came) == len(set(came)) == len(KINDS)
        # One of them may have been about to ask anyway.
        assert sum(second < 0.8 for second in came) <= 1

    world.run(play)


def test_the_tenth_outage_is_over_as_soon_as_the_first() -> None:
    world = World()

    async def play() -> None:
        for _ in range(10):
            world.leave()
            await asyncio.sleep(60.0)
            world.come_back()
            await world.answered()
            await asyncio.sleep(1.7)
            assert world.connected() == len(KINDS)
            await asyncio.sleep(5.0)

    world.run(play)


def test_one_client_retries_an_unavailable_server_every_few_seconds() -> None:
    world = World()

    async def play() -> None:
        world.leave()
        await asyncio.sleep(120.0)
        world.asked.clear()
        await asyncio.sleep(600.0)
        # Every 4 to 8 seconds one, and each by its own wait every 30 to 60.
        assert 75 <= len(world.asked) <= 150 + 6 * 20
        world.come_back()
        await asyncio.sleep(8.0 + 1.7)
        assert world.connected() == len(KINDS)

    world.run(play)


def test_a_starting_server_is_retried_soon() -> None:
    world = World()

    async def play() -> None:
        world.leave()
        await asyncio.sleep(300.0)
        world.come_back()
        world.fault = lambda request: (
            None if request.path.endswith("/lease") else error_response(503, "ServiceUnavailable")
        )
        await world.answered()
        await asyncio.sleep(2.0)
        assert world.connected() == 0
        world.fault = lambda _request: None
        await asyncio.sleep(3.3)
        assert world.connected() == len(KINDS)

    world.run(play)


@pytest.mark.parametrize("fault", [AWAY, error_response(503, "ServiceUnavailable")], ids=["unreachable", "fault"])
def test_a_failing_watch_beside_successful_requests_retries_no_more_often_than_alone(fault: ScriptedResponse) -> None:
    world = World()

    async def play() -> None:
        world.only_fails(PDBS, fault)
        world.server.break_watches()
        world.asked.clear()
        for _ in range(600):
            await asyncio.sleep(0.5)
            await world.answered()
            world.server.bookmark()
        times = world.times(PDBS)
        waits = [later - earlier for earlier, later in pairwise(times)]
        assert waits[-1] >= 4.0
        # Alone it would be asked about 11 times in these five minutes, and a scout every 4 to 8 seconds.
        assert len(times) <= 80

    world.run(play)


@pytest.mark.parametrize(
    "fault",
    [error_response(429, "TooManyRequests", retry_after=60), error_response(503, "ServiceUnavailable", retry_after=60)],
    ids=["throttled", "unavailable"],
)
def test_a_watch_with_a_retry_after_is_not_retried_before(fault: ScriptedResponse) -> None:
    world = World()

    async def play() -> None:
        world.only_fails(PDBS, fault)
        world.server.break_watches()
        await asyncio.sleep(3.0)
        world.asked.clear()
        for _ in range(50):
            await asyncio.sleep(1.0)
            await world.answered()
        assert world.times(PDBS) == []

    world.run(play)


def test_a_forbidden_watch_is_not_retried_at_every_other_response() -> None:
    world = World()

    async def play() -> None:
        world.only_fails(PDBS, error_response(403, "Forbidden"))
        world.server.break_watches()
        await asyncio.sleep(120.0)
        world.asked.clear()
        for _ in range(25):
            await asyncio.sleep(1.0)
            await world.answered()
        assert len(world.times(PDBS)) <= 1

    world.run(play)


def test_an_unauthorized_watch_retries_after_the_first_authorized_response() -> None:
    world = World()

    async def play() -> None:
        world.leave()
        world.fault = lambda _request: error_response(401, "Unauthorized")
        await asyncio.sleep(300.0)
        world.come_back()
        await world.answered()
        await asyncio.sleep(1.7)
        assert world.connected() == len(KINDS)

    world.run(play)


def test_an_opened_watch_wakes_waiting_clients() -> None:
    world = World()
    opened = StreamScript()

    async def play() -> None:
        world.leave()
        await asyncio.sleep(300.0)
        # The lists of none are needed: only this watch is answered.
        world.fault = lambda request: opened if request.path.endswith("/pods") else AWAY
        for _ in range(100):
            if world.connected():
                break
            await asyncio.sleep(0.1)
        world.asked.clear()
        await asyncio.sleep(1.7)
        assert {path.rpartition("/")[2] for _, path in world.asked} == {kind.plural for kind in KINDS} - {"pods"}

    world.run(play)
