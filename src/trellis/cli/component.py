"""Builds the command that runs a component: reads settings, configures logs, works until a signal.

Settings come from flags, environment and a file.

Every component has its flags from its settings, so that help, reference page and what is read never differ.
"""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from trellis.cli.command_class import TrellisCommand
from trellis.runtime.settings.declarations import Settings, declared_settings
from trellis.runtime.settings.groups import list_groups
from trellis.runtime.settings.loader import LoadedSettings, from_environment, from_file, from_flags, load_settings
from trellis.runtime.settings.options import CLICK_CONTEXT, click_options, format_default, format_spelling
from trellis.runtime.shutdown import Main, NewLoop, serve
from trellis.runtime.telemetry import logs

S = TypeVar("S", bound=Settings)

_CONFIG = "config"
_SOURCES = (
    "Each setting is a flag, an environment variable (--log-format: TRELLIS_LOG_FORMAT) and a "
    "key of the --config file. Flags win over variables, variables over the file. Boolean "
    "flags --[no-]x are set by --x, --no-x, --x=true or --x=false."
)
_MEANING_INDENT = 4


def component_command(
    name: str,
    summary: str,
    settings: type[S],
    *,
    log_settings: Callable[[S], logs.LogSettings],
    start: Callable[[S], Main],
    new_loop: NewLoop = asyncio.new_event_loop,
) -> click.Command:
    """A command with a flag for each setting, which runs `start` until a signal."""

    def run(**parameters: Any) -> None:
        path = parameters.pop(_CONFIG)
        loaded = _load_settings(settings, path, parameters)
        logs.configure(log_settings(loaded.settings), sys.stderr)
        log = logs.Logger(f"trellis.{name}")
        for setting, origin in sorted(loaded.origins.items()):
            log.detail(2, "set", setting=setting, origin=origin)
        ending = serve(start(loaded.settings), new_loop=new_loop)
        log.info("stopped", reason=ending.reason or "done", left=",".join(ending.abandoned) or "nothing")
        if ending.reason and not ending.reason.startswith("SIG"):
            sys.exit(1)

    config = click.Option(
        [f"--{_CONFIG}"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="YAML file of settings: a map from names of flags, without dashes, to values.",
    )
    return ComponentCommand(
        name, CLICK_CONTEXT, run, [config, *click_options(settings)], help=f"{summary}\n\n{_SOURCES}", settings=settings
    )


class ComponentCommand(TrellisCommand):
    """A command whose help shows its settings in groups."""

    def __init__(self, *args: Any, settings: type[Settings], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.settings = settings

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The settings by group, each flag with its default on a line of its own, and its meaning below."""
        for group in list_groups(self.settings):
            with formatter.section(group.title):
                if group.obsolete:
                    names = ", ".join(f"--{setting.name}" for setting in group.settings)
                    _write_wrapped(formatter, f"{group.meaning} {names}", formatter.current_indent)
                    continue
                for setting in group.settings:
                    _write_flag(formatter, format_spelling(setting), format_default(setting), setting.setting.meaning)
        declared = {setting.parameter for setting in declared_settings(self.settings)}
        with formatter.section("General"):
            for parameter in self.get_params(ctx):
                if parameter.name not in declared and (record := parameter.get_help_record(ctx)):
                    _write_flag(formatter, record[0], "", record[1])


def _write_flag(formatter: click.HelpFormatter, spelling: str, default: str, meaning: str) -> None:
    """A flag and its default, which are never broken, and the meaning below them, indented."""
    indent = formatter.current_indent
    lines = [f"{spelling}  {default}".rstrip()]
    if indent + len(lines[0]) > formatter.width:
        lines = [spelling, default.rjust(len(default) + _MEANING_INDENT)] if default else [spelling]
    for line in lines:
        formatter.write(" " * indent + line + "\n")
    _write_wrapped(formatter, meaning, indent + _MEANING_INDENT)


def _write_wrapped(formatter: click.HelpFormatter, text: str, indent: int) -> None:
    lines = textwrap.wrap(text, max(formatter.width - indent, 1), break_long_words=False, break_on_hyphens=False)
    formatter.write("".join(f"{' ' * indent}{line}\n" for line in lines))


def _load_settings(settings: type[S], path: Path | None, parameters: dict[str, Any]) -> LoadedSettings[S]:
    sources = [from_flags(settings, parameters), from_environment(settings, os.environ)]
    if path is not None:
        sources.append(from_file(settings, path))
    return load_settings(settings, *sources)
