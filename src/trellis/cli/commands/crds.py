"""`trellis crds`: prints the CustomResourceDefinitions."""

from __future__ import annotations

import asyncio
import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click

from trellis.api.registry import CHECKPOINT, KINDS, VPA
from trellis.api.schema.crds import build_crds
from trellis.cli.command_class import TrellisCommand
from trellis.cli.options import (
    cluster_access_options,
    is_default,
    namespaces_options,
    open_chosen_client,
    refuse_options,
)
from trellis.cli.output_formats import Output, encode_as_yaml, output_options, write_result


@click.command(name="crds", cls=TrellisCommand)
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@output_options(["yaml", "json"])
@click.option(
    "--downgrade-check",
    is_flag=True,
    help="Print instead which fields of the cluster's objects upstream's CRDs would drop.",
)
@namespaces_options("With --downgrade-check: only objects in matching namespaces, such as `team-*`.")
@cluster_access_options
def command(
    kinds: tuple[str, ...],
    *,
    output: Output,
    downgrade_check: bool,
    namespaces: tuple[str, ...],
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Print the CustomResourceDefinitions.

    All of them, or only those of each KIND given: a kind, its plural or its short name.

    \b
        trellis crds | kubectl apply --server-side -f -
        trellis crds hvpa buffer
        trellis crds --downgrade-check

    \b
    Exit status of --downgrade-check:
      0  nothing would be lost
      1  something would be lost
    """  # noqa: D301 -- click wants the backspace character itself
    if downgrade_check:
        if kinds:
            raise click.UsageError("--downgrade-check reads VerticalPodAutoscalers and checkpoints: leave out KIND")
        losses = asyncio.run(_find_losses(namespaces, kubeconfig, context))
        _write_losses(losses, output)
        sys.exit(1 if losses else 0)
    refuse_options("namespaces", "all_namespaces", "context", "kubeconfig", because="needs --downgrade-check")
    chosen = set(_choose_kinds(kinds))
    definitions = [crd for crd in build_crds() if crd["spec"]["names"]["kind"] in chosen]
    formats = {
        "yaml": lambda: _encode_yaml(definitions),
        "json": lambda: json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions}, indent=2) + "\n",
    }
    write_result(formats, output)


def _encode_yaml(definitions: list[dict[str, Any]]) -> str:
    from trellis.reports.formats import encode_yaml  # noqa: PLC0415 -- the YAML writer is slow to import

    return encode_yaml(definitions)


def _write_losses(losses: list[dict[str, str]], output: Output) -> None:
    """What would be lost: a line each, or a document with -o."""
    if is_default("output") and output.file is None:
        for loss in losses:
            click.echo(f"{loss['object']}: {loss['path']}: {loss['message']} [{loss['reason']}]")
        nouns = "field or value" if len(losses) == 1 else "fields and values"
        click.echo(f"{len(losses)} {nouns} would be lost" if losses else "nothing would be lost")
        return
    encoded = json.dumps({"losses": losses}, indent=2) + "\n"
    write_result({"json": lambda: encoded, "yaml": encode_as_yaml(encoded.encode)}, output)


async def _find_losses(namespaces: tuple[str, ...], kubeconfig: Path | None, context: str) -> list[dict[str, str]]:
    """The fields and values that upstream's CRDs would drop or strand, object by object."""
    from trellis.api.problems import format_path  # noqa: PLC0415 -- only for those who ask a cluster
    from trellis.api.schema.downgrade import find_losses  # noqa: PLC0415
    from trellis.kube.client import iterate_stored_objects  # noqa: PLC0415

    losses: list[dict[str, str]] = []
    async with open_chosen_client(kubeconfig, context, "trellis-crds") as (client, _):
        for kind in (VPA, CHECKPOINT):
            async for document in iterate_stored_objects(client, kind):
                metadata = document.get("metadata", {})
                where = str(metadata.get("namespace"))
                if namespaces and not any(fnmatchcase(where, pattern) for pattern in namespaces):
                    continue
                name = f"{kind.name} {where}/{metadata.get('name')}"
                losses += [
                    {
                        "object": name,
                        "path": format_path(problem.path),
                        "reason": problem.reason.code,
                        "message": problem.message,
                    }
                    for problem in find_losses(kind, document)
                ]
    return losses


def _choose_kinds(names: tuple[str, ...]) -> list[str]:
    """The kinds to print, found by any of their names."""
    kinds_by_alias = {
        alias.lower(): kind.name for kind in KINDS for alias in (kind.name, kind.plural, *kind.short_names)
    }
    for name in names:
        if name.lower() not in kinds_by_alias:
            choices = ", ".join(kind.name for kind in KINDS)
            raise click.BadParameter(f'there is no kind "{name}"; there are {choices}', param_hint="KIND")
    return [kinds_by_alias[name.lower()] for name in names] or [kind.name for kind in KINDS]
