"""Buckets that suit the history of a workload: the fewest and the most replicas, and the sizes at each count.

CPU decides the count. A VPA's total of memory is what the busiest hours of a day took with the replicas of then, and of
that each had its base usage: if only as many replicas could hold it, they would stay when the load is gone. So the
fewest replicas hold the memory of the most.

Base usage of memory is what a replica needs before it does any work. Where the number of pods changed, a regression
finds it: what rises with the pods is theirs, the rest is shared. Where it never changed, all that a pod had at the
quietest time is taken for it: more replicas are then expected to cost more than they may.

There is one bucket for each count, and totals do not fall. Where there are more counts than an Hvpa may have buckets,
the last bucket has those that are left, and replicas there begin with as much as all of them held before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TypeAlias

import msgspec
import numpy as np

from trellis.api.kinds.hvpa import MAX_BUCKETS
from trellis.core.hvpa.suggest.history import SuggestionRules, WorkloadHistory, WorkloadUsageHistory

# A count that lasted for a smaller share of the time is ignored: pods come and go in a rollout too.
_LEAST_SHARE = 0.03


class BaseUsage(msgspec.Struct, frozen=True):
    """Bytes of one replica, and whether they are known from counts that changed."""

    memory: float
    is_known: bool


def estimate_base_usage(history: WorkloadUsageHistory) -> BaseUsage:
    """The base usage of memory, never more than a pod was ever seen with."""
    least = float((history.memory / history.pods).min())
    counts, times = np.unique(history.pods, return_counts=True)
    usual = counts[times >= _LEAST_SHARE * len(history.pods)]
    if len(usual) < 2:
        return BaseUsage(least, False)
    # CPU stands for the load, because a replica without any work uses none.
    columns = np.stack([history.pods.astype(np.float64), history.cpu, np.ones(len(history.cpu))], axis=1)
    (base, *_), *_ = np.linalg.lstsq(columns, history.memory, rcond=None)
    return BaseUsage(min(max(float(base), 0.0), least), True)


ResourcePair: TypeAlias = tuple[float, float]

MIB = 2.0**20


class ProposedBucket(msgspec.Struct, frozen=True):
    """The range of replicas, and the ranges of CPU and memory per replica."""

    first: int
    last: int
    least: ResourcePair
    largest: ResourcePair


def lay_out_buckets(
    counts: tuple[int, int], minimum: ResourcePair, cpu: float, memory_at: Callable[[int], float]
) -> Iterator[ProposedBucket]:
    """From `counts[0]` to `counts[1]` replicas, each with at least `least` and at most `cpu` and `memory_of(count)`."""
    fewest, most = counts
    single_counts = range(fewest, min(most, fewest + MAX_BUCKETS - 2) + 1 if most - fewest >= MAX_BUCKETS else most + 1)
    lowest = (
        min(minimum[0], _find_next_minimum("cpu", cpu, fewest, fewest + 1)),
        min(minimum[1], _find_next_minimum("memory", memory_at(most), fewest, fewest + 1)),
    )
    memory = memory_at(fewest)
    for count in single_counts:
        held_before = (count - 1) * memory if count > fewest else 0.0
        memory = max(memory_at(count), min(math.ceil(held_before / count / MIB) * MIB, memory))
        yield ProposedBucket(count, count, lowest, (cpu, memory))
    last = single_counts[-1]
    if last < most:
        between = _find_next_minimum("cpu", cpu, last, most), _find_next_minimum("memory", memory, last, most)
        yield ProposedBucket(last + 1, most, between, (cpu, memory))


def _find_next_minimum(resource: str, largest: float, fewest: int, most: int) -> float:
    """The size with which one more replica begins: all of them hold as much as the fewest, so there is no gap.

    It is a whole number of units, rounded down. Where so many counts follow that the first would then hold less than
    the fewest, units are smaller, and in the end it is one more of them.
    """
    counts = most - fewest
    for unit in (MIB, 1.0) if resource == "memory" else (1.0,):
        smallest = math.floor(fewest * largest / (fewest + 1) / unit) * unit
        if (fewest + 1) * (smallest * counts + largest - smallest) >= fewest * largest * counts:
            return smallest
    return min(smallest + 1.0, largest)


def round_up(resource: str, amount: float) -> float:
    """Round up to a quantity with few digits."""
    step = _rounding_step(resource, amount)
    return math.ceil(amount / step - 1e-9) * step


def round_down(resource: str, amount: float) -> float:
    """Round down to a quantity with few digits."""
    step = _rounding_step(resource, amount)
    return math.floor(amount / step + 1e-9) * step


def _rounding_step(resource: str, amount: float) -> float:
    """So that an amount has two digits, or is some sixteenths of the power of two below it."""
    if resource == "cpu":
        return float(10 ** max(math.floor(math.log10(max(amount, 1.0))) - 1, 0))
    return float(max(MIB, 2.0 ** (math.floor(math.log2(max(amount, 1.0))) - 4)))


_BUSY = 99.0  # percentile: the very highest sample of one pod is a start or a hiccup
_LEAST_CPU = 10.0
_LEAST_MEMORY = 16 * MIB


class FewestReason(StrEnum):
    """Why there must be at least a number of replicas."""

    HPA = "HPA"
    MEMBERS = "Members"
    AVAILABILITY = "Availability"
    NONE = "None"


class LargestReason(StrEnum):
    """Why a replica may become so large."""

    REQUEST = "Request"
    BUSIEST = "Busiest"
    HPA = "HPA"
    BOUND = "Bound"


class BucketProposal(msgspec.Struct, frozen=True):
    """The buckets, and what they were made for.

    `quiet` and `peak` are the lowest and the highest CPU that all replicas used, and `memory_peak` is that of memory.
    `base` is the memory that each replica has in any case.
    """

    buckets: tuple[ProposedBucket, ...]
    fewest_by: FewestReason
    largest_by: LargestReason
    quiet: float
    peak: float
    memory_peak: float
    base: BaseUsage

    @property
    def fewest(self) -> int:
        return self.buckets[0].first

    @property
    def most(self) -> int:
        return self.buckets[-1].last

    @property
    def largest(self) -> ResourcePair:
        """What one of the fewest replicas may have."""
        return self.buckets[0].largest


def propose_buckets(workload: WorkloadHistory, rules: SuggestionRules) -> BucketProposal | None:
    """What suits a workload; None if a replica would have to be larger than one may be."""
    history = workload.usage.complete_samples
    base = estimate_base_usage(history)
    fewest, fewest_by = _find_fewest(workload)
    utilization = workload.find_utilization(rules)
    peak, quiet = float(history.cpu.max()), float(history.cpu.min())
    cpu, largest_by = _find_largest_cpu(workload, utilization, rules.headroom * peak / utilization)
    most = max(fewest, math.ceil(rules.headroom * peak / utilization / cpu))
    returning = rules.memory_margin / (1.0 - rules.overlap)
    shared_memory = (
        returning * rules.headroom * float(np.maximum(history.memory - base.memory * history.pods, 0.0).max())
    )
    bound = math.floor(workload.largest[1]) if math.isfinite(workload.largest[1]) else math.inf
    if shared_memory + returning * base.memory * most > most * bound:
        available = bound - returning * base.memory
        if available <= 0:
            return None
        most, largest_by = max(most, math.ceil(shared_memory / available)), LargestReason.BOUND
    total = max(shared_memory + returning * base.memory * most, fewest * _LEAST_MEMORY)
    minimum = (
        round_down("cpu", max(quiet / utilization / fewest / 2, _LEAST_CPU)),
        round_down("memory", float((history.memory / history.pods).min())),
    )
    return BucketProposal(
        buckets=tuple(
            lay_out_buckets((fewest, most), minimum, cpu, lambda count: min(round_up("memory", total / count), bound))
        ),
        fewest_by=fewest_by,
        largest_by=largest_by,
        quiet=quiet,
        peak=peak,
        memory_peak=float(history.memory.max()),
        base=base,
    )


def _find_fewest(workload: WorkloadHistory) -> tuple[int, FewestReason]:
    """As few as its HPA allows, or as members of a set there are, or two if there were never fewer."""
    if workload.hpa is not None and workload.hpa.least > 1:
        return workload.hpa.least, FewestReason.HPA
    if workload.hpa is None and workload.kind == "StatefulSet" and workload.replicas > 1:
        return workload.replicas, FewestReason.MEMBERS
    if workload.replicas > 1 and int(np.percentile(workload.usage.complete_samples.pods, 1)) > 1:
        return 2, FewestReason.AVAILABILITY
    return 1, FewestReason.NONE


def _find_largest_cpu(workload: WorkloadHistory, utilization: float, needed: float) -> tuple[float, LargestReason]:
    """What a pod asks for today, or what it was observed to use: that it could use more is unknown.

    An HPA's most replicas are to be enough, and no replica may be larger than one can be.
    """
    history = workload.usage.complete_samples
    busiest = float(np.percentile(history.cpu / history.pods, _BUSY)) / utilization
    largest = max(busiest, _LEAST_CPU), LargestReason.BUSIEST
    if workload.request[0] >= largest[0]:
        largest = workload.request[0], LargestReason.REQUEST
    if workload.hpa is not None and workload.hpa.most > 0 and needed / workload.hpa.most > largest[0]:
        largest = needed / workload.hpa.most, LargestReason.HPA
    size = round_up("cpu", largest[0])
    if size <= workload.largest[0]:
        return size, largest[1]
    return max(math.floor(workload.largest[0]), 1.0), LargestReason.BOUND
