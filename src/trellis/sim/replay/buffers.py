"""Replays a recording of the Buffer controller.

Each translation is repeated from its facts, and headroom is observed again from the changes in the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.resolve import resolve_buffer
from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import decode_payload, encode_payload
from trellis.core.buffers import translate
from trellis.core.nodes.buffers.headroom import HeadroomObserver
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.core.recording.buffers import BufferRecordingStart, RecordedTranslation, TranslationInput
from trellis.core.recording.nodes.changes import CHANGES, ChangesLine, ChangesReader
from trellis.core.recording.nodes.headroom import (
    OBSERVED,
    OBSERVER,
    OBSERVING,
    HeadroomInputLine,
    HeadroomLine,
    HeadroomRecorder,
    HeadroomRecordingStart,
)
from trellis.sim.replay.decisions import IndependentReplay, ReplayedDecision

_OBSERVATIONS: Final = frozenset({OBSERVER, CHANGES, OBSERVING, OBSERVED})


def _decide(view: TranslationInput, began: BufferRecordingStart) -> RecordedTranslation:
    meaning = resolve_buffer(Buffer(spec=view.spec))
    return RecordedTranslation.of(translate(meaning, view.facts, view.now, began.settings))


_translations: Final = IndependentReplay(
    "Buffer", BufferRecordingStart, TranslationInput, lambda view: view.buffer, _decide
)


def replay_buffers(recording: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[ReplayedDecision]:
    """Every recorded decision beside the one that is made now; raises `InvalidRecording`."""
    observed: list[ReplayedDecision] = []
    for translation in _translations(_without_observations(recording, observed)):
        yield from _drain(observed)
        yield translation
    yield from _drain(observed)


def _drain(observed: list[ReplayedDecision]) -> list[ReplayedDecision]:
    decisions = observed[:]
    observed.clear()
    return decisions


def _without_observations(
    recording: Iterable[tuple[str, msgspec.Raw]], observed: list[ReplayedDecision]
) -> Iterator[tuple[str, msgspec.Raw]]:
    """The lines of translations; what the other lines lead to is added to `observed`."""
    replay: _ObservationReplay | None = None
    for kind, data in recording:
        if kind not in _OBSERVATIONS:
            yield kind, data
        elif kind == OBSERVER:
            replay = _ObservationReplay(decode_payload(data, HeadroomRecordingStart))
        elif replay is None:
            raise InvalidRecording(kind, f"comes before a line of kind {OBSERVER}")
        elif kind == OBSERVED:
            observed.append(ReplayedDecision(bytes(data), encode_payload(replay.observation())))
        else:
            replay.read_line(kind, data)


class _ObservationReplay:
    """Takes in recorded changes, and observes headroom."""

    def __init__(self, began: HeadroomRecordingStart) -> None:
        self._observer = HeadroomObserver(began.settings)
        self._changes = ChangesReader()
        self._observations = HeadroomRecorder()
        self._observing: HeadroomInputLine | None = None

    def read_line(self, kind: str, data: msgspec.Raw) -> None:
        """Take in a line."""
        if kind == CHANGES:
            self._observer.update(self._changes.read_changes(decode_payload(data, ChangesLine)))
        else:
            self._observing = decode_payload(data, HeadroomInputLine)

    def observation(self) -> HeadroomLine:
        """The present observation."""
        observing, self._observing = self._observing, None
        if observing is None:
            raise InvalidRecording(OBSERVED, f"comes before a line of kind {OBSERVING}")
        observed = self._observer.observe(ClusterSnapshotChanges(), observing.now)
        return self._observations.build_line(observed, observing.now)
