"""aiohttp sessions: messages for their failures, and how they are closed.

A message names the cause: the server, its name, the proxy or the certificate. A session is closed without the closing
handshake of TLS, because nothing waits for its answer.
"""

from __future__ import annotations

import os
from typing import Final

import aiohttp

NETWORK_FAILURES: Final = (aiohttp.ClientError, OSError, TimeoutError)


def describe_failure(error: Exception, seconds: float | None) -> str:
    """The end of a sentence that begins with the server. `seconds` is the timeout, if that is known."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
            return f"has a certificate that is not trusted: {reason}"
        case aiohttp.ClientConnectorDNSError():
            return "cannot be found: its host name does not resolve"
        case aiohttp.ClientSSLError():
            return f"cannot be reached over TLS: {error.os_error}"
        case aiohttp.ClientProxyConnectionError():
            return f"is behind a proxy that cannot be reached: {_describe_os_error(error.os_error)}"
        case aiohttp.ClientHttpProxyError():
            return f"is behind a proxy that refuses: {error.status} {error.message}"
        case aiohttp.ClientConnectorError():
            return f"cannot be reached: {_describe_os_error(error.os_error)}"
        case aiohttp.ConnectionTimeoutError():
            return "cannot be reached: the connection attempt timed out"
        case TimeoutError():
            return (
                f"did not answer within {seconds:g} s" if seconds else "stopped answering in the middle of a response"
            )
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | ConnectionError():
            return "closed the connection"
        case _:
            return f"cannot be reached: {str(error) or type(error).__name__}"


def _describe_os_error(error: OSError) -> str:
    """The system's text for the error; asyncio puts the address in its place, which the message has already."""
    return os.strerror(error.errno) if error.errno else str(error)


async def close_session(session: aiohttp.ClientSession) -> None:
    """Close every connection of a session, streams included."""
    if session.connector is not None:
        await session.connector.close(abort_ssl=True)
    await session.close()
