"""How a command reaches a cluster: the flags for it, and the client behind them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from trellis.kube.client import Client

F = TypeVar("F", bound=Callable[..., Any])


def access_options(command: F) -> F:
    """Add `--kubeconfig` and `--context`."""
    path = click.Path(dir_okay=False, path_type=Path)
    kubeconfig = click.option(
        "--kubeconfig", type=path, help="Kubeconfig to use.  [default: $KUBECONFIG, ~/.kube/config]"
    )
    context = click.option("--context", default="", help="Context of the kubeconfig.  [default: its current one]")
    return kubeconfig(context(command))


@asynccontextmanager
async def connected(kubeconfig: Path | None, context: str, field_manager: str) -> AsyncIterator[tuple[Client, str]]:
    """A client for the cluster that is meant, and the namespace that is meant where an object names none."""
    from trellis.kube.aiohttp_transport import AiohttpTransport  # noqa: PLC0415 -- only for those who ask a cluster
    from trellis.kube.client import Client  # noqa: PLC0415
    from trellis.kube.which_cluster import find_connection  # noqa: PLC0415

    connection = find_connection(os.environ, kubeconfig=kubeconfig, context=context)
    for warning in connection.warnings:
        click.echo(f"trellis: {warning}", err=True)
    client = Client(AiohttpTransport(connection), field_manager)
    try:
        yield client, connection.namespace
    finally:
        await client.close()
