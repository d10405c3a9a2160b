"""Reasons why the target of an autoscaler cannot be used.

Each problem is one a person can act on; the messages begin as upstream's, because people search for those.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.base.errors import Forbidden, InvalidSelector, NotFound, TrellisError, Unauthorized
from trellis.base.reasons import Reason, Severity

NO_TARGET_REF: Final = Reason("NoTargetRef", "The object does not say what it is about.", Severity.ERROR)
TARGET_NOT_FOUND: Final = Reason("TargetNotFound", "The target does not exist.", Severity.ERROR)
TARGET_KIND_NOT_SERVED: Final = Reason(
    "TargetKindNotServed", "The cluster has no such kind as the target's, or several.", Severity.ERROR
)
TARGET_NOT_SCALABLE: Final = Reason(
    "TargetNotScalable", "The target's kind is neither well known nor has a scale subresource.", Severity.ERROR
)
TARGET_SELECTS_NOTHING: Final = Reason(
    "TargetSelectsNothing", "The target does not say which pods are its own.", Severity.ERROR
)
TARGET_SELECTOR_UNREADABLE: Final = Reason(
    "TargetSelectorUnreadable", "The target's selector breaks the rules of selectors.", Severity.ERROR
)
TARGET_NOT_TOPMOST: Final = Reason(
    "TargetNotTopmost", "The target is itself controlled by something that should be the target.", Severity.ERROR
)
TARGET_OWNERS_UNKNOWN: Final = Reason(
    "TargetOwnersUnknown", "Who controls the target could not be found out.", Severity.ERROR
)
TARGET_FORBIDDEN: Final = Reason("TargetForbidden", "The target may not be read.", Severity.ERROR)
TARGET_UNREACHABLE: Final = Reason(
    "TargetUnreachable", "The target could not be read; it is tried again.", Severity.WARNING
)


class TargetProblem(msgspec.Struct, frozen=True):
    """What is wrong with a target, in one word and in a sentence."""

    reason: Reason
    message: str


def classify_error(error: TrellisError) -> Reason:
    """What an error on the way to a target says about it, in one word."""
    match error:
        case NotFound():
            return TARGET_NOT_FOUND
        case Forbidden() | Unauthorized():
            return TARGET_FORBIDDEN
        case InvalidSelector():
            return TARGET_SELECTOR_UNREADABLE
        case _:
            return TARGET_UNREACHABLE


def build_target_problem(reason: Reason, cause: str) -> TargetProblem:
    """A target that could not be read."""
    return TargetProblem(reason, f"Cannot read targetRef. Reason: {cause}")
