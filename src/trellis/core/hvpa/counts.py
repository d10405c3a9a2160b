"""How many replicas? As few as can hold the total of every resource, and not fewer for a fall that is small."""

from __future__ import annotations

from trellis.core.hvpa.ladders import Ladders
from trellis.core.recommend.capping.limit_ranges import Counts


def count_for(ladders: Ladders, totals: Counts) -> int:
    """The count that the totals ask for alone; the resource that asks for more wins."""
    return max(ladders.by_resource[resource].count_for(total) for resource, total in totals.items())


def count_from(ladders: Ladders, totals: Counts, current: int, overlap_percent: int) -> int:
    """The count to have after this one.

    The present count is kept while any total is above so much of its lower edge, which is what the next lower count
    can hold. A count in no bucket has no lower edge, and is always left.
    """
    wanted = count_for(ladders, totals)
    below = ladders.below(current)
    if wanted >= current or below is None or not ladders.configured(current):
        return wanted
    for resource, total in totals.items():
        if 100 * total > (100 - overlap_percent) * ladders.by_resource[resource].edge(below):
            return current
    return wanted


def limited(ladders: Ladders, totals: Counts) -> tuple[str, ...]:
    """The resources of which more is needed than the last bucket has."""
    highest = ladders.highest
    return tuple(name for name, total in totals.items() if total > ladders.by_resource[name].holds(highest))
