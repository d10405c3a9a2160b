"""The hours that a usage model has of many containers after five weeks, put there at once.

Generated day by day: busy hours, a weekend, and noise, so that no two containers are alike and none is simple.
"""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.protocol import Rows
from trellis.core.usage.columns import FloatColumn, RowKey
from trellis.core.usage.history.hours import HOUR, HourSummaries
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

BEGIN = 1_790_035_200.0  # a midnight
DAYS = 35
_MIB = 2.0**20
_MINUTE = 60.0
_SAMPLES_OF_AN_HOUR = 60
_NAMESPACE, _CONTAINER = "shop", "app"
# Of an hour: mean, p50, p90, p95 and maximum, in units of its mean.
_WITHIN: FloatColumn = np.array([1.0, 0.95, 1.2, 1.3, 1.6])


class Containers:
    """So many containers, each under a VPA of its own, with all hours before `BEGIN`."""

    def __init__(self, count: int) -> None:
        self._draw = np.random.default_rng(11)
        self._names = [f"vpa-{number}" for number in range(count)]
        self._model = UsageModel()
        self._model.keep_history([(_NAMESPACE, name) for name in self._names])
        container = (TrackedContainer(_CONTAINER),)
        pods = [TrackedPod(_NAMESPACE, name, name, name, True, container) for name in self._names]
        self._model.track_pods(_NAMESPACE, pods, BEGIN - HOUR)
        self._rows = self._model.find_rows([RowKey(_NAMESPACE, name, _CONTAINER) for name in self._names])
        self._busy = self._draw.uniform(0.2, 2.0, count)
        for day in range(DAYS, 0, -1):
            self._add_day(day)
        self.now = BEGIN

    def pass_by(self, minutes: float) -> None:
        """Let time go by; at its end all are sampled, as by one scrape."""
        self.now = now = self.now + minutes * _MINUTE
        count = len(self._names)
        cpu = self._busy * self._draw.lognormal(0.0, 0.1, count)
        named = ([_NAMESPACE] * count, self._names, [_CONTAINER] * count)
        self._model.ingest(Samples(*named, np.full(count, now), cpu, 400 * _MIB * cpu), now)

    def rows(self) -> Rows:
        """All of them, as a recommender is asked about them."""
        return Rows(self._model.view(self._rows), np.ones(len(self._names)))

    def _add_day(self, ago: int) -> None:
        """One day, all hours of it."""
        count, hours = len(self._names), int(BEGIN // HOUR) - 24 * ago + np.arange(24)
        quiet = (hours % 24 < 8) | (hours // 24 % 7 < 2)
        averages = self._busy[:, np.newaxis] * np.where(quiet, 0.3, 1.0) * self._draw.lognormal(0.0, 0.2, (count, 24))
        both = np.stack([averages, 400 * _MIB * (1 + averages)], axis=1).reshape(-1, 24)
        series = (2 * self.rows().usage.history_rows[:, np.newaxis] + np.arange(2)).reshape(-1)
        self.rows().usage.history.merge(
            HourSummaries(
                np.repeat(series, 24),
                np.tile(hours, len(series)),
                both.reshape(-1, 1) * _WITHIN,
                np.full(both.size, _SAMPLES_OF_AN_HOUR),
            )
        )
