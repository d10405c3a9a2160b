"""Reasons why the target of an autoscaler cannot be used.

Each problem is one a person can act on; the messages begin as upstream's, because people search for those.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.base.errors import Forbidden, InvalidSelector, NotFound, TrellisError, Unauthorized
from trellis.base.reasons import Reason, Severity

NO_TARGET_REF: Final = Reason("NoTargetRef", "The object has no targetRef.", Severity.ERROR)
TARGET_NOT_FOUND: Final = Reason("TargetNotFound", "The target does not exist.", Severity.ERROR)
TARGET_KIND_NOT_SERVED: Final = Reason(
    "TargetKindNotServed",
    "The cluster does not serve the target's kind, or serves it in several API groups.",
    Severity.ERROR,
)
TARGET_NOT_SCALABLE: Final = Reason(
    "TargetNotScalable", "The target's kind is neither well known nor has a scale subresource.", Severity.ERROR
)
TARGET_SELECTS_NOTHING: Final = Reason("TargetSelectsNothing", "The target has no pod selector.", Severity.ERROR)
TARGET_SELECTOR_UNREADABLE: Final = Reason(
    "TargetSelectorUnreadable", "The target's pod selector is invalid.", Severity.ERROR
)
TARGET_NOT_TOPMOST: Final = Reason(
    "TargetNotTopmost", "The target has a parent controller, which should be the target instead.", Severity.ERROR
)
TARGET_OWNERS_UNKNOWN: Final = Reason(
    "TargetOwnersUnknown", "The parent controller of the target could not be looked up.", Severity.ERROR
)
TARGET_FORBIDDEN: Final = Reason("TargetForbidden", "RBAC does not allow to read the target.", Severity.ERROR)
TARGET_UNREACHABLE: Final = Reason("TargetUnreachable", "Reading the target failed; it is retried.", Severity.WARNING)


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
