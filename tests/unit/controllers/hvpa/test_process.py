"""The whole process of the Hvpa controller: lease, Events, and what is said of writes, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from support import virtual_time
from support.controllers.hvpa import START, World, path
from trellis.controllers.hvpa.process import hvpa_spec
from trellis.kube.transport.requests import Request
from trellis.runtime.component import run_component
from trellis.runtime.settings.component import AccessSettings, LeaderSettings
from trellis.runtime.shutdown import Shutdown
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.testing.scripted_transport import ScriptedResponse, error_response

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/trellis-hvpa"


def run(world: World, play: Callable[[], Awaitable[None]], *, read_only: bool = False) -> None:
    """Let a play go on while the process runs."""
    settings = msgspec.structs.replace(
        world.settings,
        access=AccessSettings(read_only=read_only),
        leader=LeaderSettings(leader_elect=True, leader_elect_resource_name="trellis-hvpa"),
        health=HealthSettings(address="127.0.0.1:0"),
    )

    async def main() -> None:
        stop = Shutdown()
        running = asyncio.create_task(run_component(hvpa_spec(settings), settings, stop, world.server.client))
        await asyncio.sleep(5.0)
        await play()
        stop.request("the test is over")
        await running

    virtual_time.run(main(), start=START)


def world_with_vpa() -> World:
    world = World()
    world.add_workload()
    world.add_hvpa(vpa={"deploy": True})
    return world


def events(world: World) -> set[str]:
    return {event["reason"] for where, event in world.server.objects.items() if "/events/" in where}


def test_it_leads_scales_reports_and_releases_the_lease() -> None:
    world = world_with_vpa()

    async def play() -> None:
        assert world.server.objects[LEASE]["spec"]["holderIdentity"]
        world.advise("12", "2G", "24", "4G")
        await world.wait(10.0)
        assert world.replicas() == 3
        assert "ScalesUp" in events(world)

    run(world, play)
    assert not world.server.objects[LEASE]["spec"].get("holderIdentity")


def test_read_only_it_takes_no_lease_and_changes_nothing() -> None:
    world = world_with_vpa()
    world.add_vpa("mine")

    async def play() -> None:
        world.advise("12", "2G", "24", "4G", name="mine")
        await world.wait(60.0)

    run(world, play, read_only=True)
    assert {request.method for request in world.server.requests} == {"GET"}
    assert world.replicas() == 2


def test_that_an_hpa_was_faster_is_no_news_and_any_other_refusal_is(caplog: pytest.LogCaptureFixture) -> None:
    world = world_with_vpa()

    def refuse(request: Request) -> ScriptedResponse | None:
        if request.method == "PATCH" and request.path == path("hvpas", "web"):
            return error_response(422, "Invalid", "the test operation failed")
        if request.method == "POST" and "verticalpodautoscalers" in request.path:
            return error_response(403, "Forbidden", "no such rule")
        return None

    world.fault = refuse

    async def play() -> None:
        await world.wait(10.0)

    with caplog.at_level(logging.WARNING, "trellis.hvpa"):
        run(world, play)
    entries = [
        getattr(record, "trellis_fields", {}) for record in caplog.records if record.getMessage() == "not written"
    ]
    assert {str(entry["result"]) for entry in entries} == {"Forbidden"}
