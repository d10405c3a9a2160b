"""Builds the status of an Hvpa, and the write if it differs from what is stored.

The status has two writers by server-side apply. This one owns everything but `totals`, and applies all of it each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa, HvpaStatus
from trellis.api.kinds.parts import StatusCondition
from trellis.api.kube.scaling import Scale
from trellis.base.reasons import Reason
from trellis.base.times import format_time
from trellis.core.hvpa import HvpaPlan, build_blocked_steps, build_hpa_demand, build_recommendation
from trellis.kube.resources import HVPAS
from trellis.kube.write.actions import Action, PatchObject, Target
from trellis.kube.write.patches import apply_patch

FIELD_MANAGER: Final = "trellis-hvpa"
ACTIVE: Final = "Active"

# The limit of a condition's message. A longer one, such as a message of the API server, refuses the whole status.
_MAX_MESSAGE_LENGTH: Final = 32_768


class HvpaNote(msgspec.Struct, frozen=True):
    """Something that a person should know: a reason, and what it is about."""

    reason: Reason
    details: str = ""

    @property
    def message(self) -> str:
        """In a sentence."""
        return f"{self.details}: {self.reason.meaning}" if self.details else self.reason.meaning


def build_status(
    hvpa: Hvpa, scale: Scale, plan: HvpaPlan, notes: Iterable[HvpaNote], *, active: bool, now: float
) -> HvpaStatus:
    """The status after a plan."""
    decision = HvpaNote(plan.summary.reason, plan.summary.details)
    return HvpaStatus(
        replicas=scale.status.replicas,
        selector=scale.status.selector,
        recommendation=build_recommendation(plan),
        bucket=_find_bucket(hvpa, plan.shape.count),
        last_scale_time=_find_last_scale_time(hvpa, plan),
        hpa=build_hpa_demand(plan),
        blocked=build_blocked_steps(plan) or None,
        conditions=_build_conditions(hvpa, decision, active, notes, now),
        observed_generation=hvpa.metadata.generation,
    )


def build_status_without_plan(
    hvpa: Hvpa, problem: HvpaNote, notes: Iterable[HvpaNote], now: float, *, has_foreign_status: bool
) -> HvpaStatus:
    """The status without a plan: the size and the HPA's demand stay, unless they are those of another target."""
    previous = (None if has_foreign_status else hvpa.status) or HvpaStatus()
    return msgspec.structs.replace(
        previous,
        totals=None,
        blocked=None,
        conditions=_build_conditions(hvpa, problem, False, notes, now),
        observed_generation=hvpa.metadata.generation,
    )


def build_status_action(hvpa: Hvpa, status: HvpaStatus) -> Action | None:
    """The action that writes the status; None if it is stored already."""
    before = hvpa.status or HvpaStatus()
    if msgspec.structs.replace(before, totals=None) == status:
        return None
    metadata = hvpa.metadata
    document = {
        "apiVersion": HVPAS.api_version,
        "kind": HVPAS.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "status": msgspec.to_builtins(status),
    }
    # Without the UID: server-side apply would create what is not there, but not through a subresource.
    target = Target(HVPAS, metadata.name, metadata.namespace)
    return PatchObject(target, apply_patch(document, force=True), subresource="status", field_manager=FIELD_MANAGER)


def _find_bucket(hvpa: Hvpa, count: int) -> int | None:
    """The index of the bucket that a count is in."""
    places = enumerate(hvpa.spec.buckets or ())
    return next(
        (position for position, bucket in places if (bucket.replicas.min or 0) <= count <= (bucket.replicas.max or 0)),
        None,
    )


def _find_last_scale_time(hvpa: Hvpa, plan: HvpaPlan) -> str | None:
    """When the count was last written, by this process or by one before it."""
    if plan.memory.scaled_at is not None:
        return format_time(datetime.fromtimestamp(plan.memory.scaled_at, UTC))
    return hvpa.status.last_scale_time if hvpa.status is not None else None


def _build_conditions(
    hvpa: Hvpa, decision: HvpaNote, active: bool, notes: Iterable[HvpaNote], now: float
) -> list[StatusCondition]:
    """The condition `Active`, and a condition for each note."""
    conditions = [_build_condition(hvpa, ACTIVE, active, decision, now)]
    conditions += [_build_condition(hvpa, note.reason.code, True, note, now) for note in notes]
    return list({condition.type: condition for condition in conditions}.values())


def _build_condition(hvpa: Hvpa, type_: str, holds: bool, note: HvpaNote, now: float) -> StatusCondition:
    status = "True" if holds else "False"
    stored = (hvpa.status.conditions or ()) if hvpa.status is not None else ()
    before = next((condition for condition in stored if condition.type == type_ and condition.status == status), None)
    since = before.last_transition_time if before is not None else None
    return StatusCondition(
        type=type_,
        status=status,
        observed_generation=hvpa.metadata.generation,
        last_transition_time=since or format_time(datetime.fromtimestamp(now, UTC)),
        reason=note.reason.code,
        message=note.message[:_MAX_MESSAGE_LENGTH],
    )
