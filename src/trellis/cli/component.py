"""Builds the command that runs a component: reads settings, configures logs, works until a signal.

Settings come from flags, environment and a file.

Every component has its flags from its settings, so that help, reference page and what is read never differ.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from trellis.cli.command_class import TrellisCommand
from trellis.runtime.settings.declarations import Settings
from trellis.runtime.settings.loader import LoadedSettings, from_environment, from_file, from_flags, load_settings
from trellis.runtime.settings.options import CLICK_CONTEXT, click_options
from trellis.runtime.shutdown import Main, NewLoop, serve
from trellis.runtime.telemetry import logs

S = TypeVar("S", bound=Settings)

_CONFIG = "config"


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
        help="YAML file of settings, named like the flags. Flags and environment variables win over it.",
    )
    return TrellisCommand(name, CLICK_CONTEXT, run, [config, *click_options(settings)], help=summary)


def _load_settings(settings: type[S], path: Path | None, parameters: dict[str, Any]) -> LoadedSettings[S]:
    sources = [from_flags(settings, parameters), from_environment(settings, os.environ)]
    if path is not None:
        sources.append(from_file(settings, path))
    return load_settings(settings, *sources)
