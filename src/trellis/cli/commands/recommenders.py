"""`trellis recommenders`: lists the recommenders that a VerticalPodAutoscaler can name, with their parameters."""

from __future__ import annotations

import json
import logging
import sys

import click

from trellis.cli.output_files import get_wrap_width
from trellis.controllers.recommender.plugins.catalog import list_names, list_recommenders
from trellis.reports.recommenders import as_json, as_text


@click.command(name="recommenders")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the list.",
)
def command(names: tuple[str, ...], output: str) -> None:
    """List the recommenders that can be had, with their parameters.

    All of them, or those of the NAMEs given: those that come with Trellis, and those of packages installed beside it.
    The latter are loaded, each in a process of its own, to see whether they can be used.

    Exit status: 0 all can be used, 1 one cannot, or there is none of a name.
    """
    logging.getLogger("trellis").addHandler(logging.NullHandler())  # the list says what is wrong
    listed = list_recommenders(names)
    if output == "json":
        click.echo(json.dumps(as_json(listed), indent=2))
    else:
        for line in as_text(listed, get_wrap_width()):
            click.echo(line)
    missing = [name for name in names if name not in {recommender.name for recommender in listed}]
    for name in missing:
        names_by_recommender = ", ".join(list_names())
        remedy = "install the package that has it, or else the default algorithm is run under that name"
        click.echo(f"trellis: there is no recommender {name}, but {names_by_recommender}: {remedy}", err=True)
    if missing or any(recommender.problem for recommender in listed):
        sys.exit(1)
