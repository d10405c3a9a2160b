"""What the model cluster reports: changes to a watcher, usage of a step, counters and pending times.

Counters are kept from the beginning, in columns by the number of a workload. Of pending times the mean says little:
most pods wait for no node, and those that do are what hurts.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol

import msgspec
import numpy as np

from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.sim.results import PendingTotals


class PodEvent(StrEnum):
    """What happened to a pod, in a word."""

    MADE = "made"
    PLACED = "placed"
    STARTED = "started"
    KILLED = "killed"
    RESTARTED = "restarted"
    EVICTED = "evicted"
    PRESSED_OUT = "pressed out"
    RESIZED = "resized"
    RESIZE_DEFERRED = "resize deferred"
    RESIZE_INFEASIBLE = "resize infeasible"
    ENDED = "ended"
    LOST = "lost"
    MOVED = "moved"
    PREEMPTED = "preempted"


class ClusterWatcher(Protocol):
    """Whoever looks at the cluster: changes as a watch brings them, and words for what lies behind them.

    Of an object, `old` is None when it is new and `new` when it is gone. All calls come at the kernel's time, and
    none of them may change the cluster at once: what is to be done is asked for as an event.
    """

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed."""

    def workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        """A Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob changed."""

    def node(self, old: Node | None, new: Node | None) -> None:
        """A node changed."""

    def event(self, event: Event) -> None:
        """A kubelet evicted a pod because its node was short of memory, and says so as kubelets do."""

    def happened(self, workload: int, what: PodEvent, pod: Pod, text: str) -> None:
        """Something happened to a pod of the workload of that number; `text` says more, in few words."""


class StepUsage(msgspec.Struct, frozen=True):
    """One step, from `time` on for `seconds`. Columns are of equal length, one entry for each container that runs.

    `rows` are their numbers in the cluster's `RowTable`; the numbers may stand for others after the next event, so that
    names, workloads and requests are to be read from there at once. Amounts are cores and bytes: what was wanted, and
    what was had. Who had less CPU than wanted was `throttled`. Who wants more memory than its limit has that limit, and
    is killed by the events that follow. `unserved` is by workload: cores of a shared load that nobody was Ready for.
    """

    number: int
    time: float
    seconds: float
    rows: IntColumn
    workload: IntColumn
    series: IntColumn
    wanted_cpu: FloatColumn
    used_cpu: FloatColumn
    wanted_memory: FloatColumn
    used_memory: FloatColumn
    throttled: BoolColumn
    unserved: FloatColumn

    def __len__(self) -> int:
        return len(self.rows)


class WorkloadCounters(msgspec.Struct, frozen=True):
    """Counts and seconds. Pending is from when a pod is made until it has a node, start from then until it is up.

    `evictions` are those that somebody asked for, `pressed_out` those by kubelets for want of memory. `restarts` are of
    containers, whether killed or resized. `resizes` are those that came into force, and `scalings` how often another
    count was asked for.
    """

    pods_made: IntColumn
    pending_seconds: FloatColumn
    start_seconds: FloatColumn
    oom_kills: IntColumn
    restarts: IntColumn
    evictions: IntColumn
    pressed_out: IntColumn
    resizes: IntColumn
    scalings: IntColumn

    @classmethod
    def of(cls, workloads: int) -> WorkloadCounters:
        """Nothing yet, for so many workloads."""

        def counts() -> IntColumn:
            return np.zeros(workloads, dtype=np.int64)

        return cls(
            pods_made=counts(),
            pending_seconds=np.zeros(workloads),
            start_seconds=np.zeros(workloads),
            oom_kills=counts(),
            restarts=counts(),
            evictions=counts(),
            pressed_out=counts(),
            resizes=counts(),
            scalings=counts(),
        )

    def copy(self) -> WorkloadCounters:
        """The same as it is now, for as long as anybody needs it."""
        return WorkloadCounters(*(getattr(self, name).copy() for name in self.__struct_fields__))


_HIGH = 95.0


class PendingTimes:
    """What pods have waited, one entry for each; `add` is called when one has its node."""

    def __init__(self) -> None:
        self._workloads: list[int] = []
        self._made: list[float] = []
        self._seconds: list[float] = []

    def add(self, workload: int, made: float, seconds: float) -> None:
        """A pod that was made then has waited for so long."""
        self._workloads.append(workload)
        self._made.append(made)
        self._seconds.append(seconds)

    def copy(self) -> PendingTimes:
        """The same so far."""
        pending_times = PendingTimes()
        pending_times._workloads, pending_times._made, pending_times._seconds = (
            list(self._workloads),
            list(self._made),
            list(self._seconds),
        )
        return pending_times

    def told(
        self, since: float, workloads: int, uncounted: Collection[int]
    ) -> tuple[PendingTotals, list[PendingTotals]]:
        """Of pods made since then: of all but the workloads that do not count, and of each workload."""
        owners: IntColumn = np.array(self._workloads, dtype=np.int64)
        seconds: FloatColumn = np.array(self._seconds, dtype=np.float64)
        counted: BoolColumn = np.array(self._made, dtype=np.float64) >= since
        each = [_summarize_pending(seconds[counted & (owners == number)]) for number in range(workloads)]
        return _summarize_pending(seconds[counted & ~np.isin(owners, list(uncounted))]), each


def _summarize_pending(seconds: FloatColumn) -> PendingTotals:
    if not len(seconds):
        return PendingTotals()
    high = np.percentile(seconds, _HIGH, method="higher")
    return PendingTotals(len(seconds), float(seconds.mean()), float(high), float(seconds.max()))
