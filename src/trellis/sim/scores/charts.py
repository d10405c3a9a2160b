"""Charts of a variant: columns over time, marks of events, and the recommendations in force.

Columns are thinned out while they are built, so that a year takes no more memory than a day: a point spans as many
steps as it takes to have no more points than a chart can show. The recommendation shown is that of the VPA, or the size
that an Hvpa publishes where one decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.core.cluster.owners import TargetRef
from trellis.core.recommend.amounts import (
    CPU,
    LARGEST_AMOUNT,
    LOWER_BOUND,
    MILLICORES_PER_CORE,
    RESOURCES,
    TARGET,
    UPPER_BOUND,
)
from trellis.core.sizing.governors import Governor
from trellis.core.usage.columns import FloatColumn
from trellis.sim.components.recommender import PublishedStatus
from trellis.sim.fleet import Fleet, SimulationClock
from trellis.sim.results import ChartMark, FleetChart, ResourceChart, WorkloadChart
from trellis.sim.scores.accounting import REQUESTED, USED, ContainerNumbers, StepSums

MOST_POINTS: Final = 336

# The bounds of a recommendation, the first axis of `ChartBuilder.advice`.
_BOUNDS: Final = 3


class ChartBuilder:
    """The points of all charts of a run. `advice` is the present recommendation, as (bound, resource, place)."""

    def __init__(self, clock: SimulationClock, places: ContainerNumbers, *, shows_nodes: bool = False) -> None:
        self._clock = clock
        self._shows_nodes = shows_nodes
        self._places = places
        self._span = -(-clock.steps // MOST_POINTS)
        self._points = -(-clock.steps // self._span)
        shape = (self._points, 2, len(places))
        self.advice = np.full((_BOUNDS, 2, len(places)), np.nan)
        self._sums = np.zeros((2, *shape))
        self._peaks = np.full(shape, np.nan)
        self._containers = np.zeros((self._points, len(places)))
        self._advice = np.full((self._points, _BOUNDS, 2, len(places)), np.nan)
        self._steps = np.zeros(self._points)
        # Pods without a node; what nodes offer, and what containers hold that wait for a restart: cores and bytes.
        self._cluster_sums = np.zeros((self._points, 5))
        # How many nodes there are, and how many chunks Buffers have.
        self._nodes = np.zeros((self._points, 2))

    def add(
        self, number: int, sums: StepSums, pending: int, offered: FloatColumn, nodes: tuple[int, int] = (0, 0)
    ) -> None:
        """Add a step; `nodes` is the number of nodes and of chunks."""
        at = number // self._span
        containers = sums.containers
        self._steps[at] += 1
        self._containers[at] += containers
        self._sums[0, at] += sums.amounts[USED]
        self._sums[1, at] += sums.amounts[REQUESTED]
        with np.errstate(invalid="ignore", divide="ignore"):
            np.fmax(self._peaks[at], sums.amounts[USED] / containers, out=self._peaks[at])
        self._advice[at] = self.advice
        self._cluster_sums[at, 0] += pending
        self._nodes[at] += nodes
        self._cluster_sums[at, 1:3] += offered
        self._cluster_sums[at, 3:] += sums.held.sum(axis=1)

    def build_workload_chart(
        self, workload: int, pods: Sequence[str], marks: Sequence[ChartMark], omitted_marks: int
    ) -> WorkloadChart:
        """The chart of one workload; `pods` are the containers by which its pods are counted."""
        places = self._places.list_numbers(workload)
        counted = [place for place in places if self._places.names[place] in pods]
        steps = self._count_steps()
        per_pod = self._containers[: len(steps), counted].max(axis=1, initial=0.0) / steps
        lines = [self._build_resource_chart(place, resource) for place in places for resource in range(2)]
        return WorkloadChart(self._times(), per_pod.tolist(), lines, list(marks), omitted_marks)

    def build_fleet_chart(self, first_containers: Sequence[int]) -> FleetChart:
        """The chart of all workloads; pods are counted by their first containers."""
        steps = self._count_steps()
        sums = self._sums[:, : len(steps)].sum(axis=3) / steps[:, None]
        cluster_averages = self._cluster_sums[: len(steps)] / steps[:, None]
        pods = self._containers[: len(steps), list(first_containers)].sum(axis=1) / steps
        return FleetChart(
            times=self._times(),
            used_cpu=sums[0, :, 0].tolist(),
            requested_cpu=(sums[1, :, 0] + cluster_averages[:, 3]).tolist(),
            used_memory=sums[0, :, 1].tolist(),
            requested_memory=(sums[1, :, 1] + cluster_averages[:, 4]).tolist(),
            offered_cpu=cluster_averages[:, 1].tolist(),
            offered_memory=cluster_averages[:, 2].tolist(),
            pods=pods.tolist(),
            pending=cluster_averages[:, 0].tolist(),
            nodes=(self._nodes[: len(steps), 0] / steps).tolist() if self._shows_nodes else msgspec.UNSET,
            chunks=(self._nodes[: len(steps), 1] / steps).tolist() if self._shows_nodes else msgspec.UNSET,
        )

    def _count_steps(self) -> FloatColumn:
        """The number of steps of each point there is: a run may have been stopped."""
        return self._steps[self._steps > 0]

    def _times(self) -> list[float]:
        points = int(np.count_nonzero(self._steps))
        times: list[float] = (self._clock.begin + np.arange(points) * self._span * self._clock.step).tolist()
        return times

    def _build_resource_chart(self, place: int, resource: int) -> ResourceChart:
        points = int(np.count_nonzero(self._steps))
        containers = self._containers[:points, place]
        with np.errstate(invalid="ignore", divide="ignore"):
            used, requested = self._sums[:, :points, resource, place] / containers
        target, lower, upper = self._advice[:points, :, resource, place].T
        return ResourceChart(
            container=self._places.names[place],
            resource=RESOURCES[resource],
            used=used.tolist(),
            peak=self._peaks[:points, resource, place].tolist(),
            requested=requested.tolist(),
            target=target.tolist(),
            lower=lower.tolist(),
            upper=upper.tolist(),
        )


# More marks cannot be distinguished in a chart.
MOST_MARKS: Final = 200
# A workload that is changed or killed without end must not take all memory.
_MOST_NOTED: Final = 20_000


class ChartMarks:
    """The marks of all workloads, and the reason for the next event of each pod."""

    def __init__(self, workloads: int) -> None:
        self._marks: list[list[ChartMark]] = [[] for _ in range(workloads)]
        self._omitted = [0] * workloads
        self._reasons: dict[str, tuple[str, str]] = {}

    def note_reason(self, uid: str, reason: str, text: str) -> None:
        """Note the reason for what happens to a pod from now on."""
        self._reasons[uid] = (reason, text)

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._reasons.pop(uid, None)

    def mark(self, workload: int, time: float, event: str, uid: str = "", text: str = "") -> None:
        """Mark an event; with a pod's uid for the reason that was noted last."""
        marks = self._marks[workload]
        if len(marks) >= _MOST_NOTED:
            self._omitted[workload] += 1
            return
        reason, note = self._reasons.get(uid, ("", ""))
        marks.append(ChartMark(time, event, reason, text or note))

    def select_marks(self, workload: int) -> tuple[list[ChartMark], int]:
        """The marks of a workload as far as they fit, and how many more there were."""
        marks = self._marks[workload]
        chosen = _thin_out(marks) if len(marks) > MOST_MARKS else marks
        return chosen, len(marks) - len(chosen) + self._omitted[workload]


