"""Replays a recording of the recommender.

Usage, history, the state of the cluster and the clock are those of the recording; the core does the rest, as it did in
the process that was recorded. Decisions must be the same byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import HEADER, decode_payload, encode_payload
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.recommend.declaration import UnavailableRecommender
from trellis.core.recommend.engine import RecommenderEngine
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.recommendation_pass import PassResult
from trellis.core.recommend.registry import build_recommenders
from trellis.core.recommend.state.snapshot import RecommenderSnapshot
from trellis.core.recording import recommender as lines
from trellis.core.recording.recommender import SnapshotLine, SnapshotReplayer
from trellis.sim.replay.decisions import ReplayedDecision

T = TypeVar("T")


def replay_recommender(recording: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[ReplayedDecision]:
    """Every recorded decision beside the one that is made now; raises `InvalidRecording`."""
    replay: _RecommenderReplay | None = None
    for kind, data in recording:
        if kind == HEADER:
            continue
        if kind == lines.SETUP:
            replay = _RecommenderReplay(decode_payload(data, lines.RecommenderSetup))
        elif replay is None:
            raise InvalidRecording(kind, f"comes before a line of kind {lines.SETUP}")
        elif kind == lines.DECIDED:
            yield ReplayedDecision(bytes(data), replay.decided)
        else:
            replay.take(kind, data)


class _RecommenderReplay:
    """Repeats the recorded steps; `decided` is the result of the last step that decides."""

    def __init__(self, setup: lines.RecommenderSetup) -> None:
        self.decided = b""
        self._own = build_recommenders(setup.names, setup.default, setup.presets)
        self._knowledge = RecommenderEngine(setup.usage, setup.pipeline, self._own, setup.gates, setup.default)
        self._sight = SnapshotReplayer()
        self._snapshot: RecommenderSnapshot = self._sight.look(SnapshotLine())
        self._scales: Mapping[TargetRef, ScaleInfo] = {}
        self._result: PassResult | None = None

    def take(self, kind: str, data: msgspec.Raw) -> None:
        """Repeat a step."""
        step = _STEPS.get(kind)
        if step is None:
            raise InvalidRecording(kind, "is no step of a recommender")
        step(self, data)

    def hosts(self, line: lines.HostedRecommendersLine) -> None:
        """Other processes serve some recommenders."""
        for name, other in line.others.items():
            if other == lines.INSTALLED:
                raise InvalidRecording(name, "is a recommender that is installed apart, whose answers are not recorded")
        unavailable: dict[str, Recommender] = {
            name: UnavailableRecommender(name, other) for name, other in line.others.items()
        }
        self._knowledge.answered_by({**self._own, **unavailable})

    def seen(self, line: SnapshotLine) -> None:
        """A pass begins."""
        self._snapshot = self._sight.look(line)

    def vpas(self, line: lines.VpasLine) -> None:
        """Take in VPAs."""
        self._knowledge.can_boost = line.can_boost
        self._knowledge.load_vpas(self._snapshot, line.scope, all_of_them=line.all_of_them)

    def restore(self, line: lines.RestoreLine) -> None:
        """Take in history."""
        self._knowledge.restore([row.saved() for row in line.rows], line.now, stored=line.stored)

    def pods(self, line: lines.PodsLine) -> None:
        """Take in pods."""
        if line.scales is not None:
            self._scales = dict(line.scales)
        self._knowledge.load_pods(self._snapshot, self._scales, line.waiting, line.now)

    def usage(self, line: lines.UsageLine) -> None:
        """Take in usage and kills."""
        self._knowledge.take_in(line.samples(), self._snapshot.news.kills, line.now)

    def collect(self, line: lines.TimeLine) -> None:
        """Forget what is gone for good."""
        self.decided = encode_payload(self._knowledge.collect(line.now))

    def recommend(self, line: lines.TimeLine) -> None:
        """Recommend."""
        self._result = self._knowledge.recommend(line.now)
        self.decided = encode_payload(lines.list_decided_statuses(self._result))

    def publish(self, line: lines.PublishLine) -> None:
        """Statuses were written."""
        if self._result is None:
            raise InvalidRecording(lines.PUBLISH, "comes before anything was decided")
        writes = self._result.writes
        # Where less is decided now than it was then, the difference is reported already.
        written = [(writes[place], version) for place, version in line.written if place < len(writes)]
        self._knowledge.published(self._result, written, line.now)

    def totals(self, line: lines.TimeLine) -> None:
        """Publish totals of Hvpas."""
        self.decided = encode_payload(lines.list_decided_totals(self._knowledge.totals(line.now)))

    def due(self, line: lines.DueLine) -> None:
        """Checkpoints are due."""
        self.decided = encode_payload([row.key for row in self._knowledge.due(line.limit, line.now)])

    def save(self, line: lines.SaveLine) -> None:
        """Checkpoints were written."""
        self._knowledge.saved(line.keys, line.now)


def _step(
    kind: type[T], take: Callable[[_RecommenderReplay, T], None]
) -> Callable[[_RecommenderReplay, msgspec.Raw], None]:
    return lambda replay, data: take(replay, decode_payload(data, kind))


_STEPS: Final = {
    lines.HOSTS: _step(lines.HostedRecommendersLine, _RecommenderReplay.hosts),
    lines.SEEN: _step(SnapshotLine, _RecommenderReplay.seen),
    lines.VPAS: _step(lines.VpasLine, _RecommenderReplay.vpas),
    lines.RESTORE: _step(lines.RestoreLine, _RecommenderReplay.restore),
    lines.PODS: _step(lines.PodsLine, _RecommenderReplay.pods),
    lines.USAGE: _step(lines.UsageLine, _RecommenderReplay.usage),
    lines.COLLECT: _step(lines.TimeLine, _RecommenderReplay.collect),
    lines.RECOMMEND: _step(lines.TimeLine, _RecommenderReplay.recommend),
    lines.PUBLISH: _step(lines.PublishLine, _RecommenderReplay.publish),
    lines.TOTALS: _step(lines.TimeLine, _RecommenderReplay.totals),
    lines.DUE: _step(lines.DueLine, _RecommenderReplay.due),
    lines.SAVE: _step(lines.SaveLine, _RecommenderReplay.save),
}
