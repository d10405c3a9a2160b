"""How does a recommender decide in a replay? As in a cluster: from a usage model that was fed with what came before.

Every series is a container of its own under a VPA of its own, so that all of them are rows of one model and are decided
on at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from trellis.core.model.ooms import OomKill
from trellis.core.model.pods import FollowedContainer, FollowedPod
from trellis.core.recommend.amounts import MILLICORES
from trellis.core.recommend.declaration import needs_runs
from trellis.core.recommend.parameters import ParameterValues, read_parameters
from trellis.core.recommend.protocol import Recommender, Rows
from trellis.core.recommend.replay import HOUR, Usage
from trellis.core.usage.columns import FloatColumn, RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Measured
from trellis.core.usage.settings import UsageSettings

_NAMESPACE, _CONTAINER = "replay", "app"


class Clock(msgspec.Struct, frozen=True):
    """When the first step begins, and how long each is, in seconds."""

    begin: float
    step: float = HOUR


class RecommenderRule:
    """A recommender as a rule for the CPU of so many series, in cores, and after them the memory of each, in bytes."""

    def __init__(
        self,
        recommender: Recommender,
        series: Sequence[str],
        clock: Clock,
        values: ParameterValues | None = None,
        settings: UsageSettings = UsageSettings(),  # noqa: B008 - frozen, so that one can serve all
    ) -> None:
        self._recommender = recommender
        self._values = read_parameters(recommender.parameters, {}, values).values
        self._clock = clock
        self._names = list(series)
        self._model = UsageModel(settings)
        if recommender.needs_history:
            self._model.keep_history([(_NAMESPACE, name) for name in self._names])
        if needs_runs(recommender):
            self._model.keep_runs([(_NAMESPACE, name) for name in self._names])
        container = (FollowedContainer(_CONTAINER),)
        pods = [FollowedPod(_NAMESPACE, name, name, name, True, container) for name in self._names]
        self._model.follow(_NAMESPACE, pods, clock.begin)
        count = len(self._names)
        self._slots = self._model.slots([_NAMESPACE] * count, self._names, [_CONTAINER] * count)
        self._rows = self._model.find([RowKey(_NAMESPACE, name, _CONTAINER) for name in self._names])

    def decide(self, _step: int, now: float, /) -> FloatColumn:
        """The targets, in the units of the series."""
        view = self._model.view(self._rows)
        rows = Rows.of(view, np.arange(len(view)), np.ones(len(view)))
        target = self._recommender.estimate(rows, self._values, now).target.copy()
        target[0] /= MILLICORES
        return target.reshape(-1)

    def observe(self, step: int, used: FloatColumn, needed: FloatColumn, /) -> None:
        """Feed the model; a kill is one of the last moment of the step."""
        count, points = len(self._names), len(used)
        begin = self._clock.begin + step * self._clock.step
        now = begin + self._clock.step
        # By series, and for each of them by time.
        slots, cpu, memory = (
            np.repeat(self._slots, points),
            used[:, :count].T.reshape(-1),
            used[:, count:].T.reshape(-1),
        )
        times = np.tile(begin + np.arange(points) * (self._clock.step / points), count)
        unknown = np.isnan(cpu) & np.isnan(memory)
        if unknown.any():
            known = np.flatnonzero(~unknown)
            slots, times, cpu, memory = slots[known], times[known], cpu[known], memory[known]
        self._model.ingest_at(slots, Measured(times, cpu, memory), now)
        killed = [self._names[number] for number in np.flatnonzero(~np.isnan(needed[count:])).tolist()]
        kills = [OomKill(_NAMESPACE, name, name, _CONTAINER, now - 1.0, math.nan) for name in killed]
        self._model.record_ooms(kills, now)


def both(cpu: FloatColumn, memory: FloatColumn, clock: Clock) -> Usage:
    """Usage of CPU and memory, each (steps, points, series), as such a rule takes it."""
    return Usage(np.concatenate([cpu, memory], axis=2), clock.begin, clock.step)
