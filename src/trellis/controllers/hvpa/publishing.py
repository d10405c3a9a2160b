"""What does an Hvpa's status say, and is there anything new in it?

It has two writers by server-side apply. This one owns everything but `totals`, and says all of it each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from trellis.api.hvpa import Hvpa, HvpaStatus
from trellis.api.kube.scaling import Scale
from trellis.api.parts import Condition
from trellis.base.reason import Reason
from trellis.base.times import format_time
from trellis.core.hvpa import Plan, blocked_of, hpa_demand_of, recommendation_of
from trellis.kube.actions import Action, PatchObject, Target
from trellis.kube.patches import apply_patch
from trellis.kube.resources import HVPAS

FIELD_MANAGER: Final = "trellis-hvpa"
ACTIVE: Final = "Active"

# What a condition has room for. A status with more is refused as a whole, and an API server may have much to say.
_LONGEST: Final = 32_768


class Said(msgspec.Struct, frozen=True):
    """Something that a person should know: a reason, and what it is about."""

    reason: Reason
    details: str = ""

    @property
    def message(self) -> str:
        """In a sentence."""
        return f"{self.details}: {self.reason.meaning}" if self.details else self.reason.meaning


def status_of_plan(
    hvpa: Hvpa, scale: Scale, plan: Plan, notes: Iterable[Said], *, active: bool, now: float
) -> HvpaStatus:
    """The status after a plan."""
    verdict = Said(plan.verdict.reason, plan.verdict.details)
    return HvpaStatus(
        replicas=scale.status.replicas,
        selector=scale.status.selector,
        recommendation=recommendation_of(plan),
        bucket=_bucket(hvpa, plan.shape.count),
        last_scale_time=_last_scaled(hvpa, plan),
        hpa=hpa_demand_of(plan),
        blocked=blocked_of(plan) or None,
        conditions=_conditions(hvpa, verdict, active, notes, now),
        observed_generation=hvpa.metadata.generation,
    )


def status_without_plan(hvpa: Hvpa, why: Said, notes: Iterable[Said], now: float, *, strange: bool) -> HvpaStatus:
    """The status while nothing can be decided: the size stands, and so does what the HPA had asked for.

    Nothing of it does that is of another target, which is `strange`.
    """
    before = (None if strange else hvpa.status) or HvpaStatus()
    return msgspec.structs.replace(
        before,
        totals=None,
        blocked=None,
        conditions=_conditions(hvpa, why, False, notes, now),
        observed_generation=hvpa.metadata.generation,
    )


def status_action(hvpa: Hvpa, status: HvpaStatus) -> Action | None:
    """Write the status; None if it says so already."""
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


def _bucket(hvpa: Hvpa, count: int) -> int | None:
    """The place of the bucket that a count is in."""
    places = enumerate(hvpa.spec.buckets or ())
    return next((at for at, each in places if (each.replicas.min or 0) <= count <= (each.replicas.max or 0)), None)


def _last_scaled(hvpa: Hvpa, plan: Plan) -> str | None:
    """When the count was last written, by this process or by one before it."""
    if plan.memory.scaled is not None:
        return format_time(datetime.fromtimestamp(plan.memory.scaled, UTC))
    return hvpa.status.last_scale_time if hvpa.status is not None else None


def _conditions(hvpa: Hvpa, verdict: Said, active: bool, notes: Iterable[Said], now: float) -> list[Condition]:
    """Whether it is at work, and each thing worth knowing as a condition of its own."""
    found = [_condition(hvpa, ACTIVE, active, verdict, now)]
    found += [_condition(hvpa, each.reason.code, True, each, now) for each in notes]
    return list({each.type: each for each in found}.values())


def _condition(hvpa: Hvpa, type_: str, holds: bool, said: Said, now: float) -> Condition:
    status = "True" if holds else "False"
    known = (hvpa.status.conditions or ()) if hvpa.status is not None else ()
    before = next((each for each in known if each.type == type_ and each.status == status), None)
    since = before.last_transition_time if before is not None else None
    return Condition(
        type=type_,
        status=status,
        observed_generation=hvpa.metadata.generation,
        last_transition_time=since or format_time(datetime.fromtimestamp(now, UTC)),
        reason=said.reason.code,
        message=said.message[:_LONGEST],
    )
