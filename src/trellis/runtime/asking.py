"""How is an API server asked that may not answer yet? Until it does, because nothing can be watched before either."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from trellis.base.errors import KubeError, UnreadableObject
from trellis.runtime.logs import Logger

_AGAIN_SECONDS: Final = 2.0

Answer = TypeVar("Answer")


async def answered(ask: Callable[[], Awaitable[Answer]], log: Logger) -> Answer:
    """The answer, such as that to `client.discover`; each failure is logged."""
    while True:
        try:
            return await ask()
        except (KubeError, UnreadableObject) as error:
            log.warning("cannot ask what the API server has", why=error, again_in=_AGAIN_SECONDS)
            await asyncio.sleep(_AGAIN_SECONDS)
