"""The command `trellis` and its list of subcommands, each imported only when it is called."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from trellis import __version__
from trellis.base.errors import TrellisError
from trellis.base.names import suggest_name
from trellis.cli.interrupts import INTERRUPTED
from trellis.cli.standard_output import discard_output_without_reader

# Under each title, name, module and the line that `trellis --help` shows. The line stands here, and a test compares it
# with the command's own help, because reading it from the command would import them all.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Try things without a cluster, or ask one": {
        "simulate": ("trellis.cli.commands.simulate", "Play a fleet through time, sized in several ways, and compare."),
        "backtest": ("trellis.cli.commands.backtest", "Score recommenders on recorded usage."),
        "recommend": (
            "trellis.cli.commands.recommend",
            "Say what workloads should request, and what that saves or risks.",
        ),
        "check": ("trellis.cli.commands.check", "Find what is wrong with autoscaling manifests."),
        "explain": (
            "trellis.cli.commands.explain",
            "Say why a VPA, an Hvpa, a Buffer, a node, a pod or a recommendation is as it is.",
        ),
        "dump": ("trellis.cli.commands.dump", "Collect what decides about sizes in a cluster into one file."),
        "recommenders": (
            "trellis.cli.commands.recommenders",
            "List the recommenders that can be had, with their parameters.",
        ),
        "crds": ("trellis.cli.commands.crds", "Print the CustomResourceDefinitions."),
    },
    "Run in a cluster": {
        "recommender": (
            "trellis.cli.commands.recommender",
            "Recommend how big containers should be, as upstream does.",
        ),
        "admission-controller": (
            "trellis.cli.commands.admission",
            "Size and boost pods as they are made, and check autoscaling objects.",
        ),
        "updater": (
            "trellis.cli.commands.updater",
            "Resize running pods to what is recommended, in place or by eviction.",
        ),
        "hvpa": (
            "trellis.cli.commands.hvpa",
            "Decide how many replicas a workload has and how big each is, by buckets.",
        ),
        "buffers": ("trellis.cli.commands.buffers", "Say in each Buffer's status for which pods room is to be kept."),
        "nodes": (
            "trellis.cli.commands.nodes",
            "Order nodes for pending pods and Buffers, and remove unneeded nodes.",
        ),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
_STANDARD_OUTPUT = 1
# The errors of writing to a full disk.
_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Shorter names, which no list shows.
ALIASES = {"admission": "admission-controller"}


class LazyGroup(click.Group):
    """A group whose commands are modules with a `command` in them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names, in the order they are listed above."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, or the nearest name of one."""
        exists = args[0] in COMMANDS or args[0] in ALIASES
        guess = None if exists or args[0].startswith("-") else suggest_name(args[0], COMMANDS)
        if guess is not None:
            ctx.fail(f'there is no command "{args[0]}" (did you mean "{guess}"?)')
        return super().resolve_command(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the command; Ctrl-C during that ends the process silently."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; Ctrl-C without results prints a message and sets the exit status."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\ntrellis: stopped", err=True)
            return ctx.exit(INTERRUPTED)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The lists of commands, without importing one."""
        longest = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), line) for name, (_, line) in section.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="trellis %(version)s")
def trellis() -> None:
    """Autoscaling for Kubernetes that can be asked what it will do, and why."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a `TrellisError` or an error of the disk is one line, never a traceback."""
    discard_output_without_reader()
    try:
        trellis.main(args=list(arguments) if arguments is not None else None, prog_name="trellis")
    except TrellisError as error:
        click.echo(f"trellis: {error}", err=True)
        sys.exit(2)
    except PermissionError as error:
        if error.filename is None:
            raise
        click.echo(f"trellis: {error.filename}: {error.strerror}", err=True)
        sys.exit(2)
    except OSError as error:
        if error.errno not in _DISK_FULL_ERRORS or error.filename is not None:
            raise
        # What was not written is still waiting to be, and would fail once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_OUTPUT)
        click.echo(f"trellis: the output could not be written: {error.strerror}", err=True)
        sys.exit(2)
