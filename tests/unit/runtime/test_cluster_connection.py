"""The cluster that a component connects to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from support.local_server import serving
from trellis.base.errors import BadKubeconfig
from trellis.kube.transport.requests import Request
from trellis.runtime.cluster_connection import connect
from trellis.runtime.settings.component import AccessSettings
from trellis.runtime.telemetry.logs import Logger

LOG = Logger("test")


def write_kubeconfig(directory: Path, east: str, west: str) -> str:
    file = directory / "kubeconfig"
    file.write_text(f"""
apiVersion: v1
kind: Config
current-context: east
clusters:
- {{name: east, cluster: {{server: "{east}"}}}}
- {{name: west, cluster: {{server: "{west}"}}}}
contexts:
- {{name: east, context: {{cluster: east}}}}
- {{name: west, context: {{cluster: west}}}}
""")
    return str(file)


@pytest.mark.parametrize(("context", "expected"), [("", "east"), ("west", "west")])
def test_the_context_selects_the_cluster(tmp_path: Path, context: str, expected: str) -> None:
    reached = []

    def answer(name: str) -> web.Response:
        reached.append(name)
        return web.json_response({})

    async def east(_request: web.BaseRequest) -> web.StreamResponse:
        return answer("east")

    async def west(_request: web.BaseRequest) -> web.StreamResponse:
        return answer("west")

    async def run() -> None:
        async with serving(east) as east_url, serving(west) as west_url:
            access = AccessSettings(kubeconfig=write_kubeconfig(tmp_path, east_url, west_url), context=context)
            async with connect(access, "test", LOG) as client:
                await client.send(Request("GET", "/version"))

    asyncio.run(run())
    assert reached == [expected]


def test_an_unknown_context_is_refused_with_the_ones_there_are(tmp_path: Path) -> None:
    async def run() -> None:
        file = write_kubeconfig(tmp_path, "http://127.0.0.1:1", "http://127.0.0.1:2")
        async with connect(AccessSettings(kubeconfig=file, context="north"), "test", LOG):
            pytest.fail("connected")

    with pytest.raises(BadKubeconfig, match=r'"north".*"east", "west"'):
        asyncio.run(run())
