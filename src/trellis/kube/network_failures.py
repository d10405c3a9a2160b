"""What went wrong on the way to the API server, in words that name the culprit: server, name, proxy or certificate."""

from __future__ import annotations

import os
from typing import Final

import aiohttp

NETWORK_FAILURES: Final = (aiohttp.ClientError, OSError, TimeoutError)


def what_happened(error: Exception, seconds: float | None) -> str:
    """The end of a sentence that begins with the server. `seconds` is how long was waited, if that is known."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
            return f"shows a certificate that is not trusted: {reason}"
        case aiohttp.ClientConnectorDNSError():
            return "cannot be found: its name does not resolve"
        case aiohttp.ClientSSLError():
            return f"cannot be talked to over TLS: {error.os_error}"
        case aiohttp.ClientProxyConnectionError():
            return f"is behind a proxy that cannot be connected to: {_words(error.os_error)}"
        case aiohttp.ClientHttpProxyError():
            return f"is behind a proxy that refuses: {error.status} {error.message}"
        case aiohttp.ClientConnectorError():
            return f"cannot be connected to: {_words(error.os_error)}"
        case aiohttp.ConnectionTimeoutError():
            return "cannot be connected to: no answer to the attempt"
        case TimeoutError():
            return f"did not answer within {seconds:g} s" if seconds else "did not go on in time"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | ConnectionError():
            return "broke the connection"
        case _:
            return f"cannot be talked to: {str(error) or type(error).__name__}"


def _words(error: OSError) -> str:
    """The system's words, which asyncio replaces by the address; our message has that already."""
    return os.strerror(error.errno) if error.errno else str(error)
