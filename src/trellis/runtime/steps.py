"""How long does each step of a pass take? A histogram for each component, with one label, as upstream has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trellis.runtime.metrics import HistogramSpec, Metrics

# Upstream's bounds, in seconds. Dashboards and alerts that were made for them keep their meaning.
BUCKETS: Final = (
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0),
    *(120.0, 150.0, 240.0, 300.0),
)
TOTAL: Final = "total"


def execution_latency(component: str) -> HistogramSpec:
    """The histogram of a component such as `vpa_recommender`."""
    name = f"{component}_execution_latency_seconds"
    return HistogramSpec(name, "Time spent in the steps of a pass, and in all of it.", ("step",), buckets=BUCKETS)


class StepTimer:
    """Times one pass: each step lasts from the end of the one before. The clock is the event loop's."""

    def __init__(self, metrics: Metrics, latency: HistogramSpec, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._latency = latency
        self._clock = clock
        self._began = self._last = clock()

    def step(self, name: str) -> None:
        """The step of this name is over."""
        now = self._clock()
        self._metrics.observe(self._latency, now - self._last, name)
        self._last = now

    def total(self) -> None:
        """The pass is over."""
        self._metrics.observe(self._latency, self._clock() - self._began, TOTAL)
