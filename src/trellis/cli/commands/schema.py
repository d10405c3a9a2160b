"""`trellis schema`: prints JSON Schemas of the kinds, for editors."""

from __future__ import annotations

import json
from typing import Any

import click

from trellis.cli.command_class import TrellisCommand
from trellis.cli.output_formats import Output, encode_as_yaml, output_options, write_result
from trellis.cli.process.configuration_format import build_configuration_tree
from trellis.runtime.manager.configuration import API_VERSION, KIND


@click.command(name="schema", cls=TrellisCommand)
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@output_options(["json", "yaml"])
def command(kinds: tuple[str, ...], output: Output) -> None:
    """Print JSON Schemas of the kinds, for editors.

    Without KIND, one schema for all kinds of Trellis, files such as Scenario and TrellisConfiguration included: it
    validates each object by its kind and accepts objects of other kinds. With a KIND, the schema of that kind; several
    make one schema again.

    An editor with yaml-language-server validates and completes a file whose first line names the schema:

    \b
        # yaml-language-server: $schema=trellis.schema.json

    \b
        trellis schema --output-file trellis.schema.json
        trellis schema scenario
        trellis schema trellisconfiguration
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
    from trellis.api.schema.json_schemas import (  # noqa: PLC0415
        build_combined_schema,
        build_format_schema,
        build_json_schema,
    )

    kinds_by_name = {alias.lower(): kind for kind in ALL_KINDS for alias in (kind.name, kind.plural, *kind.short_names)}
    for name in names:
        if name.lower() not in (*kinds_by_name, KIND.lower()):
            choices = ", ".join([*(kind.name for kind in ALL_KINDS), KIND])
            raise click.BadParameter(f'there is no kind "{name}"; choose among {choices}', param_hint="KIND")
    chosen = [kinds_by_name[name.lower()] for name in names if name.lower() in kinds_by_name]
    with_configuration = len(chosen) < len(names) or not names
    formats = {(API_VERSION, KIND): build_configuration_tree()} if with_configuration else {}
    if len(names) == 1:
        return build_json_schema(chosen[0]) if chosen else build_format_schema(KIND, formats[API_VERSION, KIND])
    return build_combined_schema(chosen if names else ALL_KINDS, formats)
