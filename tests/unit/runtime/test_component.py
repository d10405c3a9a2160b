"""A component answers probes, holds its lease while its controller works, and ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support import virtual_time
from support.api_server.connections import Connection
from support.api_server.server import ModelServer
from trellis import __version__
from trellis.api.kube.meta import ObjectReference
from trellis.base.errors import InternalError
from trellis.base.reasons import Reason
from trellis.kube.client import Client
from trellis.kube.resources import PODS
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.kube.write.actions import CreateObject, Target
from trellis.kube.write.outcomes import Result
from trellis.runtime.cluster_connection import retry_until_success
from trellis.runtime.component import Component, ComponentSpec, Controller, ControllerContext, run_component
from trellis.runtime.leadership import single_lease
from trellis.runtime.settings.component import AccessSettings, LeaderSettings
from trellis.runtime.settings.declarations import Settings
from trellis.runtime.shutdown import Shutdown
from trellis.runtime.tasks import cancel_all
from trellis.runtime.telemetry.cluster_metrics import CLUSTER_METRICS
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import error_response, json_response

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gardener"
WATERED = Reason("Watered", "It was dry.")

log = Logger("trellis.gardener")


class GardenerSettings(Settings, frozen=True):
    """All that a component needs."""

    access: AccessSettings = AccessSettings()
    leader: LeaderSettings = LeaderSettings(leader_elect=True, leader_elect_resource_name="gardener")
    health: HealthSettings = HealthSettings(address="127.0.0.1:0")


class Gardener(Controller):
    """Does nothing by itself."""

    def __init__(self, server: ModelServer, context: ControllerContext) -> None:
        context.informers.follow(PODS)
        self.context = context
        self.fails = asyncio.Event()
        self.began = 0
        self.held_at_the_end = False
        self._server = server

    def on_started_leading(self) -> None:
        self.began += 1

    async def run(self) -> None:
        try:
            await self.fails.wait()
            raise InternalError("the well is dry")
        finally:
            held: dict[str, Any] = self._server.objects.get(LEASE, {"spec": {}})["spec"]
            self.held_at_the_end = bool(held.get("holderIdentity"))


class World:
    """A gardener and its cluster."""

    def __init__(self, settings: GardenerSettings = GardenerSettings(), *, dry_run: bool = False) -> None:  # noqa: B008
        self.server = ModelServer()
        self.server.before = lambda request: json_response({}) if request.path in ("/api", "/apis") else None
        self.settings = settings
        self.dry_run = dry_run
        self.client = self.server.client
        self.gardener: Gardener | None = None
        self.stop: Shutdown

    def spec(self) -> ComponentSpec[Gardener]:
        """The gardener as a component."""

        @asynccontextmanager
        async def build(context: ControllerContext) -> AsyncIterator[Gardener]:
            self.gardener = Gardener(self.server, context)
            yield self.gardener

        return ComponentSpec(
            component="gardener",
            name="gardener",
            field_manager="gardener",
            log=log,
            metrics=CLUSTER_METRICS,
            build=build,
            interval=60.0,
            election=single_lease(self.settings.leader),
            dry_run=self.dry_run,
        )

    async def begin(self) -> asyncio.Task[None]:
        """Start it, and wait until it works."""
        self.stop = Shutdown()
        metrics = Metrics(CLUSTER_METRICS, about_process=False)
        run = run_component(self.spec(), self.settings, self.stop, self.client, metrics=metrics)
        running = asyncio.create_task(run)
        await asyncio.sleep(1.0)
        return running

    @property
    def works(self) -> Gardener:
        assert self.gardener is not None
        return self.gardener

    async def plant(self) -> Result:
        """Write something, and say so."""
        action = CreateObject(Target(PODS, "rose", "shop"), {"metadata": {"name": "rose"}})
        outcome = await self.works.context.writer.write(action)
        self.works.context.record_event(ObjectReference("Pod", "shop", "rose", "uid", "v1"), WATERED, "")
        await asyncio.sleep(1.0)
        return outcome.result

    def events(self) -> list[str]:
        return [event["reason"] for path, event in self.server.objects.items() if "/events/" in path]

    def leader_events(self) -> list[str]:
        events = [event for path, event in self.server.objects.items() if "/namespaces/kube-system/events/" in path]
        assert {event["involvedObject"]["uid"] for event in events} == {self.server.objects[LEASE]["metadata"]["uid"]}
        return [event["message"].split(" ", 1)[1] for event in events]

    def run(self, play: Callable[[], Any]) -> None:
        virtual_time.run(play())


class SlowEvents(Connection):
    """A connection on which Events take longer than all else."""

    async def send(self, request: Request) -> Response:
        if "/events" in request.path:
            await asyncio.sleep(0.2)
        return await super().send(request)


def test_the_event_that_a_leader_stops_is_posted_although_the_api_server_takes_its_time() -> None:
    world = World()

    async def play() -> None:
        world.client = Client(SlowEvents(world.server))
        running = await world.begin()
        world.stop.request("the test is over")
        await running
        assert world.leader_events() == ["became leader", "stopped leading"]

    world.run(play)


def test_a_component_leads_writes_posts_events_and_releases_its_lease_after_its_controller() -> None:
    world = World()

    async def play() -> None:
        running = await world.begin()
        assert world.server.objects[LEASE]["spec"]["holderIdentity"]
        assert world.works.began == 1
        assert world.works.context.may_act()
        assert await world.plant() is Result.APPLIED
        assert world.events() == ["LeaderElection", "Watered"]
        world.stop.request("the test is over")
        await running
        assert world.works.held_at_the_end
        assert world.leader_events() == ["became leader", "stopped leading"]
        assert not world.server.objects[LEASE]["spec"].get("holderIdentity")

    world.run(play)


def test_a_component_exports_its_version_its_interval_and_that_it_leads() -> None:
    world = World()

    async def play() -> None:
        running = await world.begin()
        metrics = world.works.context.metrics
        metrics.flush()
        lines = metrics.format_text().decode().splitlines()
        assert f'trellis_build_info{{version="{__version__}"}} 1' in lines
        assert 'trellis_component_pass_interval_seconds{component="gardener"} 60' in lines
        assert 'trellis_component_leader{component="gardener",name=""} 1' in lines
        world.stop.request("the test is over")
        await running

    world.run(play)


def test_metrics_of_a_process_of_one_component_say_its_name_as_in_a_process_of_several() -> None:
    world = World()

    async def play() -> None:
        stop = Shutdown()
        component = Component(world.spec(), world.settings, world.server.client, stop)
        served = component.build_process_metrics()
        served.flush()
        assert 'trellis_component_ready{component="gardener"} 0' in served.format_text().decode()
        assert 'trellis_component_not_ready{component="gardener",reason="informers"} 1' in served.format_text().decode()
        running = asyncio.create_task(component.run())
        await asyncio.sleep(1.0)
        served.flush()
        lines = served.format_text().decode().splitlines()
        assert 'trellis_component_ready{component="gardener"} 1' in lines
        assert not any(line.startswith("trellis_component_not_ready{") for line in lines)
        assert f'trellis_build_info{{component="gardener",version="{__version__}"}} 1' in lines
        await cancel_all([running])

    world.run(play)


def test_a_replica_that_waits_for_the_lease_exports_that_it_does_not_lead() -> None:
    world = World()
    holder = {"holderIdentity": "another", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    world.server.put(LEASE, {"metadata": {"name": "gardener"}, "spec": holder})

    async def play() -> None:
        running = await world.begin()
        metrics = world.works.context.metrics
        metrics.flush()
        assert 'trellis_component_leader{component="gardener",name=""} 0' in metrics.format_text().decode()
        world.stop.request("the test is over")
        await running

    world.run(play)


def test_a_component_that_lost_its_lease_writes_nothing_and_requests_shutdown() -> None:
    world = World()

    async def play() -> None:
        running = await world.begin()
        lease = world.server.objects[LEASE]
        world.server.put(LEASE, {**lease, "spec": {**lease["spec"], "holderIdentity": "somebody else"}})
        await asyncio.sleep(5.0)
        assert world.stop.reason == "lost the Lease"
        assert await world.plant() is Result.SKIPPED
        await running
        assert world.server.objects[LEASE]["spec"]["holderIdentity"] == "somebody else"

    world.run(play)


@pytest.mark.parametrize("how", ["dry-run", "read-only"])
def test_a_component_that_changes_nothing_takes_no_lease_and_posts_no_events(how: str) -> None:
    access = AccessSettings(read_only=how == "read-only")
    world = World(GardenerSettings(access=access), dry_run=how == "dry-run")

    async def play() -> None:
        running = await world.begin()
        await world.plant()
        assert world.events() == []
        assert LEASE not in world.server.objects
        world.stop.request("the test is over")
        await running

    world.run(play)


def test_an_error_of_the_controller_ends_the_component_with_it() -> None:
    world = World()

    async def play() -> None:
        running = await world.begin()
        world.works.fails.set()
        with pytest.raises(InternalError, match="the well is dry"):
            await running
        assert not world.server.objects[LEASE]["spec"].get("holderIdentity")

    world.run(play)


def test_discovery_is_retried_until_the_api_server_responds() -> None:
    server = ModelServer()
    server.put("/api/v1/namespaces/shop/pods/rose", {})
    server.faults.extend([error_response(500, "InternalError"), error_response(503, "ServiceUnavailable")])

    async def play() -> None:
        clock = asyncio.get_running_loop().time
        pod = await retry_until_success(lambda: server.client.get(PODS, "rose", "shop"), log)
        assert pod.metadata.name == "rose"
        assert clock() == pytest.approx(4.0)

    virtual_time.run(play())


def test_a_cause_for_which_discovery_fails_again_and_again_is_logged_twice_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = ModelServer()
    server.put("/api/v1/namespaces/shop/pods/rose", {})
    unavailable = [error_response(503, "ServiceUnavailable")] * 30
    server.faults.extend([error_response(500, "InternalError"), *unavailable])

    async def play() -> None:
        await retry_until_success(lambda: server.client.get(PODS, "rose", "shop"), log)

    virtual_time.run(play())
    assert [record.getMessage() for record in caplog.records] == ["discovery of the API server failed"] * 3
