"""What is there of one kind? Its list in pages, and in one line what could not be had.

A server that is busy is asked again. A list whose continue token has expired begins anew in one piece, so that an
object may come twice; it is the same object.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar

import msgspec

from trellis.api.kube.decode import DecodedList
from trellis.base.errors import (
    Expired,
    Forbidden,
    KubeError,
    NotFound,
    ServerFault,
    Throttled,
    TrellisError,
    Unauthorized,
    Unreachable,
)
from trellis.core.model import dump_lines
from trellis.kube.backoff import Backoff
from trellis.kube.client import Client
from trellis.kube.requests import PAGE_SIZE
from trellis.kube.resources import Resource

T = TypeVar("T", bound=msgspec.Struct)

FORBIDDEN: Final = "may not be read"
NOT_SERVED: Final = dump_lines.NOT_SERVED
UNREADABLE: Final = "could not be read"
NOT_THERE: Final = "does not exist"

_TRIES: Final = 4
_BACKOFF: Final = Backoff(first=0.5, most=8.0)


async def pages_of(client: Client, resource: Resource[T], namespace: str = "") -> AsyncIterator[DecodedList[T]]:
    """All there is; raises the last error of a server that is asked in vain."""
    limit, failures = PAGE_SIZE, 0
    while True:
        try:
            async for page in client.list_pages(resource, namespace, limit=limit):
                yield page
        except Expired:
            if not limit:
                raise
            limit = 0
        except (Throttled, ServerFault, Unreachable) as error:
            failures += 1
            if failures >= _TRIES:
                raise
            await asyncio.sleep(_BACKOFF.wait(failures, _middle, error.retry_after))
        else:
            return


def why_not(error: TrellisError, resource: Resource[Any] | None = None) -> str:
    """Why something could not be had, in a few words."""
    match error:
        case Forbidden() | Unauthorized():
            return FORBIDDEN
        case NotFound() if resource is not None:
            return NOT_SERVED
        case KubeError():
            return f"{UNREADABLE}: {error.message}"
        case _:
            return f"{UNREADABLE}: {error}"


def _middle() -> float:
    """One client alone has nobody to keep out of the way of."""
    return 0.5
