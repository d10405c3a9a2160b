"""Takes over another set of namespaces where replicas share them: forgets what others serve, and divides budgets.

A budget for all replicas is divided so that the parts add up to it. A budget for each namespace is not divided, because
a namespace has one replica.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.controllers.updater.events import UpdaterEvents
from trellis.controllers.updater.executor import UpdateExecutor
from trellis.controllers.updater.metrics import UpdaterMetrics
from trellis.core.resize.planner import UpdateMemory
from trellis.kube.flow_control import Rate
from trellis.runtime.leadership import Leadership
from trellis.runtime.telemetry.logs import Logger

_log: Final = Logger("trellis.updater")


class UpdaterShard:
    """The part of a replica: its namespaces, and its part of the budgets for all replicas."""

    def __init__(
        self,
        leadership: Leadership,
        memory: UpdateMemory,
        executor: UpdateExecutor,
        *,
        events: UpdaterEvents,
        counters: UpdaterMetrics,
        hourly: int | None,
        rate: Rate | None,
    ) -> None:
        self._leadership = leadership
        self._memory = memory
        self._executor = executor
        self._events = events
        self._counters = counters
        self._hourly = hourly
        self._rate = rate

    def take(self) -> None:
        """Work for the namespaces that the leadership has now; without shards there is nothing to do."""
        shard, covers = self._leadership.shard, self._leadership.covers
        if shard is None or not shard.own:
            return
        view = shard.own[0]
        self._events.retain(covers)
        self._counters.retain(covers)
        hourly = view.part_of(self._hourly) if self._hourly is not None else None
        if self._hourly and hourly == 0:
            _log.warning(
                "this replica disrupts no pods, because --evictions-per-hour is below the number of replicas",
                limit=self._hourly,
                replicas=len(view.members),
            )
        self._memory.take_shard([key for key in self._memory.list_remembered() if not covers(key[0])], hourly)
        if self._rate is not None:
            self._executor.set_rate(divide_rate(self._rate, len(view.members)))


def divide_rate(rate: Rate, replicas: int) -> Rate:
    """The rate of one of so many replicas. Each may burst by one pod at least, or it would never change any."""
    return msgspec.structs.replace(rate, per_second=rate.per_second / replicas, burst=max(rate.burst // replicas, 1))
