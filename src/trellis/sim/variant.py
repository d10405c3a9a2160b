"""What comes of one variant? The fleet on virtual time, sized by the core, and everything counted that can be.

One thing after the other: what happened up to a step, then the step, in which usage advances for all containers at
once. The same fleet and variant give the same result, whoever runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.base.collector import paused
from trellis.sim.cluster.cluster import Cluster
from trellis.sim.cluster.watching import What
from trellis.sim.deciding import Deciding
from trellis.sim.fleet import Fleet, Variant
from trellis.sim.kernel import Kernel
from trellis.sim.results import VariantResult
from trellis.sim.scoring import Scoring

# Whoever waits for the end is told this often, in steps.
_TOLD_EVERY: Final = 16


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
    clock, fleet = fleet.clock, fleet.of_variant(variant)
    # Nothing that a run makes is in a cycle, and to look for such things takes a tenth of its time.
    with paused():
        run = _Run(fleet, variant)
        for number in range(clock.steps):
            reached = clock.begin + number * clock.step
            if number % _TOLD_EVERY == 0:
                progress(Progress(variant.name, number, clock.steps, reached))
                if stop():
                    return run.result(partial_until=reached)
            run.step(number, reached)
        run.end(clock.end)
        progress(Progress(variant.name, clock.steps, clock.steps, clock.end))
        return run.result(partial_until=None)


class _Run:
    """A variant under way: it watches the cluster for whoever decides, and for the scores."""

    def __init__(self, fleet: Fleet, variant: Variant) -> None:
        self._variant = variant
        self._kernel = Kernel(fleet.clock.begin)
        self._scoring = Scoring(fleet)
        self._deciding = Deciding(
            fleet,
            variant,
            self._kernel,
            advised=self._scoring.advised,
            because=self._scoring.marking.because,
        )
        # The same draws for every variant, so that they differ by what is decided alone.
        rng = np.random.default_rng(fleet.seed)
        self._cluster = Cluster(fleet, self._kernel, self._deciding.admit, rng, self)
        self._deciding.begin(self._cluster)
        self._cluster.begin()

    def step(self, number: int, time: float) -> None:
        """Everything that happens until a step begins, and the step."""
        self._kernel.run_until(time)
        usage = self._cluster.step(number)
        self._deciding.measured(usage, self._cluster.rows)
        self._scoring.step(usage, self._cluster, self._deciding.chunks)

    def end(self, time: float) -> None:
        """Everything that happens in the last step."""
        self._kernel.run_until(time)

    def result(self, partial_until: float | None) -> VariantResult:
        """What came of it so far."""
        nodes = self._deciding.node_figures
        return self._scoring.result(self._variant, self._cluster, self._deciding.verdicts, partial_until, nodes)

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed."""
        self._deciding.pod(old, new)
        if new is None and old is not None:
            self._scoring.marking.gone(old.metadata.uid)

    def workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        """A controller changed."""
        self._deciding.workload(kind, old, new)
        if old is not None and new is not None:
            self._scoring.changed(self._kernel.now, kind, old, new)

    def node(self, old: Node | None, new: Node | None) -> None:
        """A node changed."""
        self._deciding.node(old, new)

    def event(self, event: Event) -> None:
        """A kubelet evicted a pod."""
        self._deciding.event(event)

    def happened(self, workload: int, what: What, pod: Pod, text: str) -> None:
        """Something happened to a pod."""
        self._scoring.happened(self._kernel.now, workload, what, pod, text)
