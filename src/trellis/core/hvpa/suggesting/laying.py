"""Which buckets hold so much at each count? One for each, and totals that do not fall.

Where there are more counts than an Hvpa may have buckets, the last bucket has those that are left, and replicas there
begin with as much as all of them held before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from trellis.api.hvpa import MAX_BUCKETS

Pair: TypeAlias = tuple[float, float]

MIB = 2.0**20


class Rung(msgspec.Struct, frozen=True):
    """From so many to so many replicas, and from how much to how much CPU and memory each may have."""

    first: int
    last: int
    least: Pair
    largest: Pair


def laid_out(counts: tuple[int, int], least: Pair, cpu: float, memory_of: Callable[[int], float]) -> Iterator[Rung]:
    """From `counts[0]` to `counts[1]` replicas, each with at least `least` and at most `cpu` and `memory_of(count)`."""
    fewest, most = counts
    alone = range(fewest, min(most, fewest + MAX_BUCKETS - 2) + 1 if most - fewest >= MAX_BUCKETS else most + 1)
    lowest = (
        min(least[0], _between("cpu", cpu, fewest, fewest + 1)),
        min(least[1], _between("memory", memory_of(most), fewest, fewest + 1)),
    )
    memory = memory_of(fewest)
    for count in alone:
        held = (count - 1) * memory if count > fewest else 0.0
        memory = max(memory_of(count), min(math.ceil(held / count / MIB) * MIB, memory))
        yield Rung(count, count, lowest, (cpu, memory))
    last = alone[-1]
    if last < most:
        between = _between("cpu", cpu, last, most), _between("memory", memory, last, most)
        yield Rung(last + 1, most, between, (cpu, memory))


def _between(resource: str, largest: float, fewest: int, most: int) -> float:
    """What one more replica begins with: all of them hold as much as the fewest did before, and no hole is left.

    It is a whole number of units, rounded down. Where so many counts follow that the first would then hold less than
    the fewest, units are smaller, and in the end it is one more of them.
    """
    counts = most - fewest
    for unit in (MIB, 1.0) if resource == "memory" else (1.0,):
        found = math.floor(fewest * largest / (fewest + 1) / unit) * unit
        if (fewest + 1) * (found * counts + largest - found) >= fewest * largest * counts:
            return found
    return min(found + 1.0, largest)


def rounded_up(resource: str, amount: float) -> float:
    """To what people would write."""
    step = _step(resource, amount)
    return math.ceil(amount / step - 1e-9) * step


def rounded_down(resource: str, amount: float) -> float:
    """To what people would write."""
    step = _step(resource, amount)
    return math.floor(amount / step + 1e-9) * step


def _step(resource: str, amount: float) -> float:
    """So that an amount has two digits, or is some sixteenths of the power of two below it."""
    if resource == "cpu":
        return float(10 ** max(math.floor(math.log10(max(amount, 1.0))) - 1, 0))
    return float(max(MIB, 2.0 ** (math.floor(math.log2(max(amount, 1.0))) - 4)))
