"""How does what is known outlive a process? In checkpoints: read before a VPA is served, written and removed by passes.

Where Prometheus has the history, it is read from there instead, once, while passes go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from trellis.base.errors import KubeError
from trellis.controllers.recommender.checkpoints import Checkpoints
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.controllers.recommender.warming import Warming
from trellis.core.model.keys import Key
from trellis.core.recommend.knowledge import Knowledge
from trellis.core.recommend.scope import Waiting
from trellis.core.recommend.seen import Seen
from trellis.core.usage.checkpoints import SavedRow
from trellis.core.usage.columns import RowKey
from trellis.kube.client import Client
from trellis.kube.writer import Writer
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.passes import PassThread

_log: Final = Logger("trellis.recommender")

# With more namespaces than this all checkpoints are listed at once.
_FEW_NAMESPACES: Final = 20


class Remembering:
    """The memory of one process, and what it takes from that of earlier ones."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        settings: RecommenderSettings,
        knowledge: Knowledge,
        thread: PassThread,
        *,
        metrics: Metrics,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._knowledge = knowledge
        self._thread = thread
        self._checkpoints = Checkpoints(client, writer, _log)
        self._warming = Warming(settings, metrics, now)
        self._unloaded: frozenset[Key] = frozenset()
        self._orphans_at = 0.0

    async def recall(self, new: frozenset[Key], now: float) -> None:
        """Take in the history of VPAs that were not served before, and of those that still wait for theirs."""
        # Who is served without its history would soon overwrite it, and so waits until it could be read.
        self._unloaded = (self._unloaded | new) & self._knowledge.served
        self._warming.claim(new)
        await self._restore(self._warming.taken(), now, stored=False)
        if waiting := self._unloaded - self._warming.holds:
            self._unloaded -= await self._load_checkpoints(waiting, now)

    def waiting(self, now: float) -> Waiting:
        """Who waits for its history, and who has to do without."""
        return Waiting(self._unloaded, self._warming.failed_for(now), self._warming.problem)

    async def begin_warming(self, seen: Seen, on_end: Callable[[], None]) -> None:
        """Have Prometheus asked for history, if that is still to be done; somebody is told when it is over."""
        if self._warming.is_to_begin:
            past = await self._thread.run(self._knowledge.past, seen, self._warming.holds)
            self._warming.begin(past, on_end)

    async def save(self, now: float) -> None:
        """Write the checkpoints that are due, as many as there is time for."""
        storage = self._settings.storage
        rows = await self._thread.run(self._knowledge.due, storage.checkpoint_writes_per_pass, now)
        budget, most = storage.checkpoint_time_per_pass.total_seconds(), storage.checkpoints_timeout.total_seconds()
        written = await self._checkpoints.write(rows, budget, most)
        await self._thread.run(self._knowledge.saved, written, now)

    async def forget(self, gone: Sequence[RowKey], seen: Seen, now: float) -> None:
        """Remove the checkpoints of containers that are gone, and now and then those of VPAs that are."""
        await self._checkpoints.remove(gone)
        interval = self._settings.storage.checkpoints_gc_interval.total_seconds()
        if self._orphans_at == 0.0:
            self._orphans_at = now + interval
        if now >= self._orphans_at:
            self._orphans_at = now + interval
            await self._remove_orphans(seen)

    @property
    def unreadable(self) -> int:
        """How many checkpoints could not be read."""
        return len(self._checkpoints.unreadable)

    async def close(self) -> None:
        """Read no further."""
        await self._warming.close()

    async def _load_checkpoints(self, wanted: frozenset[Key], now: float) -> frozenset[Key]:
        """Read the checkpoints of VPAs; the answer is whose were read."""
        namespaces = sorted({key[0] for key in wanted})
        places = namespaces if len(namespaces) <= _FEW_NAMESPACES else [self._settings.scope.vpa_object_namespace]
        try:
            for namespace in places:
                found = await self._checkpoints.load(namespace, lambda at, vpa: (at, vpa) in wanted, now)
                await self._restore(found, now, stored=True)
        except KubeError as error:
            _log.error("checkpoints cannot be read; their VPAs wait", vpas=len(wanted), why=error)
            return frozenset()
        return wanted

    async def _restore(self, rows: Sequence[SavedRow], now: float, *, stored: bool) -> None:
        refused = await self._thread.run(lambda: self._knowledge.restore(rows, now, stored=stored))
        for key, error in refused.items():
            _log.error("checkpoint not used", namespace=key.namespace, vpa=key.vpa, container=key.container, why=error)

    async def _remove_orphans(self, seen: Seen) -> None:
        scope = self._settings.scope
        try:
            removed = await self._checkpoints.remove_orphans(
                scope.vpa_object_namespace, scope.covers, lambda at, vpa: seen.vpas.get(at, vpa) is not None
            )
        except KubeError as error:
            _log.warning("checkpoints cannot be listed; orphans stay for now", why=error)
            return
        if removed:
            _log.info("removed checkpoints of VPAs that are gone", checkpoints=removed)
