"""Would the Buffer controller decide again what it decided then?

Each translation is made once more from its facts, and headroom is observed again from the news of the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.resolve import resolve_buffer
from trellis.base.errors import InvalidRecording
from trellis.core.buffers import translate
from trellis.core.buffers.recorded import Began, Decided, Looked
from trellis.core.model.recording import decode, encode
from trellis.core.nodes.news import News
from trellis.core.nodes.observing import Observer
from trellis.core.nodes.recorded import NEWS
from trellis.core.nodes.recorded_news import NewsLine, NewsReading
from trellis.core.nodes.recorded_observations import (
    OBSERVED,
    OBSERVER,
    OBSERVING,
    Found,
    Observations,
    ObserverBegan,
    Observing,
)
from trellis.sim.replay.replayed import Replayed
from trellis.sim.replay.singly import Singly

_OBSERVATIONS: Final = frozenset({OBSERVER, NEWS, OBSERVING, OBSERVED})


def _decided(looked: Looked, began: Began) -> Decided:
    meaning = resolve_buffer(Buffer(spec=looked.spec))
    return Decided.of(translate(meaning, looked.facts, looked.now, began.settings))


_translations: Final = Singly("Buffer", Began, Looked, lambda looked: looked.buffer, _decided)


def replay_buffers(recording: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[Replayed]:
    """Every decision of a recording beside the one that is made now; raises `InvalidRecording`."""
    observed: list[Replayed] = []
    for each in _translations(_without_observations(recording, observed)):
        yield from _taken(observed)
        yield each
    yield from _taken(observed)


def _taken(observed: list[Replayed]) -> list[Replayed]:
    taken = observed[:]
    observed.clear()
    return taken


def _without_observations(
    recording: Iterable[tuple[str, msgspec.Raw]], observed: list[Replayed]
) -> Iterator[tuple[str, msgspec.Raw]]:
    """The lines of translations; what the others lead to is added to `observed`."""
    replay: _Replay | None = None
    for kind, data in recording:
        if kind not in _OBSERVATIONS:
            yield kind, data
        elif kind == OBSERVER:
            replay = _Replay(decode(data, ObserverBegan))
        elif replay is None:
            raise InvalidRecording(kind, f"comes before a line of kind {OBSERVER}")
        elif kind == OBSERVED:
            observed.append(Replayed(bytes(data), encode(replay.found())))
        else:
            replay.hear(kind, data)


class _Replay:
    """Hears what was new, and observes."""

    def __init__(self, began: ObserverBegan) -> None:
        self._observer = Observer(began.settings)
        self._news = NewsReading()
        self._observations = Observations()
        self._observing: Observing | None = None

    def hear(self, kind: str, data: msgspec.Raw) -> None:
        """What a line says."""
        if kind == NEWS:
            self._observer.take_in(self._news.news(decode(data, NewsLine)))
        else:
            self._observing = decode(data, Observing)

    def found(self) -> Found:
        """What is found now."""
        observing, self._observing = self._observing, None
        if observing is None:
            raise InvalidRecording(OBSERVED, f"comes before a line of kind {OBSERVING}")
        observed = self._observer.observe(News(), observing.now)
        return self._observations.of(observed, observing.now)
