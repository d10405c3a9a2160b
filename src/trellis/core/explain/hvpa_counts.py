"""Which edges of its buckets decide the count of a workload, and at which totals would it be another?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from trellis.core.explain.hvpa_parts import Demand, Rung, Turning
from trellis.core.explain.wording import sum_text, sums_text
from trellis.core.hvpa import Plan, View
from trellis.core.hvpa.choosing import standing
from trellis.core.hvpa.counts import count_for, count_from, limited
from trellis.core.hvpa.ladders import Ladder, Ladders
from trellis.core.hvpa.sizes import size_of
from trellis.core.hvpa.views import summed

# Of each resource; of more counts than these, the nearest to those that matter are told.
_MOST_RUNGS: Final = 32


def demands_of(view: View, made: Plan, *, binary: bool) -> Iterator[Demand]:
    """Each resource of which a total is known."""
    ladders, meaning = view.meaning.ladders, view.meaning.hvpa
    ways = {"cpu": meaning.cpu, "memory": meaning.memory}
    has, targets, over = standing(view).totals, summed(view.containers, "target"), limited(ladders, made.totals)
    count = made.shape.count
    floors = lower_edges(ladders, count, meaning.down.overlap_percent)
    sized: Mapping[str, int] = {}
    if ladders.configured(count):
        sized = size_of(view.meaning, made.totals, targets, count=count, present=made.shape.size)
    for name, total in made.totals.items():
        ladder = ladders.by_resource[name]
        alone = count_for(ladders, {name: total})
        below = ladders.below(alone)
        texts = {
            "above": ladder.holds(below) if below is not None else None,
            "kept_above": floors.get(name),
            "share": -(-total // count),
            "target": targets.get(name),
            "size": made.shape.size.get(name),
            **_bounds(ladders, ladder, count),
        }
        asked, by = _asked(made, name)
        yield Demand(
            resource=name,
            by=by,
            asked=sum_text(name, asked, binary=binary),
            total=sum_text(name, total, binary=binary),
            has=sum_text(name, has.get(name, 0), binary=binary),
            count=alone,
            up_to=sum_text(name, ladder.holds(alone), binary=binary),
            keeps=name in floors and total > floors[name],
            limited=name in over,
            held=sized.get(name) != made.shape.size.get(name),
            sizing=ways[name].value,
            **{field: sum_text(name, amount, binary=binary) for field, amount in texts.items() if amount is not None},
        )


def lower_edges(ladders: Ladders, count: int, overlap_percent: int) -> Mapping[str, int]:
    """The totals down to which a count is kept; nothing for one that is in no bucket, or that is the lowest."""
    below = ladders.below(count)
    if below is None or not ladders.configured(count):
        return {}
    return {
        name: math.floor((100 - overlap_percent) * ladder.edge(below) / 100)
        for name, ladder in ladders.by_resource.items()
    }


def turns_of(view: View, made: Plan, *, binary: bool) -> Iterator[Turning]:
    """The next counts, up and down from the decided one. A step that is only held back is no turn."""
    ladders, count, totals = view.meaning.ladders, made.shape.count, made.totals
    if not totals or not ladders.configured(count):
        return
    above: dict[int, dict[str, int]] = {}
    for name, total in totals.items():
        ladder = ladders.by_resource[name]
        edge = ladder.holds(count)
        if count_for(ladders, totals) <= count < ladders.highest and total <= edge:
            above.setdefault(ladder.count_for(edge + 1), {})[name] = edge
    for more, edges in sorted(above.items()):
        yield Turning(more, upwards=True, totals=sums_text(edges, binary=binary))
    overlap = view.meaning.hvpa.down.overlap_percent
    floors = {name: edge for name, edge in lower_edges(ladders, count, overlap).items() if name in totals}
    if floors and any(totals[name] > edge for name, edge in floors.items()):
        fewer = count_from(ladders, floors, count, overlap)
        yield Turning(fewer, upwards=False, totals=sums_text(floors, binary=binary))


def rungs_of(view: View, made: Plan, *, binary: bool) -> Mapping[str, tuple[Rung, ...]]:
    """What the counts hold, by resource."""
    ladders = view.meaning.ladders
    needed = count_for(ladders, made.totals) if made.totals else made.shape.count
    counts = _near(ladders, {view.replicas, made.shape.count, needed})
    return {
        name: tuple(
            Rung(
                count,
                sum_text(name, ladder.most_of_count(count), binary=binary),
                sum_text(name, ladder.holds(count), binary=binary),
            )
            for count in counts
        )
        for name, ladder in ladders.by_resource.items()
    }


def _asked(made: Plan, resource: str) -> tuple[int, tuple[str, ...]]:
    """The higher total of the sources, and whose it is; without any, what the plan goes by is of earlier."""
    told = {"hpa": made.hpa.get(resource), "vpa": made.vpa.get(resource)}
    given = {who: total for who, total in told.items() if total is not None}
    most = max(given.values(), default=made.totals[resource])
    return most, tuple(who for who, total in given.items() if total == most)


def _bounds(ladders: Ladders, ladder: Ladder, count: int) -> dict[str, int]:
    """What a replica may have at a count that is configured."""
    if not ladders.configured(count):
        return {}
    return {"least": ladder.least(count), "most": ladder.most_of_count(count)}


def _near(ladders: Ladders, matter: set[int]) -> list[int]:
    """Configured counts, ascending, as near as possible to those that matter: a bucket may have millions."""
    around = {
        count
        for each in matter
        for first, last in ladders.ranges
        for count in range(max(first, each - _MOST_RUNGS), min(last, each + _MOST_RUNGS) + 1)
    }
    nearest = sorted(around, key=lambda count: (min(abs(count - each) for each in matter), count))
    return sorted(nearest[:_MOST_RUNGS])
