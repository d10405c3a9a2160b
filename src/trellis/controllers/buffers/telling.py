"""Of what is there an Event? Of each verdict about a buffer that is new, and of each note that is."""

from __future__ import annotations

from typing import Protocol

from trellis.api.kube.meta import ObjectReference
from trellis.core.buffers import Said, Translation
from trellis.core.buffers.translate import BUFFER_READY
from trellis.runtime.posting import Record


class Told(Protocol):
    """What was told of a buffer so far: the codes of its verdict and of its notes."""

    verdict: str
    notes: frozenset[str]


def tell(record: Record, about: ObjectReference, known: Told, settled: Translation) -> None:
    """Tell what is new, and remember that it was told. That a buffer is ready is no news if it always was."""
    verdict = settled.ready.reason
    if known.verdict != verdict.code and not (verdict is BUFFER_READY and not known.verdict):
        record(about, verdict, str(settled.ready))
    notes: list[Said] = [*settled.notes, *((settled.limited,) if settled.limited is not None else ())]
    for each in notes:
        if each.reason.code not in known.notes:
            record(about, each.reason, str(each))
    known.verdict, known.notes = verdict.code, frozenset(each.reason.code for each in notes)
