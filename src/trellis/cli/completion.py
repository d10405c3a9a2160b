"""Completes recommenders, contexts, namespaces and objects in a shell.

A cluster is asked for names alone, with a short timeout. Whatever fails leaves the shell without suggestions, because
a message would be written into the line that is being typed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, ShellComplete

from trellis.base.errors import TrellisError
from trellis.cli.object_names import KIND_NAMES, WORKLOAD_NAMES, find_kind

_TIMEOUT: Final = 2.0  # seconds for a list of names
_MOST_NAMES: Final = 500


def complete(what: str, ctx: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The values that begin with `incomplete`."""
    try:
        return [CompletionItem(value) for value in _FINDERS[what](ctx, incomplete) if value.startswith(incomplete)]
    except (TrellisError, OSError, TimeoutError):
        return []


def _list_recommenders(_ctx: click.Context, incomplete: str) -> Iterable[str]:
    from trellis.controllers.recommender.plugins.catalog import list_names  # noqa: PLC0415 -- NumPy comes with it

    # Several names are separated by commas: the last one is completed.
    before, comma, _ = incomplete.rpartition(",")
    return (f"{before}{comma}{name}" for name in list_names())


def _list_contexts(ctx: click.Context, _incomplete: str) -> Iterable[str]:
    from trellis.kube.auth.kubeconfig_files import default_files, load_kubeconfig  # noqa: PLC0415 -- YAML comes with it

    chosen = ctx.params.get("kubeconfig")
    files = [Path(chosen)] if chosen else default_files(os.environ, Path.home())
    return sorted(load_kubeconfig(files, must_exist=False).contexts)


def _list_namespaces(ctx: click.Context, incomplete: str) -> Iterable[str]:
    from trellis.kube.resources import NAMESPACES  # noqa: PLC0415 -- see above

    before, comma, _ = incomplete.rpartition(",")
    names = asyncio.run(asyncio.wait_for(_list_names(ctx, NAMESPACES), _TIMEOUT))
    return (f"{before}{comma}{name}" for name in names)


def _list_objects(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Kinds, and after `vpa/` or `vpa ` the names of objects."""
    words: Sequence[str] = ctx.params.get("words") or ()
    head, slash, _ = incomplete.partition("/")
    named = words[0] if words else head if slash else ""
    if not named:
        return [f"{names[0]}/" for names in (*KIND_NAMES.values(), *WORKLOAD_NAMES.values())]
    kind = find_kind(named)
    if kind is None or ctx.params.get("dump") is not None:
        return []
    names = asyncio.run(asyncio.wait_for(_list_names(ctx, _find_resource(kind)), _TIMEOUT))
    return names if words else [f"{named}/{name}" for name in names]


def _list_workloads(ctx: click.Context, incomplete: str) -> Iterable[str]:
    """Kinds of workloads, and after `deployment/` the names of objects."""
    head, slash, _ = incomplete.partition("/")
    if not slash:
        return [f"{names[0]}/" for names in WORKLOAD_NAMES.values()]
    kind = find_kind(head)
    if kind not in WORKLOAD_NAMES:
        return []
    names = asyncio.run(asyncio.wait_for(_list_names(ctx, _find_resource(kind)), _TIMEOUT))
    return [f"{head}/{name}" for name in names]


def _find_resource(kind: str) -> Any:
    from trellis.kube import resources  # noqa: PLC0415 -- see above

    own = {
        "vpa": resources.VPAS,
        "recommendation": resources.VPAS,
        "hvpa": resources.HVPAS,
        "buffer": resources.BUFFERS,
        "node": resources.NODES,
        "pod": resources.PODS,
    }
    workloads = (
        resources.DEPLOYMENTS,
        resources.STATEFUL_SETS,
        resources.DAEMON_SETS,
        resources.REPLICA_SETS,
        resources.REPLICATION_CONTROLLERS,
        resources.JOBS,
        resources.CRON_JOBS,
    )
    return own.get(kind) or next(resource for resource in workloads if resource.kind == kind)


async def _list_names(ctx: click.Context, resource: Any) -> list[str]:
    """The names of the first objects, in the namespace of the command line or of the context."""
    from trellis.api.kube.meta import KubeObject  # noqa: PLC0415 -- see above
    from trellis.kube.client import Client  # noqa: PLC0415
    from trellis.kube.client_factory import find_connection  # noqa: PLC0415
    from trellis.kube.transport.aiohttp_transport import AiohttpTransport  # noqa: PLC0415

    params = ctx.params
    kubeconfig = Path(params["kubeconfig"]) if params.get("kubeconfig") else None
    connection = find_connection(os.environ, kubeconfig=kubeconfig, context=params.get("context") or "")
    chosen = params.get("namespace") or connection.namespace
    client = Client(AiohttpTransport(connection), "trellis-completion")
    try:
        listed = resource.read_as(KubeObject)
        async for page in client.list_pages(listed, chosen if listed.namespaced else "", limit=_MOST_NAMES):
            return [item.metadata.name for item in page.items]
        return []
    finally:
        await client.close()


_FINDERS: Final[dict[str, Callable[[click.Context, str], Iterable[str]]]] = {
    "recommenders": _list_recommenders,
    "contexts": _list_contexts,
    "namespaces": _list_namespaces,
    "objects": _list_objects,
    "workloads": _list_workloads,
}


def complete_for_kubectl() -> None:
    """The executable `kubectl_complete-trellis`: kubectl asks it to complete `kubectl trellis ...`.

    It prints a line for each value, and then kubectl's code for "complete no files".
    """
    from trellis.cli.main import trellis  # noqa: PLC0415 -- it imports nothing of this module

    *words, incomplete = sys.argv[1:] or [""]
    completer = ShellComplete(trellis, {}, "trellis", "")
    for item in completer.get_completions(words, incomplete):
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(":4")
