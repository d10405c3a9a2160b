"""Replays a recording of the recommender.

Usage, history, the state of the cluster and the clock are those of the recording; the core does the rest, as it did in
the process that was recorded. Decisions must be the same byte for byte.

The lines of a pass are its input in parts, and its decisions: they are collected, and replayed as one pass. Releases
differ in the order of these lines, and not in what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import HEADER, decode_payload, encode_payload
from trellis.core.cluster.owners import ScaleInfo, TargetRef
from trellis.core.recommend.engine import PassDecision, PassWrites, RecommenderEngine
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.registry import build_recommenders
from trellis.core.recommend.state.snapshot import (
    ClusterObservation,
    FetchedHistory,
    FetchedUsage,
    PendingHistory,
    RecommenderSnapshot,
)
from trellis.core.recommend.validation import UnavailableRecommender
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
            if replay is not None:
                yield from replay.end_pass()
            replay = _RecommenderReplay(decode_payload(data, lines.RecommenderSetup))
        elif replay is None:
            raise InvalidRecording(kind, f"comes before a line of kind {lines.SETUP}")
        else:
            if kind in _FIRST_LINES:
                yield from replay.end_pass()
            replay.add_line(kind, data)
    if replay is not None:
        yield from replay.end_pass()


class _RecordedPass(msgspec.Struct):
    """The lines of one pass. `decided` has the decisions by the kind of the line before them."""

    vpas: lines.VpasLine | None = None
    pods: lines.PodsLine | None = None
    usage: lines.UsageLine | None = None
    due: lines.DueLine | None = None
    publish: lines.PublishLine | None = None
    save: lines.SaveLine | None = None
    decided: dict[str, bytes] = {}


class _RecommenderReplay:
    """The engine, and the lines since the last pass."""

    def __init__(self, setup: lines.RecommenderSetup) -> None:
        self._built_in = build_recommenders(setup.names, setup.default, setup.presets)
        self._recommenders: Mapping[str, Recommender] = self._built_in
        self._engine = RecommenderEngine(setup.usage, setup.pipeline, setup.gates, setup.default)
        self._snapshots = SnapshotReplayer()
        self._snapshot: RecommenderSnapshot = self._snapshots.apply_line(SnapshotLine())
        self._scales: Mapping[TargetRef, ScaleInfo] = {}
        # What was restored in a pass that failed later is restored with the next one.
        self._history: list[FetchedHistory] = []
        self._pass = _RecordedPass()
        self._last_kind = ""

    def add_line(self, kind: str, data: msgspec.Raw) -> None:
        if kind == lines.DECIDED:
            self._pass.decided[self._last_kind] = bytes(data)
            return
        add = _LINES.get(kind)
        if add is None:
            raise InvalidRecording(kind, "is not valid in a recording of the recommender")
        add(self, data)
        self._last_kind = kind

    def end_pass(self) -> Iterator[ReplayedDecision]:
        """Replay the pass whose lines were added, as far as its input was recorded."""
        recorded, self._pass = self._pass, _RecordedPass()
        if recorded.publish is not None and recorded.usage is None:
            raise InvalidRecording(lines.PUBLISH, "comes before the first decision")
        if recorded.vpas is None:
            return
        self._begin(recorded.vpas, recorded.pods)
        if recorded.usage is None:
            return
        decision = self._finish(recorded.usage, recorded.pods, recorded.due)
        for kind, data in recorded.decided.items():
            decide = _DECISIONS.get(kind)
            if decide is None:
                raise InvalidRecording(kind, "is not a step with a decision")
            yield ReplayedDecision(data, encode_payload(decide(decision)))
        self._commit(decision, recorded.publish, recorded.save, recorded.usage.now)

    def _begin(self, vpas: lines.VpasLine, pods: lines.PodsLine | None) -> None:
        if pods is not None and pods.scales is not None:
            self._scales = dict(pods.scales)
        self._engine.begin(
            ClusterObservation(self._snapshot, vpas.scope, self._recommenders, self._scales, vpas.can_boost)
        )

    def _finish(self, usage: lines.UsageLine, pods: lines.PodsLine | None, due: lines.DueLine | None) -> PassDecision:
        pending = pods.pending_history if pods is not None else PendingHistory()
        fetched = FetchedUsage(usage.to_samples(), tuple(self._history), pending)
        self._history.clear()
        return self._engine.finish(fetched, usage.now, checkpoint_limit=due.limit if due is not None else 0)

    def _commit(
        self, decision: PassDecision, publish: lines.PublishLine | None, save: lines.SaveLine | None, now: float
    ) -> None:
        writes = decision.recommendations.writes
        versions = publish.written if publish is not None else ()
        # Where fewer statuses are decided now than were then, the difference is reported already.
        statuses = [(writes[place], version) for place, version in versions if place < len(writes)]
        self._engine.commit(decision, PassWrites(statuses, save.keys if save is not None else ()), now)

    def add_hosts(self, line: lines.HostedRecommendersLine) -> None:
        """Other recommenders are served under some names from now on."""
        for name, why in line.others.items():
            if why == lines.INSTALLED:
                raise InvalidRecording(
                    name, "is a recommender that does not come with Trellis; its output is not recorded"
                )
        others: dict[str, Recommender] = {name: UnavailableRecommender(name, why) for name, why in line.others.items()}
        self._recommenders = {**self._built_in, **others}

    def add_snapshot(self, line: SnapshotLine) -> None:
        self._snapshot = self._snapshots.apply_line(line)

    def add_vpas(self, line: lines.VpasLine) -> None:
        self._pass.vpas = line

    def add_history(self, line: lines.RestoreLine) -> None:
        self._history.append(FetchedHistory([row.to_saved_row() for row in line.rows], line.stored))

    def add_pods(self, line: lines.PodsLine) -> None:
        self._pass.pods = line

    def add_usage(self, line: lines.UsageLine) -> None:
        self._pass.usage = line

    def add_due(self, line: lines.DueLine) -> None:
        self._pass.due = line

    def add_publish(self, line: lines.PublishLine) -> None:
        self._pass.publish = line

    def add_save(self, line: lines.SaveLine) -> None:
        self._pass.save = line

    def add_time(self, line: lines.TimeLine) -> None:
        """A line that does no more than come before a decision."""


def _add(
    kind: type[T], add: Callable[[_RecommenderReplay, T], None]
) -> Callable[[_RecommenderReplay, msgspec.Raw], None]:
    return lambda replay, data: add(replay, decode_payload(data, kind))


_FIRST_LINES: Final = (lines.HOSTS, lines.SNAPSHOT)

_LINES: Final = {
    lines.HOSTS: _add(lines.HostedRecommendersLine, _RecommenderReplay.add_hosts),
    lines.SNAPSHOT: _add(SnapshotLine, _RecommenderReplay.add_snapshot),
    lines.VPAS: _add(lines.VpasLine, _RecommenderReplay.add_vpas),
    lines.RESTORE: _add(lines.RestoreLine, _RecommenderReplay.add_history),
    lines.PODS: _add(lines.PodsLine, _RecommenderReplay.add_pods),
    lines.USAGE: _add(lines.UsageLine, _RecommenderReplay.add_usage),
    lines.COLLECT: _add(lines.TimeLine, _RecommenderReplay.add_time),
    lines.RECOMMEND: _add(lines.TimeLine, _RecommenderReplay.add_time),
    lines.PUBLISH: _add(lines.PublishLine, _RecommenderReplay.add_publish),
    lines.TOTALS: _add(lines.TimeLine, _RecommenderReplay.add_time),
    lines.DUE: _add(lines.DueLine, _RecommenderReplay.add_due),
    lines.SAVE: _add(lines.SaveLine, _RecommenderReplay.add_save),
}

_DECISIONS: Final[Mapping[str, Callable[[PassDecision], object]]] = {
    lines.COLLECT: lambda decision: decision.obsolete_checkpoints,
    lines.RECOMMEND: lambda decision: lines.list_decided_statuses(decision.recommendations),
    lines.TOTALS: lambda decision: lines.list_decided_totals(decision.totals),
    lines.DUE: lambda decision: [row.key for row in decision.checkpoints],
}
