"""A replayed decision beside the recorded one, and the replay of components whose decisions are independent.

Where the whole input of a decision is in one line, a decision that differs makes no other differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import HEADER, decode_payload, encode_payload
from trellis.core.cluster.store import ObjectKey
from trellis.core.recording.format import DECISION_LINE, INPUT_LINE, START_LINE


class ReplayedDecision(msgspec.Struct, frozen=True):
    """A decision as it was recorded and as it is made now, both as JSON; `about` is its object, if it has one."""

    recorded: bytes
    decided: bytes
    about: str = ""

    @property
    def is_same(self) -> bool:
        """Whether they are the same, byte for byte."""
        return self.recorded == self.decided


B = TypeVar("B", bound=msgspec.Struct)
L = TypeVar("L", bound=msgspec.Struct)


class IndependentReplay(msgspec.Struct, Generic[B, L], frozen=True):
    """A component by the types of its lines and its decision: by the settings of `start_type`, from the recorded input.

    `about` is the object of a decision.
    """

    component: str
    start_type: type[B]
    input_type: type[L]
    about: Callable[[L], ObjectKey]
    decide: Callable[[L, B], msgspec.Struct]

    def __call__(self, recording: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[ReplayedDecision]:
        """Every recorded decision beside the one that is made now; raises `InvalidRecording`."""
        began: B | None = None
        view: L | None = None
        for kind, data in recording:
            if kind == HEADER:
                continue
            if kind == START_LINE:
                began = decode_payload(data, self.start_type)
            elif began is None:
                raise InvalidRecording(kind, f"comes before a line of kind {START_LINE}")
            elif kind == INPUT_LINE:
                view = decode_payload(data, self.input_type)
            elif kind != DECISION_LINE:
                raise InvalidRecording(kind, f"is not valid in a recording of the {self.component} controller")
            elif view is None:
                raise InvalidRecording(kind, f"comes before a line of kind {INPUT_LINE}")
            else:
                yield ReplayedDecision(
                    bytes(data), encode_payload(self.decide(view, began)), "/".join(self.about(view))
                )
                view = None
