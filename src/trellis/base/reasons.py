"""Reasons: the codes behind decisions, events, metric labels, conditions, explanations and pages.

A package declares its reasons as module constants beside the decision that gives them. The reference page of reasons
is generated from those constants, and a test proves every code unique and documented.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from trellis.base.errors import InternalError

_CODE = re.compile(r"[A-Z][A-Za-z0-9]{2,62}")


class Severity(StrEnum):
    """The severity of a reason for its reader."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Reason(msgspec.Struct, frozen=True):
    """One reason: `code` is what machines compare, `meaning` is the sentence people read."""

    code: str
    meaning: str
    severity: Severity = Severity.INFO

    def __post_init__(self) -> None:
        # The pattern that conditions[].reason and Event.reason share, less the rarely seen punctuation.
        if not _CODE.fullmatch(self.code):
            raise InternalError(f"reason code {self.code!r} is not CamelCase")
        if not self.meaning.endswith("."):
            raise InternalError(f"the meaning of reason {self.code} is not a sentence")

    def __str__(self) -> str:
        return self.code


class DetailedReason(msgspec.Struct, frozen=True):
    """A reason with its details; its text is part of condition messages, so it contains nothing that changes often."""

    reason: Reason
    details: str = ""

    def __str__(self) -> str:
        return self.details or self.reason.meaning.removesuffix(".")
