"""What do metrics say of the pods of each workload at this moment? Columns over all containers, summed by workload.

Usage is that of the last step; requests and readiness are as they are now. Pods that came or restarted since have no
metrics, and CPU of pods that start up is not held against anybody, as the HPA controller has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.pods import Pod
from trellis.core.recommend.capping.limit_ranges import counts
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.sim.cluster.cluster import Cluster
from trellis.sim.cluster.pods import running_containers
from trellis.sim.cluster.rows import RowTable
from trellis.sim.cluster.usage import StepUsage
from trellis.sim.cluster.wishes import Series
from trellis.sim.scaling.proposals import Group, Seen

RESOURCES: Final = ("cpu", "memory")

_CPU, _MEMORY = 0, 1
_COUNTED, _UNREADY, _MISSING, _GROUPS = 0, 1, 2, 3
# Seconds from a pod's start in which its CPU counts only once it is Ready.
_INITIALIZATION: Final = 300.0
# Who is not Ready since longer than this after its start has been Ready before.
_FIRST_READINESS: Final = 30.0
_MILLI, _NANO = 1000, 1e9

# By resource, group and series. Lists, because HPAs ask for few of them at a time.
_Figures = Sequence[Sequence[Sequence[float]]]


class PodMetrics:
    """Metrics of the pods of a cluster: `measured` takes in a step, and `gathered` looks at what is there now."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._series = _by_workload(cluster.series)
        self._started: FloatColumn = np.full(0, np.nan)
        self._used: FloatColumn = np.zeros((2, 0))
        self._time = -np.inf

    def measured(self, usage: StepUsage, seen: BoolColumn | None = None) -> None:
        """What containers used in a step; `seen` are those that anybody measured."""
        rows = self._cluster.rows
        which = slice(None) if seen is None else seen
        places = usage.rows[which]
        self._started = np.full(rows.capacity, np.nan)
        self._used = np.zeros((2, rows.capacity))
        self._started[places] = rows.started[places]
        # Metrics are in nanocores and bytes, and rounded up to thousandths.
        self._used[_CPU, places] = np.ceil(np.round(usage.used_cpu[which] * _NANO) * _MILLI / _NANO)
        self._used[_MEMORY, places] = np.round(usage.used_memory[which]) * _MILLI
        self._time = usage.time

    def gathered(self, now: float) -> Gathered:
        """All pods as they are at this moment."""
        rows = self._cluster.rows
        numbers = np.flatnonzero(rows.used[: rows.reach] & ~rows.going[: rows.reach])
        known = _taken(self._started, numbers, np.nan)
        has_metrics = _for_all(rows.pod[numbers], known == rows.started[numbers])
        measured = np.where(has_metrics, _COUNTED, _MISSING)
        starts_up = has_metrics & self._starts_up(rows, numbers, now)
        pending = np.isnan(rows.started[numbers])
        groups = [np.where(pending, _UNREADY, each) for each in (np.where(starts_up, _UNREADY, measured), measured)]
        asked = np.round(np.stack([rows.asked_cpu[numbers], rows.asked_memory[numbers]]) * _MILLI)
        used, series = _taken(self._used, numbers, 0.0), rows.series[numbers]
        size = len(self._cluster.series)
        waiting: dict[int, tuple[int, Pod]] = {}
        for workload, pod in self._cluster.waiting():
            waiting[workload] = (waiting.get(workload, (0, pod))[0] + 1, pod)

        def sums(column: FloatColumn | None) -> _Figures:
            both = (_CPU, _MEMORY)
            return [_summed(groups[n], series, size, column[n] if column is not None else None) for n in both]

        bare = [np.bincount(series, each == 0, size).tolist() for each in asked]
        return Gathered(self._series, sums(None), sums(asked), sums(used), bare, waiting)

    def _starts_up(self, rows: RowTable, numbers: IntColumn, now: float) -> BoolColumn:
        """Whether what a pod uses of CPU is still that of its start."""
        bound, turned, ready = rows.bound[numbers], rows.turned[numbers], rows.ready[numbers]
        early: BoolColumn = bound + _INITIALIZATION > now
        fresh: BoolColumn = ~ready | (turned > self._time)
        never: BoolColumn = ~ready & (bound + _FIRST_READINESS > turned)
        return (early & fresh) | (~early & never)


class Gathered(msgspec.Struct, frozen=True):
    """One moment. Figures are by resource, group and series, amounts in thousandths.

    `series` has the numbers of a workload's containers, `bare` is by resource and series: how many have no request.
    `waiting` are the pods of a workload without a node: how many, and one of them.
    """

    series: Mapping[int, Mapping[str, int]]
    pods: _Figures
    asked: _Figures
    used: _Figures
    bare: Sequence[Sequence[float]]
    waiting: Mapping[int, tuple[int, Pod]]

    def seen(self, workloads: Iterable[int], resource: str, container: str = "") -> Seen | None:
        """Pods of workloads by one resource, of one container if it is named; None if a workload has no such one."""
        found = Seen()
        for workload in workloads:
            names = self.series[workload]
            if container and container not in names:
                return None
            series = [names[container]] if container else list(names.values())
            found += self._grouped(RESOURCES.index(resource), series) + self._unplaced(workload, resource, container)
        return found

    def without_request(self, workloads: Iterable[int], resource: str, container: str = "") -> str:
        """A container of which any does not request a resource, so that no share of it can be told; "" if none."""
        bare = self.bare[RESOURCES.index(resource)]
        names = (item for workload in workloads for item in self.series[workload].items())
        return next((name for name, number in names if container in ("", name) and bare[number]), "")

    def _grouped(self, resource: int, series: Sequence[int]) -> Seen:
        def group(which: int) -> Group:
            pods, asked, used = self.pods[resource][which], self.asked[resource][which], self.used[resource][which]
            # Each pod has all containers of its workload, so that any of them counts pods.
            return Group(int(pods[series[0]]), int(sum(asked[n] for n in series)), int(sum(used[n] for n in series)))

        return Seen(group(_COUNTED), group(_UNREADY), group(_MISSING))

    def _unplaced(self, workload: int, resource: str, container: str) -> Seen:
        """Pods that wait for a node are not up either. They are taken to be all of one size."""
        count, pod = self.waiting.get(workload, (0, None))
        if pod is None:
            return Seen()
        unit = 1 if resource == RESOURCES[_CPU] else _MILLI
        running = [each for each in running_containers(pod.spec) if container in ("", each.name)]
        asked = sum(counts(each.resources.requests).get(resource, 0) for each in running)
        return Seen(unready=Group(count, count * asked * unit))


def _by_workload(series: Sequence[Series]) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for number, each in enumerate(series):
        found.setdefault(each.workload, {})[each.container] = number
    return found


def _taken(column: FloatColumn, numbers: IntColumn, fill: float) -> FloatColumn:
    """Entries of a column, which may be shorter than it is now."""
    found = np.full((*column.shape[:-1], len(numbers)), fill)
    inside = numbers < column.shape[-1]
    found[..., inside] = column[..., numbers[inside]]
    return found


def _for_all(pods: IntColumn, holds: BoolColumn) -> BoolColumn:
    """Whether something holds for all containers of the same pod."""
    failing: IntColumn = np.bincount(pods, ~holds)
    none: BoolColumn = failing[pods] == 0
    return none


def _summed(group: IntColumn, series: IntColumn, size: int, column: FloatColumn | None) -> list[list[float]]:
    found = np.bincount(group * size + series, column, minlength=_GROUPS * size)
    return found.astype(np.float64, copy=False).reshape(_GROUPS, size).tolist()
