"""A pass of the recommender: load VPAs and pods, take in usage, recommend, publish, write checkpoints.

Passes run every interval. Each pass works on one state of the cluster. A pass that fails is repeated at the next
interval with everything it was given: the model knows what it took in before the failure, and takes nothing in twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from trellis.api.resolve import resolve_vpa
from trellis.base.errors import KubeError
from trellis.base.garbage_collection import pause_garbage_collection
from trellis.controllers.recommender import metrics as named
from trellis.controllers.recommender.history import RecommenderHistory
from trellis.controllers.recommender.http_api import RecommendationApi
from trellis.controllers.recommender.informers import RecommenderInformers
from trellis.controllers.recommender.leader_election import RecommenderElections
from trellis.controllers.recommender.metrics import RecommenderMetrics
from trellis.controllers.recommender.plugins.hosted_recommenders import HostedRecommenders
from trellis.controllers.recommender.recording import create_engine
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.recommender.status import build_status_action, build_totals_action
from trellis.controllers.recommender.usage_source import UsageSource, open_usage_source
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.recommend.engine import RecommenderScope
from trellis.core.recommend.recommendation_pass import PassResult
from trellis.core.recommend.state.governance import build_owners, read_vpa_target
from trellis.core.recommend.state.snapshot import RecommenderSnapshot
from trellis.core.recommend.state.vpa_table import VpaStatusWrite
from trellis.kube.client import Client
from trellis.kube.discovery import Served
from trellis.kube.flow_control import Draw
from trellis.kube.resources import HVPAS
from trellis.kube.scales import ScaleLookups
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.runtime import passes
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.passes import PassThread, Periodic
from trellis.runtime.recorder import NO_RECORDER, Recorder
from trellis.runtime.shutdown import Shutdown
from trellis.runtime.telemetry.health import Activity
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics, StepTimer

_log: Final = Logger("trellis.recommender")


class ShadowLog:
    """Remembers what was said after the last pass."""

    def __init__(self) -> None:
        self._unhosted: frozenset[str] = frozenset()
        self._failures: dict[str, str] = {}

    def tell(self, result: PassResult) -> None:
        """Say what was not so before."""
        wanted = {each.recommender: each for each in reversed(result.unhosted)}
        for name in sorted(wanted.keys() - self._unhosted):
            first = wanted[name]
            _log.warning(
                "a shadow recommender does not run here; add it to --recommender-name",
                recommender=name,
                namespace=first.namespace,
                vpa=first.vpa,
            )
        self._unhosted = frozenset(wanted)
        failures = {name: shadow.failure for name, shadow in result.answers.shadows.items() if shadow.failure}
        for name, why in failures.items():
            if self._failures.get(name) != why:
                _log.error("a shadow recommender failed", recommender=name, why=why)
        self._failures = failures


# Making twenty thousand requests at once would hold up leases and probes for 0.2 s.
_WRITES_AT_ONCE: Final = 1_000


class RecommenderController:
    """One process's recommenders, whatever their names."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        settings: RecommenderSettings,
        *,
        hosted: HostedRecommenders,
        leading: RecommenderElections,
        metrics: Metrics,
        activity: Activity,
        now: Callable[[], float],
        draw: Draw,
        on_settled: Callable[[], object] = lambda: None,
        recorder: Recorder = NO_RECORDER,
    ) -> None:
        self._client = client
        self._writer = writer
        self._settings = settings
        self._hosted = hosted
        self._leading = leading
        self._metrics = metrics
        self._now = now
        # Called when much has been built up that will stay: all objects are seen, the first pass is over.
        self._on_settled = on_settled
        self._has_worked = False
        self._counting = RecommenderMetrics(metrics)
        self._shadow_news = ShadowLog()
        self.answering = RecommendationApi(leading, self._chosen_by)
        self._scales = ScaleLookups(client, draw=draw)
        self._thread = PassThread("recommender")
        self._recorder = recorder
        self._knowledge = create_engine(settings, hosted.current(), recorder)
        self._remembering = RecommenderHistory(
            client, writer, settings, self._knowledge, self._thread, metrics=metrics, now=now
        )
        interval = settings.loop.recommender_interval.total_seconds()
        self._loop = Periodic(
            "recommender", self._pass, interval, on_pass=passes.pass_reporter(activity, _log), jitter=0.0
        )
        leading.wake = self._loop.wake
        own = settings.scope.vpa_object_namespace
        self.informers = Informers(client, UnreadableKinds(metrics, _log), draw=draw, namespace=own)
        self._watching: RecommenderInformers | None = None
        self._source: UsageSource | None = None
        self._served_names: frozenset[str] = frozenset()

    def why_not_ready(self) -> str | None:
        """What probes are told while not everything has been seen."""
        if self._watching is None:
            return "not started"
        return self.informers.why_not_ready()

    def _chosen_by(self, namespace: str, name: str) -> str | None:
        """Which recommender a VPA names; None if there is no such VPA."""
        vpa = self._watching.vpas.get(namespace, name) if self._watching is not None else None
        return resolve_vpa(vpa).recommender if vpa is not None else None

    async def run(self, stop: Shutdown) -> None:
        """Work until it is time to stop."""
        served = await self._discover()
        self._knowledge.can_boost = served is None or served.resizes_pods
        hvpas_served = served is not None and served.serves(HVPAS)
        watching = self._watching = RecommenderInformers(self.informers, hvpas_served=hvpas_served)
        async with open_usage_source(self._client, self._settings, self._metrics) as source:
            self._source = source
            tasks = [
                asyncio.create_task(self.informers.run(), name="watching"),
                asyncio.create_task(self._leading.run(), name="leading"),
                asyncio.create_task(self._passes(watching), name="passes"),
            ]
            stopping = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait({stopping, tasks[0], tasks[2]}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await self._end([*tasks, stopping])
                await self._remembering.close()
                self._thread.close()

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [each for each in results if isinstance(each, Exception)]
        if failures:
            raise failures[0]

    async def _passes(self, watching: RecommenderInformers) -> None:
        await self.informers.wait_until_synced()
        await self._thread.run(self._hosted.start, self._settings.plugins.recommender_deadline.total_seconds())
        _log.info("everything has been seen", vpas=len(watching.vpas.snapshot()), pods=len(watching.pods.snapshot()))
        self._on_settled()
        await self._loop.run()

    async def _discover(self) -> Served | None:
        """What the API server has; None if it does not say."""
        try:
            return await self._client.discover()
        except KubeError as error:
            _log.warning("cannot ask which kinds there are; Hvpas are not looked at", why=error)
            return None

    async def _pass(self) -> None:
        watching = self._watching
        names = self._leading.served
        if watching is None or not names:
            return
        why = watching.why_not_trusted()
        if why is not None:
            _log.error("this pass changes nothing", why=why)
            return
        seen = watching.look()
        try:
            await self._work(seen, names, self._now())
        except BaseException:
            watching.look_again(seen)
            raise
        await self._thread.run(self._recorder.flush)
        self.informers.export(self._metrics)

    async def _work(self, seen: RecommenderSnapshot, names: frozenset[str], now: float) -> None:
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        await self._load_vpas(seen, names, now)
        timer.step(named.LOAD_VPAS)
        scales = await self._scales_of(seen)
        waiting = self._remembering.waiting(now)
        sources = await self._thread.run(self._knowledge.load_pods, seen, scales, waiting, now)
        self._counting.count_resources(sources)
        await self._remembering.begin_warming(seen, self._loop.wake)
        timer.step(named.LOAD_PODS)
        await self._take_in(seen, now)
        timer.step(named.LOAD_METRICS)
        gone = await self._thread.run(self._knowledge.collect, now)
        timer.step(named.DELETE_PODS)
        # Before anything is written: who has seen a status finds the state that it came from in the metrics.
        self._counting.count_state(self._knowledge.model.sizes())
        result = await self._thread.run(self._recommend, now)
        await self._thread.run(self._counting.count_quality, result.columns)
        await self._publish(result, now)
        timer.step(named.UPDATE_VPAS)
        await self._remembering.save(now)
        timer.step(named.CHECKPOINTS)
        await self._remembering.forget(gone, seen, now)
        self._counting.count_unreadable(self._remembering.unreadable)
        timer.step(named.GARBAGE)
        timer.total()
        if not self._has_worked:
            self._has_worked = True
            self._on_settled()

    async def _load_vpas(self, seen: RecommenderSnapshot, names: frozenset[str], now: float) -> None:
        """Take in VPAs, and the history of those that were not served before."""
        loop = self._settings.loop
        scope = RecommenderScope(
            names,
            self._settings.scope.vpa_object_namespace,
            frozenset(self._settings.scope.ignored_vpa_object_namespaces),
            # Of replicas that share the names between them, the one that serves the first.
            totals=loop.hvpa_totals and loop.recommender_name[0] in names,
        )
        all_of_them = names != self._served_names
        self._knowledge.answered_by(self._hosted.current())
        new = await self._thread.run(lambda: self._knowledge.load_vpas(seen, scope, all_of_them=all_of_them))
        self._served_names = names
        await self._remembering.recall(new, now)
        served, waiting = self._knowledge.served, self._remembering.waiting(now).fetching
        _log.detail(3, "loaded VPAs", served=len(served), known=len(seen.vpas), waiting=len(waiting))

    async def _scales_of(self, seen: RecommenderSnapshot) -> dict[TargetRef, ScaleInfo]:
        """What the scales say of targets that are no well-known controllers, and of whoever controls a target."""
        targets = await self._thread.run(lambda: {read_vpa_target(vpa) for vpa in seen.vpas})
        asked = frozenset(each for each in targets if not each.is_well_known and each.name)
        scales: dict[TargetRef, ScaleInfo] = {}
        while True:
            scales |= await self._scales.find_all(asked)
            asked = await self._thread.run(build_owners(seen, scales).unasked, targets)
            if not asked:
                return scales

    async def _take_in(self, seen: RecommenderSnapshot, now: float) -> None:
        if self._source is None:
            return
        samples = await self._source.fetch(self._knowledge, now)
        ingested, kills = await self._thread.run(self._knowledge.take_in, samples, seen.news.kills, now)
        await self._thread.run(self._counting.count_samples, ingested, kills)
        _log.detail(3, "took in usage", samples=ingested.accepted, dropped=ingested.dropped, kills=len(kills.kills))

    def _recommend(self, now: float) -> PassResult:
        with pause_garbage_collection():
            return self._knowledge.recommend(now)

    async def _publish(self, result: PassResult, now: float) -> None:
        """Write the statuses that are to be written."""
        outcomes: list[WriteOutcome] = []
        for begin in range(0, len(result.writes), _WRITES_AT_ONCE):
            outcomes += await self._writer.write_all(
                map(build_status_action, result.writes[begin : begin + _WRITES_AT_ONCE])
            )
        written = [
            (write, outcome.resource_version)
            for write, outcome in zip(result.writes, outcomes, strict=True)
            if outcome.applied
        ]
        self.answering.last = await self._thread.run(self._knowledge.published, result, written, now)
        await self._thread.run(_log_writes, [write for write, _ in written])
        await self._thread.run(self._counting.count_advice, result, [write for write, _ in written], now)
        self._shadow_news.tell(result)
        totals = await self._thread.run(self._knowledge.totals, now)
        await self._writer.write_all(map(build_totals_action, totals))
        _log.detail(3, "recommended", vpas=result.vpas, written=len(written), due=len(result.writes))


def _log_writes(writes: Sequence[VpaStatusWrite]) -> None:
    for write in writes:
        why = ",".join(reason.code for reason in write.reasons)
        _log.detail(5, "wrote a status", namespace=write.namespace, vpa=write.name, why=why)
