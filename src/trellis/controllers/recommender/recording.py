"""Records the input of the recommender's engine and its decisions.

Input is written before the engine gets it, so that a pass that fails can be examined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trellis.api.feature_gates import FeatureGates
from trellis.controllers.recommender.plugins.worker import RecommenderWorker
from trellis.controllers.recommender.settings import (
    RecommenderSettings,
    build_default_settings,
    build_pipeline_settings,
    build_usage_settings,
)
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.recommend.engine import PassDecision, PassNeeds, PassStage, PassWrites, RecommenderEngine
from trellis.core.recommend.explanations import LastPass
from trellis.core.recommend.post_processing import AmountsObserver
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.registry import read_presets
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.recommend.state.snapshot import ClusterObservation, FetchedUsage
from trellis.core.recommend.validation import UnavailableRecommender
from trellis.core.recording import recommender as lines
from trellis.core.recording.recommender import SnapshotRecorder
from trellis.core.recording.usage_rows import UsageRowLine
from trellis.core.usage.settings import UsageSettings
from trellis.runtime.recorder import Recorder


def create_engine(settings: RecommenderSettings, recorder: Recorder) -> RecommenderEngine:
    """The engine of a process, with a recording if the recorder is on."""
    usage, pipeline, gates = (
        build_usage_settings(settings),
        build_pipeline_settings(settings),
        settings.scope.feature_gates,
    )
    estimates = build_default_settings(settings)
    if not recorder.is_on:
        return RecommenderEngine(usage, pipeline, gates, estimates)
    names = settings.loop.recommender_name
    presets = read_presets(settings.plugins.parameters, names)
    recorder.write(lines.SETUP, lines.RecommenderSetup(usage, pipeline, estimates, gates, names, presets))
    return RecordedRecommenderEngine(usage, pipeline, gates, estimates, recorder=recorder)


class RecordedRecommenderEngine(RecommenderEngine):
    """The engine, with lines for what each call is given and for what `finish` decides."""

    def __init__(
        self,
        usage: UsageSettings,
        pipeline: PipelineSettings,
        gates: FeatureGates,
        estimates: DefaultSettings | None = None,
        *,
        recorder: Recorder,
    ) -> None:
        super().__init__(usage, pipeline, gates, estimates)
        self._write = recorder.write
        self._snapshots = SnapshotRecorder()
        self._hosts: dict[str, str] = {}
        self._observed_scales: Mapping[TargetRef, ScaleInfo] = {}
        self._recorded_scales: Mapping[TargetRef, ScaleInfo] | None = None

    def begin(self, observed: ClusterObservation) -> PassNeeds:
        hosts = {
            name: difference
            for name, recommender in observed.recommenders.items()
            if (difference := _describe_host(recommender))
        }
        if hosts != self._hosts:
            self._hosts = hosts
            self._write(lines.HOSTS, lines.HostedRecommendersLine(hosts))
        self._write(lines.SNAPSHOT, self._snapshots.build_line(observed.snapshot))
        scope = observed.scope
        names, ignored, is_new = tuple(sorted(scope.recommenders)), tuple(sorted(scope.ignored)), scope != self._scope
        namespaces = ",".join(sorted(scope.namespaces))
        own = lines.VpasLine(names, namespaces, ignored, is_new, observed.can_resize, scope.totals, scope.shard)
        self._write(lines.VPAS, own)
        self._observed_scales = observed.scales
        return super().begin(observed)

    def finish(
        self,
        fetched: FetchedUsage,
        now: float,
        *,
        checkpoint_limit: int = 0,
        on_stage: Callable[[PassStage], None] = lambda _stage: None,
        on_amounts: AmountsObserver | None = None,
    ) -> PassDecision:
        for history in fetched.history:
            self._write(
                lines.RESTORE,
                lines.RestoreLine(now, history.from_checkpoints, tuple(map(UsageRowLine.of, history.rows))),
            )
        self._write(
            lines.PODS, lines.build_pods_line(now, fetched.pending, self._observed_scales, self._recorded_scales)
        )
        self._recorded_scales = self._observed_scales
        self._write(lines.USAGE, lines.UsageLine.of(fetched.samples, now))
        decision = super().finish(
            fetched, now, checkpoint_limit=checkpoint_limit, on_stage=on_stage, on_amounts=on_amounts
        )
        time = lines.TimeLine(now)
        for kind, step, decided in (
            (lines.COLLECT, time, decision.obsolete_checkpoints),
            (lines.RECOMMEND, time, lines.list_decided_statuses(decision.recommendations)),
            (lines.TOTALS, time, lines.list_decided_totals(decision.totals)),
            (lines.DUE, lines.DueLine(now, checkpoint_limit), [row.key for row in decision.checkpoints]),
        ):
            self._write(kind, step)
            self._write(lines.DECIDED, decided)
        return decision

    def commit(self, decision: PassDecision, written: PassWrites, now: float) -> LastPass:
        places = {id(write): place for place, write in enumerate(decision.recommendations.writes)}
        versions = tuple((places[id(write)], version) for write, version in written.statuses)
        self._write(lines.PUBLISH, lines.PublishLine(now, versions))
        self._write(lines.SAVE, lines.SaveLine(now, tuple(written.checkpoints)))
        return super().commit(decision, written, now)


def _describe_host(recommender: Recommender) -> str:
    """The description of a recommender that does not come with Trellis; empty for a built-in one."""
    if isinstance(recommender, UnavailableRecommender):
        return recommender.reason
    return lines.INSTALLED if isinstance(recommender, RecommenderWorker) else ""
