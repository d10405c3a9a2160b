"""An API server as far as a list and a watch of pods need one: in a process of its own, on 127.0.0.1.

Everything is encoded before the first request, so that what is measured is the client. Pages are compressed for those
who ask, as the real one does with whatever is longer than 128 KiB (its gzip has level 1 as well). The watch sends each
pod again, twice, as changed.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import sys
from contextlib import AbstractContextManager, suppress

import msgspec
from aiohttp import ClientConnectionResetError, web

from bench.client.generated_pods import pod_list
from bench.server_process import serve, server_process
from trellis.kube.watch.reflector import PAGE_SIZE as PAGE

ROUNDS = 2
FIRST_CHANGE = 90_000_000
_VERSION = "81923344"


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


def serving(pods: int) -> AbstractContextManager[str]:
    """The server's URL, for as long as it is needed."""
    return server_process(__name__, pods)


class PodServer:
    """Answers `/api/v1/pods`, whole, in pages, or as a watch."""

    def __init__(self, count: int) -> None:
        self._whole = pod_list(count)
        pods = [bytes(raw) for raw in msgspec.json.decode(self._whole, type=_List).items]
        starts = range(0, count, PAGE)
        pages = [_page(pods[start : start + PAGE], start + PAGE if start + PAGE < count else 0) for start in starts]
        self._pages = {str(start): page for start, page in zip(starts, pages, strict=True)}
        self._zipped = {start: gzip.compress(page, 1) for start, page in self._pages.items()}
        # A version of its own for each, as every change has one.
        self._lines = [
            b'{"type":"MODIFIED","object":'
            + re.sub(
                rb'"resourceVersion":"\d+"', b'"resourceVersion":"%d"' % (FIRST_CHANGE + turn * count + i), pod, count=1
            )
            + b"}\n"
            for turn in range(ROUNDS)
            for i, pod in enumerate(pods)
        ]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await self._watch(request)
        if "limit" not in request.query:
            return web.Response(body=self._whole, content_type="application/json")
        start = request.query.get("continue", "0")
        if "gzip" not in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=self._pages[start], content_type="application/json")
        headers = {"Content-Encoding": "gzip"}
        return web.Response(body=self._zipped[start], content_type="application/json", headers=headers)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with suppress(ClientConnectionResetError):
            for line in self._lines:
                await response.write(line)
        await asyncio.Event().wait()
        return response


def _page(pods: list[bytes], following: int) -> bytes:
    token = f',"continue":"{following}"' if following else ""
    head = f'{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{_VERSION}"{token}}},"items":['
    return head.encode() + b",".join(pods) + b"]}"


async def _version(_: web.Request) -> web.Response:
    return web.json_response({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})


async def _serve(count: int) -> None:
    application = web.Application()
    application.router.add_get("/version", _version)
    application.router.add_get("/api/v1/pods", PodServer(count).answer)
    await serve(web.AppRunner(application))


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
