"""Measures how fast the API server takes many requests, with a number of them in flight and no other work."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterable, Sequence
from typing import Any

import aiohttp
import msgspec

from bench.measurement import CannotMeasure
from testbed.client import JSON, MERGE_PATCH
from testbed.cluster import Cluster

Json = dict[str, Any]


class Request(msgspec.Struct, frozen=True):
    """One request, which must succeed."""

    method: str
    path: str
    body: Json
    content: str = JSON


def created(path: str, body: Json) -> Request:
    """That makes an object."""
    return Request("POST", path, body)


def patched(path: str, body: Json) -> Request:
    """That changes some of an object."""
    return Request("PATCH", path, body, MERGE_PATCH)


def session(cluster: Cluster, token: str = "") -> aiohttp.ClientSession:
    """A client whose connections stay open: the administrator's, or who has the token."""
    access = cluster.directory / "access"
    context = ssl.create_default_context(cafile=str(access / "ca.crt"))
    if not token:
        context.load_cert_chain(access / "admin.crt", access / "admin.key")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    return aiohttp.ClientSession(cluster.url, connector=connector, headers=headers)


async def send(client: aiohttp.ClientSession, request: Request) -> None:
    """Send it, and read what is answered."""
    body = msgspec.json.encode(request.body)
    async with client.request(
        request.method, request.path, data=body, headers={"Content-Type": request.content}
    ) as answer:
        text = await answer.read()
        if not answer.ok:
            raise CannotMeasure(f"{request.method} {request.path}: {answer.status} {text[:300]!r}")


def send_all(cluster: Cluster, chains: Iterable[Sequence[Request]], at_once: int, token: str = "") -> float:
    """Send them all, those of a chain one after the other; how many seconds it took."""
    return asyncio.run(_send_all(cluster, chains, at_once, token))


async def _send_all(cluster: Cluster, chains: Iterable[Sequence[Request]], at_once: int, token: str) -> float:
    waiting = iter(list(chains))

    async def work(client: aiohttp.ClientSession) -> None:
        for chain in waiting:
            for request in chain:
                await send(client, request)

    async with session(cluster, token) as client:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work(client))
        return time.perf_counter() - began
