"""Where does history come from at the start? From Prometheus, if the settings say so, read while passes go on.

VPAs whose history is being read keep the recommendation they have and say so in a condition. When Prometheus does not
answer, their history is what checkpoints hold, and another condition says that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from trellis.base.errors import TrellisError
from trellis.controllers.recommender.live import observing
from trellis.controllers.recommender.settings import FROM_PROMETHEUS, RecommenderSettings
from trellis.core.model.keys import Key
from trellis.core.recommend.past import Past, PastUsage
from trellis.core.usage.checkpoints import SavedRow
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.history import HistoryProgress, history
from trellis.sources.prometheus.pod_labels import pod_labels
from trellis.sources.prometheus.settings import seconds_of

_log: Final = Logger("trellis.recommender")
_NOBODY: Final[frozenset[Key]] = frozenset()


class Warming:
    """Reads history once, for the VPAs that are served when the process starts."""

    def __init__(self, settings: RecommenderSettings, metrics: Metrics, now: Callable[[], float]) -> None:
        self._settings = settings.prometheus
        self._metrics = metrics
        self._now = now
        self._wanted = settings.storage.storage == FROM_PROMETHEUS
        self._task: asyncio.Task[list[SavedRow]] | None = None
        self.holds: frozenset[Key] = _NOBODY
        self.problem = ""
        self._failed: frozenset[Key] = _NOBODY
        self._failed_at = 0.0

    def claim(self, keys: frozenset[Key]) -> None:
        """Take care of the history of these VPAs, if that is still to be read."""
        if self._wanted and self._task is None:
            self.holds |= keys

    def begin(self, past: Past, on_end: Callable[[], None]) -> None:
        """Begin to read; when that is over, for better or worse, somebody is told."""
        self._wanted = False
        self._task = asyncio.create_task(self._read(past), name="history")
        self._task.add_done_callback(lambda _task: on_end())

    @property
    def is_to_begin(self) -> bool:
        """Whether somebody has to call `begin`."""
        return self._wanted and bool(self.holds)

    def taken(self) -> list[SavedRow]:
        """The history that was read, once it is complete. Nobody is held after that, whether it was read or not."""
        task = self._task
        if task is None or not task.done():
            return []
        held, self._task, self.holds = self.holds, None, _NOBODY
        error = task.exception()
        if error is None:
            return task.result()
        if not isinstance(error, TrellisError):
            raise error
        self._failed, self._failed_at = held, self._now()
        self.problem = f"history could not be read from Prometheus, and is what checkpoints hold: {error}"
        _log.error("no history from Prometheus; checkpoints are used", why=error)
        return []

    def failed_for(self, now: float) -> frozenset[Key]:
        """VPAs whose history could not be read, until their own is as long as that would have been."""
        length = seconds_of(self._settings.history_length)
        return self._failed if now < self._failed_at + length else _NOBODY

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self, past: Past) -> list[SavedRow]:
        now = self._now()
        used = 0
        async with PrometheusClient(self._settings, observe=observing(self._metrics)) as client:
            _log.info("reading history", address=self._settings.prometheus_address, vpas=len(past.wanted))
            labels = await pod_labels(client, self._settings, now)
            usage = await asyncio.to_thread(PastUsage, past, labels)
            async for samples in history(client, self._settings, past.namespaces.keys(), now, _Progress()):
                used += await asyncio.to_thread(usage.take_in, samples, now)
        rows = await asyncio.to_thread(usage.rows, now)
        if not used:
            _log.warning(
                "Prometheus has no history of these VPAs; do --prometheus-cadvisor-job-name, "
                "--container-namespace-label, --container-pod-name-label and --container-name-label fit its series?"
            )
        _log.info("history is complete", samples=used, containers=len(rows))
        return rows


class _Progress:
    """Says how far reading has come, ten times at most."""

    def __init__(self) -> None:
        self._said = 0

    def __call__(self, progress: HistoryProgress) -> None:
        tenths = 10 * progress.done // max(progress.total, 1)
        if tenths > self._said:
            self._said = tenths
            _log.info("reading history", done=f"{tenths}0 %", samples=progress.samples)
