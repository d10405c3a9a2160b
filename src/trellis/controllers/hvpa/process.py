"""What does the process of an Hvpa controller consist of? A component, and the controller in it."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Final

from trellis.controllers.hvpa.controller import HvpaController
from trellis.controllers.hvpa.metrics import HVPA_METRICS
from trellis.controllers.hvpa.publishing import FIELD_MANAGER
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.core.model.recording import HVPA
from trellis.kube.actions import PatchObject
from trellis.kube.client import Client
from trellis.kube.outcomes import Outcome, Result
from trellis.kube.resources import HVPAS
from trellis.runtime import write_reports
from trellis.runtime.component import Component
from trellis.runtime.connecting import on_cluster
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.recording import NO_RECORDER, Recorder, recorder
from trellis.runtime.shutdown import Main, Shutdown

COMPONENT: Final = "trellis-hvpa"

_log: Final = Logger("trellis.hvpa")


def scaling(settings: HvpaControllerSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        with closing(recorder(settings.recording.record, HVPA, settings)) as recording:
            await on_cluster(partial(run_hvpa, recording=recording), settings, FIELD_MANAGER, _log)(stop)

    return main


async def run_hvpa(
    client: Client, settings: HvpaControllerSettings, stop: Shutdown, recording: Recorder = NO_RECORDER
) -> None:
    """Answer probes and work until it is time to stop."""
    component = Component(
        client,
        settings,
        stop,
        name=COMPONENT,
        log=_log,
        metrics=Metrics(HVPA_METRICS),
        interval=settings.loop.hvpa_interval.total_seconds(),
        is_usual=_is_usual,
    )

    async def make() -> HvpaController:
        given = await component.equipment(component.writer(concurrency=settings.loop.concurrent_writes))
        return HvpaController(given, settings, recorder=recording)

    await component.run(make)


def _is_usual(outcome: Outcome) -> bool:
    return write_reports.is_usual(outcome) or _is_outrun(outcome)


def _is_outrun(outcome: Outcome) -> bool:
    """Whether `spec.replicas` was no longer what it was: an HPA has written in the meantime."""
    action = outcome.action
    written_back = isinstance(action, PatchObject) and action.target.resource is HVPAS and not action.subresource
    return written_back and outcome.result is Result.INVALID
