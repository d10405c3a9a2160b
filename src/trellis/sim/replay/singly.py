"""Is the same decided again, where each decision stands by itself? All that one was made from is in one line.

So one that differs makes no other differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from trellis.base.errors import InvalidRecording
from trellis.core.model.keys import Key
from trellis.core.model.recording import BEGAN, DECIDED, HEADER, LOOKED, decode, encode
from trellis.sim.replay.replayed import Replayed

B = TypeVar("B", bound=msgspec.Struct)
L = TypeVar("L", bound=msgspec.Struct)


class Singly(msgspec.Struct, Generic[B, L], frozen=True):
    """A component by what its lines say and how it decides: by the figures of `began`, from what it `looked` at.

    `about` is the object of a decision.
    """

    whose: str
    began: type[B]
    looked: type[L]
    about: Callable[[L], Key]
    decide: Callable[[L, B], msgspec.Struct]

    def __call__(self, recording: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[Replayed]:
        """Every decision of a recording beside the one that is made now; raises `InvalidRecording`."""
        began: B | None = None
        looked: L | None = None
        for kind, data in recording:
            if kind == HEADER:
                continue
            if kind == BEGAN:
                began = decode(data, self.began)
            elif began is None:
                raise InvalidRecording(kind, f"comes before a line of kind {BEGAN}")
            elif kind == LOOKED:
                looked = decode(data, self.looked)
            elif kind != DECIDED:
                raise InvalidRecording(kind, f"is no line of a recording of the {self.whose} controller")
            elif looked is None:
                raise InvalidRecording(kind, f"comes before a line of kind {LOOKED}")
            else:
                yield Replayed(bytes(data), encode(self.decide(looked, began)), "/".join(self.about(looked)))
                looked = None
