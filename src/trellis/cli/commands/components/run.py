"""`trellis run`: several components in one process, all six by default."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any, Final

from trellis.cli.component import COMPLETERS, CONFIG
from trellis.cli.process.catalog import import_all_settings
from trellis.cli.process.command import RunCommand
from trellis.cli.process.sources import configure_process
from trellis.runtime.manager.layers import LoadedProcess
from trellis.runtime.manager.process import process_main
from trellis.runtime.manager.settings import ADMISSION, ProcessSettings
from trellis.runtime.settings.options import CLICK_CONTEXT, click_options
from trellis.runtime.shutdown import NewLoop, serve
from trellis.runtime.telemetry import logs

_HELP: Final = """\
Run all components, or some, in one process.

They share one client, one cache of the cluster and one server for probes and metrics. Each has its own Lease, and is
restarted alone when it fails. For one process per component, use `trellis recommender`, `trellis updater` and so on.

Flags without a dot hold for all components. A flag of one component has its name in front: `trellis updater --help-all`
lists --min-replicas, which is --updater.min-replicas here. Shared flags can be set for one component too:
--updater.read-only. Each flag is also a variable (--updater.min-replicas: TRELLIS_UPDATER_MIN_REPLICAS) and a field of
the --config file (minReplicas in the object updater). Flags win over variables, variables over the file.
"""

_TYPES: Final = import_all_settings()
_log: Final = logs.Logger("trellis.run")


def run(**parameters: Any) -> None:
    """Run until a signal."""
    configuration = configure_process(_TYPES, parameters, parameters[CONFIG])
    effective = configuration.effective
    logs.configure(effective.process.settings.logs, sys.stderr)
    _log_origins(effective)
    report = serve(process_main(configuration, os.environ), new_loop=_choose_loop(effective.process.settings))
    _log.info("stopped", reason=report.reason or "done", left=",".join(report.abandoned) or "nothing")


def _choose_loop(process: ProcessSettings) -> NewLoop:
    """The faster loop where reviews are answered; it costs memory, which other components do not need."""
    if ADMISSION not in process.choice.chosen or sys.platform == "win32":
        return asyncio.new_event_loop
    import uvloop  # noqa: PLC0415 - not every platform has it

    return uvloop.new_event_loop


def _log_origins(loaded: LoadedProcess) -> None:
    for setting, origin in sorted(loaded.process.origins.items()):
        _log.detail(2, "set", setting=setting, origin=origin)
    for component, own in loaded.components.items():
        for setting, origin in sorted(own.origins.items()):
            if loaded.process.origins.get(setting) != origin:
                _log.detail(2, "set", component=component, setting=setting, origin=origin)


command = RunCommand(
    "run",
    CLICK_CONTEXT,
    run,
    [
        *click_options(ProcessSettings, completers=COMPLETERS),
        *(option for name, own in _TYPES.items() for option in click_options(own, name)),
    ],
    help=_HELP,
    settings_by_component=_TYPES,
)
