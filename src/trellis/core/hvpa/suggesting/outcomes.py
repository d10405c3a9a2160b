"""What would a way of scaling have cost over a history, and when would it have been too little?"""

from __future__ import annotations

import msgspec
import numpy as np

from trellis.base.prices import GIB, Prices
from trellis.core.hvpa.suggesting.lived import Usage
from trellis.core.usage.columns import FloatColumn, IntColumn

_HOUR = 3600.0
_MILLI = 1000.0


class Allotted(msgspec.Struct, frozen=True, eq=False):
    """Replicas and what one of them requests, at each time; memory that all of them would have used."""

    replicas: IntColumn
    cpu: FloatColumn
    memory: FloatColumn
    used_memory: FloatColumn


class Outcome(msgspec.Struct, frozen=True):
    """What all replicas requested over the history, and in money for a month.

    `cpu_over` and `memory_over` are the shares of the time in which more was used than was requested. `changes` is how
    often the count changed.
    """

    core_hours: float
    gib_hours: float
    money: float
    cpu_over: float
    memory_over: float
    fewest: int
    most: int
    changes: int


def outcome(seen: Usage, allotted: Allotted, prices: Prices) -> Outcome:
    """What it comes to."""
    cpu, memory = allotted.replicas * allotted.cpu, allotted.replicas * allotted.memory
    hours = seen.step / _HOUR
    return Outcome(
        core_hours=float(cpu.sum()) / _MILLI * hours,
        gib_hours=float(memory.sum()) / GIB * hours,
        money=prices.monthly(float(cpu.mean()) / _MILLI, float(memory.mean())),
        cpu_over=float(np.mean(seen.cpu > cpu)),
        memory_over=float(np.mean(allotted.used_memory > memory)),
        fewest=int(allotted.replicas.min()),
        most=int(allotted.replicas.max()),
        changes=int(np.count_nonzero(np.diff(allotted.replicas))),
    )
