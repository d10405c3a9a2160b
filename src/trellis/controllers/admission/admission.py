"""What does the admission controller do, from the first list to the last answer?

It listens from the start, and sizes pods as soon as everything has been seen. A pod that comes before is let through as
it is.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final

from trellis.api.kube.pods import Pod
from trellis.controllers.admission import metrics as named
from trellis.controllers.admission.answering import Answering
from trellis.controllers.admission.connections import Service
from trellis.controllers.admission.lookups import Lookups, LookupSettings
from trellis.controllers.admission.pods import PodDecisions
from trellis.controllers.admission.rooms import Rooms
from trellis.controllers.admission.server import ReviewServer
from trellis.controllers.admission.settings import AdmissionSettings
from trellis.controllers.admission.tally import Tally
from trellis.controllers.admission.watching import Watching
from trellis.core.boost.raising import CpuCeiling
from trellis.kube.backoff import Draw
from trellis.kube.client import Client
from trellis.kube.resources import HVPAS
from trellis.kube.scales import ScaleLookups
from trellis.kube.served import Served
from trellis.runtime.addresses import Address
from trellis.runtime.boosts import boosts_in_force
from trellis.runtime.informers import Informers
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.unseen import Unseen

_EXPORT_SECONDS: Final = 5.0

_log: Final = Logger("trellis.admission")


class Admission:
    """One process's webhook, certificates and registration aside."""

    def __init__(
        self,
        client: Client,
        settings: AdmissionSettings,
        metrics: Metrics,
        served: Served,
        *,
        draw: Draw,
        on_settled: Callable[[], object] = lambda: None,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        # Called when all that will stay has been built up.
        self._on_settled = on_settled
        boost = boosts_in_force(settings.scope.feature_gates, settings.reviews.max_allowed_cpu_boost, served)
        rooms = Rooms(must_fit=settings.reviews.require_fit) if boost.enabled else None
        self.tally = Tally(metrics)
        own = settings.scope.vpa_object_namespace
        self.informers = Informers(client, Unseen(metrics, _log), draw=draw, namespace=own)
        self.watching = Watching(self.informers, settings.scope, hvpas_served=served.serves(HVPAS), rooms=rooms)
        self._lookups = Lookups(
            client,
            self.watching.lookups(),
            ScaleLookups(client, draw=draw),
            settings=LookupSettings(settings.reviews.owner_lookup_deadline.total_seconds()),
            on_result=lambda result: self.tally.count(named.LOOKUPS, result),
            on_wait=lambda seconds: self.tally.observe(named.LOOKUP_SECONDS, seconds),
        )
        self.watching.on_new_target = self._lookups.wake
        self.decisions = PodDecisions(
            self.watching.governors, self._lookups, self.watching.limits, boost, rooms.ceiling if rooms else _no_ceiling
        )
        self.answering = Answering(self.decisions, settings.scope.feature_gates, self.tally)
        self.service = Service(self.answering.answer, self.answering.refuse, self.tally.answered)

    def why_not_ready(self) -> str | None:
        """What probes are told while not everything has been seen."""
        return self.informers.why_not_ready() or (None if self.decisions.is_ready else "not started")

    def server(self, context: ssl.SSLContext | None) -> ReviewServer:
        """Who takes reviews."""
        return ReviewServer(self.service, context)

    async def listen(self, server: ReviewServer) -> Address:
        """Take reviews on the port that is set."""
        return await server.start(Address("", self._settings.reviews.port))

    async def run(self, server: ReviewServer | None = None) -> None:
        """Follow the cluster, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run(), name="watching")
            group.create_task(self._settle(), name="settling")
            group.create_task(self._keep_scales(), name="scales")
            group.create_task(self.tally.run(), name="tally")
            group.create_task(self._export(server), name="export")
            if server is not None:
                group.create_task(server.watch(), name="connections")

    async def _settle(self) -> None:
        await self.informers.wait_until_synced()
        self.decisions.is_ready = True
        _log.info("everything has been seen", governors=len(self.watching.governors))
        self._on_settled()

    async def _keep_scales(self) -> None:
        governors = self.watching.governors
        await self.informers.wait_until_synced()

        def known(targets: Any) -> None:
            for target in targets:
                governors.target_changed(target.kind, target.namespace, target.name)

        await self._lookups.keep_scales(governors.scaled_targets, known)

    async def _export(self, server: ReviewServer | None) -> None:
        while True:
            self.informers.export(self._metrics)
            counts = self.watching.governors.counts()
            self._metrics.set_all(named.GOVERNORS, {(kind,): float(count) for kind, count in counts.items()})
            self._metrics.set(named.CONNECTIONS, float(len(server)) if server is not None else 0.0)
            await asyncio.sleep(_EXPORT_SECONDS)


def _no_ceiling(_pod: Pod) -> CpuCeiling | None:
    return None
