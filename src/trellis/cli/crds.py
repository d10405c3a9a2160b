"""`trellis crds`: print the CustomResourceDefinitions."""

from __future__ import annotations

import json

import click

from trellis.api.crds import crds
from trellis.api.kinds import KINDS


@click.command(name="crds")
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Form of the output.",
)
def command(kinds: tuple[str, ...], output: str) -> None:
    """Print the CustomResourceDefinitions.

    All of them, or those of the KINDs named (kind, plural or short name):

    \b
        trellis crds | kubectl apply --server-side -f -
        trellis crds hvpa buffer
    """  # noqa: D301 -- click wants the backspace character itself
    chosen = set(_chosen(kinds))
    definitions = [crd for crd in crds() if crd["spec"]["names"]["kind"] in chosen]
    if output == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions}, indent=2))
    else:
        from trellis.reports.manifests import as_yaml  # noqa: PLC0415 -- the YAML writer is slow to import

        click.echo(as_yaml(definitions), nl=False)


def _chosen(names: tuple[str, ...]) -> list[str]:
    """The kinds that were asked for, by any of their names."""
    known = {alias.lower(): kind.name for kind in KINDS for alias in (kind.name, kind.plural, *kind.short_names)}
    for name in names:
        if name.lower() not in known:
            choices = ", ".join(kind.name for kind in KINDS)
            raise click.BadParameter(f'there is no kind "{name}"; there are {choices}', param_hint="KIND")
    return [known[name.lower()] for name in names] or [kind.name for kind in KINDS]
