"""`trellis recommenders`: lists the recommenders that a VerticalPodAutoscaler can name, with their parameters."""

from __future__ import annotations

import json
import logging
import sys

import click

from trellis.cli.command_class import TrellisCommand
from trellis.cli.options import complete
from trellis.cli.output_files import get_wrap_width
from trellis.cli.output_formats import Output, encode_as_yaml, output_options, write_result
from trellis.cli.standard_streams import write_message
from trellis.controllers.recommender.plugins.catalog import list_names, list_recommenders
from trellis.reports.recommenders import as_json, as_text


@click.command(name="recommenders", cls=TrellisCommand)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete("recommenders"))
@output_options(["text", "json", "yaml"])
def command(names: tuple[str, ...], output: Output) -> None:
    """List the available recommenders and their parameters.

    The list has the recommenders of Trellis and those of installed packages, or only those of each NAME given.
    A recommender of a package is loaded in a process of its own, to test that it can be used.

    \b
    Exit status:
      0  all recommenders can be used
      1  a recommender cannot be used, or a NAME is unknown
    """  # noqa: D301 -- click wants the backspace character itself
    logging.getLogger("trellis").addHandler(logging.NullHandler())  # the list has the problems
    listed = list_recommenders(names)
    formats = {
        "text": lambda: "".join(
            f"{line}\n" for line in as_text(listed, 0 if output.is_plain_in_file else get_wrap_width())
        ),
        "json": lambda: json.dumps(as_json(listed), indent=2) + "\n",
        "yaml": encode_as_yaml(lambda: json.dumps(as_json(listed)).encode()),
    }
    write_result(formats, output)
    missing = [name for name in names if name not in {recommender.name for recommender in listed}]
    for name in missing:
        available = ", ".join(list_names())
        remedy = "Install the package that provides it; until then the default algorithm runs under that name"
        write_message(f"there is no recommender {name}; available: {available}. {remedy}")
    if missing or any(recommender.problem for recommender in listed):
        sys.exit(1)
