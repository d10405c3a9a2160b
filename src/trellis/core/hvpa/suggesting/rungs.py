"""How few replicas, how many, and how large may each become?

CPU decides the count. A VPA tells of memory what the busiest hours of a day took with the replicas of then, and of that
each had its base usage: if only as many could hold it, they would stay when the load is gone. So as few as there may be
hold the memory of as many as there may be.
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec
import numpy as np

from trellis.core.hvpa.suggesting.base_usage import BaseUsage, base_usage
from trellis.core.hvpa.suggesting.laying import MIB, Pair, Rung, laid_out, rounded_down, rounded_up
from trellis.core.hvpa.suggesting.lived import LivedWorkload, SuggestingRules

_BUSY = 99.0  # percentile: the very highest sample of one pod is a start or a hiccup
_LEAST_CPU = 10.0
_LEAST_MEMORY = 16 * MIB


class FewestBy(StrEnum):
    """Why there are to be at least so many replicas."""

    HPA = "HPA"
    MEMBERS = "Members"
    AVAILABILITY = "Availability"
    NONE = "None"


class LargestBy(StrEnum):
    """Why a replica may become so large."""

    REQUEST = "Request"
    BUSIEST = "Busiest"
    HPA = "HPA"
    BOUND = "Bound"


class Rungs(msgspec.Struct, frozen=True):
    """The buckets, and what they were made for.

    `quiet` and `peak` are the lowest and the highest CPU that all replicas used, and `memory_peak` is that of memory.
    `base` is the memory that each replica has in any case.
    """

    buckets: tuple[Rung, ...]
    fewest_by: FewestBy
    largest_by: LargestBy
    quiet: float
    peak: float
    memory_peak: float
    base: BaseUsage

    @property
    def fewest(self) -> int:
        """Of replicas."""
        return self.buckets[0].first

    @property
    def most(self) -> int:
        """Of replicas."""
        return self.buckets[-1].last

    @property
    def largest(self) -> Pair:
        """What one of the fewest replicas may have."""
        return self.buckets[0].largest


def rungs(workload: LivedWorkload, rules: SuggestingRules) -> Rungs | None:
    """What suits a workload; None if a replica would have to be larger than one may be."""
    seen = workload.usage.seen
    base = base_usage(seen)
    fewest, fewest_by = _fewest(workload)
    share = workload.utilization(rules)
    peak, quiet = float(seen.cpu.max()), float(seen.cpu.min())
    cpu, largest_by = _largest_cpu(workload, share, rules.room * peak / share)
    most = max(fewest, math.ceil(rules.room * peak / share / cpu))
    returning = rules.margin / (1.0 - rules.overlap)
    rest = returning * rules.room * float(np.maximum(seen.memory - base.memory * seen.pods, 0.0).max())
    bound = math.floor(workload.largest[1]) if math.isfinite(workload.largest[1]) else math.inf
    if rest + returning * base.memory * most > most * bound:
        left = bound - returning * base.memory
        if left <= 0:
            return None
        most, largest_by = max(most, math.ceil(rest / left)), LargestBy.BOUND
    total = max(rest + returning * base.memory * most, fewest * _LEAST_MEMORY)
    least = (
        rounded_down("cpu", max(quiet / share / fewest / 2, _LEAST_CPU)),
        rounded_down("memory", float((seen.memory / seen.pods).min())),
    )
    return Rungs(
        buckets=tuple(
            laid_out((fewest, most), least, cpu, lambda count: min(rounded_up("memory", total / count), bound))
        ),
        fewest_by=fewest_by,
        largest_by=largest_by,
        quiet=quiet,
        peak=peak,
        memory_peak=float(seen.memory.max()),
        base=base,
    )


def _fewest(workload: LivedWorkload) -> tuple[int, FewestBy]:
    """As few as its HPA allows, or as members of a set there are, or two if there were never fewer."""
    if workload.hpa is not None and workload.hpa.least > 1:
        return workload.hpa.least, FewestBy.HPA
    if workload.hpa is None and workload.kind == "StatefulSet" and workload.replicas > 1:
        return workload.replicas, FewestBy.MEMBERS
    if workload.replicas > 1 and int(np.percentile(workload.usage.seen.pods, 1)) > 1:
        return 2, FewestBy.AVAILABILITY
    return 1, FewestBy.NONE


def _largest_cpu(workload: LivedWorkload, share: float, wanted: float) -> tuple[float, LargestBy]:
    """What a pod asks for today, or what it was seen to make use of: nobody knows that it could use more.

    An HPA's most replicas are to be enough, and no replica may be larger than one can be.
    """
    seen = workload.usage.seen
    busiest = float(np.percentile(seen.cpu / seen.pods, _BUSY)) / share
    found = max(busiest, _LEAST_CPU), LargestBy.BUSIEST
    if workload.request[0] >= found[0]:
        found = workload.request[0], LargestBy.REQUEST
    if workload.hpa is not None and workload.hpa.most > 0 and wanted / workload.hpa.most > found[0]:
        found = wanted / workload.hpa.most, LargestBy.HPA
    size = rounded_up("cpu", found[0])
    if size <= workload.largest[0]:
        return size, found[1]
    return max(math.floor(workload.largest[0]), 1.0), LargestBy.BOUND
