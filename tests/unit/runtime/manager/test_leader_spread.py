"""Leaders of several components are spread over replicas of a process, and move when replicas come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from support import virtual_time
from support.api_server.connections import Connection
from support.api_server.server import ModelServer
from support.replicas import LEASES, wait_until
from trellis.kube.client import Client
from trellis.kube.discovery import Served
from trellis.kube.resources import PODS
from trellis.runtime.component import ComponentSpec, Controller, ControllerContext
from trellis.runtime.leadership import single_lease
from trellis.runtime.manager.configuration.reload import RunningConfiguration, SettingsSource
from trellis.runtime.manager.layers import LoadedProcess
from trellis.runtime.manager.process import run_process
from trellis.runtime.manager.settings import ProcessSettings, SpreadSettings
from trellis.runtime.manager.supervisor import ManagedComponent
from trellis.runtime.settings.component import AccessSettings, LeaderSettings
from trellis.runtime.settings.declarations import Settings
from trellis.runtime.settings.loader import LoadedSettings
from trellis.runtime.shutdown import Shutdown
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import error_response

NAMES = ("recommender", "updater", "hvpa", "buffers", "nodes")

log = Logger("trellis.test")


class GardenSettings(Settings, frozen=True):
    """The settings of a component, with the durations of a process of several."""

    access: AccessSettings = AccessSettings()
    leader: LeaderSettings = LeaderSettings(
        leader_elect=True,
        leader_elect_lease_duration=ProcessSettings().election.leader_elect_lease_duration,
    )
    health: HealthSettings = HealthSettings()


class Gardener(Controller):
    """Leads, or waits."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        context.informers.follow(PODS)

    def on_started_leading(self) -> None:
        pass

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()


class Replica:
    """A process of five components."""

    def __init__(self, server: ModelServer, name: str, *, spread_leaders: bool = True) -> None:
        self.name = name
        self.connection = Connection(server)
        self.gardeners: dict[str, Gardener] = {}
        self.starts = 0
        self._stop = Shutdown()
        settings = ProcessSettings(
            health=HealthSettings(address="127.0.0.1:0"), spread=SpreadSettings(spread_leaders=spread_leaders)
        )
        own = LoadedSettings(GardenSettings(), {})
        loaded = LoadedProcess(LoadedSettings(settings, {}), dict.fromkeys(NAMES, own))
        source = SettingsSource(load=lambda _text, _running: loaded, link=lambda loaded: loaded, manage=self._manage)
        main = run_process(RunningConfiguration(source), self._stop, Client(self.connection), {})
        self._running = asyncio.create_task(main, name=name)

    @property
    def led(self) -> set[str]:
        """The components that work here and may write."""
        return {name for name, gardener in self.gardeners.items() if gardener.context.may_act()}

    async def stop(self) -> None:
        """As SIGTERM."""
        self._stop.request("the test stops it")
        await self._running

    async def kill(self) -> None:
        """As SIGKILL: nothing is released."""
        self.connection.cut = True
        self._running.cancel()
        await asyncio.wait({self._running})

    def _manage(self, name: str, settings: GardenSettings) -> ManagedComponent:
        @contextmanager
        def open_spec(_metrics: Metrics) -> Iterator[ComponentSpec[Gardener]]:
            yield self._spec(name)

        return ManagedComponent(name=name, settings=settings, metrics=CLUSTER_METRICS, followed=(), open=open_spec)

    def _spec(self, name: str) -> ComponentSpec[Gardener]:
        @asynccontextmanager
        async def build(context: ControllerContext) -> AsyncIterator[Gardener]:
            self.gardeners[name] = Gardener(context)
            self.starts += 1
            yield self.gardeners[name]
            del self.gardeners[name]

        leader = LeaderSettings(
            leader_elect=True,
            leader_elect_resource_name=name,
            leader_elect_lease_duration=GardenSettings().leader.leader_elect_lease_duration,
        )
        return ComponentSpec(
            component=name,
            name=name,
            field_manager=name,
            log=log,
            metrics=CLUSTER_METRICS,
            build=build,
            interval=None,
            election=single_lease(leader),
            assumed=Served(()),
        )


