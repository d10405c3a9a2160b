"""Has somebody else changed the target's count, and is it set back?

It is, but only once in a scale-down window: whoever writes it again and again, as a delivery tool does whose manifest
has a count, would otherwise be fought with at full speed. Zero is respected, and no drift.
"""

from __future__ import annotations

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.hvpa.views import View

REPLICAS_DRIFTED = Reason(
    "ReplicasDrifted", "Somebody else changed the target's replicas, and they are set back.", Severity.WARNING
)
DRIFT_LEFT = Reason(
    "DriftLeft",
    "Somebody else changed the target's replicas again, which is left alone for as long as the scale-down window is.",
    Severity.WARNING,
)


class Drift(msgspec.Struct, frozen=True):
    """A count that nobody here decided; until when it is left alone, if it is."""

    reason: Reason
    until: float | None = None


def drift_of(view: View, now: float) -> Drift | None:
    """A step that is on its way is none: the count is what it was before the step."""
    decided, repaired = view.memory.decided, view.memory.repaired
    if decided is None or view.replicas in (decided.shape.count, decided.came.count):
        return None
    if repaired is not None:
        until = repaired + view.meaning.hvpa.down.stabilization.total_seconds()
        if now < until:
            return Drift(DRIFT_LEFT, until)
    return Drift(REPLICAS_DRIFTED)
