"""Who listens for reviews? An HTTPS server that goes on for as long as there is something to answer."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from time import perf_counter
from typing import Final

from trellis.base.errors import InvalidInput
from trellis.controllers.admission.connections import Connection, Patience, Service
from trellis.runtime.addresses import Address

# Who opens a connection and then says nothing must not keep it.
_HANDSHAKE_SECONDS: Final = 10.0
# API servers open one connection for each pod that is made at the same moment, all at once.
_BACKLOG: Final = 1024
_LOOK_SECONDS: Final = 1.0
# As long as a process has to end in order, less what it takes to unwind.
DRAIN_SECONDS: Final = 0.5


class ReviewServer:
    """All connections. Requests that have begun are answered before `close` returns, if that does not take long."""

    def __init__(self, service: Service, context: ssl.SSLContext | None, patience: Patience | None = None) -> None:
        self._service = service
        self._context = context
        self._patience = patience or Patience()
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    def __len__(self) -> int:
        return len(self._connections)

    async def start(self, address: Address) -> Address:
        """Listen; the value is the address, with the port that was found for port 0."""
        try:
            listening = address.listen()
        except OSError as error:
            raise InvalidInput(str(address), f"cannot listen on --port: {error.strerror}") from error
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._service, self._connections),
            sock=listening,
            ssl=self._context,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS if self._context else None,
            backlog=_BACKLOG,
        )
        return Address(address.host, listening.getsockname()[1])

    async def watch(self) -> None:
        """End connections whose clients take too long, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = perf_counter()
            for connection in tuple(self._connections):
                connection.check(now, self._patience)

    async def close(self, seconds: float = DRAIN_SECONDS) -> None:
        """Take no new connection and no new request, answer the rest, and end what is left after so many seconds."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._all_gone()
        for connection in tuple(self._connections):
            connection.end(at_once=True)

    async def _all_gone(self) -> None:
        while self._connections:  # noqa: ASYNC110 - for half a second, once in a life
            await asyncio.sleep(0.01)
