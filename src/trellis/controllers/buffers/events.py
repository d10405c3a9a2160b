"""Records an Event for each decision about a Buffer or CapacityBuffer that is new, and for each new note."""

from __future__ import annotations

from typing import Protocol

from trellis.api.kube.meta import ObjectReference
from trellis.core.buffers import DetailedReason, Translation
from trellis.core.buffers.chunks import BUFFER_READY
from trellis.runtime.telemetry.event_queue import EventSink


class ReportedState(Protocol):
    """What Events have reported of a buffer so far: the codes of its reason and of its notes."""

    reason_code: str
    notes: frozenset[str]


def record_events(record: EventSink, about: ObjectReference, reported: ReportedState, translation: Translation) -> None:
    """Record what is new, and keep what was recorded. The first decision is not recorded if the buffer is ready."""
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
