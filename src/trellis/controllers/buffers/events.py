"""Records an Event for each decision about a Buffer or CapacityBuffer that is new, and for each new note."""

from __future__ import annotations

from typing import Protocol

from trellis.api.kube.meta import ObjectReference
from trellis.core.buffers import DetailedReason, Translation
from trellis.core.buffers.chunks import BUFFER_READY
from trellis.runtime.telemetry.event_queue import EventSink


class ReportedState(Protocol):
    """What was told of a buffer so far: the codes of its verdict and of its notes."""

    verdict: str
    notes: frozenset[str]


def record_events(record: EventSink, about: ObjectReference, known: ReportedState, settled: Translation) -> None:
    """Tell what is new, and remember that it was told. That a buffer is ready is no news if it always was."""
    verdict = settled.ready.reason
    if known.verdict != verdict.code and not (verdict is BUFFER_READY and not known.verdict):
        record(about, verdict, str(settled.ready))
    notes: list[DetailedReason] = [*settled.notes, *((settled.limited,) if settled.limited is not None else ())]
    for each in notes:
        if each.reason.code not in known.notes:
            record(about, each.reason, str(each))
    known.verdict, known.notes = verdict.code, frozenset(each.reason.code for each in notes)
