"""What does the process of an updater consist of? A component, and the updater in it."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from trellis.base.collector import set_aside
from trellis.controllers.updater.figures import update_settings
from trellis.controllers.updater.metrics import UPDATER_METRICS
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.controllers.updater.updater import Updater
from trellis.core.model.recording import UPDATER
from trellis.kube.client import Client
from trellis.kube.connected import connected
from trellis.kube.outcomes import Outcome, Result
from trellis.runtime import write_reports
from trellis.runtime.asking import answered
from trellis.runtime.component import Component
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.recording import NO_RECORDER, Recorder, recorder
from trellis.runtime.shutdown import Main, Shutdown

FIELD_MANAGER: Final = "trellis-updater"
COMPONENT: Final = "vpa-updater"
# What an API server says of a pod that cannot be changed like this: told in the pod's Events.
_ANSWERS: Final = (Result.REFUSED, Result.INFEASIBLE, Result.INVALID)

_log: Final = Logger("trellis.updater")


def updating(settings: UpdaterSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        with closing(recorder(settings.recording.record, UPDATER, settings)) as recording:
            async with connected(settings.access.kubeconfig, FIELD_MANAGER, _log.warning) as client:
                await run_updater(client, settings, stop, recording)

    return main


async def run_updater(
    client: Client, settings: UpdaterSettings, stop: Shutdown, recording: Recorder = NO_RECORDER
) -> None:
    """Answer probes and work until it is time to stop."""
    loop = settings.loop
    component = Component(
        client,
        settings,
        stop,
        name=COMPONENT,
        log=_log,
        metrics=Metrics(UPDATER_METRICS),
        interval=loop.updater_interval.total_seconds(),
        idle=loop.dry_run,
        is_usual=_is_usual,
    )

    async def make() -> Updater:
        given = await component.equipment(component.writer(concurrency=loop.concurrent_writes, dry_run=loop.dry_run))
        figures = update_settings(settings, given.served, await answered(client.version, _log))
        return Updater(given, settings, figures, on_settled=set_aside, recorder=recording)

    await component.run(make)


def _is_usual(outcome: Outcome) -> bool:
    return write_reports.is_usual(outcome) or outcome.result in _ANSWERS
