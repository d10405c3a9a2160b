"""What is drawn? Columns over time, thinned out while they are made, so that a year takes no more room than a day.

A point spans as many steps as it takes to have no more points than a chart can show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.core.recommend.amounts import RESOURCES
from trellis.core.usage.columns import FloatColumn
from trellis.sim.accounting import REQUESTED, USED, Places, Sums
from trellis.sim.fleet import Clock
from trellis.sim.results import Chart, FleetChart, Line, Mark

MOST_POINTS: Final = 336

# What is kept of a recommendation, the first axis of `Charting.advice`.
_BOUNDS: Final = 3


class Charting:
    """The points of all charts of a run. `advice` is what is recommended now, as (bound, resource, place)."""

    def __init__(self, clock: Clock, places: Places, *, tells_nodes: bool = False) -> None:
        self._clock = clock
        self._tells_nodes = tells_nodes
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
        # Pods that wait for a node; what nodes offer, and what is held by who waits for a restart: cores and bytes.
        self._beside = np.zeros((self._points, 5))
        # How many nodes there are, and how many pods Buffers keep room for.
        self._nodes = np.zeros((self._points, 2))

    def add(self, number: int, sums: Sums, pending: int, offered: FloatColumn, nodes: tuple[int, int] = (0, 0)) -> None:
        """One step; `nodes` is how many there are, and for how many pods Buffers keep room."""
        at = number // self._span
        containers = sums.containers
        self._steps[at] += 1
        self._containers[at] += containers
        self._sums[0, at] += sums.amounts[USED]
        self._sums[1, at] += sums.amounts[REQUESTED]
        with np.errstate(invalid="ignore", divide="ignore"):
            np.fmax(self._peaks[at], sums.amounts[USED] / containers, out=self._peaks[at])
        self._advice[at] = self.advice
        self._beside[at, 0] += pending
        self._nodes[at] += nodes
        self._beside[at, 1:3] += offered
        self._beside[at, 3:] += sums.held.sum(axis=1)

    def of_workload(self, workload: int, pods: Sequence[str], marks: Sequence[Mark], left_out: int) -> Chart:
        """The chart of one workload; `pods` are the containers by which its pods are counted."""
        places = self._places.of(workload)
        counted = [place for place in places if self._places.names[place] in pods]
        steps = self._known_steps()
        per_pod = self._containers[: len(steps), counted].max(axis=1, initial=0.0) / steps
        lines = [self._line(place, resource) for place in places for resource in range(2)]
        return Chart(self._times(), per_pod.tolist(), lines, list(marks), left_out)

    def of_fleet(self, first_containers: Sequence[int]) -> FleetChart:
        """The chart of all workloads; pods are counted by their first containers."""
        steps = self._known_steps()
        sums = self._sums[:, : len(steps)].sum(axis=3) / steps[:, None]
        beside = self._beside[: len(steps)] / steps[:, None]
        pods = self._containers[: len(steps), list(first_containers)].sum(axis=1) / steps
        return FleetChart(
            times=self._times(),
            used_cpu=sums[0, :, 0].tolist(),
            requested_cpu=(sums[1, :, 0] + beside[:, 3]).tolist(),
            used_memory=sums[0, :, 1].tolist(),
            requested_memory=(sums[1, :, 1] + beside[:, 4]).tolist(),
            offered_cpu=beside[:, 1].tolist(),
            offered_memory=beside[:, 2].tolist(),
            pods=pods.tolist(),
            pending=beside[:, 0].tolist(),
            nodes=(self._nodes[: len(steps), 0] / steps).tolist() if self._tells_nodes else msgspec.UNSET,
            chunks=(self._nodes[: len(steps), 1] / steps).tolist() if self._tells_nodes else msgspec.UNSET,
        )

    def _known_steps(self) -> FloatColumn:
        """How many steps each point has, of the points that there are: a run may have been stopped."""
        return self._steps[self._steps > 0]

    def _times(self) -> list[float]:
        known = int(np.count_nonzero(self._steps))
        times: list[float] = (self._clock.begin + np.arange(known) * self._span * self._clock.step).tolist()
        return times

    def _line(self, place: int, resource: int) -> Line:
        known = int(np.count_nonzero(self._steps))
        containers = self._containers[:known, place]
        with np.errstate(invalid="ignore", divide="ignore"):
            used, requested = self._sums[:, :known, resource, place] / containers
        target, lower, upper = self._advice[:known, :, resource, place].T
        return Line(
            container=self._places.names[place],
            resource=RESOURCES[resource],
            used=used.tolist(),
            peak=self._peaks[:known, resource, place].tolist(),
            requested=requested.tolist(),
            target=target.tolist(),
            lower=lower.tolist(),
            upper=upper.tolist(),
        )
