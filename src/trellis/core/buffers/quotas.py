"""Limits the Buffers of a namespace to what its quotas leave them.

Pods that no quota would admit need no capacity. Buffers are served by age, the oldest first, each with the remainder of
those before it; quotas are never written, so that no Buffer keeps a real pod out.

A Buffer on top of what runs has what quotas have left. In one that counts whether used or not, the pods that use the
quota may be the ones that fill its chunks, so that it may have as much as the quota allows in all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from trellis.api.kube.policies import ResourceQuota
from trellis.base.errors import InvalidQuantity
from trellis.core.buffers.chunks import Translation
from trellis.core.buffers.quota_usage import QuotaUsage
from trellis.core.fit.resources import parse_nanos, parse_nanos_or_zero

# Identifies a Buffer, as namespace and name do; of two that are equally old, the first by key is served first.
ClaimKey: TypeAlias = tuple[str, ...]


class QuotaClaim(msgspec.Struct, frozen=True):
    """The chunks of one Buffer and their usage of quotas; `created` is in seconds since the epoch, NaN if unknown."""

    key: ClaimKey
    created: float
    chunks: int
    usage: QuotaUsage
    on_top: bool = True

    @property
    def seniority(self) -> tuple[float, ClaimKey]:
        """Sorts the Buffer first that is served first."""
        return buffer_seniority(self.created, self.key)


def buffer_seniority(created: float, key: ClaimKey) -> tuple[float, ClaimKey]:
    """The order in which Buffers share quotas: the oldest first, one of unknown age last."""
    return math.inf if math.isnan(created) else created, key


class QuotaAllowance(msgspec.Struct, frozen=True):
    """How many chunks a Buffer may have, and the quotas that do not allow more."""

    chunks: int
    by: tuple[str, ...] = ()


class _QuotaRemainder:
    """The remainder of one quota, in nanos by name."""

    def __init__(self, quota: ResourceQuota) -> None:
        self.quota = quota
        # Admission reads the status, which a new quota does not have yet.
        hard = quota.status.hard or quota.spec.hard
        self.hard = {name: nanos for name, text in hard.items() if (nanos := _parse_hard(text)) is not None}
        self.used = {name: parse_nanos_or_zero(text) for name, text in quota.status.used.items()}
        self.reserved: dict[str, int] = {}

    def count_fitting(self, claim: QuotaClaim) -> int:
        """How many chunks fit; all of them if the quota does not count them."""
        fitting = claim.chunks
        for name, amount in self._select_counted(claim).items():
            remaining = self.hard[name] - self.reserved.get(name, 0)
            if claim.on_top:
                remaining -= self.used.get(name, 0)
            fitting = min(fitting, max(remaining, 0) // amount)
        return fitting

    def reserve(self, claim: QuotaClaim, chunks: int) -> None:
        """Subtract the usage of chunks."""
        for name, amount in self._select_counted(claim).items():
            self.reserved[name] = self.reserved.get(name, 0) + chunks * amount

    def _select_counted(self, claim: QuotaClaim) -> Mapping[str, int]:
        return {name: amount for name, amount in claim.usage.amounts.items() if name in self.hard}


def divide_quotas(claims: Iterable[QuotaClaim], quotas: Iterable[ResourceQuota]) -> dict[ClaimKey, QuotaAllowance]:
    """Divide the quotas of one namespace among its Buffers."""
    remainders = sorted(
        (_QuotaRemainder(quota) for quota in quotas), key=lambda remainder: remainder.quota.metadata.name
    )
    allowances: dict[ClaimKey, QuotaAllowance] = {}
    for claim in sorted(claims, key=lambda claim: claim.seniority):
        counted_by = [remainder for remainder in remainders if claim.usage.is_counted_by(remainder.quota)]
        fitting = [remainder.count_fitting(claim) for remainder in counted_by]
        chunks = min(fitting, default=claim.chunks)
        for remainder in counted_by:
            remainder.reserve(claim, chunks)
        limited_by = [
            remainder.quota.metadata.name
            for remainder, count in zip(counted_by, fitting, strict=True)
            if count == chunks
        ]
        allowances[claim.key] = QuotaAllowance(chunks, tuple(limited_by) if chunks < claim.chunks else ())
    return allowances


def _parse_hard(text: str) -> int | None:
    """A hard limit; None if it cannot be read and so does not apply."""
    try:
        return parse_nanos(text)
    except InvalidQuantity:
        return None


def apply_allowance(translation: Translation, allowance: QuotaAllowance) -> Translation:
    """The translation within an allowance."""
    if allowance.chunks >= translation.chunks:
        return translation
    return msgspec.structs.replace(
        translation, chunks=allowance.chunks, limited_from=translation.chunks, limited_by=allowance.by
    )


def apply_quotas(
    translations: Mapping[ClaimKey, tuple[float, Translation]], quotas: Iterable[ResourceQuota]
) -> dict[ClaimKey, Translation]:
    """All translations of a namespace within its quotas; each comes with the time at which its Buffer was created."""
    claims = [
        QuotaClaim(key, created, translation.chunks, translation.usage, translation.on_top)
        for key, (created, translation) in translations.items()
        if translation.usage is not None
    ]
    allowed = divide_quotas(claims, quotas)
    return {
        key: apply_allowance(translation, allowed[key]) if key in allowed else translation
        for key, (_, translation) in translations.items()
    }
