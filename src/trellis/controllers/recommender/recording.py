"""Records what the recommender takes in and decides, step by step.

A step is written before it is made, so that one that fails can be examined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from trellis.api.feature_gates import FeatureGates
from trellis.base.errors import InvalidCheckpoint
from trellis.controllers.recommender.plugins.worker import RecommenderWorker
from trellis.controllers.recommender.settings import (
    RecommenderSettings,
    default_settings,
    pipeline_settings,
    usage_settings,
)
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.cluster.store import ObjectKey
from trellis.core.recommend.declaration import UnavailableRecommender
from trellis.core.recommend.engine import PendingHistory, RecommenderEngine, RecommenderScope
from trellis.core.recommend.explanations import LastPass
from trellis.core.recommend.post_processing import AmountsObserver
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.publish.hvpa_totals import HvpaTotals
from trellis.core.recommend.recommendation_pass import PassResult
from trellis.core.recommend.registry import read_presets
from trellis.core.recommend.settings import DefaultSettings, PipelineSettings
from trellis.core.recommend.state.snapshot import PodOomKill, RecommenderSnapshot
from trellis.core.recommend.state.vpa_table import VpaStatusWrite
from trellis.core.recording import recommender as lines
from trellis.core.recording.recommender import SnapshotRecorder
from trellis.core.recording.usage_rows import UsageRowLine
from trellis.core.usage.checkpoints.format import SavedRow
from trellis.core.usage.columns import RowKey
from trellis.core.usage.oom_peaks import OomRecord
from trellis.core.usage.samples import IngestResult, Samples
from trellis.core.usage.settings import UsageSettings
from trellis.runtime.recorder import Recorder


def create_engine(
    settings: RecommenderSettings, recommenders: Mapping[str, Recommender], recorder: Recorder
) -> RecommenderEngine:
    """What a recommender knows, written down if somebody asked for that."""
    usage, pipeline, gates = usage_settings(settings), pipeline_settings(settings), settings.scope.feature_gates
    if not recorder.is_on:
        return RecommenderEngine(usage, pipeline, recommenders, gates, default_settings(settings))
    names = settings.loop.recommender_name
    presets = read_presets(settings.plugins.parameters, names)
    recorder.write(
        lines.SETUP, lines.RecommenderSetup(usage, pipeline, default_settings(settings), gates, names, presets)
    )
    return RecordedRecommenderEngine(
        usage, pipeline, recommenders, gates, default_settings(settings), recorder=recorder
    )


class RecordedRecommenderEngine(RecommenderEngine):
    """The same, with a line for each step and for what it decides."""

    def __init__(
        self,
        usage: UsageSettings,
        pipeline: PipelineSettings,
        recommenders: Mapping[str, Recommender],
        gates: FeatureGates,
        estimates: DefaultSettings | None = None,
        *,
        recorder: Recorder,
    ) -> None:
        super().__init__(usage, pipeline, recommenders, gates, estimates)
        self._write = recorder.write
        self._sightings = SnapshotRecorder()
        self._hosts: dict[str, str] = {}
        self._told: Mapping[TargetRef, ScaleInfo] | None = None

    def answered_by(self, recommenders: Mapping[str, Recommender]) -> None:
        """Who answers to which name from now on."""
        hosts = {name: why for name, each in recommenders.items() if (why := _why_not_ours(each))}
        if hosts != self._hosts:
            self._hosts = hosts
            self._write(lines.HOSTS, lines.HostedRecommendersLine(hosts))
        super().answered_by(recommenders)

    def load_vpas(
        self, seen: RecommenderSnapshot, scope: RecommenderScope, *, all_of_them: bool
    ) -> frozenset[ObjectKey]:
        """Take in VPAs: the first step of a pass, and so the one with what it saw."""
        self._write(lines.SEEN, self._sightings.line(seen))
        names, ignored = tuple(sorted(scope.recommenders)), tuple(sorted(scope.ignored))
        self._write(
            lines.VPAS, lines.VpasLine(names, scope.namespace, ignored, all_of_them, self.can_boost, scope.totals)
        )
        return super().load_vpas(seen, scope, all_of_them=all_of_them)

    def load_pods(
        self, seen: RecommenderSnapshot, scales: Mapping[TargetRef, ScaleInfo], waiting: PendingHistory, now: float
    ) -> Counter[str]:
        """Take in pods."""
        self._write(lines.PODS, lines.build_pods_line(now, waiting, scales, self._told))
        self._told = scales
        return super().load_pods(seen, scales, waiting, now)

    def restore(self, rows: Sequence[SavedRow], now: float, *, stored: bool) -> Mapping[RowKey, InvalidCheckpoint]:
        """Take in history."""
        if rows:
            self._write(lines.RESTORE, lines.RestoreLine(now, stored, tuple(map(UsageRowLine.of, rows))))
        return super().restore(rows, now, stored=stored)

    def take_in(self, samples: Samples, kills: Sequence[PodOomKill], now: float) -> tuple[IngestResult, OomRecord]:
        """Take in usage; the kills are those of what was seen."""
        self._write(lines.USAGE, lines.UsageLine.of(samples, now))
        return super().take_in(samples, kills, now)

    def collect(self, now: float) -> list[RowKey]:
        """Forget what is gone for good."""
        self._write(lines.COLLECT, lines.TimeLine(now))
        gone = super().collect(now)
        self._write(lines.DECIDED, gone)
        return gone

    def recommend(self, now: float, watch: AmountsObserver | None = None) -> PassResult:
        """What all VPAs should say."""
        self._write(lines.RECOMMEND, lines.TimeLine(now))
        result = super().recommend(now, watch)
        self._write(lines.DECIDED, lines.list_decided_statuses(result))
        return result

    def published(self, result: PassResult, written: Sequence[tuple[VpaStatusWrite, str]], now: float) -> LastPass:
        """Take note of statuses that were written."""
        places = {id(write): place for place, write in enumerate(result.writes)}
        versions = tuple((places[id(write)], version) for write, version in written)
        self._write(lines.PUBLISH, lines.PublishLine(now, versions))
        return super().published(result, written, now)

    def totals(self, now: float) -> list[HvpaTotals]:
        """What the Hvpas over VPAs of users should know."""
        self._write(lines.TOTALS, lines.TimeLine(now))
        totals = super().totals(now)
        self._write(lines.DECIDED, lines.list_decided_totals(totals))
        return totals

    def due(self, limit: int, now: float) -> list[SavedRow]:
        """Rows whose checkpoints are to be written."""
        self._write(lines.DUE, lines.DueLine(now, limit))
        rows = super().due(limit, now)
        self._write(lines.DECIDED, [row.key for row in rows])
        return rows

    def saved(self, keys: Sequence[RowKey], now: float) -> None:
        """Take note of checkpoints that were written."""
        self._write(lines.SAVE, lines.SaveLine(now, tuple(keys)))
        super().saved(keys, now)


def _why_not_ours(recommender: Recommender) -> str:
    """Why a recommender is not one that comes with Trellis; empty if it is."""
    if isinstance(recommender, UnavailableRecommender):
        return recommender.why
    return lines.INSTALLED if isinstance(recommender, RecommenderWorker) else ""
