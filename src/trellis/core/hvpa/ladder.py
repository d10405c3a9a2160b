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
    """One bucket and one resource: each replica may have from `least / over` to `most / over`.

    The maximum of its first count is `(least + rise) / over`, and each further replica allows `rise / over` more.
    """

    first: int
    last: int
    least: int
    rise: int
    over: int

    @classmethod
    def of(cls, bucket: Bucket, resource: str) -> BucketSpan:
        """The bucket in whole numbers."""
        start, end = get_outer_steps(bucket, resource)
        unit = AMOUNTS_PER_UNIT[resource]
        least, rise = start.minimum * unit, (start.maximum - start.minimum) * unit
        over = math.lcm(least.denominator, rise.denominator)
        return cls(start.count, end.count, int(least * over), int(rise * over), over)

    def most(self, count: int) -> int:
        """The maximum of a replica at this count, times `over`."""
        return self.least + (count - self.first + 1) * self.rise


class Ladder(msgspec.Struct, frozen=True):
    """The buckets for one resource, ascending."""

    spans: tuple[BucketSpan, ...]

    def count_for(self, total: int) -> int:
        """The smallest configured count that can hold the total, else the highest."""
        for span in self.spans:
            if total <= self._capacity(span, span.last):
                return span.first + bisect_left(_BucketCapacities(span), total)
        return self.spans[-1].last

    def holds(self, count: int) -> int:
        """The largest whole total that this configured count can hold."""
        return self._capacity(self._span(count), count)

    def edge(self, count: int) -> Fraction:
        """The largest total of this configured count, exact."""
        span = self._span(count)
        return Fraction(count * span.most(count), span.over)

    def least(self, count: int) -> int:
        """The least a replica may have, in whole units."""
        span = self._span(count)
        return -(-span.least // span.over)

    def most_of_count(self, count: int) -> int:
        """The most a replica may have at this count, in whole units."""
        span = self._span(count)
        return -(-span.most(count) // span.over)

    def most_of_bucket(self, count: int) -> int:
        """The most a replica may have in the bucket of this count, in whole units."""
        span = self._span(count)
        return -(-span.most(span.last) // span.over)

    def _span(self, count: int) -> BucketSpan:
        return next(span for span in self.spans if span.first <= count <= span.last)

    @staticmethod
    def _capacity(span: BucketSpan, count: int) -> int:
        return count * span.most(count) // span.over


class Ladders(msgspec.Struct, frozen=True):
    """The buckets of an Hvpa. There is at least one, and their totals do not fall: others are refused."""

    by_resource: dict[str, Ladder]
    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, buckets: Sequence[Bucket]) -> Ladders:
        """Read the buckets."""
        ladders = {
            resource: Ladder(tuple(BucketSpan.of(bucket, resource) for bucket in buckets)) for resource in RESOURCES
        }
        return cls(ladders, tuple((span.first, span.last) for span in ladders["cpu"].spans))

    def configured(self, count: int) -> bool:
        """Whether a bucket has this count."""
        return any(first <= count <= last for first, last in self.ranges)

    def below(self, count: int) -> int | None:
        """The next lower configured count; None if there is none."""
        lower = [min(last, count - 1) for first, last in self.ranges if first < count]
        return max(lower, default=None)

    @property
    def highest(self) -> int:
        """The last count of the last bucket."""
        return self.ranges[-1][1]


class _BucketCapacities(Sequence[int]):
    """What the counts of a bucket hold, worked out only where it is looked at: a bucket may have any number of them."""

    def __init__(self, span: BucketSpan) -> None:
        self._span = span

    def __len__(self) -> int:
        return self._span.last - self._span.first + 1

    def __getitem__(self, at: int) -> int:  # type: ignore[override] # no slices are taken
        count = self._span.first + at
        return count * self._span.most(count) // self._span.over


def desired_count(ladders: Ladders, totals: ResourceAmounts) -> int:
    """The count that the totals ask for alone; the resource that asks for more wins."""
    return max(ladders.by_resource[resource].count_for(total) for resource, total in totals.items())


def next_count(ladders: Ladders, totals: ResourceAmounts, current: int, overlap_percent: int) -> int:
    """The count to have after this one.

    The present count is kept while any total is above so much of its lower edge, which is what the next lower count
    can hold. A count in no bucket has no lower edge, and is always left.
    """
    desired = desired_count(ladders, totals)
    if desired >= current:
        return desired
    edges = lower_edges(ladders, current, overlap_percent)
    is_kept = any(total > edges[resource] for resource, total in totals.items() if resource in edges)
    return current if is_kept else desired


def lower_edges(ladders: Ladders, count: int, overlap_percent: int) -> dict[str, Fraction]:
    """The totals down to which a count is kept; none of a count that is in no bucket, or that is the lowest."""
    below = ladders.below(count)
    if below is None or not ladders.configured(count):
        return {}
    return {
        resource: (100 - overlap_percent) * ladder.edge(below) / 100 for resource, ladder in ladders.by_resource.items()
    }


def limited_resources(ladders: Ladders, totals: ResourceAmounts) -> tuple[str, ...]:
    """The resources of which more is needed than the last bucket has."""
    highest = ladders.highest
    return tuple(name for name, total in totals.items() if total > ladders.by_resource[name].holds(highest))
