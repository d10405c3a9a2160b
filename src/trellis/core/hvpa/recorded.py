"""What is in a recording of the Hvpa controller? What each plan was made from, and the plan.

A view holds all that a plan depends on, what is remembered of earlier plans included, so that each plan can be made
again by itself. Of a plan, reasons are given by their codes: another wording is no other decision.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.core.hvpa.memory import Memory
from trellis.core.hvpa.plan import Plan
from trellis.core.hvpa.settings import HvpaSettings
from trellis.core.hvpa.steps import Blocked, Shape
from trellis.core.hvpa.views import View
from trellis.core.model.keys import Key
from trellis.core.recommend.capping.limit_ranges import Counts


class Began(msgspec.Struct, frozen=True):
    """By which figures plans are made from here on."""

    settings: HvpaSettings


class Looked(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan is made for this Hvpa, at that time."""

    hvpa: Key
    now: float
    view: View


class Held(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that is not taken."""

    direction: str
    reason: str
    details: str = ""

    @classmethod
    def of(cls, blocked: Blocked) -> Held:
        """The same, by its codes."""
        return cls(blocked.direction.value, blocked.reason.code, blocked.details)


class Decided(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan; an action is the count that it writes, by what it is called."""

    reason: str
    details: str
    actions: Mapping[str, int]
    shape: Shape
    containers: Mapping[str, Counts]
    memory: Memory
    blocked: tuple[Held, ...] = ()
    notes: tuple[str, ...] = ()
    totals: Counts = {}
    hpa: Counts = {}
    vpa: Counts = {}
    next_look: float | None = None

    @classmethod
    def of(cls, plan: Plan) -> Decided:
        """What is to be compared of a plan."""
        verdict = plan.verdict
        return cls(
            reason=verdict.reason.code,
            details=verdict.details,
            actions={type(each).__name__: each.replicas for each in plan.actions},
            shape=plan.shape,
            containers=plan.containers,
            memory=plan.memory,
            blocked=tuple(map(Held.of, verdict.blocked)),
            notes=tuple(each.code for each in verdict.notes),
            totals=plan.totals,
            hpa=plan.hpa,
            vpa=plan.vpa,
            next_look=plan.next_look,
        )
