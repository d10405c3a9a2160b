"""What is said about a Buffer, and why? One reason, and what it was in this case."""

from __future__ import annotations

import msgspec

from trellis.base.reason import Reason


class Said(msgspec.Struct, frozen=True):
    """A reason with its details; its text goes into messages of conditions, and so names nothing that often changes."""

    reason: Reason
    details: str = ""

    def __str__(self) -> str:
        return self.details or self.reason.meaning.removesuffix(".")
