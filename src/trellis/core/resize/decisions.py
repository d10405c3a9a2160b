"""What was decided, so that it can be written down and compared?

Reasons are given by their codes: another wording is no other decision. Everything is in the order of the plans, and
nothing in an order that only one process has.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trellis.core.resize.actions import Action
from trellis.core.resize.governed import Workload
from trellis.core.resize.planning import Planned
from trellis.core.resize.verdicts import Verdict


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verdict."""

    pod: str
    uid: str
    way: str
    reason: str
    need: str = ""
    difference: float = 0.0
    details: str = ""
    warnings: tuple[str, ...] = ()
    look: float | None = None

    @classmethod
    def of(cls, verdict: Verdict) -> Said:
        """The same, by its codes."""
        pod, need = verdict.pod, verdict.need
        return cls(
            pod.name,
            pod.uid,
            verdict.way.value,
            verdict.reason.code,
            need.reason.code if need is not None else "",
            need.difference if need is not None else 0.0,
            verdict.details,
            tuple(each.code for each in verdict.warnings),
            verdict.look,
        )


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan, or the kind of error that came instead of it."""

    workload: Workload
    verdicts: tuple[Said, ...] = ()
    actions: tuple[Action, ...] = ()
    look: float | None = None
    error: str = ""

    @classmethod
    def of(cls, planned: Planned) -> Decision:
        """What was decided about a workload."""
        made, error = planned.plan, planned.error
        return cls(
            planned.gathered.workload,
            tuple(map(Said.of, made.verdicts)),
            made.actions,
            made.next_look,
            type(error).__name__ if error is not None else "",
        )


class Decided(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last plans, as they are carried out; `sized` is what `Memory.settled` was told."""

    sized: bool
    plans: tuple[Decision, ...]

    @classmethod
    def of(cls, plans: Iterable[Planned], *, sized: bool) -> Decided:
        """What was decided about several workloads."""
        return cls(sized, tuple(map(Decision.of, plans)))
