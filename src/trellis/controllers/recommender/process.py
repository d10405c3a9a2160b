"""Composes the recommender: its spec as a component, with one lease for each name, and the controller from its parts.

Passes run every interval. Pages beside the metrics explain recommendations.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from typing import Final

from trellis.base.python_gc import freeze_live_objects
from trellis.controllers.recommender.history import RecommenderHistory
from trellis.controllers.recommender.http_api import PATHS, RecommendationApi
from trellis.controllers.recommender.informers import RecommenderInformers, list_followed_kinds
from trellis.controllers.recommender.metrics import RECOMMENDER_METRICS
from trellis.controllers.recommender.plugins.hosted_recommenders import HostedRecommenders, host_recommenders
from trellis.controllers.recommender.reconcile import RecommenderReconciler
from trellis.controllers.recommender.recording import create_engine
from trellis.controllers.recommender.settings import RecommenderSettings, build_lease_names
from trellis.controllers.recommender.usage_source import UsageSource, open_usage_source
from trellis.core.recording import format as recordings
from trellis.kube.discovery import Served, ServedKind
from trellis.kube.resources import HVPAS
from trellis.kube.scales import ScaleLookups
from trellis.runtime import passes
from trellis.runtime.component import ComponentSpec, Controller, ControllerContext, component_main
from trellis.runtime.leadership import lease_per_name, sharded
from trellis.runtime.manager.settings import RECOMMENDER
from trellis.runtime.manager.supervisor import ManagedComponent
from trellis.runtime.passes import PassThread, Periodic
from trellis.runtime.recorder import open_recorder
from trellis.runtime.shutdown import Main, Shutdown
from trellis.runtime.telemetry.cluster_metrics import PassGauges
from trellis.runtime.telemetry.health import ProbeResponse
from trellis.runtime.telemetry.health_server import PageRequest
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.runtime.telemetry.tracing import trace_passes

COMPONENT: Final = "vpa-recommender"
FIELD_MANAGER: Final = "trellis-recommender"

# An API server without discovery is assumed to resize pods and to have no Hvpas.
ASSUMED: Final = Served((ServedKind("", "v1", "pods", "Pod", namespaced=True, subresources=("resize",)),))

_log: Final = Logger("trellis.recommender")


class RecommenderController(Controller):
    """The recommender of a process. `on_warmed_up` is called when the caches are synced, and after the first pass."""

    def __init__(
        self,
        context: ControllerContext,
        settings: RecommenderSettings,
        informers: RecommenderInformers,
        reconciler: RecommenderReconciler,
        *,
        history: RecommenderHistory,
        hosted: HostedRecommenders,
        thread: PassThread,
        on_warmed_up: Callable[[], object],
    ) -> None:
        self._informer_set = context.informers
        self._complete_pass = context.complete_pass
        self._leadership = context.leadership
        self._metrics = context.metrics
        self._now = context.now
        self._informers = informers
        self._reconciler = reconciler
        self._history = history
        self._hosted = hosted
        self._start_seconds = settings.plugins.recommender_deadline.total_seconds()
        self._thread = thread
        self._on_warmed_up = on_warmed_up
        self._has_passed = False
        interval = settings.loop.recommender_interval.total_seconds()
        self._loop = Periodic(
            "recommender",
            trace_passes(context.component, self._pass),
            interval,
            on_pass=passes.pass_reporter(context.activity, _log, PassGauges(context.metrics, context.component)),
            jitter=0.0,
        )
        self.http_api = RecommendationApi(context.leadership, informers.find_recommender, lambda: reconciler.last_pass)

    def on_started_leading(self) -> None:
        """Serve another name, or other namespaces, from the next pass on, which begins now."""
        self._loop.wake()

    async def let_go(self, covers: Callable[[str], bool]) -> None:
        """Write what no checkpoint has yet of namespaces that are not covered."""
        await self._reconciler.hand_over(covers, self._now())

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await self._run_passes()
        finally:
            await self._history.close()
            self._thread.close()

    async def _run_passes(self) -> None:
        await self._informer_set.wait_until_synced()
        await self._thread.run(self._hosted.start, self._start_seconds)
        vpas, pods = self._informers.vpas.snapshot(), self._informers.pods.snapshot()
        _log.info("caches synced", vpas=len(vpas), pods=len(pods))
        self._on_warmed_up()
        await self._loop.run()

    async def _pass(self) -> None:
        names = self._leadership.served
        if not names or not self._leadership.has_namespaces:
            return
        skip_reason = self._informers.find_staleness_problem()
        if skip_reason is not None:
            _log.error("pass skipped", why=skip_reason)
            return
        await self._reconciler.reconcile(names, self._now(), self._loop.wake)
        self._complete_pass()
        if not self._has_passed:
            self._has_passed = True
            self._on_warmed_up()


def build_recommender(
    context: ControllerContext,
    settings: RecommenderSettings,
    *,
    hosted: HostedRecommenders,
    source: UsageSource,
    on_warmed_up: Callable[[], object] = lambda: None,
) -> RecommenderController:
    """The recommender with all its parts."""
    client, metrics, thread = context.client, context.metrics, PassThread("recommender")
    history = RecommenderHistory(
        client, context.writer, settings, thread, metrics=metrics, now=context.now, covers=context.leadership.covers
    )
    informers = RecommenderInformers(context.informers, hvpas_served=context.served.serves(HVPAS))
    reconciler = RecommenderReconciler(
        settings,
        informers,
        create_engine(settings, context.recorder),
        history,
        thread,
        hosted=hosted,
        source=source,
        scales=ScaleLookups(client, draw=context.draw),
        writer=context.writer,
        metrics=metrics,
        recorder=context.recorder,
        can_resize=context.served.resizes_pods,
        leadership=context.leadership,
    )
    return RecommenderController(
        context,
        settings,
        informers,
        reconciler,
        history=history,
        hosted=hosted,
        thread=thread,
        on_warmed_up=on_warmed_up,
    )


def recommender_spec(settings: RecommenderSettings, hosted: HostedRecommenders) -> ComponentSpec[RecommenderController]:
    """The recommender as a component, with the recommenders behind its names."""
    leader, names = settings.leader, settings.loop.recommender_name
    leases = build_lease_names(names, leader.leader_elect_resource_name, leader.leader_elect_resource_namespace)

    election = lease_per_name(leader, leases, "recommender")

    @asynccontextmanager
    async def build(context: ControllerContext) -> AsyncIterator[RecommenderController]:
        async with open_usage_source(context.client, settings, context.metrics) as source:
            yield build_recommender(context, settings, hosted=hosted, source=source, on_warmed_up=freeze_live_objects)

    return ComponentSpec(
        component="recommender",
        name=COMPONENT,
        field_manager=FIELD_MANAGER,
        log=_log,
        metrics=RECOMMENDER_METRICS,
        build=build,
        interval=settings.loop.recommender_interval.total_seconds(),
        namespaces=settings.scope.vpa_object_namespace,
        election=sharded(election) if leader.shard_namespaces else election,
        recording=partial(open_recorder, settings.recording.record, recordings.RECOMMENDER, settings),
        concurrent_writes=settings.loop.update_worker_count,
        assumed=ASSUMED,
        assumed_warning="discovery of the API server failed; Hvpas are not served",
        pages={path: partial(_handle_page, path) for path in PATHS},
        started_with={"recommenders": ",".join(names), "leases": leader.leader_elect},
    )


def manage_recommender(settings: RecommenderSettings) -> ManagedComponent:
    """The component as a process of several runs it."""

    @contextmanager
    def open_spec(metrics: Metrics) -> Iterator[ComponentSpec[RecommenderController]]:
        with closing(host_recommenders(settings, metrics)) as hosted:
            yield recommender_spec(settings, hosted)

    return ManagedComponent(
        name=RECOMMENDER,
        settings=settings,
        metrics=RECOMMENDER_METRICS,
        followed=list_followed_kinds(settings),
        open=open_spec,
        paths=PATHS,
    )


def recommender_main(settings: RecommenderSettings) -> Main:
    """The main function of a process with these settings."""

    async def main(stop: Shutdown) -> None:
        metrics = Metrics(RECOMMENDER_METRICS)
        with closing(host_recommenders(settings, metrics)) as hosted:
            await component_main(recommender_spec(settings, hosted), settings, metrics)(stop)

    return main


def _handle_page(path: str, controller: RecommenderController, request: PageRequest) -> Awaitable[ProbeResponse]:
    return controller.http_api.pages[path](request)
