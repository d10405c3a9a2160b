"""Detects changes by others to what was decided: the target's replica count and its pods' requests.

A count is set back, but only once in a scale-down window: a delivery tool whose manifest has a count writes it again
and again, and would otherwise be fought at full speed. Zero is respected, and no drift. Requests are the updater's to
set right; here they are reported, once in a window.
"""

from __future__ import annotations

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.core.hvpa.view import HvpaView

REPLICAS_DRIFTED = Reason(
    "ReplicasDrifted", "Another client changed the target's replicas; the Hvpa sets them back.", Severity.WARNING
)
DRIFT_TOLERATED = Reason(
    "DriftTolerated",
    "Another client changed the target's replicas again; the Hvpa keeps them for one scale-down window.",
    Severity.WARNING,
)
REQUESTS_DRIFTED = Reason(
    "RequestsDrifted",
    "Another client changed the requests of a pod that the Hvpa had sized; the updater restores them.",
    Severity.WARNING,
)


class ReplicaDrift(msgspec.Struct, frozen=True):
    """A count that this controller did not decide; until when it is left alone, if it is."""

    reason: Reason
    until: float | None = None


def detect_replica_drift(view: HvpaView, now: float) -> ReplicaDrift | None:
    """None before the first decision, or the first one after the target was scaled to zero."""
    decided_count, repaired_at = view.memory.target_replicas, view.memory.drift_repaired_at
    if decided_count is None or view.replicas == decided_count:
        return None
    if repaired_at is not None:
        until = repaired_at + view.meaning.hvpa.down.stabilization.total_seconds()
        if now < until:
            return ReplicaDrift(DRIFT_TOLERATED, until)
    return ReplicaDrift(REPLICAS_DRIFTED)


class RequestDrift(msgspec.Struct, frozen=True):
    """When a pod was last observed without the decided requests, and until when this is reported."""

    at: float | None = None
    until: float | None = None

    @property
    def reason(self) -> Reason | None:
        """What is said of it, for as long as the window is: an Event is posted once in it."""
        return REQUESTS_DRIFTED if self.until is not None else None


def detect_request_drift(view: HvpaView, now: float) -> RequestDrift:
    """Detect requests changed by other clients; the updater sets them right."""
    at = now if view.requests_edited else view.memory.requests_edited_at
    if at is None:
        return RequestDrift()
    until = at + view.meaning.hvpa.down.stabilization.total_seconds()
    return RequestDrift(at, until) if at == now or now < until else RequestDrift(at)
