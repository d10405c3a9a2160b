"""Findings of a check: a problem with its reason and its place in a file."""

from __future__ import annotations

import msgspec

from trellis.base.reasons import Reason, Severity

UNREADABLE = Reason("Unreadable", "The text is not YAML or JSON as kubectl reads it.", Severity.ERROR)
NOT_AN_OBJECT = Reason(
    "NotAnObject", "A document without apiVersion and kind is not a Kubernetes object.", Severity.ERROR
)
UNKNOWN_KIND = Reason(
    "UnknownKind", "The kind or version does not exist, but is similar to one of Trellis.", Severity.ERROR
)
DUPLICATE_OBJECT = Reason(
    "DuplicateObject", "Two documents define the same object; the later one would take effect.", Severity.ERROR
)
TWO_AUTOSCALERS = Reason("TwoAutoscalers", "Two autoscalers control the same resource of one target.", Severity.WARNING)
NO_PROBE = Reason(
    "NoProbe",
    "A boosted container without a readiness or startup probe is Ready as soon as it runs, which ends its boost.",
    Severity.WARNING,
)
TOTALS_NEEDED = Reason(
    "TotalsNeeded",
    "The Hvpa uses a recommender that is not part of Trellis, and so needs totals from the Trellis recommender.",
    Severity.WARNING,
)
NO_SUCH_CONTAINER = Reason(
    "NoSuchContainer", "A policy names a container that its workload does not have.", Severity.WARNING
)
NO_SUCH_TARGET = Reason(
    "NoSuchTarget",
    "The target is not among the checked objects, but one with a similar name is.",
    Severity.WARNING,
)


class Finding(msgspec.Struct, frozen=True):
    """One problem at one place. `path` is empty if the finding is about a whole document.

    `source_line` is the text of its line, for people; empty where there is none.
    """

    file: str
    document: int
    line: int
    column: int
    reason: Reason
    message: str
    object: str = ""
    path: str = ""
    source_line: str = ""

    @property
    def is_error(self) -> bool:
        """Whether the check fails because of it."""
        return self.reason.severity is Severity.ERROR
