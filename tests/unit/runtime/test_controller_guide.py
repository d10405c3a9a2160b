"""The controller in the guide does what the guide says, on the fake API server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

from support import virtual_time
from support.api_server.server import ModelServer, pod_path
from support.docs import guide_code
from testbed.processes import reserve_ports
from trellis.kube.client import Client
from trellis.kube.transport.requests import Request
from trellis.runtime.settings.component import LeaderSettings
from trellis.runtime.shutdown import Shutdown
from trellis.runtime.telemetry.health_server import HealthSettings
from trellis.testing.scripted_transport import (
    ScriptedResponse,
    ScriptedTransport,
    StreamScript,
    json_response,
    list_response,
    watch_line,
)

WRITTEN = 'trellis_writes_total{action="PatchObject",component="labeller",resource="pods",result="Applied"} 1'


def pod(name: str, version: str, **labels: str) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": name, "uid": f"uid-{name}", "resourceVersion": version, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}


def test_the_controller_of_the_guide_labels_the_pods_without_a_team() -> None:
    async def main() -> list[tuple[str, str, str]]:
        watch = StreamScript()

        def handle(request: Request) -> ScriptedResponse:
            if request.method == "PATCH":
                return json_response(pod("web", "8", team="shop"))
            return watch

        pods = list_response([pod("web", "5"), pod("done", "6", team="x")], resource_version="7")
        transport = ScriptedTransport(pods, handler=handle)
        stop = Shutdown()
        running = asyncio.create_task(guide_code.names()["controller"](Client(transport), stop))
        await asyncio.sleep(1)
        watch.push(watch_line("ADDED", pod("late", "9")))
        await asyncio.sleep(1)
        stop.request("SIGTERM")
        await running
        patches = [request for request in transport.requests if request.method == "PATCH"]
        return [
            (request.path, body["metadata"]["labels"]["team"], body["metadata"]["resourceVersion"])
            for request in patches
            for body in [json.loads(request.body or b"")]
        ]

    assert virtual_time.run(main()) == [
        ("/api/v1/namespaces/shop/pods/web", "shop", "5"),
        ("/api/v1/namespaces/shop/pods/late", "shop", "9"),
    ]


def test_the_component_of_the_guide_labels_pods_records_events_and_answers_probes() -> None:
    guide, server = guide_code.names(), ModelServer()
    server.before = lambda request: json_response({}) if request.path in ("/api", "/apis") else None
    server.put(pod_path("web"), pod("web", "1"))
    address = f"127.0.0.1:{reserve_ports(1)[0]}"
    leader = LeaderSettings(leader_elect=True, leader_elect_resource_name="labeller")
    settings = guide["LabellerSettings"](leader=leader, health=HealthSettings(address=address))

    async def main() -> None:
        stop = Shutdown()
        running = asyncio.create_task(guide["run_labeller"](server.client, settings, stop))
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while not any("/events/" in path for path in server.objects):  # noqa: ASYNC110 - a model tells nobody
                await asyncio.sleep(0.01)
            async with session.get(f"http://{address}/readyz") as response:
                assert response.status == 200
            while WRITTEN not in await _metrics(session, address):  # noqa: ASYNC110 - counted once it is answered
                await asyncio.sleep(0.01)
            stop.request("the test is over")
            await running

    asyncio.run(main())
    assert server.objects[pod_path("web")]["metadata"]["labels"] == {"team": "shop"}


def test_the_example_is_short() -> None:
    body = [text for text in guide_code.program().partition("async def controller")[2].splitlines() if text.strip()]
    assert next(number for number, text in enumerate(body) if text.startswith("async def main")) <= 12


async def _metrics(session: aiohttp.ClientSession, address: str) -> str:
    async with session.get(f"http://{address}/metrics") as response:
        return await response.text()