def _thin_out(marks: list[ChartMark]) -> list[ChartMark]:
    """Thin out marks: rare ones stay; of frequent ones some do, spread over all the time."""
    kinds: defaultdict[str, list[int]] = defaultdict(list)
    for position, mark in enumerate(marks):
        kinds[mark.what].append(position)
    chosen: list[int] = []
    rarest_first = sorted(kinds.values(), key=len)
    for number, positions in enumerate(rarest_first):
        share = (MOST_MARKS - len(chosen)) // (len(rarest_first) - number)
        count = min(len(positions), share)
        chosen += [positions[index * len(positions) // count] for index in range(count)]
    return [marks[position] for position in sorted(chosen)]


# What charts show of a recommendation, in their order.
_DRAWN: Final = [TARGET, LOWER_BOUND, UPPER_BOUND]

# Called with containers, each by the number of its workload (-1 for another) and its name, and their present
# recommendation: cores and bytes as (target, lower and upper bound; resource; container).
OnRecommendation = Callable[[Sequence[tuple[int, str]], FloatColumn], None]


class RecommendationCharts:
    """Passes recommendations on to charts. `sized` says whether an Hvpa decides about a workload."""

    def __init__(
        self,
        fleet: Fleet,
        on_recommendation: OnRecommendation,
        is_sized_by_hvpa: Callable[[tuple[str, str, str]], bool],
    ) -> None:
        self._on_recommendation = on_recommendation
        self._is_sized_by_hvpa = is_sized_by_hvpa
        self._workloads = {
            (workload.namespace, workload.kind, workload.name): number
            for number, workload in enumerate(fleet.workloads)
        }

    def draw_vpas(self, written: Sequence[PublishedStatus]) -> None:
        """Pass on new recommendations of VPAs."""
        amounts = np.concatenate([write.amounts for _, write in written], axis=2)[_DRAWN]
        drawn = np.where(amounts < LARGEST_AMOUNT, amounts, np.nan)
        drawn[:, CPU] /= MILLICORES_PER_CORE
        containers: list[tuple[int, str]] = []
        for vpa, write in written:
            target = vpa.spec.target_ref
            workload = (vpa.metadata.namespace, target.kind, target.name)
            number = -1 if self._is_sized_by_hvpa(workload) else self._workloads.get(workload, -1)
            containers += [(number, name) for name in write.containers]
        self._on_recommendation(containers, drawn)

    def draw_hvpa(self, governor: Governor) -> None:
        """Pass on a new size of an Hvpa. It has no range: the Hvpa itself decides what is worth a change."""
        target: TargetRef = governor.claim.target
        number = self._workloads.get((target.namespace, target.kind, target.name), -1)
        sizes = [[container.target.get(name, np.nan) for container in governor.advice] for name in RESOURCES]
        amounts = np.array(sizes, dtype=np.float64)
        amounts[CPU] /= MILLICORES_PER_CORE
        self._on_recommendation(
            [(number, container.container) for container in governor.advice], np.stack([amounts] * len(_DRAWN))
        )
