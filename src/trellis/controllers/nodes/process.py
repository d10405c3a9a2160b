"""Composes the process of the node autoscaler: a component, and the controller in it."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Final

from trellis.base.garbage_collection import freeze_live_objects
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.reconcile import NodeController
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.controllers.nodes.status import FIELD_MANAGER
from trellis.core.recording.format import NODES
from trellis.kube.client import Client
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime.cluster_connection import run_on_cluster
from trellis.runtime.component import Component
from trellis.runtime.recorder import NO_RECORDER, Recorder, open_recorder
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Main, Shutdown
from trellis.runtime.telemetry import cluster_metrics
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

COMPONENT: Final = "trellis-nodes"

_log: Final = Logger("trellis.nodes")


def nodes_main(settings: NodeControllerSettings, shared: SharedInformers | None = None) -> Main:
    """What a process with these settings does until it is told to stop; `shared` are its informers."""

    async def main(stop: Shutdown) -> None:
        with closing(open_recorder(settings.recording.record, NODES, settings)) as recording:
            await run_on_cluster(partial(run_nodes, recording=recording, shared=shared), settings, FIELD_MANAGER, _log)(
                stop
            )

    return main


async def run_nodes(
    client: Client,
    settings: NodeControllerSettings,
    stop: Shutdown,
    recording: Recorder = NO_RECORDER,
    shared: SharedInformers | None = None,
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
        shared=shared,
    )

    async def make() -> NodeController:
        given = await component.equipment(component.writer(concurrency=settings.loop.concurrent_writes))
        return NodeController(given, settings, on_settled=freeze_live_objects, recorder=recording)

    await component.run(make)


def _is_usual(outcome: WriteOutcome) -> bool:
    """A disruption budget that forbids an eviction is no trouble: it is asked again."""
    return cluster_metrics.is_usual(outcome) or outcome.result is Result.REFUSED
