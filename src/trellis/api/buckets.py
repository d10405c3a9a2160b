"""Resource bounds of each replica count of an Hvpa: its buckets divided linearly, in exact fractions.

A bucket over replicas a..b with lo..hi per replica gives the count a+i at most `lo + (i+1) * (hi-lo) / (b-a+1)` per
replica. Bounds are fractions (8/7 of a core), and rounding one would move a workload to another count, so nothing is
rounded here.
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
    least: Fraction
    most: Fraction

    @property
    def least_total(self) -> Fraction:
        """All replicas at the bucket's minimum."""
        return self.count * self.least

    @property
    def most_total(self) -> Fraction:
        """All replicas at this count's maximum."""
        return self.count * self.most


def replica_steps(bucket: Bucket, resource: str) -> tuple[ReplicaStep, ...]:
    """The steps of one bucket, one per replica count. The bucket must be valid in itself."""
    first, last = bucket.replicas.min or 1, bucket.replicas.max or 1
    low, high = amount_bounds(bucket.cpu if resource == "cpu" else bucket.memory)
    width = (high - low) / (last - first + 1)
    return tuple(
        ReplicaStep(count, least=low, most=low + (index + 1) * width)
        for index, count in enumerate(range(first, last + 1))
    )


def outer_steps(bucket: Bucket, resource: str) -> tuple[ReplicaStep, ReplicaStep]:
    """The first and the last step of a bucket, without the ones between them."""
    first, last = bucket.replicas.min or 1, bucket.replicas.max or 1
    low, high = amount_bounds(bucket.cpu if resource == "cpu" else bucket.memory)
    width = (high - low) / (last - first + 1)
    return ReplicaStep(first, low, low + width), ReplicaStep(last, low, high)


def amount_bounds(amounts: AmountRange) -> tuple[Fraction, Fraction]:
    """Minimum and maximum per replica, exact."""
    low, high = amounts.min, amounts.max
    return (
        Quantity.parse(low if low is not None else 0).exact(),
        Quantity.parse(high if high is not None else 0).exact(),
    )


def find_falling_totals(buckets: Iterable[Bucket], resource: str) -> list[tuple[int, str]]:
    """Where totals fall from one count to the next: the later bucket's index and which bound falls.

    Inside a bucket neither can fall, since count and bound both grow; so only the seams are looked at.
    """
    falls: list[tuple[int, str]] = []
    for index, (lower, upper) in enumerate(pairwise(buckets), start=1):
        end, start = outer_steps(lower, resource)[1], outer_steps(upper, resource)[0]
        if start.most_total < end.most_total:
            falls.append((index, "max"))
        if start.least_total < end.least_total:
            falls.append((index, "min"))
    return falls


def find_gaps(buckets: Iterable[Bucket], resource: str) -> list[tuple[int, Fraction, Fraction]]:
    """Totals between two buckets that neither describes; they belong to the later one."""
    return [
        (index, outer_steps(lower, resource)[1].most_total, outer_steps(upper, resource)[0].least_total)
        for index, (lower, upper) in enumerate(pairwise(buckets), start=1)
        if outer_steps(lower, resource)[1].most_total < outer_steps(upper, resource)[0].least_total
    ]
