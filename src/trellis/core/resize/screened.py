"""What is known of pods, kinds of pods and workloads when many are looked at together? A number each, facts in columns.

Number 0 of the kinds is nobody's: a pod of that kind is never changed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
import numpy as np

from trellis.core.resize.views import WorkloadView
from trellis.core.sizing.governors import Governor
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.tables import KeyedTable, Table

NOBODY = 0


class WorkloadKey(NamedTuple):
    """The object that governs the pods of a workload."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, governor: Governor) -> WorkloadKey:
        """The key of a governor."""
        return cls(governor.kind, governor.claim.namespace, governor.claim.name)


class PodTable(KeyedTable[str]):
    """One entry per pod, by uid."""

    fills = {"workload": 0, "kind": NOBODY, "special": False, "living": False, "started": math.nan, "ran": math.inf}

    workload: IntColumn
    kind: IntColumn
    special: BoolColumn
    """Whether only a plan can tell what becomes of it."""
    living: BoolColumn
    """Whether it counts as a replica."""
    started: FloatColumn
    """NaN if it has not."""
    ran: FloatColumn
    """How long a container had run, at the least, before it ran out of memory; infinite if none did."""


class KindTable(Table):
    """One entry per kind of pods of one workload; turns are bits of `kinds.Turn`."""

    fills = {"turn": 0, "turn_killed": 0, "killed": False, "pods": 0}

    turn: IntColumn
    turn_killed: IntColumn
    """For pods that soon ran out of memory."""
    killed: BoolColumn
    """Whether any of them ever ran out of memory, so that the other turn is asked for."""
    pods: IntColumn
    """How many there are."""

    def __init__(self) -> None:
        super().__init__()
        self._take()  # nobody's


class Workload(msgspec.Struct):
    """What is looked at when something changes: the governor, if there is one, and its kinds of pods by number."""

    view: WorkloadView | None
    kinds: dict[bytes, int]
    pods: int = 0


class WorkloadTable(KeyedTable[WorkloadKey]):
    """One entry per governing object."""

    fills = {"governed": False, "patience": 0.0, "minimum": 0, "look": math.inf}

    governed: BoolColumn
    """False before the object itself was seen, and after it is gone."""
    patience: FloatColumn
    """A container that runs out of memory within so many seconds did so soon."""
    minimum: IntColumn
    """How many pods must live before one is disturbed."""
    look: FloatColumn
    """When the last plan asked to be made anew; infinite if it did not."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[int, Workload] = {}

    def enter(self, key: WorkloadKey) -> int:
        """The number of a key, which gets one if it has none."""
        number = self.find(key)
        if number < 0:
            number = self.name(key)
            self.entries[number] = Workload(None, {})
        return number

    def leave(self, number: int) -> None:
        """Forget a workload that has neither a governor nor pods."""
        entry = self.entries[number]
        if entry.view is None and not entry.pods:
            del self.entries[number]
            self.release(np.array([number], dtype=np.int64))
