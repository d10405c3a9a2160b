"""The last runs that a usage model has of many jobs after a day, sampled as they went."""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.protocol import Rows
from trellis.core.usage.columns import FloatColumn, RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

BEGIN = 1_790_035_200.0
RUNS = 8
MINUTES = 60
_EVERY = 90  # minutes from the start of a run to that of the next
_MINUTES_A_SAMPLE = 5
_MINUTE = 60.0
_MIB = 2.0**20
_NAMESPACE, _CONTAINER = "batch", "app"
_PHASES: FloatColumn = np.repeat([0.2, 1.5, 0.6, 2.5], [20, 15, 15, 10])


class Jobs:
    """So many jobs, each under a VPA of its own, all in the middle of a run."""

    def __init__(self, count: int) -> None:
        self._draw = np.random.default_rng(13)
        self._names = [f"vpa-{number}" for number in range(count)]
        self._model = UsageModel()
        self._model.keep_runs([(_NAMESPACE, name) for name in self._names])
        self._size = self._draw.uniform(0.2, 2.0, count)
        for run in range(RUNS):
            self._begin(run)
            for minute in range(0, MINUTES, _MINUTES_A_SAMPLE):
                self._use(self._start + minute * _MINUTE)
        self._begin(RUNS)
        self._row_indices = self._model.find_rows([RowKey(_NAMESPACE, name, _CONTAINER) for name in self._names])
        self.now = self._start

    def pass_by(self, minutes: float) -> None:
        """Let time go by; at its end all are sampled, as by one scrape."""
        self.now += minutes * _MINUTE
        self._use(self.now)

    def rows(self) -> Rows:
        """All of them, as a recommender is asked about them."""
        return Rows(self._model.view(self._row_indices), np.ones(len(self._names)))

    def _use(self, now: float) -> None:
        count = len(self._names)
        phase = float(_PHASES[int((now - self._start) / _MINUTE) % MINUTES])
        cpu = phase * self._size * self._draw.lognormal(0.0, 0.05, count)
        named = ([_NAMESPACE] * count, self._pods, [_CONTAINER] * count)
        self._model.ingest(Samples(*named, np.full(count, now), cpu, 400 * _MIB * (1 + cpu)), now)

    def _begin(self, run: int) -> None:
        """Pods of another run, in the place of those before them."""
        self._start = BEGIN + run * _EVERY * _MINUTE
        self._pods = [f"{name}-{run}" for name in self._names]
        container = (TrackedContainer(_CONTAINER),)
        pods = [
            TrackedPod(_NAMESPACE, pod, pod, name, True, container, self._start)
            for pod, name in zip(self._pods, self._names, strict=True)
        ]
        self._model.track_pods(_NAMESPACE, pods, self._start)
