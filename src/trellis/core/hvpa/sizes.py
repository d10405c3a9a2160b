"""How big is each replica? Its share of the total, or what the VPA recommends where that is more.

The defaults take the share of CPU and the larger of both for memory, because every replica has a base usage of memory:
shares of a total that was measured with fewer replicas would be eaten up by it.
"""

from __future__ import annotations

from trellis.api.resolve import ReplicaSizing
from trellis.core.hvpa.ladders import Ladder
from trellis.core.hvpa.views import Meaning
from trellis.core.recommend.capping.limit_ranges import Counts


def size_of(meaning: Meaning, totals: Counts, targets: Counts, *, count: int, present: Counts) -> Counts:
    """What a replica gets at this count. A resource without a total keeps what it has, if it has anything."""
    ways = {"cpu": meaning.hvpa.cpu, "memory": meaning.hvpa.memory}
    sized = dict(present)
    for name, total in totals.items():
        sized[name] = _size(ways[name], meaning.ladders.by_resource[name], count, total, targets.get(name, 0))
    return sized


def _size(way: ReplicaSizing, ladder: Ladder, count: int, total: int, target: int) -> int:
    """Rounded up to a whole millicore or byte, so that no total is undercut."""
    share, least = -(-total // count), ladder.least(count)
    if way is ReplicaSizing.SHARE:
        return max(min(share, ladder.most_of_count(count)), least)
    return max(min(max(share, target), ladder.most_of_bucket(count)), least)
