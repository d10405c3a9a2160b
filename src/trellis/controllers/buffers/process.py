"""What does the process of a Buffer controller consist of? A component, and the controller in it."""

from __future__ import annotations

import random
from typing import Final

from trellis.controllers.buffers.controller import BufferController
from trellis.controllers.buffers.metrics import BUFFER_METRICS
from trellis.controllers.buffers.publishing import FIELD_MANAGER
from trellis.controllers.buffers.settings import BufferControllerSettings
from trellis.controllers.buffers.target_plugins import installed_targets
from trellis.kube.client import Client
from trellis.kube.connected import connected
from trellis.runtime.asking import answered
from trellis.runtime.component import Component
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.shutdown import Main, Shutdown

COMPONENT: Final = "trellis-buffers"

_log: Final = Logger("trellis.buffers")


def translating(settings: BufferControllerSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        async with connected(settings.access.kubeconfig, FIELD_MANAGER, _log.warning) as client:
            await run_buffers(client, settings, stop)

    return main


async def run_buffers(client: Client, settings: BufferControllerSettings, stop: Shutdown) -> None:
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
        return BufferController(
            client,
            component.writer(concurrency=settings.translation.concurrent_writes),
            settings,
            await answered(client.discover, _log),
            kinds=installed_targets(),
            metrics=component.metrics,
            activity=component.activity,
            record=component.record,
            may_act=component.may_act,
            now=component.now,
            draw=random.random,
        )

    await component.run(make)
