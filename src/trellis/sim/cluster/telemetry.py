"""What the model cluster reports: changes to a watcher, the usage of a step, counters and pending times.

Counters are kept from the beginning, in columns by the number of a workload. A mean of pending times says little,
because most pods are placed at once: percentiles and the maximum are kept too.
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
    """What happened to a pod."""

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
    """A watcher of the cluster: it gets changes as a watch brings them, and the events behind them.

    Of an object, `old` is None when it is created and `new` when it is gone. All calls come at the kernel's time, and
    none of them may change the cluster at once: what is to be done is scheduled as an event.
    """

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Handle a change of a pod."""

    def on_workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        """Handle a change of a Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob."""

    def on_node(self, old: Node | None, new: Node | None) -> None:
        """Handle a change of a node."""

    def on_eviction(self, event: Event) -> None:
        """Handle the Event that a kubelet records when it evicts a pod because its node is short of memory."""

    def on_pod_event(self, workload: int, event: PodEvent, pod: Pod, text: str) -> None:
        """Handle an event of a pod of the workload of that number; `text` gives details."""


class StepUsage(msgspec.Struct, frozen=True):
    """The usage of one step. Columns have an entry for each running container.

    The step begins at `time` and takes `seconds`. `rows` are numbers in the cluster's `ModelContainerTable`; a number
    may stand for another container after the next event, so names, workloads and requests must be read at once. Amounts
    are cores and bytes: the demand (`wanted`), and what was used. A container that got less CPU than it demanded was
    `throttled`. One that demands more memory than its limit uses that limit, and is killed by the events that follow.
    `unserved` is by workload: cores of a shared load for which no pod was Ready.
    """

    number: int
    time: float
    seconds: float
    rows: IntColumn
    workload: IntColumn
    series: IntColumn
    demanded_cpu: FloatColumn
    used_cpu: FloatColumn
    demanded_memory: FloatColumn
    used_memory: FloatColumn
    throttled: BoolColumn
    unserved: FloatColumn

    def __len__(self) -> int:
        return len(self.rows)


class WorkloadCounters(msgspec.Struct, frozen=True):
    """Counts and seconds by workload: pending until a pod has a node, starting from then until it is up.

    `evictions` are those by the eviction API, `pressed_out` those by kubelets for want of memory. `restarts` are of
    containers, whether killed or resized. `resizes` are those that came into force, and `scalings` how often another
    count was requested.
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
        """Empty counters for a number of workloads."""

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
        """Copy the present counts, which go on changing."""
        return WorkloadCounters(*(getattr(self, name).copy() for name in self.__struct_fields__))


_HIGH = 95.0


class PendingTimes:
    """How long each pod was pending; `add` is called when a pod has its node."""

    def __init__(self) -> None:
        self._workloads: list[int] = []
        self._created_at: list[float] = []
        self._seconds: list[float] = []

    def add(self, workload: int, created_at: float, seconds: float) -> None:
        """Count a pod that was created at `created_at` and was pending for `seconds`."""
        self._workloads.append(workload)
        self._created_at.append(created_at)
        self._seconds.append(seconds)

    def copy(self) -> PendingTimes:
        pending_times = PendingTimes()
        pending_times._workloads, pending_times._created_at, pending_times._seconds = (
            list(self._workloads),
            list(self._created_at),
            list(self._seconds),
        )
        return pending_times

    def summarize(
        self, since: float, workloads: int, uncounted: Collection[int]
    ) -> tuple[PendingTotals, list[PendingTotals]]:
        """Summarize pods created since then: of all workloads but the `uncounted` ones, and of each workload."""
        owners: IntColumn = np.array(self._workloads, dtype=np.int64)
        seconds: FloatColumn = np.array(self._seconds, dtype=np.float64)
        counted: BoolColumn = np.array(self._created_at, dtype=np.float64) >= since
        summaries = [_summarize_pending(seconds[counted & (owners == number)]) for number in range(workloads)]
        return _summarize_pending(seconds[counted & ~np.isin(owners, list(uncounted))]), summaries


def _summarize_pending(seconds: FloatColumn) -> PendingTotals:
    if not len(seconds):
        return PendingTotals()
    high = np.percentile(seconds, _HIGH, method="higher")
    return PendingTotals(len(seconds), float(seconds.mean()), float(high), float(seconds.max()))
