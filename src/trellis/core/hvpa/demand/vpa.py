"""Demand by the VPA of an Hvpa: the estimate over the history of the whole workload, where one is published.

It is not today's target times today's replicas: a target is history, new replicas would be counted at the target of the
few before them, and the count would run away (2 x 12 = 24, then 3 x 12 = 36 for the same demand). Until the estimate is
there, what the first pass finds is held, whatever the VPA recommends since, and the status says so.
"""

from __future__ import annotations

import msgspec

from trellis.api.buckets import RESOURCES
from trellis.base.reasons import Reason, Severity
from trellis.base.wording import AMOUNTS_PER_UNIT, RESOURCE_WORDS, format_amount
from trellis.core.hvpa.view import HvpaView, sum_containers
from trellis.core.recommend.amounts import ResourceAmounts

NO_TOTALS = Reason(
    "NoTotals",
    "The VPA's total stays at that of the first pass, because no history of the workload's total "
    "is published: run the Trellis recommender, which publishes it in status.totals or in the "
    "VPA that the Hvpa owns (vpa.deploy).",
    Severity.WARNING,
)


class VpaTotals(msgspec.Struct, frozen=True):
    """The totals, and those of them that are held because no better ones are published."""

    totals: ResourceAmounts
    held: ResourceAmounts


def read_vpa_totals(view: HvpaView) -> VpaTotals:
    """The totals of each resource that the VPA recommends."""
    totals: dict[str, int] = {}
    held: dict[str, int] = {}
    for resource in RESOURCES:
        published = _published_total(view, resource)
        if published is not None:
            totals[resource] = published
        elif (initial := _held_total(view, resource)) is not None:
            totals[resource] = held[resource] = initial
    return VpaTotals(totals, held)


def _published_total(view: HvpaView, resource: str) -> int | None:
    """The sum over containers of what the VPA says of the whole workload, else what the Hvpa's own status says.

    That is about the resources that the VPA recommends: what stands there for another one, or since before the VPA was
    deleted, is not its word.
    """
    sized = [container for container in view.containers if container.scaled and resource in container.target]
    if not sized:
        return None
    if all(resource in container.total_target for container in sized):
        return sum(container.total_target[resource] for container in sized)
    return view.published_totals.get(resource)


def describe_held_totals(view: HvpaView, held: ResourceAmounts) -> str:
    """Which totals are held, and what the VPA recommends for a pod meanwhile."""
    targets, binary = sum_containers(view.containers, "target"), view.meaning.binary
    return ", ".join(
        f"{RESOURCE_WORDS[name]} is held at "
        f"{format_amount(total, name, binary, AMOUNTS_PER_UNIT[name])} in total, and the VPA "
        f"recommends {format_amount(targets.get(name, 0), name, binary, AMOUNTS_PER_UNIT[name])} for "
        "each pod"
        for name, total in held.items()
    )


def _held_total(view: HvpaView, resource: str) -> int | None:
    """Target times count at the first look, and that for as long as there is a target and nothing else is known.

    If there was an Hvpa at work before, whose memory is lost, then the target may be that of fewer replicas than there
    are now; what was published is not.
    """
    target = sum_containers(view.containers, "target").get(resource)
    if target is None:
        return None
    if resource in view.memory.held_totals:
        return view.memory.held_totals[resource]
    published = sum_containers(view.containers, "published").get(resource)
    return view.replicas * (target if published is None else min(target, published))
