"""The spec of the recommender as a component: one lease for each name, and pages that explain recommendations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Final

from trellis.base.garbage_collection import freeze_live_objects
from trellis.controllers.recommender.http_api import PATHS
from trellis.controllers.recommender.leader_election import lease_names
from trellis.controllers.recommender.metrics import RECOMMENDER_METRICS
from trellis.controllers.recommender.plugins.hosted_recommenders import HostedRecommenders, host_recommenders
from trellis.controllers.recommender.reconcile import RecommenderController
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.recommender.usage_source import open_usage_source
from trellis.core.recording.format import RECOMMENDER
from trellis.kube.discovery import Served, ServedKind
from trellis.runtime.component import ComponentSpec, ControllerContext, component_main
from trellis.runtime.leadership import lease_per_name
from trellis.runtime.recorder import open_recorder
from trellis.runtime.shutdown import Main, Shutdown
from trellis.runtime.telemetry.health import ProbeResponse
from trellis.runtime.telemetry.health_server import PageRequest
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

COMPONENT: Final = "vpa-recommender"
FIELD_MANAGER: Final = "trellis-recommender"

# An API server that does not answer discovery is taken for one that resizes pods and has no Hvpas.
ASSUMED: Final = Served((ServedKind("", "v1", "pods", "Pod", namespaced=True, subresources=("resize",)),))

_log: Final = Logger("trellis.recommender")


def recommender_spec(settings: RecommenderSettings, hosted: HostedRecommenders) -> ComponentSpec[RecommenderController]:
    """The recommender as a component, with the recommenders behind its names."""
    leader, names = settings.leader, settings.loop.recommender_name
    leases = lease_names(names, leader.leader_elect_resource_name, leader.leader_elect_resource_namespace)

    @asynccontextmanager
    async def build(context: ControllerContext) -> AsyncIterator[RecommenderController]:
        async with open_usage_source(context.client, settings, context.metrics) as source:
            yield RecommenderController(context, settings, hosted=hosted, source=source, on_settled=freeze_live_objects)

    return ComponentSpec(
        name=COMPONENT,
        field_manager=FIELD_MANAGER,
        log=_log,
        metrics=RECOMMENDER_METRICS,
        build=build,
        interval=settings.loop.recommender_interval.total_seconds(),
        namespace=settings.scope.vpa_object_namespace,
        election=lease_per_name(leader, leases, "recommender"),
        recording=partial(open_recorder, settings.recording.record, RECOMMENDER, settings),
        concurrent_writes=settings.loop.update_worker_count,
        assumed=ASSUMED,
        assumed_warning="cannot ask which kinds there are; Hvpas are not looked at",
        pages={path: partial(_page, path) for path in PATHS},
        started_with={"recommenders": ",".join(names), "leases": leader.leader_elect},
    )


def recommender_main(settings: RecommenderSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        metrics = Metrics(RECOMMENDER_METRICS)
        with closing(host_recommenders(settings, metrics)) as hosted:
            await component_main(recommender_spec(settings, hosted), settings, metrics)(stop)

    return main


def _page(path: str, controller: RecommenderController, request: PageRequest) -> Awaitable[ProbeResponse]:
    return controller.http_api.pages[path](request)
