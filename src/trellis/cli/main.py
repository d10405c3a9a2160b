"""The command `trellis` and its list of subcommands, each imported only when it is called."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trellis import __version__
from trellis.base.errors import TrellisError, Unauthorized
from trellis.base.names import suggest_name
from trellis.cli.command_class import format_help, format_usage
from trellis.cli.interrupts import INTERRUPTED
from trellis.cli.standard_streams import discard_output_without_reader, wrap_message, write_message

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Under each title, name, module and the line that `trellis --help` shows. The line stands here, and a test compares it
# with the command's own help, because reading it from the command would import them all.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Try without a cluster": {
        "simulate": ("trellis.cli.commands.simulate", "Simulate a cluster over weeks, and compare policies."),
        "backtest": ("trellis.cli.commands.backtest", "Score recommenders on recorded usage."),
        "check": ("trellis.cli.commands.check", "Find mistakes in autoscaling manifests."),
        "examples": ("trellis.cli.commands.examples", "List the examples, or copy them into a directory."),
    },
    "Look after a cluster": {
        "status": ("trellis.cli.commands.diagnosis.status", "Show what works, and what needs attention."),
        "doctor": ("trellis.cli.commands.diagnosis.doctor", "Check a cluster before and after an installation."),
        "top": ("trellis.cli.commands.diagnosis.top", "Show workloads by waste and by risk."),
    },
    "Ask a cluster, or a dump of it": {
        "recommend": ("trellis.cli.commands.recommend", "Advise requests and limits, with savings and risks."),
        "explain": ("trellis.cli.commands.explain", "Explain what is decided about an object, and why."),
        "dump": ("trellis.cli.commands.dump", "Save the objects that decide about sizes and counts."),
        "version": ("trellis.cli.commands.version", "Print versions of the client and of the components."),
    },
    "Look up and set up": {
        "recommenders": ("trellis.cli.commands.recommenders", "List the available recommenders and their parameters."),
        "install": ("trellis.cli.commands.install", "Print the manifests of an installation."),
        "crds": ("trellis.cli.commands.crds", "Print the CustomResourceDefinitions."),
        "schema": ("trellis.cli.commands.schema", "Print JSON Schemas of the kinds, for editors."),
        "completion": ("trellis.cli.commands.completion", "Print the completion script of a shell."),
    },
    "Run in a cluster": {
        "run": ("trellis.cli.commands.components.run", "Run all components, or some, in one process."),
        "recommender": (
            "trellis.cli.commands.components.recommender",
            "Recommend CPU and memory for the containers of VPAs.",
        ),
        "admission-controller": (
            "trellis.cli.commands.components.admission",
            "Size new pods, and validate autoscaling objects.",
        ),
        "updater": ("trellis.cli.commands.components.updater", "Resize running pods, in place or by eviction."),
        "hvpa": ("trellis.cli.commands.components.hvpa", "Scale replica counts and pod sizes together."),
        "buffers": ("trellis.cli.commands.components.buffers", "Publish how much spare capacity each Buffer asks for."),
        "nodes": ("trellis.cli.commands.components.nodes", "Add missing nodes, and remove unneeded nodes."),
        "node-provider-server": (
            "trellis.cli.commands.components.node_provider_server",
            "Offer node groups to Cluster Autoscaler by gRPC.",
        ),
    },
}
COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}
_STANDARD_OUTPUT = 1
# The errors of writing to a full disk.
_UNAUTHORIZED = 401
_DISK_FULL_ERRORS = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)
# Shorter names, which no list shows.
ALIASES = {"admission": "admission-controller"}
# Commands that other tools have, and what to type here.
_REPLACEMENTS = {
    "get": "kubectl lists the objects, as in `kubectl get vpa,hvpa,buffers`; `trellis explain` explains one",
    "describe": "`trellis explain vpa/web` explains an object",
    "uninstall": "`trellis install --to-delete | kubectl delete -f -` removes what `trellis install` printed",
}


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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `help COMMAND` as `COMMAND --help`; refuse options of a command that stand before it."""
        if args and args[0] == "help":
            args = [*args[1:2], "--help"]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f'there is no option "{error.option_name}" before the command; options of a command follow it, as in '
                "trellis explain vpa/web -n shop",
                ctx,
            ) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; for an unknown name, the error with the nearest name or the list of all."""
        name = args[0]
        if ctx.resilient_parsing:  # a shell completes the line
            return super().resolve_command(ctx, args)
        if name not in COMMANDS and name not in ALIASES:
            ctx.fail(f'there is no command "{name}"{_suggest_command(name)}')
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin with a text, without importing one."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 -- for shells alone

        commands = [CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items()]
        options = [] if incomplete[:1].isalnum() else click.Command.shell_complete(self, ctx, incomplete)
        return [item for item in commands if item.value.startswith(incomplete)] + options

    def get_help(self, ctx: click.Context) -> str:
        """The help, wrapped to the terminal."""
        return format_help(self, ctx)

    def get_usage(self, ctx: click.Context) -> str:
        """The line of usage, wrapped to the terminal."""
        return format_usage(self, ctx)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the command; Ctrl-C during that ends the process silently."""
        try:
            with _wrap_usage_errors():
                return super().make_context(info_name, args, parent, **extra)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; Ctrl-C without results prints a message and sets the exit status."""
        try:
            with _wrap_usage_errors():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\ntrellis: stopped", err=True)
            return ctx.exit(INTERRUPTED)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lists of commands, without importing one."""
        longest = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(longest), line) for name, (_, line) in section.items()])


@contextmanager
def _wrap_usage_errors() -> Iterator[None]:
    """Wrap the text of an error for a terminal."""
    try:
        yield
    except click.UsageError as error:
        prefix = "Error: "  # as click has it
        raise click.UsageError(wrap_message(prefix + error.format_message()).removeprefix(prefix), error.ctx) from error


def _suggest_command(name: str) -> str:
    """What to type instead of an unknown command."""
    if name in _REPLACEMENTS:
        return f": {_REPLACEMENTS[name]}"
    guess = suggest_name(name, COMMANDS)
    return f' (did you mean "{guess}"?)' if guess else f"; the commands are {', '.join(COMMANDS)}"


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="trellis %(version)s")
def trellis() -> None:
    """Autoscaling for Kubernetes: pod sizes, replica counts and spare capacity.

    Try a policy in a simulation before you apply it, and ask why a decision was made afterwards.
    """


def _find_program_name() -> str:
    """What usage lines call the program: kubectl runs `kubectl-trellis` for `kubectl trellis`."""
    return "kubectl trellis" if Path(sys.argv[0]).stem == "kubectl-trellis" else "trellis"


def _describe_error(error: TrellisError) -> str:
    """The message of an error. The API server's own word for refused credentials does not say what to do."""
    if isinstance(error, Unauthorized) and error.code == _UNAUTHORIZED:
        return f"the API server does not accept your credentials ({error}): log in again, or choose another --context"
    return str(error)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a `TrellisError` or an error of the disk is one line, never a traceback."""
    discard_output_without_reader()
    try:
        trellis.main(args=list(arguments) if arguments is not None else None, prog_name=_find_program_name())
    except TrellisError as error:
        write_message(_describe_error(error))
        sys.exit(2)
    except PermissionError as error:
        if error.filename is None:
            raise
        write_message(f"{error.filename}: {error.strerror}")
        sys.exit(2)
    except OSError as error:
        if error.errno not in _DISK_FULL_ERRORS or error.filename is not None:
            raise
        # What was not written is still waiting to be, and would fail once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_OUTPUT)
        write_message(f"the output could not be written: {error.strerror}")
        sys.exit(2)
