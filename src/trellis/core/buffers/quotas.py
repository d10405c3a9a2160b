"""How many chunks do the quotas of a namespace leave to each Buffer?

Pods that no quota would let in need no room. Buffers are served by age, the oldest first, each after what the ones
before it were given; nothing is ever written into a quota, so that no Buffer keeps a real pod out.

A Buffer on top of what runs has what quotas have left. In one that counts whether used or not, the pods that use the
quota may be the ones that fill the room, so that it may have as much as the quota allows in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from trellis.api.kube.policies import ResourceQuota
from trellis.base.errors import InvalidQuantity
from trellis.core.buffers.quota_usage import QuotaUsage
from trellis.core.fit.resources import nanos_of, readable_nanos

# What tells a Buffer from the others, as namespace and name do; of two that are equally old, the first by it is served.
Key: TypeAlias = tuple[str, ...]


class QuotaClaim(msgspec.Struct, frozen=True):
    """What one Buffer would use of quotas; `created` is seconds since the epoch, NaN if nobody knows."""

    key: Key
    created: float
    chunks: int
    usage: QuotaUsage
    on_top: bool = True

    @property
    def seniority(self) -> tuple[float, Key]:
        """Sorts the one first that is served first. One of unknown age comes last."""
        return math.inf if math.isnan(self.created) else self.created, self.key


class Allowance(msgspec.Struct, frozen=True):
    """How many chunks a Buffer may have, and the quotas that would not have more."""

    chunks: int
    by: tuple[str, ...] = ()


class _Left:
    """What is left of one quota, in nanos by name."""

    def __init__(self, quota: ResourceQuota) -> None:
        self.quota = quota
        # Admission goes by the status; one that was made just now has none yet.
        hard = quota.status.hard or quota.spec.hard
        self.hard = {name: nanos for name, text in hard.items() if (nanos := _hard(text)) is not None}
        self.used = {name: readable_nanos(text) for name, text in quota.status.used.items()}
        self.reserved: dict[str, int] = {}

    def fitting(self, claim: QuotaClaim) -> int:
        """How many chunks fit; all that are asked for if the quota does not count them."""
        fits = claim.chunks
        for name, each in self._counted(claim).items():
            left = self.hard[name] - self.reserved.get(name, 0)
            if claim.on_top:
                left -= self.used.get(name, 0)
            fits = min(fits, max(left, 0) // each)
        return fits

    def reserve(self, claim: QuotaClaim, chunks: int) -> None:
        """Takes what the chunks use."""
        for name, each in self._counted(claim).items():
            self.reserved[name] = self.reserved.get(name, 0) + chunks * each

    def _counted(self, claim: QuotaClaim) -> Mapping[str, int]:
        return {name: each for name, each in claim.usage.amounts.items() if name in self.hard}


def allot(claims: Iterable[QuotaClaim], quotas: Iterable[ResourceQuota]) -> dict[Key, Allowance]:
    """What each of the Buffers of one namespace may have."""
    all_left = sorted((_Left(quota) for quota in quotas), key=lambda left: left.quota.metadata.name)
    found: dict[Key, Allowance] = {}
    for claim in sorted(claims, key=lambda each: each.seniority):
        counting = [left for left in all_left if claim.usage.is_counted_by(left.quota)]
        fits = [left.fitting(claim) for left in counting]
        chunks = min(fits, default=claim.chunks)
        for left in counting:
            left.reserve(claim, chunks)
        by = [left.quota.metadata.name for left, each in zip(counting, fits, strict=True) if each == chunks]
        found[claim.key] = Allowance(chunks, tuple(by) if chunks < claim.chunks else ())
    return found


def _hard(text: str) -> int | None:
    """A bound; one that cannot be read binds nobody."""
    try:
        return nanos_of(text)
    except InvalidQuantity:
        return None
