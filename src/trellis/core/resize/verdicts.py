"""What is said about one pod: what becomes of it in this pass, why, and when to look at it again."""

from __future__ import annotations

import msgspec

from trellis.base.reason import Reason
from trellis.core.resize.actions import Action, PodRef
from trellis.core.resize.budget import GroupFigures
from trellis.core.resize.eligibility import Need
from trellis.core.resize.inplace import Way


class Verdict(msgspec.Struct, frozen=True):
    """One per pod and plan. `need` says what the pod lacks, if anything; `warnings` hold whatever is done.

    `look` is when the verdict may be another without anything happening before. `apart` is how far requests are off
    where that is no need, and `budget` what refused the pod its turn, for whoever asks what would have to change.
    """

    pod: PodRef
    way: Way
    reason: Reason
    need: Need | None = None
    details: str = ""
    warnings: tuple[Reason, ...] = ()
    look: float | None = None
    apart: float = 0.0
    budget: GroupFigures | None = None


class Step(msgspec.Struct, frozen=True):
    """A verdict and what is done about it."""

    verdict: Verdict
    actions: tuple[Action, ...] = ()
