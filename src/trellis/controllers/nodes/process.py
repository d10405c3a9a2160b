"""What does the process of a node autoscaler consist of? A component, and the controller in it."""

from __future__ import annotations

import random
from typing import Final

from trellis.base.collector import set_aside
from trellis.controllers.nodes.controller import NodeController
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.publishing import FIELD_MANAGER
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.kube.client import Client
from trellis.kube.connected import connected
from trellis.kube.outcomes import Outcome, Result
from trellis.runtime import write_reports
from trellis.runtime.asking import answered
from trellis.runtime.component import Component
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.shutdown import Main, Shutdown

COMPONENT: Final = "trellis-nodes"

_log: Final = Logger("trellis.nodes")


def autoscaling(settings: NodeControllerSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        async with connected(settings.access.kubeconfig, FIELD_MANAGER, _log.warning) as client:
            await run_nodes(client, settings, stop)

    return main


async def run_nodes(client: Client, settings: NodeControllerSettings, stop: Shutdown) -> None:
    """Answer probes and work until it is time to stop."""
    component = Component(
        client,
        settings,
        stop,
        name=COMPONENT,
        log=_log,
        metrics=Metrics(NODE_METRICS),
        interval=settings.loop.scan_interval.total_seconds(),
        is_usual=_is_usual,
    )

    async def make() -> NodeController:
        return NodeController(
            client,
            component.writer(concurrency=settings.loop.concurrent_writes),
            settings,
            await answered(client.discover, _log),
            metrics=component.metrics,
            activity=component.activity,
            record=component.record,
            may_act=component.may_act,
            now=component.now,
            draw=random.random,
            on_settled=set_aside,
        )

    await component.run(make)


def _is_usual(outcome: Outcome) -> bool:
    """A disruption budget that forbids an eviction is no trouble: it is asked again."""
    return write_reports.is_usual(outcome) or outcome.result is Result.REFUSED
