"""Records an Event for each decision about a Buffer or CapacityBuffer that is new, and for each new note."""

from __future__ import annotations

from typing import Protocol

from trellis.api.kube.meta import ObjectReference
from trellis.core.buffers import DetailedReason, Translation
from trellis.core.buffers.chunks import BUFFER_READY
from trellis.runtime.telemetry.event_queue import EventSink


class ReportedState(Protocol):
    """The codes of the reason and of the notes of a buffer for which Events were recorded last."""

    reason_code: str
    notes: frozenset[str]


def record_events(record: EventSink, about: ObjectReference, reported: ReportedState, translation: Translation) -> None:
    """Record new reasons and notes. A buffer whose first decision is that it is ready gets no Event."""
    reason = translation.ready.reason
    if reported.reason_code != reason.code and not (reason is BUFFER_READY and not reported.reason_code):
        record(about, reason, str(translation.ready))
    notes: list[DetailedReason] = [
        *translation.notes,
        *((translation.limited,) if translation.limited is not None else ()),
    ]
    for note in notes:
        if note.reason.code not in reported.notes:
            record(about, note.reason, str(note))
    reported.reason_code, reported.notes = reason.code, frozenset(note.reason.code for note in notes)
