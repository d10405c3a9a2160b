"""How does a process come to its cluster? With a client that is there before its work begins and closed after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from trellis.kube.client import Client
from trellis.runtime.component_settings import AccessSettings
from trellis.runtime.logs import Logger
from trellis.runtime.shutdown import Main, Shutdown


class ConnectedSettings(Protocol):
    """What is told to everybody who has a cluster."""

    @property
    def access(self) -> AccessSettings:
        """How the API server is reached."""


S = TypeVar("S", bound=ConnectedSettings)


def on_cluster(
    run: Callable[[Client, S, Shutdown], Awaitable[None]], settings: S, field_manager: str, log: Logger
) -> Main:
    """Work on the cluster of these settings until it is over or time to stop."""

    async def main(stop: Shutdown) -> None:
        from trellis.kube.connected import connected  # noqa: PLC0415 -- reads YAML, which the rest of us does without

        async with connected(settings.access.kubeconfig, field_manager, log.warning) as client:
            await run(client, settings, stop)

    return main
