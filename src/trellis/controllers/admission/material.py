"""What is needed to show a certificate, and where could it come from?"""

from __future__ import annotations

from typing import Protocol

import msgspec

from trellis.controllers.admission.pairs import Pair


class Material(msgspec.Struct, frozen=True):
    """What is shown, and as PEM who vouches for it; the latter is empty if that is not known."""

    pair: Pair
    bundle: bytes


class MaterialSource(Protocol):
    """Files, or a Secret. Asked again and again, `interval` seconds apart; `trouble` is what is wrong with it now."""

    trouble: str

    @property
    def interval(self) -> float:
        """Seconds from one look to the next."""

    async def look(self, *, shown: bool) -> Material | None:
        """What there is, if it is new. Never raises for what others have done wrong."""
