"""History of usage across restarts: from checkpoints, or once at the start from Prometheus while passes go on.

Checkpoints are read before a VPA is served, and written and removed by passes. VPAs whose history is being read from
Prometheus keep their recommendation and have a condition. If Prometheus does not respond, they use checkpoints, and
have another condition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from trellis.base.errors import KubeError, TrellisError
from trellis.controllers.recommender.checkpoints import CheckpointStore
from trellis.controllers.recommender.settings import FROM_PROMETHEUS, RecommenderSettings
from trellis.controllers.recommender.usage_source import create_prometheus_observer
from trellis.core.cluster.store import ObjectKey
from trellis.core.recommend.backfill import BackfillRequest, UsageBackfill
from trellis.core.recommend.engine import PassNeeds
from trellis.core.recommend.state.snapshot import FetchedHistory, PendingHistory, RecommenderSnapshot
from trellis.core.usage.checkpoints.format import SavedRow
from trellis.core.usage.columns import RowKey
from trellis.kube.client import Client
from trellis.kube.write.writer import Writer
from trellis.runtime.passes import PassThread
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.history import HistoryProgress, read_history
from trellis.sources.prometheus.labels import query_pod_labels
from trellis.sources.prometheus.settings import duration_seconds

_log: Final = Logger("trellis.recommender")
_NONE: Final[frozenset[ObjectKey]] = frozenset()


class PrometheusHistory:
    """Reads history once, for the VPAs that are served when the process starts."""

    def __init__(self, settings: RecommenderSettings, metrics: Metrics, now: Callable[[], float]) -> None:
        self._settings = settings.prometheus
        self._metrics = metrics
        self._now = now
        self._is_enabled = settings.storage.storage == FROM_PROMETHEUS
        self._task: asyncio.Task[list[SavedRow]] | None = None
        self.held_vpas: frozenset[ObjectKey] = _NONE
        self.problem = ""
        self._failed: frozenset[ObjectKey] = _NONE
        self._failed_at = 0.0

    def hold(self, keys: frozenset[ObjectKey]) -> None:
        """Hold these VPAs until their history has been read, unless that is over."""
        if self._is_enabled and self._task is None:
            self.held_vpas |= keys

    def start(self, request: BackfillRequest, on_end: Callable[[], None]) -> None:
        """Begin to read; `on_end` is called when that is over, with or without success."""
        self._is_enabled = False
        self._task = asyncio.create_task(self._read(request), name="history")
        self._task.add_done_callback(lambda _task: on_end())

    @property
    def should_start(self) -> bool:
        """Whether `start` is to be called."""
        return self._is_enabled and bool(self.held_vpas)

    def pop_rows(self) -> list[SavedRow]:
        """The history that was read, once it is complete. No VPA is held after that, whether it was read or not."""
        task = self._task
        if task is None or not task.done():
            return []
        held_vpas, self._task, self.held_vpas = self.held_vpas, None, _NONE
        error = task.exception()
        if error is None:
            return task.result()
        if not isinstance(error, TrellisError):
            raise error
        self._failed, self._failed_at = held_vpas, self._now()
        self.problem = f"history could not be read from Prometheus; checkpoints are used: {error}"
        _log.error("no history from Prometheus; checkpoints are used", why=error)
        return []

    def list_failed(self, now: float) -> frozenset[ObjectKey]:
        """VPAs without history from Prometheus, until their own history is as long."""
        length = duration_seconds(self._settings.history_length)
        return self._failed if now < self._failed_at + length else _NONE

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self, request: BackfillRequest) -> list[SavedRow]:
        now = self._now()
        used = 0
        async with PrometheusClient(self._settings, observe=create_prometheus_observer(self._metrics)) as client:
            _log.info("reading history", address=self._settings.prometheus_address, vpas=len(request.vpas))
            labels = await query_pod_labels(client, self._settings, now)
            usage = await asyncio.to_thread(UsageBackfill, request, labels)
            async for samples in read_history(client, self._settings, request.namespaces.keys(), now, _ProgressLog()):
                used += await asyncio.to_thread(usage.ingest, samples, now)
        rows = await asyncio.to_thread(usage.save_rows, now)
        if not used:
            _log.warning(
                "Prometheus has no history of these VPAs; check that --prometheus-cadvisor-job-name, "
                "--container-namespace-label, --container-pod-name-label and --container-name-label match "
                "its series"
            )
        _log.info("history read", samples=used, containers=len(rows))
        return rows


class _ProgressLog:
    """Logs how far reading has come, ten times at most."""

    def __init__(self) -> None:
        self._logged = 0

    def __call__(self, progress: HistoryProgress) -> None:
        tenths = 10 * progress.done // max(progress.total, 1)
        if tenths > self._logged:
            self._logged = tenths
            _log.info("reading history", done=f"{tenths}0 %", samples=progress.samples)


# With more namespaces than this the checkpoints of all are listed, at once where that is allowed.
_FEW_NAMESPACES: Final = 20
# How long checkpoints of a handover are written: others take the namespaces after ten seconds at the latest.
_HANDOVER_SECONDS: Final = 8.0


class RecommenderHistory:
    """Fetches the history of VPAs, and writes and deletes checkpoints."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        settings: RecommenderSettings,
        thread: PassThread,
        *,
        metrics: Metrics,
        now: Callable[[], float],
        covers: Callable[[str], bool] = lambda _namespace: True,
    ) -> None:
        """The history of VPAs in namespaces that are covered, of those that the settings name."""
        self._settings = settings
        self._thread = thread
        self._covers = covers
        self._checkpoints = CheckpointStore(client, writer, _log, covers)
        self._prometheus = PrometheusHistory(settings, metrics, now)
        self._unloaded: frozenset[ObjectKey] = frozenset()
        self._fetched: list[FetchedHistory] = []
        self._orphans_at = 0.0

    async def fetch(self, needs: PassNeeds, on_end: Callable[[], None], now: float) -> PendingHistory:
        """Fetch the history of new VPAs, and of those that still wait for theirs; the result is what is missing.

        `on_end` is called when Prometheus has been read, which takes longer than a pass.
        """
        # A VPA that is served without its history would soon overwrite it, and so waits until it can be read.
        self._unloaded = (self._unloaded | needs.new_vpas) & needs.served
        self._prometheus.hold(needs.new_vpas)
        self._add_history(self._prometheus.pop_rows(), stored=False)
        if waiting := self._unloaded - self._prometheus.held_vpas:
            self._unloaded -= await self._load_checkpoints(waiting, now)
        if self._prometheus.should_start:
            request = await self._thread.run(needs.build_backfill, self._prometheus.held_vpas)
            self._prometheus.start(request, on_end)
        return PendingHistory(self._unloaded, self._prometheus.list_failed(now), self._prometheus.problem)

    def pop_fetched(self) -> tuple[FetchedHistory, ...]:
        """Fetched history, once: a pass that fails before it reads it leaves it to the next."""
        fetched = tuple(self._fetched)
        self._fetched.clear()
        return fetched

    async def write(self, rows: Sequence[SavedRow]) -> list[RowKey]:
        """Write checkpoints, as many as there is time for; the result is which were written."""
        storage = self._settings.storage
        budget, most = storage.checkpoint_time_per_pass.total_seconds(), storage.checkpoints_timeout.total_seconds()
        return await self._checkpoints.write(rows, budget, most)

    async def write_all(self, rows: Sequence[SavedRow]) -> list[RowKey]:
        """Write checkpoints for a successor; the result is which were written."""
        return await self._checkpoints.write(rows, _HANDOVER_SECONDS, _HANDOVER_SECONDS)

    async def delete(self, obsolete: Sequence[RowKey], snapshot: RecommenderSnapshot, now: float) -> None:
        """Delete the checkpoints of containers that are gone, and now and then those of VPAs that are."""
        await self._checkpoints.remove(obsolete)
        interval = self._settings.storage.checkpoints_gc_interval.total_seconds()
        if self._orphans_at == 0.0:
            self._orphans_at = now + interval
        if now >= self._orphans_at:
            self._orphans_at = now + interval
            await self._remove_orphans(snapshot)

    @property
    def unreadable(self) -> int:
        """The number of unreadable checkpoints."""
        return len(self._checkpoints.unreadable)

    async def close(self) -> None:
        await self._prometheus.close()

    def _add_history(self, rows: Sequence[SavedRow], *, stored: bool) -> None:
        if rows:
            self._fetched.append(FetchedHistory(rows, stored))

    async def _load_checkpoints(self, vpas: frozenset[ObjectKey], now: float) -> frozenset[ObjectKey]:
        """Read the checkpoints of VPAs; the result is the VPAs that were read."""
        namespaces = sorted({key[0] for key in vpas})
        namespaces_to_list: Sequence[str] = namespaces
        if len(namespaces) > _FEW_NAMESPACES:
            namespaces_to_list = self._settings.scope.vpa_object_namespace or ("",)
        try:
            for namespace in namespaces_to_list:
                self._add_history(
                    await self._checkpoints.load(namespace, lambda at, vpa: (at, vpa) in vpas, now), stored=True
                )
        except KubeError as error:
            _log.error(
                "reading checkpoints failed; their VPAs get no recommendation until it succeeds",
                vpas=len(vpas),
                why=error,
            )
            return frozenset()
        return vpas

    async def _remove_orphans(self, snapshot: RecommenderSnapshot) -> None:
        scope, removed = self._settings.scope, 0
        for namespace in scope.vpa_object_namespace or ("",):
            try:
                removed += await self._checkpoints.remove_orphans(
                    namespace,
                    lambda at: scope.covers(at) and self._covers(at),
                    lambda at, vpa: snapshot.vpas.get(at, vpa) is not None,
                )
            except KubeError as error:
                _log.warning("listing checkpoints failed; checkpoints without a VPA are removed later", why=error)
        if removed:
            _log.info("removed checkpoints of deleted VPAs", checkpoints=removed)
