"""A pass of the recommender: begin, fetch usage and history, finish, write statuses and checkpoints, commit.

Passes run every interval. Each pass works on one state of the cluster. A pass that fails is repeated at the next
interval with everything it was given: the model knows what it took in before the failure, and takes nothing in twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from trellis.api.resolve import resolve_vpa
from trellis.base.garbage_collection import pause_garbage_collection
from trellis.controllers.recommender import metrics as named
from trellis.controllers.recommender.history import RecommenderHistory
from trellis.controllers.recommender.http_api import RecommendationApi
from trellis.controllers.recommender.informers import RecommenderInformers
from trellis.controllers.recommender.metrics import RecommenderMetrics
from trellis.controllers.recommender.plugins.hosted_recommenders import HostedRecommenders
from trellis.controllers.recommender.recording import create_engine
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.recommender.status import build_status_action, build_totals_action
from trellis.controllers.recommender.usage_source import UsageSource
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.recommend.engine import PassDecision, PassNeeds, PassStage, PassWrites
from trellis.core.recommend.recommendation_pass import PassResult
from trellis.core.recommend.state.governance import build_owners, read_vpa_target
from trellis.core.recommend.state.snapshot import (
    ClusterObservation,
    FetchedUsage,
    RecommenderScope,
    RecommenderSnapshot,
)
from trellis.core.recommend.state.tables import VpaStatusWrite
from trellis.kube.resources import HVPAS
from trellis.kube.scales import ScaleLookups
from trellis.kube.write.outcomes import WriteOutcome
from trellis.runtime import passes
from trellis.runtime.component import Controller, ControllerContext
from trellis.runtime.passes import PassThread, Periodic
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import StepTimer

_log: Final = Logger("trellis.recommender")


class ShadowLog:
    """Logs problems of shadow recommenders that the pass before did not have."""

    def __init__(self) -> None:
        self._unhosted: frozenset[str] = frozenset()
        self._failures: dict[str, str] = {}

    def log_changes(self, result: PassResult) -> None:
        unhosted = {shadow.recommender: shadow for shadow in reversed(result.unhosted)}
        for name in sorted(unhosted.keys() - self._unhosted):
            first = unhosted[name]
            _log.warning(
                "a shadow recommender does not run here; add it to --recommender-name",
                recommender=name,
                namespace=first.namespace,
                vpa=first.vpa,
            )
        self._unhosted = frozenset(unhosted)
        failures = {name: shadow.failure for name, shadow in result.answers.shadows.items() if shadow.failure}
        for name, failure in failures.items():
            if self._failures.get(name) != failure:
                _log.error("a shadow recommender failed", recommender=name, why=failure)
        self._failures = failures


_STEPS: Final = {PassStage.INGESTED: named.LOAD_PODS, PassStage.COLLECTED: named.DELETE_PODS}

# Making twenty thousand requests at once would hold up leases and probes for 0.2 s.
_WRITES_AT_ONCE: Final = 1_000


class RecommenderController(Controller):
    """Runs the passes of one process, whatever the names of its recommenders."""

    def __init__(
        self,
        context: ControllerContext,
        settings: RecommenderSettings,
        *,
        hosted: HostedRecommenders,
        source: UsageSource,
        on_settled: Callable[[], object] = lambda: None,
    ) -> None:
        client, metrics, now = context.client, context.metrics, context.now
        self._writer = context.writer
        self._settings = settings
        self._hosted = hosted
        self._source = source
        self._leading = context.leadership
        self._metrics = metrics
        self._now = now
        # Called when much has been built up that will stay: after caches have synced, and after the first pass.
        self._on_settled = on_settled
        self._has_worked = False
        self._observed = RecommenderMetrics(metrics)
        self._shadow_log = ShadowLog()
        self._scales = ScaleLookups(client, draw=context.draw)
        self._thread = PassThread("recommender")
        self._recorder = context.recorder
        self._engine = create_engine(settings, context.recorder)
        self._can_resize = context.served.resizes_pods
        self._history = RecommenderHistory(client, context.writer, settings, self._thread, metrics=metrics, now=now)
        interval = settings.loop.recommender_interval.total_seconds()
        self._loop = Periodic(
            "recommender", self._pass, interval, on_pass=passes.pass_reporter(context.activity, _log), jitter=0.0
        )
        self.informers = context.informers
        self._informers = RecommenderInformers(context.informers, hvpas_served=context.served.serves(HVPAS))
        self.http_api = RecommendationApi(context.leadership, self._find_recommender)

    def _find_recommender(self, namespace: str, name: str) -> str | None:
        """The recommender that a VPA names; None if there is no such VPA."""
        vpa = self._informers.vpas.get(namespace, name)
        return resolve_vpa(vpa).recommender if vpa is not None else None

    def on_started_leading(self) -> None:
        """Serve another name from the next pass on, which begins now."""
        self._loop.wake()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await self._run_passes()
        finally:
            await self._history.close()
            self._thread.close()

    async def _run_passes(self) -> None:
        informers = self._informers
        await self.informers.wait_until_synced()
        await self._thread.run(self._hosted.start, self._settings.plugins.recommender_deadline.total_seconds())
        _log.info("everything has been seen", vpas=len(informers.vpas.snapshot()), pods=len(informers.pods.snapshot()))
        self._on_settled()
        await self._loop.run()

    async def _pass(self) -> None:
        informers = self._informers
        names = self._leading.served
        if not names:
            return
        skip_reason = informers.why_not_trusted()
        if skip_reason is not None:
            _log.error("this pass changes nothing", why=skip_reason)
            return
        snapshot = informers.take_snapshot()
        try:
            await self._reconcile(snapshot, names, self._now())
        except BaseException:
            informers.give_back(snapshot)
            raise
        await self._thread.run(self._recorder.flush)
        self.informers.export(self._metrics)

    async def _reconcile(self, snapshot: RecommenderSnapshot, names: frozenset[str], now: float) -> None:
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        needs = await self._begin(snapshot, names)
        pending = await self._history.fetch(needs, self._loop.wake, now)
        served, waiting = len(needs.served), len(pending.fetching)
        _log.detail(3, "loaded VPAs", served=served, known=len(snapshot.vpas), waiting=waiting)
        timer.step(named.LOAD_VPAS)
        samples = await self._source.fetch(needs, now)
        timer.step(named.LOAD_METRICS)
        fetched = FetchedUsage(samples, self._history.take_fetched(), pending)
        decision = await self._thread.run(self._finish, fetched, timer, now)
        statuses = await self._publish(decision)
        timer.step(named.UPDATE_VPAS)
        checkpoints = await self._history.write(decision.checkpoints)
        timer.step(named.CHECKPOINTS)
        await self._thread.run(self._commit, decision, PassWrites(statuses, checkpoints), now)
        await self._history.delete(decision.obsolete_checkpoints, snapshot, now)
        self._observed.set_unreadable(self._history.unreadable)
        timer.step(named.GARBAGE)
        timer.total()
        if not self._has_worked:
            self._has_worked = True
            self._on_settled()

    async def _begin(self, snapshot: RecommenderSnapshot, names: frozenset[str]) -> PassNeeds:
        loop = self._settings.loop
        scope = RecommenderScope(
            names,
            self._settings.scope.vpa_object_namespace,
            frozenset(self._settings.scope.ignored_vpa_object_namespaces),
            # Of replicas that share the names between them, the one that serves the first.
            totals=loop.hvpa_totals and loop.recommender_name[0] in names,
        )
        scales = await self._fetch_scales(snapshot)
        observed = ClusterObservation(snapshot, scope, self._hosted.current(), scales, self._can_resize)
        return await self._thread.run(self._engine.begin, observed)

    async def _fetch_scales(self, snapshot: RecommenderSnapshot) -> dict[TargetRef, ScaleInfo]:
        """The scales of targets that are no well-known controllers, and of the controllers of targets."""
        targets = await self._thread.run(lambda: {read_vpa_target(vpa) for vpa in snapshot.vpas})
        unknown = frozenset(target for target in targets if not target.is_well_known and target.name)
        scales: dict[TargetRef, ScaleInfo] = {}
        while True:
            scales |= await self._scales.find_all(unknown)
            unknown = await self._thread.run(build_owners(snapshot, scales).unasked, targets)
            if not unknown:
                return scales

    def _finish(self, fetched: FetchedUsage, timer: StepTimer, now: float) -> PassDecision:
        """Decide in the thread of passes, and count: once a status is seen, the metrics show the state it came from."""
        limit = self._settings.storage.checkpoint_writes_per_pass
        with pause_garbage_collection():
            decision = self._engine.finish(
                fetched, now, checkpoint_limit=limit, on_stage=lambda stage: timer.step(_STEPS[stage])
            )
        self._observed.observe_decision(decision)
        _log_decision(decision)
        return decision

    async def _publish(self, decision: PassDecision) -> list[tuple[VpaStatusWrite, str]]:
        """Write statuses and totals; the result is the statuses that were written, with their resource versions."""
        writes = decision.recommendations.writes
        outcomes: list[WriteOutcome] = []
        for begin in range(0, len(writes), _WRITES_AT_ONCE):
            outcomes += await self._writer.write_all(map(build_status_action, writes[begin : begin + _WRITES_AT_ONCE]))
        await self._writer.write_all(map(build_totals_action, decision.totals))
        return [
            (write, outcome.resource_version)
            for write, outcome in zip(writes, outcomes, strict=True)
            if outcome.applied
        ]

    def _commit(self, decision: PassDecision, written: PassWrites, now: float) -> None:
        result, writes = decision.recommendations, [write for write, _ in written.statuses]
        self.http_api.last = self._engine.commit(decision, written, now)
        _log_writes(writes)
        self._observed.observe_recommendations(result, writes, now)
        self._shadow_log.log_changes(result)
        _log.detail(3, "recommended", vpas=result.vpas, written=len(writes), due=len(result.writes))


def _log_decision(decision: PassDecision) -> None:
    ingested = decision.ingested
    for key, error in ingested.refused.items():
        _log.error("checkpoint not used", namespace=key.namespace, vpa=key.vpa, container=key.container, why=error)
    if decision.totals_failure:
        _log.error("no totals for Hvpas in this pass", why=decision.totals_failure)
    accepted, dropped, kills = ingested.samples.accepted, ingested.samples.dropped, len(ingested.kills.kills)
    _log.detail(3, "took in usage", samples=accepted, dropped=dropped, kills=kills)


def _log_writes(writes: Sequence[VpaStatusWrite]) -> None:
    for write in writes:
        reasons = ",".join(reason.code for reason in write.reasons)
        _log.detail(5, "wrote a status", namespace=write.namespace, vpa=write.name, why=reasons)
