"""What does the process of a Buffer controller consist of? A component, and the controller in it."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Final

from trellis.controllers.buffers.controller import BufferController
from trellis.controllers.buffers.metrics import BUFFER_METRICS
from trellis.controllers.buffers.publishing import FIELD_MANAGER
from trellis.controllers.buffers.settings import BufferControllerSettings
from trellis.controllers.buffers.target_plugins import installed_targets
from trellis.core.model.recording import BUFFERS
from trellis.kube.client import Client
from trellis.runtime.component import Component
from trellis.runtime.connecting import on_cluster
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.recording import NO_RECORDER, Recorder, recorder
from trellis.runtime.shutdown import Main, Shutdown

COMPONENT: Final = "trellis-buffers"

_log: Final = Logger("trellis.buffers")


def translating(settings: BufferControllerSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        with closing(recorder(settings.recording.record, BUFFERS, settings)) as recording:
            await on_cluster(partial(run_buffers, recording=recording), settings, FIELD_MANAGER, _log)(stop)

    return main


async def run_buffers(
    client: Client, settings: BufferControllerSettings, stop: Shutdown, recording: Recorder = NO_RECORDER
) -> None:
    """Answer probes and work until it is time to stop."""
    component = Component(
        client,
        settings,
        stop,
        name=COMPONENT,
        log=_log,
        metrics=Metrics(BUFFER_METRICS),
        interval=settings.translation.buffer_interval.total_seconds(),
    )

    async def make() -> BufferController:
        given = await component.equipment(component.writer(concurrency=settings.translation.concurrent_writes))
        return BufferController(given, settings, kinds=installed_targets(), recorder=recording)

    await component.run(make)
