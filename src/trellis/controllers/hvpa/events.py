"""Events of Hvpas: one for each decision that is new, and one for each condition that is; each is logged as well."""

from __future__ import annotations

from typing import Final

from trellis.api.kinds.hvpa import Hvpa
from trellis.base.reasons import Severity
from trellis.controllers.hvpa.state import HvpaState
from trellis.controllers.hvpa.status import HvpaNote
from trellis.core.cluster.store import key_of
from trellis.core.hvpa.demand.scale import SCALE_REQUESTED
from trellis.core.hvpa.demand.vpa import NO_TOTALS
from trellis.core.hvpa.plan import AS_DECIDED, STEP_BLOCKED
from trellis.kube.events import build_reference
from trellis.kube.resources import HVPAS
from trellis.runtime.telemetry.event_queue import EventSink
from trellis.runtime.telemetry.logs import Logger

_log: Final = Logger("trellis.hvpa")


class HvpaEvents:
    """Records Events; what was last recorded is in the state of the Hvpa."""

    def __init__(self, record: EventSink) -> None:
        self._record = record

    def record(self, hvpa: Hvpa, state: HvpaState, decision: HvpaNote, notes: list[HvpaNote]) -> None:
        """Record what differs from the last time: the decision, and the conditions that come with it."""
        # What is held back differs a little with each recommendation, and is in the status.
        key = (decision.reason.code, "" if decision.reason in (STEP_BLOCKED, NO_TOTALS) else decision.details)
        # A total that is held is one of the notes.
        new_notes = [decision] if key != state.last_decision and decision.reason not in (AS_DECIDED, NO_TOTALS) else []
        recorded = [note.reason for note in new_notes]
        new_notes += [
            note for note in notes if _event_key(note) not in state.recorded_notes and note.reason not in recorded
        ]
        for note in new_notes:
            self._record(build_reference(HVPAS, hvpa), note.reason, note.message)
            log = _log.info if note.reason.severity is Severity.INFO else _log.warning
            log("Event recorded", hvpa="/".join(key_of(hvpa)), reason=note.reason.code, details=note.details)
        state.last_decision, state.notes = key, frozenset(note.reason.code for note in notes)
        state.recorded_notes = frozenset(map(_event_key, notes))


def _event_key(note: HvpaNote) -> tuple[str, str]:
    """What makes a note another one: figures of what is wrong differ from pass to pass, but each wish is news."""
    return note.reason.code, note.details if note.reason is SCALE_REQUESTED else ""
