"""The controller in the guide does what the guide says, on the fake API server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import guide_code
import virtual_time
from trellis.kube.client import Client
from trellis.kube.requests import Request
from trellis.kube.scripted import Answer, ScriptedTransport, StreamScript, answer, line, page
from trellis.runtime.shutdown import Shutdown


def pod(name: str, version: str, **labels: str) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": name, "uid": f"uid-{name}", "resourceVersion": version, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}


def test_the_controller_of_the_guide_labels_the_pods_without_a_team() -> None:
    async def main() -> list[tuple[str, str, str]]:
        watch = StreamScript()

        def handle(request: Request) -> Answer:
            if request.method == "PATCH":
                return answer(pod("web", "8", team="shop"))
            return watch

        pods = page([pod("web", "5"), pod("done", "6", team="x")], resource_version="7")
        transport = ScriptedTransport(pods, handler=handle)
        stop = Shutdown()
        running = asyncio.create_task(guide_code.names()["controller"](Client(transport), stop))
        await asyncio.sleep(1)
        watch.push(line("ADDED", pod("late", "9")))
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


def test_the_example_is_short() -> None:
    body = [text for text in guide_code.program().partition("async def controller")[2].splitlines() if text.strip()]
    assert next(number for number, text in enumerate(body) if text.startswith("async def main")) <= 12
