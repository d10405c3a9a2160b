"""What does the recommender decide when it is told once more what it was told? What it decided, byte for byte.

Usage, history, the state of the cluster and the clock are those of the recording; the core does the rest, as it did in
the process that was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from trellis.base.errors import InvalidRecording
from trellis.core.model.owners import ScaleAnswer, TargetRef
from trellis.core.model.recording import HEADER, decode, encode
from trellis.core.recommend import recording as lines
from trellis.core.recommend.built_in import recommenders_called
from trellis.core.recommend.knowledge import Knowledge
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.results import PassResult
from trellis.core.recommend.seen import Seen
from trellis.core.recommend.sightings import SeenLine, Sight
from trellis.core.recommend.unavailable import Unavailable
from trellis.sim.replay.replayed import Replayed

T = TypeVar("T")


def replay_recommender(recording: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[Replayed]:
    """Every decision of a recording beside the one that is made now; raises `InvalidRecording`."""
    replay: _Replay | None = None
    for kind, data in recording:
        if kind == HEADER:
            continue
        if kind == lines.SETUP:
            replay = _Replay(decode(data, lines.Setup))
        elif replay is None:
            raise InvalidRecording(kind, f"comes before a line of kind {lines.SETUP}")
        elif kind == lines.DECIDED:
            yield Replayed(bytes(data), replay.decided)
        else:
            replay.take(kind, data)


class _Replay:
    """Takes the steps; `decided` is what the last one that decides came to."""

    def __init__(self, setup: lines.Setup) -> None:
        self.decided = b""
        self._own = recommenders_called(setup.names, setup.default, setup.presets)
        self._knowledge = Knowledge(setup.usage, setup.pipeline, self._own, setup.gates, setup.default)
        self._sight = Sight()
        self._seen: Seen = self._sight.look(SeenLine())
        self._scales: Mapping[TargetRef, ScaleAnswer] = {}
        self._result: PassResult | None = None

    def take(self, kind: str, data: msgspec.Raw) -> None:
        """One step."""
        step = _STEPS.get(kind)
        if step is None:
            raise InvalidRecording(kind, "is no step of a recommender")
        step(self, data)

    def hosts(self, line: lines.HostsLine) -> None:
        """Others answer to some names."""
        for name, why in line.others.items():
            if why == lines.INSTALLED:
                raise InvalidRecording(name, "is a recommender that is installed apart, whose answers are not recorded")
        others: dict[str, Recommender] = {name: Unavailable(name, why) for name, why in line.others.items()}
        self._knowledge.answered_by({**self._own, **others})

    def seen(self, line: SeenLine) -> None:
        """A pass begins."""
        self._seen = self._sight.look(line)

    def vpas(self, line: lines.VpasLine) -> None:
        """VPAs are taken in."""
        self._knowledge.can_boost = line.can_boost
        self._knowledge.load_vpas(self._seen, line.scope, all_of_them=line.all_of_them)

    def restore(self, line: lines.RestoreLine) -> None:
        """History is taken in."""
        self._knowledge.restore([row.saved() for row in line.rows], line.now, stored=line.stored)

    def pods(self, line: lines.PodsLine) -> None:
        """Pods are taken in."""
        if line.scales is not None:
            self._scales = dict(line.scales)
        self._knowledge.load_pods(self._seen, self._scales, line.waiting, line.now)

    def usage(self, line: lines.UsageLine) -> None:
        """Usage and kills are taken in."""
        self._knowledge.take_in(line.samples(), self._seen.news.kills, line.now)

    def collect(self, line: lines.AtLine) -> None:
        """What is gone for good is forgotten."""
        self.decided = encode(self._knowledge.collect(line.now))

    def recommend(self, line: lines.AtLine) -> None:
        """VPAs are advised."""
        self._result = self._knowledge.recommend(line.now)
        self.decided = encode(lines.decided_statuses(self._result))

    def publish(self, line: lines.PublishLine) -> None:
        """Statuses were written."""
        if self._result is None:
            raise InvalidRecording(lines.PUBLISH, "comes before anything was decided")
        writes = self._result.writes
        # Where less is decided now than it was then, the difference is told already.
        written = [(writes[place], version) for place, version in line.written if place < len(writes)]
        self._knowledge.published(self._result, written, line.now)

    def totals(self, line: lines.AtLine) -> None:
        """Hvpas are told of whole workloads."""
        self.decided = encode(lines.decided_totals(self._knowledge.totals(line.now)))

    def due(self, line: lines.DueLine) -> None:
        """Checkpoints are to be written."""
        self.decided = encode([row.key for row in self._knowledge.due(line.limit, line.now)])

    def save(self, line: lines.SaveLine) -> None:
        """Checkpoints were written."""
        self._knowledge.saved(line.keys, line.now)


def _step(kind: type[T], take: Callable[[_Replay, T], None]) -> Callable[[_Replay, msgspec.Raw], None]:
    return lambda replay, data: take(replay, decode(data, kind))


_STEPS: Final = {
    lines.HOSTS: _step(lines.HostsLine, _Replay.hosts),
    lines.SEEN: _step(SeenLine, _Replay.seen),
    lines.VPAS: _step(lines.VpasLine, _Replay.vpas),
    lines.RESTORE: _step(lines.RestoreLine, _Replay.restore),
    lines.PODS: _step(lines.PodsLine, _Replay.pods),
    lines.USAGE: _step(lines.UsageLine, _Replay.usage),
    lines.COLLECT: _step(lines.AtLine, _Replay.collect),
    lines.RECOMMEND: _step(lines.AtLine, _Replay.recommend),
    lines.PUBLISH: _step(lines.PublishLine, _Replay.publish),
    lines.TOTALS: _step(lines.AtLine, _Replay.totals),
    lines.DUE: _step(lines.DueLine, _Replay.due),
    lines.SAVE: _step(lines.SaveLine, _Replay.save),
}
