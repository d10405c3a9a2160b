"""Recording of the Hvpa controller: the view that each plan was made from, and the plan.

A view holds all that a plan depends on, what is remembered of earlier plans included, so that each plan can be made
again by itself. Reasons of a plan are recorded by their codes: another wording is no other decision.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.core.cluster.store import ObjectKey
from trellis.core.hvpa.plan import HvpaPlan
from trellis.core.hvpa.remembered_state import HvpaMemory
from trellis.core.hvpa.steps import HeldStep, WorkloadShape
from trellis.core.hvpa.view import HvpaSettings, HvpaView
from trellis.core.recommend.amounts import ResourceAmounts


class HvpaRecordingStart(msgspec.Struct, frozen=True):
    """The settings of the plans that follow."""

    settings: HvpaSettings


class HvpaPlanInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan is made for this Hvpa, at that time."""

    hvpa: ObjectKey
    now: float
    view: HvpaView


class RecordedHeldStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that is held back."""

    direction: str
    reason: str
    details: str = ""

    @classmethod
    def of(cls, blocked: HeldStep) -> RecordedHeldStep:
        """Record a held step by the code of its reason."""
        return cls(blocked.direction.value, blocked.reason.code, blocked.details)


class RecordedHvpaPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan; `actions` are the counts that it writes, by the type of the action."""

    reason: str
    details: str
    actions: Mapping[str, int]
    shape: WorkloadShape
    containers: Mapping[str, ResourceAmounts]
    memory: HvpaMemory
    blocked: tuple[RecordedHeldStep, ...] = ()
    notes: tuple[str, ...] = ()
    totals: ResourceAmounts = {}
    hpa: ResourceAmounts = {}
    vpa: ResourceAmounts = {}
    next_look: float | None = None

    @classmethod
    def of(cls, plan: HvpaPlan) -> RecordedHvpaPlan:
        """Record the parts of a plan that a replay compares."""
        summary = plan.summary
        return cls(
            reason=summary.reason.code,
            details=summary.details,
            actions={type(action).__name__: action.replicas for action in plan.actions},
            shape=plan.shape,
            containers=plan.containers,
            memory=plan.memory,
            blocked=tuple(map(RecordedHeldStep.of, summary.blocked)),
            notes=tuple(note.code for note in summary.notes),
            totals=plan.totals,
            hpa=plan.hpa,
            vpa=plan.vpa,
            next_look=plan.requeue_at,
        )
