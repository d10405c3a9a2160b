"""Opens the client of a process, and retries its first requests until the API server responds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from trellis.base.errors import KubeError, UnreadableObject
from trellis.kube.client import Client
from trellis.runtime.settings.component import AccessSettings
from trellis.runtime.telemetry.logs import Logger


@asynccontextmanager
async def connect(access: AccessSettings, field_manager: str, log: Logger) -> AsyncIterator[Client]:
    """A client of the cluster that the settings name, while the context is open."""
    from trellis.kube.client_factory import open_client  # noqa: PLC0415 -- reads YAML, which nothing else here does

    async with open_client(access.kubeconfig, field_manager, log.warning, context=access.context) as client:
        yield client


_RETRY_SECONDS: Final = 2.0
# Six components of a process wait for the same API server: each repeats what it has logged once in half a minute.
_RETRIES_BETWEEN_LINES: Final = 15

T = TypeVar("T")


async def retry_until_success(send: Callable[[], Awaitable[T]], log: Logger) -> T:
    """The result of `send`, such as `client.discover`, retried until it succeeds.

    A failure is logged if its cause is another one than before, or was last logged half a minute ago.
    """
    logged, unlogged = "", 0
    while True:
        try:
            return await send()
        except (KubeError, UnreadableObject) as error:
            unlogged = (unlogged + 1) % _RETRIES_BETWEEN_LINES if str(error) == logged else 0
            if not unlogged:
                logged = str(error)
                log.warning("discovery of the API server failed", why=error, again_in=_RETRY_SECONDS)
            await asyncio.sleep(_RETRY_SECONDS)
