"""The ladder of an Hvpa: how much each replica count of its buckets holds, and the count for a total.

Amounts are whole millicores and bytes. Edges are exact fractions of them, and nothing is rounded before it is compared:
a total is whole, so that it is at most an edge exactly if it is at most the whole part of it.

The count is the lowest that holds the total of every resource; a small fall does not lower it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

import msgspec

from trellis.api.buckets import RESOURCES, get_outer_steps
from trellis.api.kinds.hvpa import Bucket
from trellis.base.wording import AMOUNTS_PER_UNIT
from trellis.core.recommend.amounts import ResourceAmounts


class BucketSpan(msgspec.Struct, frozen=True, gc=False):
    """One bucket and one resource. The minimum of a replica is `minimum / denominator`.

    Its maximum at the first count is `(minimum + rise) / denominator`, and `rise / denominator` more at each further.
    """

    first: int
    last: int
    minimum: int
    rise: int
    denominator: int

    @classmethod
    def from_bucket(cls, bucket: Bucket, resource: str) -> BucketSpan:
        """The bucket in whole numbers."""
        start, end = get_outer_steps(bucket, resource)
        unit = AMOUNTS_PER_UNIT[resource]
        least, rise = start.minimum * unit, (start.maximum - start.minimum) * unit
        over = math.lcm(least.denominator, rise.denominator)
        return cls(start.count, end.count, int(least * over), int(rise * over), over)

    def maximum_at(self, count: int) -> int:
        """The maximum of a replica at this count, times `denominator`."""
        return self.minimum + (count - self.first + 1) * self.rise


class Ladder(msgspec.Struct, frozen=True):
    """The buckets for one resource, ascending."""

    spans: tuple[BucketSpan, ...]

    def find_count(self, total: int) -> int:
        """The smallest configured count that can hold the total, else the highest."""
        for span in self.spans:
            if total <= self._capacity(span, span.last):
                return span.first + bisect_left(_BucketCapacities(span), total)
        return self.spans[-1].last

    def capacity_at(self, count: int) -> int:
        """The largest whole total that this configured count can hold."""
        return self._capacity(self._find_span(count), count)

    def exact_capacity_at(self, count: int) -> Fraction:
        """The largest total of this configured count, exact."""
        span = self._find_span(count)
        return Fraction(count * span.maximum_at(count), span.denominator)

    def minimum_at(self, count: int) -> int:
        """The least a replica may have, in whole units."""
        span = self._find_span(count)
        return -(-span.minimum // span.denominator)

    def maximum_at(self, count: int) -> int:
        """The most a replica may have at this count, in whole units."""
        span = self._find_span(count)
        return -(-span.maximum_at(count) // span.denominator)

    def maximum_in_bucket(self, count: int) -> int:
        """The most a replica may have in the bucket of this count, in whole units."""
        span = self._find_span(count)
        return -(-span.maximum_at(span.last) // span.denominator)

    def _find_span(self, count: int) -> BucketSpan:
        return next(span for span in self.spans if span.first <= count <= span.last)

    @staticmethod
    def _capacity(span: BucketSpan, count: int) -> int:
        return count * span.maximum_at(count) // span.denominator


class Ladders(msgspec.Struct, frozen=True):
    """The buckets of an Hvpa. There is at least one, and their totals do not fall: others are refused."""

    by_resource: dict[str, Ladder]
    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def from_buckets(cls, buckets: Sequence[Bucket]) -> Ladders:
        """Read the buckets."""
        ladders = {
            resource: Ladder(tuple(BucketSpan.from_bucket(bucket, resource) for bucket in buckets))
            for resource in RESOURCES
        }
        return cls(ladders, tuple((span.first, span.last) for span in ladders["cpu"].spans))

    def is_configured(self, count: int) -> bool:
        """Whether a bucket has this count."""
        return any(first <= count <= last for first, last in self.ranges)

    def find_lower_count(self, count: int) -> int | None:
        """The next lower configured count; None if there is none."""
        lower = [min(last, count - 1) for first, last in self.ranges if first < count]
        return max(lower, default=None)

    @property
    def highest_count(self) -> int:
        """The last count of the last bucket."""
        return self.ranges[-1][1]


class _BucketCapacities(Sequence[int]):
    """The capacities of a bucket's counts, computed on access: a bucket may have any number of them."""

    def __init__(self, span: BucketSpan) -> None:
        self._span = span

    def __len__(self) -> int:
        return self._span.last - self._span.first + 1

    def __getitem__(self, at: int) -> int:  # type: ignore[override] # no slices are taken
        count = self._span.first + at
        return count * self._span.maximum_at(count) // self._span.denominator


def find_desired_count(ladders: Ladders, totals: ResourceAmounts) -> int:
    """The highest of the counts that each total needs."""
    return max(ladders.by_resource[resource].find_count(total) for resource, total in totals.items())


def find_next_count(ladders: Ladders, totals: ResourceAmounts, current: int, overlap_percent: int) -> int:
    """The count to have after this one.

    The present count is kept while any total is above so much of its lower edge, which is what the next lower count
    can hold. A count in no bucket has no lower edge, and is always left.
    """
    desired = find_desired_count(ladders, totals)
    if desired >= current:
        return desired
    edges = find_lower_edges(ladders, current, overlap_percent)
    stays = any(total > edges[resource] for resource, total in totals.items() if resource in edges)
    return current if stays else desired


def find_lower_edges(ladders: Ladders, count: int, overlap_percent: int) -> dict[str, Fraction]:
    """The totals down to which a count is kept; none of a count that is in no bucket, or that is the lowest."""
    below = ladders.find_lower_count(count)
    if below is None or not ladders.is_configured(count):
        return {}
    return {
        resource: (100 - overlap_percent) * ladder.exact_capacity_at(below) / 100
        for resource, ladder in ladders.by_resource.items()
    }


def list_limited_resources(ladders: Ladders, totals: ResourceAmounts) -> tuple[str, ...]:
    """The resources of which more is needed than the last bucket has."""
    highest = ladders.highest_count
    return tuple(name for name, total in totals.items() if total > ladders.by_resource[name].capacity_at(highest))
