"""Collects the scores of a variant while it runs, and builds its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.pods import Pod
from trellis.api.kube.workloads import Deployment, StatefulSet
from trellis.core.boost.annotation import is_boosted
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.sim.cluster.cluster import ModelCluster
from trellis.sim.cluster.pods import WorkloadTemplate
from trellis.sim.cluster.telemetry import PendingTimes, PodEvent, StepUsage
from trellis.sim.fleet import Fleet, SimulatedWorkload, Variant
from trellis.sim.results import NodeFigures, SimulationTotals, VariantResult, WorkloadResult
from trellis.sim.scores.accounting import ContainerNumbers, ReplicaAccounting, StepAmounts, UsageAccounting, sum_step
from trellis.sim.scores.charts import ChartBuilder, ChartMarks

_HOUR: Final = 3600.0
# The most workloads with a chart; those that request the most have one.
MOST_CHARTS: Final = 300

_BOOSTED: Final = "boosted"
_SCALED: Final = "scaled"
_COUNTED: Final = (Deployment, StatefulSet)
# Events that are marked: neither counted in totals alone, nor the usual course of a pod's life.
_MARKED: Final = frozenset(
    {
        PodEvent.KILLED,
        PodEvent.EVICTED,
        PodEvent.PRESSED_OUT,
        PodEvent.RESIZED,
        PodEvent.RESIZE_DEFERRED,
        PodEvent.RESIZE_INFEASIBLE,
        PodEvent.LOST,
    }
)


class Scorer:
    """Collects the scores of one variant, from before anything has happened in the cluster."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._places = ContainerNumbers([WorkloadTemplate.of(workload).containers for workload in fleet.workloads])
        self._accounting = UsageAccounting(fleet, self._places)
        self._charts = ChartBuilder(fleet.clock, self._places, shows_nodes=bool(fleet.pools))
        self._replicas = ReplicaAccounting(self._places.begin[:-1].tolist())
        self.marks = ChartMarks(len(fleet.workloads))
        self._numbers = {
            (workload.namespace, workload.kind, workload.name): number
            for number, workload in enumerate(fleet.workloads)
        }
        self._boosts = np.zeros(len(fleet.workloads), dtype=np.int64)
        self._before: dict[str, FloatColumn | IntColumn] = {}
        self._node_hours = self._node_money = 0.0

    def record_recommendations(self, containers: Sequence[tuple[int, str]], amounts: FloatColumn) -> None:
        """Take in recommendations for containers: cores and bytes as (bound, resource, container)."""
        places = np.array([self._places.find(*container) for container in containers], dtype=np.int64)
        counted = places >= 0
        self._charts.advice[:, :, places[counted]] = amounts[:, :, counted]

    def on_pod_event(self, now: float, workload: int, event: PodEvent, pod: Pod, text: str) -> None:
        """Mark an event of a pod."""
        if event in _MARKED:
            self.marks.mark(workload, now, event.value, pod.metadata.uid, text)
        elif event is PodEvent.MADE and is_boosted(pod.metadata.annotations):
            self._boosts[workload] += 1
            self.marks.mark(workload, now, _BOOSTED)

    def record_scaling(self, now: float, kind: str, old: KubeObject, new: KubeObject) -> None:
        """Mark a change of a workload's replicas."""
        if isinstance(old, _COUNTED) and isinstance(new, _COUNTED) and old.spec.replicas != new.spec.replicas:
            number = self._numbers[new.metadata.namespace, kind, new.metadata.name]
            self.marks.mark(number, now, _SCALED, text=f"{old.spec.replicas} to {new.spec.replicas} pods")

    def add_step(self, usage: StepUsage, cluster: ModelCluster, chunks: int = 0) -> None:
        """Add a step of usage; `chunks` is the number of chunks of all Buffers."""
        clock, nodes = self._fleet.clock, cluster.nodes
        sums = sum_step(_amounts(usage, cluster), len(self._places))
        offered: FloatColumn = np.array((nodes.cores[nodes.up].sum(), nodes.bytes[nodes.up].sum()))
        self._charts.add(usage.number, sums, cluster.pending, offered, (int(nodes.up.sum()), chunks))
        if usage.time < clock.scored_from:
            return
        if usage.number and not self._accounting.seconds:
            # What has happened until now is not scored.
            self._before = self._read_counters(cluster)
        self._accounting.add(sums)
        self._replicas.add(usage, cluster.rows, sums.containers)
        self._node_hours += (float(nodes.up.sum()) + len(nodes.booting)) * clock.step / _HOUR
        self._node_money += (float(nodes.prices[nodes.up].sum()) + sum(nodes.booting.values())) * clock.step / _HOUR

    def build_result(
        self,
        variant: Variant,
        cluster: ModelCluster,
        decisions: dict[str, int],
        partial_until: float | None,
        nodes: NodeFigures | msgspec.UnsetType,
    ) -> VariantResult:
        """Build the result so far."""
        numbers = range(len(self._fleet.workloads))
        counted = self._read_counters(cluster)
        for name, column in self._before.items():
            counted[name] = counted[name] - column
        scalings = counted.pop("scalings")
        counts = [
            SimulationTotals(**{name: column[number].item() for name, column in counted.items()}) for number in numbers
        ]
        totals = [self._accounting.total_workload(number, counts[number]) for number in numbers]
        fleet = self._accounting.total_fleet(
            SimulationTotals(**{name: column.sum().item() for name, column in counted.items()})
        )
        if self._fleet.scales or variant.scales:
            fleet = msgspec.structs.replace(fleet, scaling=self._replicas.total_fleet(scalings.sum().item()))
            totals = [
                msgspec.structs.replace(
                    totals[number], scaling=self._replicas.total_workload(number, scalings[number].item())
                )
                for number in numbers
            ]
        waited = cluster.pending_times
        if waited is not None:
            fleet, totals = self._add_pending_totals(waited, fleet, totals)
        charted = set(sorted(numbers, key=lambda number: (-totals[number].money, number))[:MOST_CHARTS])
        return VariantResult(
            name=variant.name,
            title=variant.title,
            fleet=fleet,
            chart=self._charts.build_fleet_chart(self._places.begin[:-1].tolist()),
            workloads=[self._workload(number, totals[number], number in charted) for number in numbers],
            node_hours=self._node_hours,
            node_money=self._node_money,
            verdicts=dict(sorted(decisions.items())),
            partial_until=partial_until,
            nodes=nodes,
        )

    def _add_pending_totals(
        self, pending_times: PendingTimes, fleet: SimulationTotals, totals: list[SimulationTotals]
    ) -> tuple[SimulationTotals, list[SimulationTotals]]:
        balloons = [number for number, workload in enumerate(self._fleet.workloads) if _priority(workload) < 0]
        fleet_waits, workload_waits = pending_times.summarize(self._fleet.clock.scored_from, len(totals), balloons)
        return (
            msgspec.structs.replace(fleet, waits=fleet_waits),
            [msgspec.structs.replace(total, waits=waits) for total, waits in zip(totals, workload_waits, strict=True)],
        )

    def _workload(self, number: int, totals: SimulationTotals, is_charted: bool) -> WorkloadResult:
        workload = self._fleet.workloads[number]
        marks, omitted = self.marks.select_marks(number)
        first = self._places.names[int(self._places.begin[number])]
        chart = self._charts.build_workload_chart(number, (first,), marks, omitted) if is_charted else None
        return WorkloadResult(workload.namespace, workload.name, workload.kind, workload.label, totals, chart)

    def _read_counters(self, cluster: ModelCluster) -> dict[str, FloatColumn | IntColumn]:
        """The counters so far, by their names in `SimulationTotals`; pods without a node are pending until now."""
        counters = cluster.counters.copy()
        counted = {name: getattr(counters, name) for name in counters.__struct_fields__}
        counted["pending_seconds"] = counters.pending_seconds + cluster.pending_seconds()
        return {**counted, "boosts": self._boosts.copy()}


def _priority(workload: SimulatedWorkload) -> int:
    return WorkloadTemplate.of(workload).spec.priority or 0


def _amounts(usage: StepUsage, cluster: ModelCluster) -> StepAmounts:
    rows = cluster.rows
    halted = rows.find_stopped()
    return StepAmounts(
        places=usage.series,
        requested=np.stack((rows.cpu_request[usage.rows], rows.memory_request[usage.rows])),
        demanded=np.stack((usage.demanded_cpu, usage.demanded_memory)),
        used=np.stack((usage.used_cpu, usage.used_memory)),
        throttled=usage.throttled,
        halted=rows.series[halted],
        held=np.stack((rows.cpu_request[halted], rows.memory_request[halted])),
    )
