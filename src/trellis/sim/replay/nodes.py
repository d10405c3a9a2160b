"""Would the node autoscaler decide again what it decided then? It is told the same news, and plans when it planned.

The cluster, groups, budgets, boosts, the clock and what became of plans are those of the recording. What is remembered
goes on from what is decided now, so that one pass that differs may make those after it differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from trellis.base.errors import InvalidRecording
from trellis.core.model.recording import BEGAN, DECIDED, HEADER, LOOKED, decode, encode
from trellis.core.nodes.news import News
from trellis.core.nodes.planning import Planning
from trellis.core.nodes.recorded import BOOSTED, NEWS, Began, Boosted, Boosts
from trellis.core.nodes.recorded_news import NewsLine, NewsReading
from trellis.core.nodes.recorded_plans import Decided, Decisions
from trellis.core.nodes.recorded_questions import Asked, QuestionReading
from trellis.sim.replay.replayed import Replayed


def replay_nodes(recording: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[Replayed]:
    """Every decision of a recording beside the one that is made now; raises `InvalidRecording`."""
    replay: _Replay | None = None
    for kind, data in recording:
        if kind == HEADER:
            continue
        if kind == BEGAN:
            replay = _Replay(decode(data, Began))
        elif replay is None:
            raise InvalidRecording(kind, f"comes before a line of kind {BEGAN}")
        elif kind == DECIDED:
            yield Replayed(bytes(data), encode(replay.decided()))
        else:
            replay.hear(kind, data)


class _Replay:
    """Hears what was told, and plans."""

    def __init__(self, began: Began) -> None:
        self._planning = Planning(began.up, began.down, began.expendable_below)
        self._news = NewsReading()
        self._questions = QuestionReading()
        self._boosts = Boosts()
        self._decisions = Decisions()
        self._looked: Asked | None = None

    def hear(self, kind: str, data: msgspec.Raw) -> None:
        """What a line says."""
        if kind == LOOKED:
            self._looked = decode(data, Asked)
        elif kind == NEWS:
            self._take_in(self._news.news(decode(data, NewsLine)))
        elif kind == BOOSTED:
            self._boosts.put(decode(data, Boosted))
        else:
            raise InvalidRecording(kind, "is no line of a recording of the node autoscaler")

    def decided(self) -> Decided:
        """What is decided now."""
        looked, self._looked = self._looked, None
        if looked is None:
            raise InvalidRecording(DECIDED, f"comes before a line of kind {LOOKED}")
        plans = self._planning.plan(News(), self._questions.question(looked, self._boosts.answer))
        self._questions.planned(plans)
        return self._decisions.of(plans, looked.now)

    def _take_in(self, news: News) -> None:
        for key, pod in news.pods.items():
            if pod is None:
                self._boosts.forget(key)
        self._planning.take_in(news)
