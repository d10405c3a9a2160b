"""What came of replaying one decision?"""

from __future__ import annotations

import msgspec


class Replayed(msgspec.Struct, frozen=True):
    """A decision as it was recorded and as it is made now, both as JSON; `about` is what it is about, if one object."""

    recorded: bytes
    decided: bytes
    about: str = ""

    @property
    def is_same(self) -> bool:
        """Whether they are the same, byte for byte."""
        return self.recorded == self.decided
