"""Resource bounds of each replica count of an Hvpa: its buckets divided linearly, in exact fractions.

A bucket over replicas a..b with lo..hi per replica gives the count a+i at most `lo + (i+1) * (hi-lo) / (b-a+1)` per
replica. Bounds are fractions (8/7 of a core), and rounding could select another count, so they are not rounded here.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise

import msgspec

from trellis.api.kinds.hvpa import AmountRange, Bucket
from trellis.base.quantities import Quantity, QuantityFormat

RESOURCES = ("cpu", "memory")


def uses_binary_units(buckets: Iterable[Bucket]) -> bool:
    """Whether memory is written in Gi rather than in G."""
    return any(Quantity.parse(bucket.memory.max or 0).format is QuantityFormat.BINARY_SI for bucket in buckets)


class ReplicaStep(msgspec.Struct, frozen=True):
    """One replica count and one resource: the bounds per replica, and those of all replicas together."""

    count: int
    minimum: Fraction
    maximum: Fraction

    @property
    def minimum_total(self) -> Fraction:
        """All replicas at the bucket's minimum."""
        return self.count * self.minimum

    @property
    def maximum_total(self) -> Fraction:
        """All replicas at this count's maximum."""
        return self.count * self.maximum


def list_replica_steps(bucket: Bucket, resource: str) -> tuple[ReplicaStep, ...]:
    """The steps of one bucket, one per replica count. The bucket must be valid in itself."""
    first, last = bucket.replicas.min or 1, bucket.replicas.max or 1
    low, high = get_amount_bounds(bucket.cpu if resource == "cpu" else bucket.memory)
    width = (high - low) / (last - first + 1)
    return tuple(
        ReplicaStep(count, minimum=low, maximum=low + (index + 1) * width)
        for index, count in enumerate(range(first, last + 1))
    )


def get_outer_steps(bucket: Bucket, resource: str) -> tuple[ReplicaStep, ReplicaStep]:
    """The first and the last step of a bucket, without the ones between them."""
    first, last = bucket.replicas.min or 1, bucket.replicas.max or 1
    low, high = get_amount_bounds(bucket.cpu if resource == "cpu" else bucket.memory)
    width = (high - low) / (last - first + 1)
    return ReplicaStep(first, low, low + width), ReplicaStep(last, low, high)


def get_amount_bounds(amounts: AmountRange) -> tuple[Fraction, Fraction]:
    """Minimum and maximum per replica, exact."""
    low, high = amounts.min, amounts.max
    return (
        Quantity.parse(low if low is not None else 0).exact(),
        Quantity.parse(high if high is not None else 0).exact(),
    )


def find_falling_totals(buckets: Iterable[Bucket], resource: str) -> list[tuple[int, str]]:
    """Where totals fall from one count to the next: the later bucket's index and which bound falls.

    Inside a bucket neither can fall, since count and bound both grow; so only adjacent buckets are compared.
    """
    falls: list[tuple[int, str]] = []
    for index, (lower, upper) in enumerate(pairwise(buckets), start=1):
        end, start = get_outer_steps(lower, resource)[1], get_outer_steps(upper, resource)[0]
        if start.maximum_total < end.maximum_total:
            falls.append((index, "max"))
        if start.minimum_total < end.minimum_total:
            falls.append((index, "min"))
    return falls


def find_gaps(buckets: Iterable[Bucket], resource: str) -> list[tuple[int, Fraction, Fraction]]:
    """Gaps between the totals of adjacent buckets; totals in a gap belong to the later bucket."""
    return [
        (index, get_outer_steps(lower, resource)[1].maximum_total, get_outer_steps(upper, resource)[0].minimum_total)
        for index, (lower, upper) in enumerate(pairwise(buckets), start=1)
        if get_outer_steps(lower, resource)[1].maximum_total < get_outer_steps(upper, resource)[0].minimum_total
    ]
