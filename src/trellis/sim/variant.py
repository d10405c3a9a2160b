"""What comes of one variant? The fleet on virtual time, sized by the core, and everything counted that can be.

One thing after the other: what happened up to a step, then the step, in which usage advances for all containers at
once. The same fleet and variant give the same result, whoever runs them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.core.boost.memory import is_boosted
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.sim.accounting import Accounting, Places, StepAmounts, summed
from trellis.sim.charting import Charting
from trellis.sim.cluster.cluster import Cluster
from trellis.sim.cluster.tally import Tally
from trellis.sim.cluster.templates import Template
from trellis.sim.cluster.usage import StepUsage
from trellis.sim.cluster.watching import What
from trellis.sim.deciding import Deciding
from trellis.sim.fleet import Fleet, Variant
from trellis.sim.kernel import Kernel
from trellis.sim.marking import Marking
from trellis.sim.results import Totals, VariantResult, WorkloadResult

_HOUR: Final = 3600.0
# Whoever waits for the end is told this often, in steps.
_TOLD_EVERY: Final = 16
# A chart for each of more workloads nobody would look at; those that request the most have one.
MOST_CHARTS: Final = 300

_BOOSTED: Final = "boosted"
# What is neither said in totals alone, nor the usual course of a pod's life.
_MARKED: Final = frozenset(
    {
        What.KILLED,
        What.EVICTED,
        What.PRESSED_OUT,
        What.RESIZED,
        What.RESIZE_DEFERRED,
        What.RESIZE_INFEASIBLE,
        What.LOST,
    }
)


class Progress(msgspec.Struct, frozen=True):
    """How far a variant is: steps that are done, of how many, and the time in it."""

    variant: str
    done: int
    steps: int
    time: float


def run_variant(
    fleet: Fleet,
    variant: Variant,
    *,
    progress: Callable[[Progress], None] = lambda _progress: None,
    stop: Callable[[], bool] = lambda: False,
) -> VariantResult:
    """One variant from beginning to end, or until `stop` says so; `InvalidInput` if it cannot be meant."""
    clock = fleet.clock
    with _collector_paused():
        run = _Run(fleet, variant)
        for number in range(clock.steps):
            if number % _TOLD_EVERY == 0:
                reached = clock.begin + number * clock.step
                progress(Progress(variant.name, number, clock.steps, reached))
                if stop():
                    return run.result(partial_until=reached)
            run.step(number)
        run.kernel.run_until(clock.end)
        progress(Progress(variant.name, clock.steps, clock.steps, clock.end))
        return run.result(partial_until=None)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Nothing that a run makes is in a cycle, and to look for such things takes a tenth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Run:
    """A variant under way; it watches the cluster for whoever decides, and for itself."""

    def __init__(self, fleet: Fleet, variant: Variant) -> None:
        self._fleet = fleet
        self._variant = variant
        self.kernel = Kernel(fleet.clock.begin)
        containers = [Template.of(each).containers for each in fleet.workloads]
        self._places = Places(containers)
        self._accounting = Accounting(fleet, self._places)
        self._charting = Charting(fleet.clock, self._places)
        self._marking = Marking(len(fleet.workloads))
        self._boosts = np.zeros(len(fleet.workloads), dtype=np.int64)
        self._node_hours = self._node_money = 0.0
        self._deciding = Deciding(fleet, variant, self.kernel, advised=self._advised, because=self._marking.because)
        # The same draws for every variant, so that they differ by what is decided alone.
        rng = np.random.default_rng(fleet.seed)
        self._cluster = Cluster(fleet, self.kernel, self._deciding.admit, rng, self)
        self._before = self._counted()
        self._deciding.begin(self._cluster)
        self._cluster.begin()

    def step(self, number: int) -> None:
        """One step of usage, after everything that happened before it."""
        clock = self._fleet.clock
        time = clock.begin + number * clock.step
        self.kernel.run_until(time)
        is_scored = time >= clock.scored_from
        if is_scored and number and not self._accounting.seconds:
            self._before = self._counted()
        usage = self._cluster.step(number)
        self._deciding.measured(usage, self._cluster.rows)
        sums = summed(self._amounts(usage), len(self._places))
        nodes = self._cluster.nodes
        offered: FloatColumn = np.array((nodes.cores[nodes.up].sum(), nodes.bytes[nodes.up].sum()))
        self._charting.add(number, sums, self._cluster.pending, offered)
        if is_scored:
            self._accounting.add(sums)
            self._node_hours += float(nodes.up.sum()) * clock.step / _HOUR
            self._node_money += float(nodes.prices[nodes.up].sum()) * clock.step / _HOUR

    def result(self, partial_until: float | None) -> VariantResult:
        """What came of it so far."""
        before, now = self._before, self._counted()
        counts = [
            Totals(**{name: (column[number] - before[name][number]).item() for name, column in now.items()})
            for number in range(len(self._fleet.workloads))
        ]
        totals = [self._accounting.of_workload(number, counted) for number, counted in enumerate(counts)]
        charted = sorted(range(len(totals)), key=lambda number: (-totals[number].money, number))[:MOST_CHARTS]
        first = [int(begin) for begin in self._places.begin[:-1]]
        return VariantResult(
            name=self._variant.name,
            title=self._variant.title,
            fleet=self._accounting.of_fleet(_summed(counts)),
            chart=self._charting.of_fleet(first),
            workloads=[self._workload(number, totals[number], number in set(charted)) for number in range(len(totals))],
            node_hours=self._node_hours,
            node_money=self._node_money,
            verdicts=dict(sorted(self._deciding.updating.verdicts.items())),
            partial_until=partial_until,
        )

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed."""
        self._deciding.pod(old, new)
        if new is None and old is not None:
            self._marking.gone(old.metadata.uid)

    def workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        """A controller changed."""
        self._deciding.workload(kind, old, new)

    def node(self, old: Node | None, new: Node | None) -> None:
        """A node changed."""
        self._deciding.node(old, new)

    def event(self, event: Event) -> None:
        """A kubelet evicted a pod."""
        self._deciding.event(event)

    def happened(self, workload: int, what: What, pod: Pod, text: str) -> None:
        """Something happened to a pod."""
        if what in _MARKED:
            self._marking.mark(workload, self.kernel.now, what.value, pod.metadata.uid, text)
        elif what is What.MADE and is_boosted(pod.metadata.annotations):
            self._boosts[workload] += 1
            self._marking.mark(workload, self.kernel.now, _BOOSTED)

    def _advised(self, containers: Sequence[tuple[int, str]], amounts: FloatColumn) -> None:
        places = np.array([self._places.find(*each) for each in containers], dtype=np.int64)
        known = places >= 0
        self._charting.advice[:, :, places[known]] = amounts[:, :, known]

    def _amounts(self, usage: StepUsage) -> StepAmounts:
        rows = self._cluster.rows
        return StepAmounts(
            places=usage.series,
            requested=np.stack((rows.cpu_request[usage.rows], rows.memory_request[usage.rows])),
            wanted=np.stack((usage.wanted_cpu, usage.wanted_memory)),
            used=np.stack((usage.used_cpu, usage.used_memory)),
            throttled=usage.throttled,
        )

    def _workload(self, number: int, totals: Totals, is_charted: bool) -> WorkloadResult:
        about = self._fleet.workloads[number]
        marks, left_out = self._marking.of_workload(number)
        first = self._places.names[int(self._places.begin[number])]
        chart = self._charting.of_workload(number, (first,), marks, left_out) if is_charted else None
        return WorkloadResult(about.namespace, about.name, about.kind, about.label, totals, chart)

    def _counted(self) -> dict[str, FloatColumn | IntColumn]:
        """What has happened so far, by what `Totals` calls it; who still waits for a node has waited until now."""
        tally = self._cluster.tally.copy()
        counted = {name: getattr(tally, name) for name in tally.__struct_fields__}
        counted["pending_seconds"] = tally.pending_seconds + self._cluster.pending_seconds()
        return {**counted, "boosts": self._boosts.copy()}


def _summed(counts: list[Totals]) -> Totals:
    names = ("boosts", *Tally.__struct_fields__)
    return Totals(**{name: sum(getattr(each, name) for each in counts) for name in names})
