"""The transport interface between the client and the network.

A transport sends the request it is given and returns the response, errors of the API server included. It raises
`Unreachable` where there is no answer, and does not know what a pod is. `aiohttp_transport` implements it; tests use
a scripted one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response


class Stream(Protocol):
    """A response whose body is still arriving."""

    @property
    def status(self) -> int:
        """The HTTP status; an error has a stream too, whose lines are the server's `Status`."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The response's headers, names in lower case."""

    def lines(self) -> AsyncIterator[bytes]:
        """Whole lines without their ends; raises `Unreachable` if the connection breaks before the body's end."""


class Transport(Protocol):
    """Sends requests of a client and returns the responses."""

    async def send(self, request: Request) -> Response:
        """The whole response, whatever its status; raises `Unreachable` if there is none."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """A response line by line; the connection is closed when the context ends."""

    async def close(self) -> None:
        """Close every connection. A second call does nothing."""
