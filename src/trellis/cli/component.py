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
from typing import Any, Final, TypeVar

import click

from trellis.cli.options import complete
from trellis.cli.process.catalog import find_component
from trellis.cli.process.help import GroupedHelpCommand
from trellis.runtime.settings.declarations import VARIABLE_PREFIX, Settings
from trellis.runtime.settings.groups import list_groups
from trellis.runtime.settings.loader import LoadedSettings, from_environment, from_flags, load_settings
from trellis.runtime.settings.options import CLICK_CONTEXT, click_options
from trellis.runtime.shutdown import Main, NewLoop, serve
from trellis.runtime.telemetry import logs

S = TypeVar("S", bound=Settings)

# What a shell completes, by the name of the setting.
COMPLETERS: Final = {"context": complete("contexts"), "vpa-object-namespace": complete("namespaces")}

CONFIG: Final = "config"
CONFIG_VARIABLE: Final = f"{VARIABLE_PREFIX}CONFIG"
_SOURCES = (
    "Each setting is a flag, an environment variable (--log-format: TRELLIS_LOG_FORMAT) and a "
    "field of the --config file (logFormat). Flags win over variables, variables over the file. "
    "Boolean flags --[no-]x are set by --x, --no-x, --x=true or --x=false."
)
_SOURCES_WITHOUT_FILE = (
    "Each setting is a flag and an environment variable (--log-format: TRELLIS_LOG_FORMAT). Flags win over variables. "
    "Boolean flags --[no-]x are set by --x, --no-x, --x=true or --x=false."
)


def component_command(
    name: str,
    summary: str,
    settings: type[S],
    *,
    log_settings: Callable[[S], logs.LogSettings],
    start: Callable[[S], Main],
    new_loop: NewLoop = asyncio.new_event_loop,
    check_with_file: Callable[[S], None] = lambda _settings: None,
    has_file: bool = True,
) -> click.Command:
    """A command with a flag for each setting, which runs `start` until a signal.

    `check_with_file` raises `InvalidInput` for settings that do not go with a configuration file. A command that is not
    one of the components of `trellis run` has no such file.
    """

    def run(**parameters: Any) -> None:
        path = parameters.pop(CONFIG, None)
        loaded, main = _prepare(name, settings, path, parameters, start)
        if path is not None:
            check_with_file(loaded.settings)
        logs.configure(log_settings(loaded.settings), sys.stderr)
        log = logs.Logger(f"trellis.{name}")
        for setting, origin in sorted(loaded.origins.items()):
            log.detail(2, "set", setting=setting, origin=origin)
        ending = serve(main, new_loop=new_loop)
        log.info("stopped", reason=ending.reason or "done", left=",".join(ending.abandoned) or "nothing")
        if ending.reason and not ending.reason.startswith("SIG"):
            sys.exit(1)

    return GroupedHelpCommand(
        name,
        CLICK_CONTEXT,
        run,
        click_options(settings, completers=COMPLETERS),
        help=f"{summary}\n\n{_SOURCES if has_file else _SOURCES_WITHOUT_FILE}",
        groups=list_groups(settings),
        general=(config_option(),) if has_file else (),
    )


def config_option() -> click.Option:
    """`--config`: the file of settings."""
    return click.Option(
        [f"--{CONFIG}"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        envvar=CONFIG_VARIABLE,
        metavar="FILE",
        help=f"File of settings, a TrellisConfiguration (also {CONFIG_VARIABLE}). It is read again when it changes.",
    )


def _prepare(
    command: str, settings: type[S], path: Path | None, parameters: dict[str, Any], start: Callable[[S], Main]
) -> tuple[LoadedSettings[S], Main]:
    """The settings, and what runs the component. With a file it is supervised, so that it can get others."""
    if path is None:
        loaded = load_settings(settings, from_flags(settings, parameters), from_environment(settings, os.environ))
        return loaded, start(loaded.settings)
    # Imported for those who have a file.
    from trellis.cli.process.sources import configure_component  # noqa: PLC0415
    from trellis.runtime.manager.process import process_main  # noqa: PLC0415

    component = find_component(command)
    configuration = configure_component(component, settings, parameters, path)
    return configuration.effective.components[component], process_main(configuration, os.environ)
