"""Metrics of an HPA in a simulation: what the pods of each workload use, and what each metric proposes.

Columns over all containers, summed by workload. Usage is that of the last step; requests and readiness are those of
now. Pods that came or restarted since have no metrics, and CPU of pods that start up does not count, as in the HPA
controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.pods import Pod
from trellis.api.kube.scaling import HorizontalPodAutoscalerSpec, Metric, MetricSource, MetricTarget, MetricValue
from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity
from trellis.core.recommend.amounts import parse_amounts
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.sim.cluster.cluster import ModelCluster
from trellis.sim.cluster.container_table import ModelContainerTable
from trellis.sim.cluster.demand import DemandSeries
from trellis.sim.cluster.pods import running_containers
from trellis.sim.cluster.telemetry import StepUsage
from trellis.sim.components.hpa_replicas import HpaTolerance, MeasuredPods, MeasuredTarget, MetricGoal, propose_replicas

RESOURCES: Final = ("cpu", "memory")

_CPU, _MEMORY = 0, 1
_COUNTED, _UNREADY, _MISSING, _GROUPS = 0, 1, 2, 3
# Seconds from a pod's start in which its CPU counts only once it is Ready.
_INITIALIZATION: Final = 300.0
# A pod that is not Ready longer than this after its start has been Ready before.
_FIRST_READINESS: Final = 30.0
_MILLI, _NANO = 1000, 1e9

# By resource, group and series. Lists, because HPAs read few of them at a time.
_Figures = Sequence[Sequence[Sequence[float]]]


class ModelPodMetrics:
    """Metrics of the pods of a cluster: `on_usage` takes in a step, and `snapshot` builds the snapshot of now."""

    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster
        self._series = _by_workload(cluster.series)
        self._started: FloatColumn = np.full(0, np.nan)
        self._used: FloatColumn = np.zeros((2, 0))
        self._time = -np.inf

    def on_usage(self, usage: StepUsage, measured: BoolColumn | None = None) -> None:
        """Take in what containers used in a step; `seen` are those that were measured."""
        rows = self._cluster.rows
        selection = slice(None) if measured is None else measured
        places = usage.rows[selection]
        self._started = np.full(rows.capacity, np.nan)
        self._used = np.zeros((2, rows.capacity))
        self._started[places] = rows.started[places]
        # Metrics are in nanocores and bytes, and rounded up to thousandths.
        self._used[_CPU, places] = np.ceil(np.round(usage.used_cpu[selection] * _NANO) * _MILLI / _NANO)
        self._used[_MEMORY, places] = np.round(usage.used_memory[selection]) * _MILLI
        self._time = usage.time

    def snapshot(self, now: float) -> PodMetricsSnapshot:
        """Build the snapshot of all pods at this moment."""
        rows = self._cluster.rows
        numbers = np.flatnonzero(rows.used[: rows.numbers_end] & ~rows.terminating[: rows.numbers_end])
        started = _select_entries(self._started, numbers, np.nan)
        has_metrics = _holds_for_whole_pod(rows.pod[numbers], started == rows.started[numbers])
        measured = np.where(has_metrics, _COUNTED, _MISSING)
        starts_up = has_metrics & self._starts_up(rows, numbers, now)
        pending = np.isnan(rows.started[numbers])
        groups = [np.where(pending, _UNREADY, column) for column in (np.where(starts_up, _UNREADY, measured), measured)]
        requested = np.round(np.stack([rows.spec_cpu_request[numbers], rows.spec_memory_request[numbers]]) * _MILLI)
        used, series = _select_entries(self._used, numbers, 0.0), rows.series[numbers]
        size = len(self._cluster.series)
        pending_pods: dict[int, tuple[int, Pod]] = {}
        for workload, pod in self._cluster.list_pending_pods():
            pending_pods[workload] = (pending_pods.get(workload, (0, pod))[0] + 1, pod)

        def sums(column: FloatColumn | None) -> _Figures:
            both = (_CPU, _MEMORY)
            return [_sum_by_group(groups[n], series, size, column[n] if column is not None else None) for n in both]

        without_requests = [np.bincount(series, column == 0, size).tolist() for column in requested]
        return PodMetricsSnapshot(self._series, sums(None), sums(requested), sums(used), without_requests, pending_pods)

    def _starts_up(self, rows: ModelContainerTable, numbers: IntColumn, now: float) -> BoolColumn:
        """Whether the CPU that a pod uses is still that of its start."""
        bound, turned, ready = rows.bound_at[numbers], rows.ready_changed_at[numbers], rows.ready[numbers]
        early: BoolColumn = bound + _INITIALIZATION > now
        fresh: BoolColumn = ~ready | (turned > self._time)
        never: BoolColumn = ~ready & (bound + _FIRST_READINESS > turned)
        return (early & fresh) | (~early & never)


class PodMetricsSnapshot(msgspec.Struct, frozen=True):
    """One moment. Figures are by resource, group and series, amounts in thousandths.

    `series` has the numbers of a workload's containers. `without_requests` counts, by resource and series, containers
    without a request.
    `pending` are the pods of a workload without a node: how many, and one of them.
    """

    series: Mapping[int, Mapping[str, int]]
    pods: _Figures
    requested: _Figures
    used: _Figures
    without_requests: Sequence[Sequence[float]]
    pending: Mapping[int, tuple[int, Pod]]

    def find_target(self, workloads: Iterable[int], resource: str, container: str = "") -> MeasuredTarget | None:
        """Pods of workloads by one resource, of one container if it is named; None if a workload lacks it."""
        measured_target = MeasuredTarget()
        for workload in workloads:
            names = self.series[workload]
            if container and container not in names:
                return None
            series = [names[container]] if container else list(names.values())
            measured_target += self._group_pods(RESOURCES.index(resource), series) + self._group_pending_pods(
                workload, resource, container
            )
        return measured_target

    def find_container_without_request(self, workloads: Iterable[int], resource: str, container: str = "") -> str:
        """A container without a request for a resource, of which no utilization exists; "" if none."""
        without_requests = self.without_requests[RESOURCES.index(resource)]
        names = (item for workload in workloads for item in self.series[workload].items())
        return next((name for name, number in names if container in ("", name) and without_requests[number]), "")

    def _group_pods(self, resource: int, series: Sequence[int]) -> MeasuredTarget:
        def group(group_number: int) -> MeasuredPods:
            pods, requested, used = (
                self.pods[resource][group_number],
                self.requested[resource][group_number],
                self.used[resource][group_number],
            )
            # Each pod has all containers of its workload, so that any of them counts pods.
            return MeasuredPods(
                int(pods[series[0]]), int(sum(requested[n] for n in series)), int(sum(used[n] for n in series))
            )

        return MeasuredTarget(group(_COUNTED), group(_UNREADY), group(_MISSING))

    def _group_pending_pods(self, workload: int, resource: str, container: str) -> MeasuredTarget:
        """Pods without a node, which are not up either. They are taken to be all of one size."""
        count, pod = self.pending.get(workload, (0, None))
        if pod is None:
            return MeasuredTarget()
        unit = 1 if resource == RESOURCES[_CPU] else _MILLI
        running = [candidate for candidate in running_containers(pod.spec) if container in ("", candidate.name)]
        requested = sum(parse_amounts(candidate.resources.requests).get(resource, 0) for candidate in running)
        return MeasuredTarget(unready=MeasuredPods(count, count * requested * unit))


def _by_workload(series: Sequence[DemandSeries]) -> dict[int, dict[str, int]]:
    result: dict[int, dict[str, int]] = {}
    for number, one_series in enumerate(series):
        result.setdefault(one_series.workload, {})[one_series.container] = number
    return result


def _select_entries(column: FloatColumn, numbers: IntColumn, fill: float) -> FloatColumn:
    """Entries of a column, which may be shorter than the table is now."""
    result = np.full((*column.shape[:-1], len(numbers)), fill)
    inside = numbers < column.shape[-1]
    result[..., inside] = column[..., numbers[inside]]
    return result


def _holds_for_whole_pod(pods: IntColumn, holds: BoolColumn) -> BoolColumn:
    """Whether something holds for all containers of the same pod."""
    failing: IntColumn = np.bincount(pods, ~holds)
    none: BoolColumn = failing[pods] == 0
    return none


def _sum_by_group(group: IntColumn, series: IntColumn, size: int, column: FloatColumn | None) -> list[list[float]]:
    result = np.bincount(group * size + series, column, minlength=_GROUPS * size)
    return result.astype(np.float64, copy=False).reshape(_GROUPS, size).tolist()


_RESOURCE, _CONTAINER = "Resource", "ContainerResource"
# What the API server fills in where no metric is given.
_DEFAULT_METRIC: Final = Metric(
    type=_RESOURCE,
    resource=MetricSource(name="cpu", target=MetricTarget(type="Utilization", average_utilization=80)),
)


class MetricProposal(msgspec.Struct, frozen=True):
    """The replicas that a metric proposes, and the metric as the status shows it."""

    replicas: int
    current: Metric


class MetricFailure(msgspec.Struct, frozen=True):
    """Why a metric has no answer, as the condition ScalingActive says it."""

    reason: str
    message: str


def list_metrics(spec: HorizontalPodAutoscalerSpec) -> tuple[Metric, ...]:
    """The metrics of an HPA; CPU at 80 % if it names none."""
    return spec.metrics or (_DEFAULT_METRIC,)


def find_unsupported(metric: Metric) -> str:
    """Why a metric cannot be simulated at all; "" if it can."""
    source = metric.resource or metric.container_resource
    if metric.type not in (_RESOURCE, _CONTAINER) or source is None:
        return f"metrics of type {metric.type or 'none'} cannot be simulated; use {_RESOURCE} or {_CONTAINER}"
    if source.name not in RESOURCES:
        return f"the resource {source.name!r} is not simulated; use {' or '.join(RESOURCES)}"
    if metric.type == _CONTAINER and not source.container:
        return "the metric names no container"
    return (
        ""
        if _read_goal(source.target) is not None
        else "the metric needs averageUtilization or averageValue above zero"
    )


def evaluate_metric(
    metric: Metric, pods: PodMetricsSnapshot, workloads: Sequence[int], current: int, tolerance: HpaTolerance
) -> MetricProposal | MetricFailure:
    """What a metric proposes now."""
    failed = f"FailedGet{metric.type}Metric"
    unsupported, source = find_unsupported(metric), metric.source
    goal = _read_goal(source.target) if source is not None else None
    if unsupported or source is None or goal is None:
        return MetricFailure(failed, unsupported)
    measured = pods.find_target(workloads, source.name, source.container)
    if measured is None:
        return MetricFailure(failed, f"container {source.container} not present in the pods")
    if not measured.counted.pods:
        return MetricFailure(failed, f"no metrics of {source.name} for the pods (pods might be unready)")
    container = (
        pods.find_container_without_request(workloads, source.name, source.container)
        if goal.percent is not None
        else ""
    )
    if container:
        return MetricFailure(failed, f"missing request for {source.name} in container {container}")
    average = str(Quantity.from_milli(measured.counted.used // measured.counted.pods))
    percent = goal.utilization(measured.counted) if goal.percent is not None else None
    shown = msgspec.structs.replace(
        source, target=MetricTarget(), current=MetricValue(average_value=average, average_utilization=percent)
    )
    result = Metric(metric.type, resource=shown) if metric.resource else Metric(metric.type, container_resource=shown)
    return MetricProposal(propose_replicas(measured, goal, current, tolerance), result)


def _read_goal(target: MetricTarget) -> MetricGoal | None:
    if target.average_utilization:
        return MetricGoal(percent=target.average_utilization)
    try:
        average = Quantity.parse(target.average_value).milli if target.average_value else 0
    except InvalidQuantity:
        return None
    return MetricGoal(average=average) if average > 0 else None
