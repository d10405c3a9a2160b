"""A reason with the details of one case, for conditions and Events."""

from __future__ import annotations

import msgspec

from trellis.base.reasons import Reason


class DetailedReason(msgspec.Struct, frozen=True):
    """A reason with its details; its text goes into messages of conditions, and so names nothing that often changes."""

    reason: Reason
    details: str = ""

    def __str__(self) -> str:
        return self.details or self.reason.meaning.removesuffix(".")
