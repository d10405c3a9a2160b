"""Relays connections between the network of a sandbox and that of the machine.

Sockets with a path belong to no network: what listens on one side connects to such a socket in the directory of the
sandbox, and what listens there connects on the other side.

Run as `python -m testbed.node.relay LISTEN CONNECT ...`, pairs of a port of 127.0.0.1 or a path.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

ADDRESS: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 2**16


async def run(pairs: Sequence[tuple[str, str]]) -> None:
    """Relay until the process is ended."""
    servers = [await _serve(listen, connect) for listen, connect in pairs]
    await asyncio.gather(*(server.serve_forever() for server in servers))


async def _serve(listen: str, connect: str) -> asyncio.Server:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await _connect(connect)
        except OSError:  # nothing listens there: as good an answer as a connection that is refused
            writer.close()
            return
        await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))
        for end in (writer, other_writer):
            end.close()

    if listen.isdecimal():
        return await asyncio.start_server(accept, ADDRESS, int(listen))
    return await asyncio.start_unix_server(accept, listen)


async def _connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.isdecimal():
        return await asyncio.open_connection(ADDRESS, int(address))
    return await asyncio.open_unix_connection(address)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the end of what is sent, which is passed on: the other direction may go on."""
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.write_eof()


if __name__ == "__main__":
    asyncio.run(run(list(zip(sys.argv[1::2], sys.argv[2::2], strict=True))))
