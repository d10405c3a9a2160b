"""What does one container's boost come to, and how does its limit follow?

`Factor` multiplies request and limit, `Quantity` adds the same to both. Whatever cuts a boost cuts the request, and the
limit is found anew by the same rule. So a limit that equals its request still does, one above it stays above, and the
QoS class of the pod is what it would be without the boost.
"""

from __future__ import annotations

import msgspec

from trellis.api.resolve import Boost, BoostKind, ContainerMeaning
from trellis.base.quantity_text import LARGEST_COUNT
from trellis.base.reason import Reason
from trellis.core.boost.notes import BoostNote
from trellis.core.sizing.shapes import ContainerShape


class Wish(msgspec.Struct):
    """A boost that is being worked out: `base` and `limit` are what the container gets otherwise, in millicores."""

    container: ContainerShape
    base: int
    limit: int | None
    multiplies: bool
    limit_follows: bool
    request: int
    notes: list[BoostNote] = []

    @classmethod
    def of(cls, container: ContainerShape, boost: Boost, meaning: ContainerMeaning, plain: tuple[int, int]) -> Wish:
        """What the policy says, before anything cuts it."""
        base, limit = plain
        multiplies = boost.kind is BoostKind.FACTOR
        wanted = base * boost.factor if multiplies else base + boost.quantity.milli
        wish = cls(container, base, limit or None, multiplies, meaning.limits_follow and limit > 0, wanted)
        wish.request = min(wanted, wish.request_at(LARGEST_COUNT))
        return wish

    @property
    def is_above(self) -> bool:
        """Whether anything is left of the boost."""
        return self.request > self.base

    @property
    def boosted_limit(self) -> int | None:
        """The limit beside the request as it is now."""
        if self.limit is None or not self.limit_follows:
            return self.limit
        return self.limit * self.request // self.base if self.multiplies else self.limit + self.request - self.base

    def request_at(self, limit: int) -> int:
        """The highest request which itself, and whose limit, is within a bound."""
        if self.limit is None or not self.limit_follows:
            return limit
        return min(limit, self.base * limit // self.limit if self.multiplies else self.base + limit - self.limit)

    def rise(self, *, of_limit: bool = False) -> int:
        """By how much the request, or the limit, is raised; rounded up, so that a sum of them is never too low."""
        raised = max(self.request - self.base, 0)
        if not of_limit:
            return raised
        if self.limit is None or not self.limit_follows:
            return 0
        return -(-self.limit * raised // self.base) if self.multiplies else raised

    def cut(self, request: int, reason: Reason) -> None:
        """Lower the request if it is above what is allowed, and say why."""
        if self.request > request:
            self.request = request
            self.notes.append(BoostNote(reason))
