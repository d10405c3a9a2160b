"""`trellis schema`: prints JSON Schemas of the kinds, for editors."""

from __future__ import annotations

import json
from typing import Any

import click

from trellis.cli.command_class import TrellisCommand
from trellis.cli.output_formats import Output, encode_as_yaml, output_options, write_result


@click.command(name="schema", cls=TrellisCommand)
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@output_options(["json", "yaml"])
def command(kinds: tuple[str, ...], output: Output) -> None:
    """Print JSON Schemas of the kinds, for editors.

    Without KIND, one schema for all kinds of Trellis, Scenario included: it validates each object by its kind and
    accepts objects of other kinds. With a KIND, the schema of that kind; several make one schema again.

    An editor with yaml-language-server validates and completes a file whose first line names the schema:

    \b
        # yaml-language-server: $schema=trellis.schema.json

    \b
        trellis schema --output-file trellis.schema.json
        trellis schema scenario
    """  # noqa: D301 -- click wants the backspace character itself
    schema = build_schema(kinds)
    formats = {
        "json": lambda: json.dumps(schema, indent=2) + "\n",
        "yaml": encode_as_yaml(lambda: json.dumps(schema).encode()),
    }
    write_result(formats, output)


def build_schema(names: tuple[str, ...]) -> dict[str, Any]:
    """The schema of the kinds with these names; of all kinds without a name."""
    from trellis.api.registry import ALL_KINDS  # noqa: PLC0415 -- --help does not wait
    from trellis.api.schema.json_schemas import build_combined_schema, build_json_schema  # noqa: PLC0415

    kinds_by_name = {alias.lower(): kind for kind in ALL_KINDS for alias in (kind.name, kind.plural, *kind.short_names)}
    for name in names:
        if name.lower() not in kinds_by_name:
            choices = ", ".join(kind.name for kind in ALL_KINDS)
            raise click.BadParameter(f'there is no kind "{name}"; choose among {choices}', param_hint="KIND")
    chosen = [kinds_by_name[name.lower()] for name in names]
    if len(chosen) == 1:
        return build_json_schema(chosen[0])
    return build_combined_schema(chosen or ALL_KINDS)
