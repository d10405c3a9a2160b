"""Changes whose result the server does not show yet: orders, and deletions of instances.

The protocol has no name for a request, so nothing tells a request that is late from one that is lost. After an order
without an answer the group is therefore left alone for a while, until the target size has changed or the request must
have ended. A change that was confirmed counts although the target size before it is still read.

This is memory of one process, and only makes it more careful: without it, what the server says counts at once.
"""

from __future__ import annotations

from typing import Final

import msgspec

# How long a change may take to show. A server that carries a request out later than this orders twice.
HOLD_SECONDS: Final = 120.0


class UnsettledSize(msgspec.Struct, frozen=True):
    """A change of a size from `base` to `expected`; `is_confirmed` if the server has answered that it is done."""

    base: int
    expected: int
    sent_at: float
    is_confirmed: bool = False


class UnsettledChanges:
    """The orders of groups and the deletions of instances that do not show yet."""

    def __init__(self) -> None:
        self._sizes: dict[str, UnsettledSize] = {}
        self._released: dict[tuple[str, str], float] = {}

    def begin_order(self, group: str, base: int, expected: int, now: float) -> None:
        """An increase is about to be sent."""
        self._sizes[group] = UnsettledSize(base, expected, now)

    def confirm_order(self, group: str) -> None:
        """The server has answered that the increase is done."""
        change = self._sizes.get(group)
        if change is not None:
            self._sizes[group] = msgspec.structs.replace(change, is_confirmed=True)

    def end_order(self, group: str) -> None:
        """It is known what came of the increase."""
        self._sizes.pop(group, None)

    def record_decrease(self, group: str, size: int, count: int, now: float) -> None:
        """The server has answered that a size is lower by `count`; `size` is what it was."""
        earlier = self._sizes.get(group)
        if earlier is not None:
            size = earlier.base
            count += earlier.base - earlier.expected
        self._sizes[group] = UnsettledSize(size, size - count, now, is_confirmed=True)

    def find_size(self, group: str, target: int, now: float) -> UnsettledSize | None:
        """The change of a group that this target size does not show; None if there is none."""
        change = self._sizes.get(group)
        if change is None:
            return None
        if target != change.base or now - change.sent_at >= HOLD_SECONDS:
            del self._sizes[group]
            return None
        return change

    def release(self, group: str, instance: str, now: float) -> None:
        """A deletion was sent."""
        self._released[group, instance] = now

    def is_released(self, group: str, instance: str, now: float) -> bool:
        """Whether an instance was deleted a moment ago, so that it is leaving even if the server does not say so."""
        released_at = self._released.get((group, instance))
        return released_at is not None and now - released_at < HOLD_SECONDS

    def forget_old(self, now: float) -> None:
        """Forget deletions that count no longer."""
        self._released = {key: at for key, at in self._released.items() if now - at < HOLD_SECONDS}
