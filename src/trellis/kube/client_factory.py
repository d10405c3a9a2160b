"""Finds the cluster that a program talks to, and opens a client for it.

The order is that of kubectl, with a pod's own cluster before the kubeconfig in the home directory.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from trellis.kube.auth.connection import Connection
from trellis.kube.auth.in_cluster import SERVICE_ACCOUNT, is_in_cluster, load_in_cluster_connection
from trellis.kube.auth.kubeconfig import load_kubeconfig_connection
from trellis.kube.client import Client
from trellis.kube.transport.aiohttp_transport import AiohttpTransport


def find_connection(
    environment: Mapping[str, str],
    *,
    kubeconfig: Path | None = None,
    context: str = "",
    home: Path | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """The named file or context, else `KUBECONFIG`, else the pod's own cluster, else `~/.kube/config`.

    The pod comes before the home directory, so that a controller does not use a file that its image happens to
    contain. `KUBECONFIG` comes before both: in a pod it is only set on purpose.
    """
    named_config = kubeconfig or context or environment.get("KUBECONFIG")
    if not named_config and is_in_cluster(environment, service_account):
        return load_in_cluster_connection(environment, service_account)
    return load_kubeconfig_connection(environment, file=kubeconfig, context=context, home=home)


@asynccontextmanager
async def open_client(
    kubeconfig: str, field_manager: str, warn: Callable[[str], None], *, context: str = ""
) -> AsyncIterator[Client]:
    """A client while the context is open; `warn` receives the warnings of the connection."""
    connection = find_connection(os.environ, kubeconfig=Path(kubeconfig) if kubeconfig else None, context=context)
    for warning in connection.warnings:
        warn(warning)
    client = Client(AiohttpTransport(connection), field_manager)
    try:
        yield client
    finally:
        await client.close()
