"""Plays kube-proxy on a real node: the cluster IP of a Service leads to a ready pod of it.

Each cluster IP becomes an address of the sandbox, on which TCP connections are passed on in user space: a kernel need
not have netfilter. `kubernetes` has no endpoints where the API server listens on a loopback address; it leads there.

Run as `python -m testbed.node.service_proxy <directory of the cluster> <URL of the API server>`.
"""

from __future__ import annotations

import asyncio
import http.client
import random
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from testbed.client import Api, Json
from testbed.cluster import Cluster
from testbed.errors import Refused

Address: TypeAlias = tuple[str, int]
Routes: TypeAlias = dict[Address, tuple[Address, ...]]

_INTERVAL_SECONDS: Final = 0.5
_BLOCK_BYTES: Final = 65536


def read_routes(api: Api) -> Routes:
    """The ports of all cluster IPs, and the ready endpoints behind each."""
    endpoints: dict[tuple[str, str, str], list[Address]] = {}
    for endpoint_slice in api.list_items("/apis/discovery.k8s.io/v1/endpointslices"):
        metadata = endpoint_slice["metadata"]
        service = metadata.get("labels", {}).get("kubernetes.io/service-name", "")
        for port in endpoint_slice.get("ports") or ():
            key = metadata["namespace"], service, port.get("name", "")
            endpoints.setdefault(key, []).extend(_list_ready(endpoint_slice, port["port"]))
    server = urlsplit(api.url)
    endpoints["default", "kubernetes", "https"] = [(server.hostname or "", server.port or 443)]
    routes: Routes = {}
    for service in api.list_items("/api/v1/services"):
        metadata, spec = service["metadata"], service["spec"]
        if spec.get("clusterIP", "None") == "None":
            continue
        for port in spec["ports"]:
            key = metadata["namespace"], metadata["name"], port.get("name", "")
            routes[spec["clusterIP"], port["port"]] = tuple(endpoints.get(key, ()))
    return routes


def _list_ready(endpoint_slice: Json, port: int) -> list[Address]:
    return [
        (address, port)
        for endpoint in endpoint_slice.get("endpoints") or ()
        if endpoint.get("conditions", {}).get("ready", True)
        for address in endpoint["addresses"]
    ]


class ServiceProxy:
    """Listens on all ports of all cluster IPs, as the API server has them at each moment."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._routes: Routes = {}
        self._servers: dict[Address, asyncio.Server] = {}
        self._addresses: set[str] = set()

    async def run(self) -> None:
        """Follow the API server until the end of the process; while it does not answer, what was known stays."""
        while True:
            with suppress(OSError, Refused, http.client.HTTPException):
                self._routes = await asyncio.to_thread(read_routes, self._api)
            for address in self._routes.keys() - self._servers.keys():
                self._servers[address] = await self._listen(address)
            for address in self._servers.keys() - self._routes.keys():
                self._servers.pop(address).close()
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def _listen(self, address: Address) -> asyncio.Server:
        host, port = address
        if host not in self._addresses:
            subprocess.run(["ip", "address", "add", f"{host}/32", "dev", "lo"], check=True)  # noqa: S607, ASYNC221
            self._addresses.add(host)

        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._forward(address, reader, writer)

        return await asyncio.start_server(connect, host, port)

    async def _forward(self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Without an endpoint the connection is refused late: it is closed."""
        endpoints = self._routes.get(address, ())
        try:
            if endpoints:
                to_reader, to_writer = await asyncio.open_connection(*random.choice(endpoints))  # noqa: S311
                with closing(to_writer):
                    await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer))
        except OSError:
            return
        finally:
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the end of what is read, which is passed on; what fails ends both directions."""
    try:
        while block := await reader.read(_BLOCK_BYTES):
            writer.write(block)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


if __name__ == "__main__":
    asyncio.run(ServiceProxy(Cluster(Path(sys.argv[1]), sys.argv[2]).api).run())
