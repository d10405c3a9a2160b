"""What does the VPA ask for in total? The estimate over the history of the whole workload, if anybody has told it.

It is not today's target times today's replicas: a target is history, new replicas would be counted at the target of the
few before them, and the count would run away (2 x 12 = 24, then 3 x 12 = 36 for the same demand). Until the estimate is
there, what the first look finds is held.
"""

from __future__ import annotations

import msgspec

from trellis.api.buckets import RESOURCES
from trellis.core.hvpa.views import View, summed
from trellis.core.recommend.capping.limit_ranges import Counts


class VpaTotals(msgspec.Struct, frozen=True):
    """The totals, and those of them that are held because nobody has told better ones."""

    totals: Counts
    held: Counts


def vpa_totals(view: View) -> VpaTotals:
    """Of each resource that the VPA recommends."""
    totals: dict[str, int] = {}
    held: dict[str, int] = {}
    for resource in RESOURCES:
        told = _told(view, resource)
        if told is not None:
            totals[resource] = told
        elif (first := _first(view, resource)) is not None:
            totals[resource] = held[resource] = first
    return VpaTotals(totals, held)


def _told(view: View, resource: str) -> int | None:
    """The sum over containers of what the VPA says of the whole workload, else what the Hvpa's own status says."""
    sized = [each for each in view.containers if each.scaled and resource in each.target]
    if sized and all(resource in each.total for each in sized):
        return sum(each.total[resource] for each in sized)
    return view.totals.get(resource)


def _first(view: View, resource: str) -> int | None:
    """Target times count at the first look, and that for as long as there is a target and nothing else is known.

    If there was an Hvpa at work before, whose memory is lost, then the target may be that of fewer replicas than there
    are now; what was published is not.
    """
    target = summed(view.containers, "target").get(resource)
    if target is None:
        return None
    if resource in view.memory.held:
        return view.memory.held[resource]
    published = summed(view.containers, "published").get(resource)
    return view.replicas * (target if published is None else min(target, published))