def is_led(replicas: Sequence[Replica]) -> bool:
    """Whether each component has one leader among these."""
    return sorted(name for replica in replicas for name in replica.led) == sorted(NAMES)


def is_spread(*replicas: Replica) -> Callable[[], bool]:
    """Whether each component has one leader, and the numbers of components differ by one at most."""
    share = -(-len(NAMES) // len(replicas))
    return lambda: is_led(replicas) and all(len(replica.led) <= share for replica in replicas)


def run(play: Callable[[ModelServer], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        server = ModelServer()

        async def send_bookmarks() -> None:
            while True:
                await asyncio.sleep(60.0)
                server.bookmark()

        async with virtual_time.in_background(send_bookmarks()):
            await play(server)

    virtual_time.run(main())


def test_leaders_are_spread_over_replicas_that_start_one_after_the_other() -> None:
    async def play(server: ModelServer) -> None:
        first = Replica(server, "a")
        await wait_until(lambda: is_led([first]))
        second = Replica(server, "b")
        await wait_until(is_spread(first, second))
        await asyncio.sleep(5.0)
        starts = first.starts, second.starts
        await asyncio.sleep(600.0)
        # And nothing moves any more.
        assert is_spread(first, second)()
        assert (first.starts, second.starts) == starts
        third = Replica(server, "c")
        await wait_until(is_spread(first, second, third), most=120.0)
        for replica in (first, second, third):
            await replica.stop()

    run(play)


def test_the_components_of_a_replica_that_was_killed_have_leaders_within_15_seconds() -> None:
    async def play(server: ModelServer) -> None:
        first, second = Replica(server, "a"), Replica(server, "b")
        await wait_until(is_spread(first, second))
        await asyncio.sleep(60.0)
        kept = second.led
        await first.kill()
        assert await wait_until(lambda: is_led([second])) < 15.0
        assert kept <= second.led

    run(play)


def test_the_components_of_a_replica_that_ends_in_order_have_leaders_within_2_seconds() -> None:
    async def play(server: ModelServer) -> None:
        replicas = [Replica(server, name) for name in "abc"]
        await wait_until(is_spread(*replicas), most=120.0)
        await asyncio.sleep(60.0)
        await replicas[0].stop()
        assert await wait_until(lambda: is_led(replicas[1:])) < 2.0
        await wait_until(is_spread(*replicas[1:]), most=120.0)

    run(play)


def test_a_component_never_has_two_leaders_while_they_are_spread() -> None:
    async def play(server: ModelServer) -> None:
        replicas = [Replica(server, "a")]

        async def check() -> None:
            while True:
                led = [name for replica in replicas for name in replica.led]
                assert len(led) == len(set(led)), led
                await asyncio.sleep(0.1)

        async with virtual_time.in_background(check()):
            await asyncio.sleep(5.0)
            replicas += [Replica(server, name) for name in "bcd"]
            await asyncio.sleep(90.0)
            await replicas[1].kill()
            await asyncio.sleep(90.0)
            await replicas[2].stop()
            await wait_until(is_spread(replicas[0], replicas[3]), most=120.0)

    run(play)


@pytest.mark.parametrize("spread_leaders", [True, False])
def test_without_the_right_to_list_leases_or_the_setting_the_first_replica_leads_all_components(
    spread_leaders: bool,
) -> None:
    async def play(server: ModelServer) -> None:
        if spread_leaders:
            server.before = lambda request: (
                error_response(403, "Forbidden", "cannot list leases")
                if request.path == LEASES and request.method == "GET" and ("watch", "true") not in request.query
                else None
            )
        first = Replica(server, "a", spread_leaders=spread_leaders)
        await wait_until(lambda: is_led([first]))
        second = Replica(server, "b", spread_leaders=spread_leaders)
        await asyncio.sleep(120.0)
        assert len(first.led) == len(NAMES)
        await first.stop()
        assert await wait_until(lambda: is_led([second])) < 2.0

    run(play)
