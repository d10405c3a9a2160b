"""A pass of the recommender: begin, fetch usage and history, finish, write statuses and checkpoints, commit.

Passes run every interval. Each pass works on one state of the cluster. A pass that fails is repeated at the next
interval with the same input: the model recognises samples from before the failure and counts none twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from trellis.base.python_gc import pause_garbage_collection
from trellis.controllers.recommender import metrics as named
from trellis.controllers.recommender.history import RecommenderHistory
from trellis.controllers.recommender.informers import RecommenderInformers
from trellis.controllers.recommender.metrics import RecommenderMetrics
from trellis.controllers.recommender.plugins.hosted_recommenders import HostedRecommenders
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.recommender.status import build_status_action, build_totals_action
from trellis.controllers.recommender.usage_source import UsageSource
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.recommend.engine import PassDecision, PassNeeds, PassStage, PassWrites, RecommenderEngine
from trellis.core.recommend.explanations import LastPass
from trellis.core.recommend.recommendation_pass import PassResult
from trellis.core.recommend.state.governed_pods import build_owners, read_vpa_target
from trellis.core.recommend.state.snapshot import (
    ClusterObservation,
    FetchedUsage,
    RecommenderScope,
    RecommenderSnapshot,
)
from trellis.core.recommend.state.tables import VpaStatusWrite
from trellis.kube.scales import ScaleLookups
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer
from trellis.runtime.leadership import Leadership
from trellis.runtime.passes import PassThread
from trellis.runtime.recorder import Recorder
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics, StepTimer
from trellis.runtime.telemetry.tracing import current_trace

_log: Final = Logger("trellis.recommender")


class ShadowLog:
    """Logs problems of shadow recommenders that the pass before did not have."""

    def __init__(self) -> None:
        self._unhosted: frozenset[str] = frozenset()
        self._failures: dict[str, str] = {}

    def log_changes(self, result: PassResult) -> None:
        unhosted = {shadow.recommender: shadow for shadow in reversed(result.missing_shadows)}
        for name in sorted(unhosted.keys() - self._unhosted):
            first = unhosted[name]
            _log.warning(
                "a shadow recommender is not served by this process; add it to --recommender-name",
                recommender=name,
                namespace=first.namespace,
                vpa=first.vpa,
            )
        self._unhosted = frozenset(unhosted)
        failures = {name: shadow.failure for name, shadow in result.estimates.shadows.items() if shadow.failure}
        for name, failure in failures.items():
            if self._failures.get(name) != failure:
                _log.error("a shadow recommender failed", recommender=name, why=failure)
        self._failures = failures


_STEPS: Final = {PassStage.INGESTED: named.LOAD_PODS, PassStage.COLLECTED: named.DELETE_PODS}

# Making twenty thousand requests at once would hold up leases and probes for 0.2 s.
_WRITES_AT_ONCE: Final = 1_000


class RecommenderReconciler:
    """Runs passes, whatever the names of the recommenders. `last_pass` is what explanations are made of."""

    def __init__(
        self,
        settings: RecommenderSettings,
        informers: RecommenderInformers,
        engine: RecommenderEngine,
        history: RecommenderHistory,
        thread: PassThread,
        *,
        hosted: HostedRecommenders,
        source: UsageSource,
        scales: ScaleLookups,
        writer: Writer,
        metrics: Metrics,
        recorder: Recorder,
        can_resize: bool,
        leadership: Leadership,
    ) -> None:
        self._settings = settings
        self._informers = informers
        self._engine = engine
        self._history = history
        self._thread = thread
        self._hosted = hosted
        self._source = source
        self._scales = scales
        self._writer = writer
        self._metrics = metrics
        self._recorder = recorder
        self._can_resize = can_resize
        self._leadership = leadership
        # The engine has one pass, or one handover, at a time.
        self._engine_lock = asyncio.Lock()
        self._observed = RecommenderMetrics(metrics)
        self._shadow_log = ShadowLog()
        self.last_pass: LastPass | None = None

    async def reconcile(self, names: frozenset[str], now: float, wake: Callable[[], None]) -> None:
        """Run a pass for the recommenders of these names; `wake` is called when history has been fetched."""
        async with self._engine_lock:
            snapshot = self._informers.take_snapshot()
            try:
                await self._reconcile(snapshot, names, now, wake)
            except BaseException:
                self._informers.restore_changes(snapshot)
                raise
            await self._thread.run(self._recorder.flush)

    async def hand_over(self, covers: Callable[[str], bool], now: float) -> None:
        """Write the checkpoints of namespaces that are not covered, for the replica that serves them next."""
        async with self._engine_lock:
            rows = await self._thread.run(self._engine.select_handover, covers, now)
            written = await self._history.write_all(rows)
        _log.info("handed namespaces over", checkpoints=len(written), left=len(rows) - len(written))

    async def _reconcile(
        self, snapshot: RecommenderSnapshot, names: frozenset[str], now: float, wake: Callable[[], None]
    ) -> None:
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        needs = await self._begin(snapshot, names)
        pending = await self._history.fetch(needs, wake, now)
        served, waiting = len(needs.served), len(pending.fetching)
        _log.detail(3, "loaded VPAs", served=served, known=len(snapshot.vpas), waiting=waiting)
        timer.step(named.LOAD_VPAS)
        samples = await self._source.fetch(needs, now)
        timer.step(named.LOAD_METRICS)
        fetched = FetchedUsage(samples, self._history.pop_fetched(), pending)
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
        current_trace().describe(vpas=served, samples=decision.ingested.samples.accepted, statuses=len(statuses))

    async def _begin(self, snapshot: RecommenderSnapshot, names: frozenset[str]) -> PassNeeds:
        loop = self._settings.loop
        scope = RecommenderScope(
            names,
            frozenset(self._settings.scope.vpa_object_namespace),
            frozenset(self._settings.scope.ignored_vpa_object_namespaces),
            # Of replicas that share the names between them, the one that serves the first.
            totals=loop.hvpa_totals and loop.recommender_name[0] in names,
            shard=self._leadership.shard,
        )
        scales = await self._fetch_scales(snapshot, scope)
        observed = ClusterObservation(snapshot, scope, self._hosted.get_recommenders(), scales, self._can_resize)
        return await self._thread.run(self._engine.begin, observed)

    async def _fetch_scales(self, snapshot: RecommenderSnapshot, scope: RecommenderScope) -> dict[TargetRef, ScaleInfo]:
        """The scales of targets that are no well-known controllers, and of the controllers of targets."""
        shard = scope.shard
        targets = await self._thread.run(
            lambda: {
                read_vpa_target(vpa) for vpa in snapshot.vpas if shard is None or shard.covers(vpa.metadata.namespace)
            }
        )
        unknown = frozenset(target for target in targets if not target.is_well_known and target.name)
        scales: dict[TargetRef, ScaleInfo] = {}
        while True:
            scales |= await self._scales.find_all(unknown)
            unknown = await self._thread.run(build_owners(snapshot, scales).find_unread_scales, targets)
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
        self.last_pass = self._engine.commit(decision, written, now)
        _log_writes(writes)
        self._observed.observe_recommendations(result, writes, now)
        self._shadow_log.log_changes(result)
        _log.detail(3, "recommended", vpas=result.vpas, written=len(writes), due=len(result.writes))


def _log_decision(decision: PassDecision) -> None:
    ingested = decision.ingested
    for key, error in ingested.refused.items():
        _log.error(
            "a checkpoint was not used", namespace=key.namespace, vpa=key.vpa, container=key.container, why=error
        )
    if decision.totals_failure:
        _log.error("no totals of workloads in this pass", why=decision.totals_failure)
    accepted, dropped, kills = ingested.samples.accepted, ingested.samples.dropped, len(ingested.kills.kills)
    _log.detail(3, "read usage", samples=accepted, dropped=dropped, kills=kills)


def _log_writes(writes: Sequence[VpaStatusWrite]) -> None:
    for write in writes:
        reasons = ",".join(reason.code for reason in write.reasons)
        _log.detail(5, "wrote a status", namespace=write.namespace, vpa=write.name, why=reasons)
