"""What does the process of a node autoscaler consist of? A component, and the controller in it."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Final

from trellis.base.collector import set_aside
from trellis.controllers.nodes.controller import NodeController
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.publishing import FIELD_MANAGER
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.core.model.recording import NODES
from trellis.kube.client import Client
from trellis.kube.outcomes import Outcome, Result
from trellis.runtime import write_reports
from trellis.runtime.component import Component
from trellis.runtime.connecting import on_cluster
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.recording import NO_RECORDER, Recorder, recorder
from trellis.runtime.shutdown import Main, Shutdown

COMPONENT: Final = "trellis-nodes"

_log: Final = Logger("trellis.nodes")


def autoscaling(settings: NodeControllerSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        with closing(recorder(settings.recording.record, NODES, settings)) as recording:
            await on_cluster(partial(run_nodes, recording=recording), settings, FIELD_MANAGER, _log)(stop)

    return main


async def run_nodes(
    client: Client, settings: NodeControllerSettings, stop: Shutdown, recording: Recorder = NO_RECORDER
) -> None:
    """Answer probes and work until it is time to stop."""
    component = Component(
        client,
        settings,
        stop,
        name=COMPONENT,
        log=_log,
        metrics=Metrics(NODE_METRICS),
        interval=settings.loop.scan_interval.total_seconds(),
        announces=True,
        is_usual=_is_usual,
    )

    async def make() -> NodeController:
        given = await component.equipment(component.writer(concurrency=settings.loop.concurrent_writes))
        return NodeController(given, settings, on_settled=set_aside, recorder=recording)

    await component.run(make)


def _is_usual(outcome: Outcome) -> bool:
    """A disruption budget that forbids an eviction is no trouble: it is asked again."""
    return write_reports.is_usual(outcome) or outcome.result is Result.REFUSED
