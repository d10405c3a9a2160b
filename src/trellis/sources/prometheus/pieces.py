"""In which pieces is history asked for? A piece is some steps of time, for a group of namespaces.

If a piece is too much, half of it is next: half the time, and when only one step is left half the namespaces. Each
group begins anew with the full length, since one large namespace says nothing of the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec


class Piece(msgspec.Struct, frozen=True):
    """The steps `first` to `first + steps - 1` for these namespaces, for all if None."""

    namespaces: tuple[str, ...] | None
    first: int
    steps: int

    @property
    def size(self) -> int:
        """Steps times namespaces; all namespaces count as one."""
        return self.steps * (len(self.namespaces) if self.namespaces is not None else 1)


class Pieces:
    """What is left to ask for. For each namespace it comes in the order of time, and once."""

    def __init__(self, groups: Iterable[tuple[str, ...] | None], steps: int, longest: int) -> None:
        self._last = steps
        self._longest = longest
        self._waiting = deque(Piece(group, 0, steps) for group in groups)
        self._steps = longest

    @property
    def size(self) -> int:
        """How much is left."""
        return sum(each.size for each in self._waiting)

    def next(self) -> Piece | None:
        """The piece to ask for now; None if all is done."""
        if not self._waiting:
            return None
        rest = self._waiting[0]
        return Piece(rest.namespaces, rest.first, min(self._steps, rest.steps))

    def done(self) -> None:
        """There is an answer for the piece."""
        rest = self._waiting.popleft()
        read = min(self._steps, rest.steps)
        if read < rest.steps:
            self._waiting.appendleft(Piece(rest.namespaces, rest.first + read, rest.steps - read))
        else:
            self._steps = self._longest

    def too_much(self) -> bool:
        """The piece has to be smaller. Whether it can be."""
        rest = self._waiting[0]
        asked = min(self._steps, rest.steps)
        if asked > 1:
            self._steps = asked // 2
            return True
        if rest.namespaces is None or len(rest.namespaces) < 2:
            return False
        middle = len(rest.namespaces) // 2
        self._waiting.popleft()
        for part in (rest.namespaces[middle:], rest.namespaces[:middle]):
            self._waiting.appendleft(Piece(part, rest.first, rest.steps))
        self._steps = self._longest
        return True
