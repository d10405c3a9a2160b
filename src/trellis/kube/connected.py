"""How does a component reach its cluster? With one client, for as long as it works."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from trellis.kube.aiohttp_transport import AiohttpTransport
from trellis.kube.client import Client
from trellis.kube.which_cluster import find_connection


@asynccontextmanager
async def connected(kubeconfig: str, field_manager: str, warn: Callable[[str], None]) -> AsyncIterator[Client]:
    """A client while the context is open; `warn` is told what is odd about the way to the cluster."""
    connection = find_connection(os.environ, kubeconfig=Path(kubeconfig) if kubeconfig else None)
    for warning in connection.warnings:
        warn(warning)
    client = Client(AiohttpTransport(connection), field_manager)
    try:
        yield client
    finally:
        await client.close()
