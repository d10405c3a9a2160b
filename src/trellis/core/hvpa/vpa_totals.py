"""What does the VPA ask for in total? The estimate over the history of the whole workload, where one is published.

It is not today's target times today's replicas: a target is history, new replicas would be counted at the target of the
few before them, and the count would run away (2 x 12 = 24, then 3 x 12 = 36 for the same demand). Until the estimate is
there, what the first pass finds is held, whatever the VPA recommends since, and that is said.
"""

from __future__ import annotations

import msgspec

from trellis.api.buckets import RESOURCES
from trellis.base.readable import RESOURCE_WORDS, readable
from trellis.base.reason import Reason, Severity
from trellis.core.hvpa.views import View, summed
from trellis.core.recommend.capping.limit_ranges import Counts

NO_TOTALS = Reason(
    "NoTotals",
    "The VPA's total is held at that of the first pass, because the history of the whole workload is not published: "
    "run the Trellis recommender, which publishes it in status.totals or in the VPA that the Hvpa owns (vpa.deploy).",
    Severity.WARNING,
)

_UNITS = {"cpu": 1000, "memory": 1}


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
    """The sum over containers of what the VPA says of the whole workload, else what the Hvpa's own status says.

    That is about the resources that the VPA recommends: what stands there for another one, or since before the VPA was
    deleted, is not its word.
    """
    sized = [each for each in view.containers if each.scaled and resource in each.target]
    if not sized:
        return None
    if all(resource in each.total for each in sized):
        return sum(each.total[resource] for each in sized)
    return view.totals.get(resource)


def held_text(view: View, held: Counts) -> str:
    """Which totals are held, and what the VPA recommends for a pod meanwhile."""
    targets, binary = summed(view.containers, "target"), view.meaning.binary
    return ", ".join(
        f"{RESOURCE_WORDS[name]} is held at {readable(total, name, binary, _UNITS[name])} in total, and the VPA "
        f"recommends {readable(targets.get(name, 0), name, binary, _UNITS[name])} for a pod"
        for name, total in held.items()
    )


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
