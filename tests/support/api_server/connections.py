"""Connections of several processes to one API server in memory, which can be cut one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.api_server.server import ModelServer
from trellis.base.errors import Forbidden, Unreachable
from trellis.kube.transport.protocol import Stream
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response


class Connection:
    """One process's connection to the server: it can be cut, without the process noticing."""

    def __init__(self, server: ModelServer) -> None:
        self.cut = False
        self.refuses_watches = False
        # Watches stay open and bring nothing any more, while other requests are answered.
        self.has_stuck_watches = False
        self.seconds = 0.0
        self.server = server

    async def send(self, request: Request) -> Response:
        if self.cut:
            await asyncio.sleep(1)
            raise Unreachable("no route to host")
        response = await self.server.transport.send(request)
        await asyncio.sleep(self.seconds)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        if self.cut or self.refuses_watches:
            raise Forbidden(403, "Forbidden", "cannot watch") if self.refuses_watches else Unreachable("no route")
        async with self.server.transport.stream(request) as stream:
            yield _BreakableStream(stream, self)

    async def close(self) -> None:
        pass


class _BreakableStream:
    """A watch that breaks with the first line that comes while the connection is cut."""

    def __init__(self, stream: Stream, connection: Connection) -> None:
        self.status = stream.status
        self.headers = stream.headers
        self._stream = stream
        self._connection = connection

    async def lines(self) -> AsyncIterator[bytes]:
        async for line in self._stream.lines():
            if self._connection.cut:
                raise Unreachable("connection reset by peer")
            if self._connection.has_stuck_watches:
                await asyncio.get_running_loop().create_future()
            yield line
