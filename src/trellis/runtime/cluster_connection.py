"""Runs a process on its cluster: opens the client before the work begins, closes it afterwards.

A request that everything else depends on, such as discovery, is repeated until the API server answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from trellis.base.errors import KubeError, UnreadableObject
from trellis.kube.client import Client
from trellis.runtime.settings.component import AccessSettings
from trellis.runtime.shutdown import Main, Shutdown
from trellis.runtime.telemetry.logs import Logger


class ClusterSettings(Protocol):
    """What is told to everybody who has a cluster."""

    @property
    def access(self) -> AccessSettings:
        """How the API server is reached."""


S = TypeVar("S", bound=ClusterSettings)


def run_on_cluster(
    run: Callable[[Client, S, Shutdown], Awaitable[None]], settings: S, field_manager: str, log: Logger
) -> Main:
    """Work on the cluster of these settings until it is over or time to stop."""

    async def main(stop: Shutdown) -> None:
        from trellis.kube.client_factory import open_client  # noqa: PLC0415 -- reads YAML, which the rest of us does without

        async with open_client(settings.access.kubeconfig, field_manager, log.warning) as client:
            await run(client, settings, stop)

    return main


_AGAIN_SECONDS: Final = 2.0

Answer = TypeVar("Answer")


async def retry_until_answered(ask: Callable[[], Awaitable[Answer]], log: Logger) -> Answer:
    """The answer, such as that to `client.discover`; each failure is logged."""
    while True:
        try:
            return await ask()
        except (KubeError, UnreadableObject) as error:
            log.warning("cannot ask what the API server has", why=error, again_in=_AGAIN_SECONDS)
            await asyncio.sleep(_AGAIN_SECONDS)
