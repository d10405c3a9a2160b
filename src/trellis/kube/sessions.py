"""How does a session with a server end? Without the goodbye of TLS, which nobody is left to wait for."""

from __future__ import annotations

import aiohttp


async def hang_up(session: aiohttp.ClientSession) -> None:
    """Close every connection of it, streams included."""
    if session.connector is not None:
        await session.connector.close(abort_ssl=True)
    await session.close()
