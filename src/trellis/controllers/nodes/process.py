"""The spec of the node autoscaler as a component."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from trellis.base.garbage_collection import freeze_live_objects
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.reconcile import NodeController
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.controllers.nodes.status import FIELD_MANAGER
from trellis.core.recording.format import NODES
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime.component import ComponentSpec, ControllerContext, component_main
from trellis.runtime.leadership import announced_lease
from trellis.runtime.recorder import open_recorder
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Main
from trellis.runtime.telemetry import cluster_metrics
from trellis.runtime.telemetry.logs import Logger

COMPONENT: Final = "trellis-nodes"

_log: Final = Logger("trellis.nodes")


def nodes_spec(settings: NodeControllerSettings) -> ComponentSpec[NodeController]:
    """The node autoscaler as a component. By its lease the Buffer controller knows that it runs."""

    @asynccontextmanager
    async def build(context: ControllerContext) -> AsyncIterator[NodeController]:
        yield NodeController(context, settings, on_warmed_up=freeze_live_objects)

    return ComponentSpec(
        name=COMPONENT,
        field_manager=FIELD_MANAGER,
        log=_log,
        metrics=NODE_METRICS,
        build=build,
        interval=settings.loop.scan_interval.total_seconds(),
        election=announced_lease(settings.leader),
        recording=partial(open_recorder, settings.recording.record, NODES, settings),
        concurrent_writes=settings.loop.concurrent_writes,
        is_usual=_is_usual,
        started_with={"lease": settings.leader.leader_elect},
    )


def nodes_main(settings: NodeControllerSettings, shared: SharedInformers | None = None) -> Main:
    """The main function of a process with these settings; `shared` are its informers."""
    return component_main(nodes_spec(settings), settings, shared=shared)


def _is_usual(outcome: WriteOutcome) -> bool:
    """Whether an outcome needs no line in the log: an eviction that a disruption budget forbids is tried again."""
    return cluster_metrics.is_expected(outcome) or outcome.result is Result.REFUSED
