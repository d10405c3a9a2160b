"""Composes the admission controller: certificate, registration, status Lease, informers, and the review server.

The server listens from the start, and sizes pods as soon as the caches are synced. A pod that is created before is
admitted unchanged.
"""

from __future__ import annotations

import asyncio
import math
import random
import socket
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from trellis.api.kube.pods import Pod
from trellis.base.garbage_collection import freeze_live_objects
from trellis.controllers.admission import metrics as named
from trellis.controllers.admission.certificates.keeper import create_keeper
from trellis.controllers.admission.informers import AdmissionInformers, BoostCeilings
from trellis.controllers.admission.metrics import ADMISSION_METRICS, ReviewMetrics
from trellis.controllers.admission.settings import AdmissionSettings
from trellis.controllers.admission.status_lease import StatusLease
from trellis.controllers.admission.webhook.owner_lookups import OwnerLookups, OwnerLookupSettings
from trellis.controllers.admission.webhook.registration import WebhookRegistration
from trellis.controllers.admission.webhook.reviews import PodDecisions, ReviewHandler
from trellis.controllers.admission.webhook.server import ReviewServer, ServerCallbacks
from trellis.core.boost.boosted_size import CpuCeiling
from trellis.kube.client import Client
from trellis.kube.discovery import Served
from trellis.kube.flow_control import Draw
from trellis.kube.resources import HVPAS
from trellis.kube.scales import ScaleLookups
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.runtime.addresses import Address
from trellis.runtime.cluster_connection import retry_until_answered, run_on_cluster
from trellis.runtime.component import NOT_YET_ASKED
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.settings.component import effective_boost_settings
from trellis.runtime.shutdown import Main, Shutdown, run_until_stopped
from trellis.runtime.telemetry.cluster_metrics import write_reporter
from trellis.runtime.telemetry.health import Activity
from trellis.runtime.telemetry.health_server import serve_health
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

_EXPORT_SECONDS: Final = 5.0

_log: Final = Logger("trellis.admission")


class AdmissionController:
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
        boost = effective_boost_settings(settings.scope.feature_gates, settings.reviews.max_allowed_cpu_boost, served)
        rooms = BoostCeilings(must_fit=settings.reviews.require_fit) if boost.enabled else None
        self.tally = ReviewMetrics(metrics)
        own = settings.scope.vpa_object_namespace
        self.informers = Informers(client, UnreadableKinds(metrics, _log), draw=draw, namespace=own)
        self.watching = AdmissionInformers(
            self.informers, settings.scope, hvpas_served=served.serves(HVPAS), rooms=rooms
        )
        self._lookups = OwnerLookups(
            client,
            self.watching.lookups(),
            ScaleLookups(client, draw=draw),
            settings=OwnerLookupSettings(settings.reviews.owner_lookup_deadline.total_seconds()),
            on_result=lambda result: self.tally.count(named.LOOKUPS, result),
            on_wait=lambda seconds: self.tally.observe(named.LOOKUP_SECONDS, seconds),
        )
        self.watching.on_new_target = self._lookups.wake
        self.decisions = PodDecisions(
            self.watching.governors, self._lookups, self.watching.limits, boost, rooms.ceiling if rooms else _no_ceiling
        )
        self.answering = ReviewHandler(self.decisions, settings.scope.feature_gates, self.tally)
        self.service = ServerCallbacks(self.answering.answer, self.answering.refuse, self.tally.answered)

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


FIELD_MANAGER: Final = "trellis-admission-controller"


def admission_main(settings: AdmissionSettings) -> Main:
    """What a process with these settings does until it is told to stop."""
    return run_on_cluster(run_admission, settings, FIELD_MANAGER, _log)


async def run_admission(client: Client, settings: AdmissionSettings, stop: Shutdown) -> None:
    """Answer probes and reviews until it is time to stop."""
    metrics = Metrics(ADMISSION_METRICS)
    webhook = _AdmissionProcess(client, settings, metrics)
    # Nothing here has passes that could end: whoever answers a probe is alive.
    activity = Activity(math.inf, asyncio.get_running_loop().time)
    async with serve_health(
        settings.health,
        metrics=metrics,
        activity=activity,
        alive={"ping": lambda: None},
        ready={"informers": webhook.why_blind, "certificate": webhook.keeper.why_not_ready},
        remarks=webhook.remarks,
    ) as address:
        _log.info("started", port=settings.reviews.port, address=address)
        await run_until_stopped(stop, webhook.run(), "webhook")


class _AdmissionProcess:
    """Everything but the probes."""

    def __init__(self, client: Client, settings: AdmissionSettings, metrics: Metrics) -> None:
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self._admission: AdmissionController | None = None
        self._seen = asyncio.Event()
        self._writer = _create_writer(client, settings, metrics)
        registration = settings.registration
        self.keeper = create_keeper(
            settings.certificates,
            client,
            self._writer,
            metrics,
            hosts=registration.hosts,
            namespace=registration.namespace,
            now=lambda: datetime.now(UTC).timestamp(),
        )
        self._registration = WebhookRegistration(
            client, self._writer, registration, scope=settings.scope, bundle=self.keeper.ca_bundle, metrics=metrics
        )
        self._presence = StatusLease(
            client,
            self._writer,
            settings.presence,
            namespace=registration.namespace,
            identity=socket.gethostname(),
            why_absent=self._why_absent,
            now=lambda: datetime.now(UTC),
        )
        self.keeper.on_bundle(self._registration.wake)

    async def run(self) -> None:
        """Work until cancelled, and then answer what has been asked."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.keeper.run(), name="certificates")
            group.create_task(self._register(), name="registration")
            group.create_task(self._be_present(), name="presence")
            await self._answer()

    async def _register(self) -> None:
        """Not before there is an authority to name: nothing is wrong while it is still being made."""
        await self.keeper.wait_until_ready()
        await self._registration.run()

    async def _be_present(self) -> None:
        """Say so as soon as it is true, and not an interval later."""
        await self.keeper.wait_until_ready()
        await self._seen.wait()
        await self._registration.wait_until_registered()
        await self._presence.run()

    def _settled(self) -> None:
        freeze_live_objects()
        self._seen.set()

    async def _answer(self) -> None:
        served = await retry_until_answered(self._client.discover, _log)
        admission = self._admission = AdmissionController(
            self._client, self._settings, self._metrics, served, draw=random.random, on_settled=self._settled
        )
        server = admission.server(self.keeper.context)
        await admission.listen(server)
        try:
            await admission.run(server)
        finally:
            await server.close()

    def why_blind(self) -> str | None:
        """What is not known yet of the cluster."""
        return self._admission.why_not_ready() if self._admission else NOT_YET_ASKED

    def remarks(self) -> Sequence[str]:
        """What it goes on without."""
        return self._admission.informers.remarks() if self._admission else ()

    def _why_absent(self) -> str | None:
        return self.why_blind() or self.keeper.why_not_ready() or self._registration.why_not_registered()


def _create_writer(client: Client, settings: AdmissionSettings, metrics: Metrics) -> Writer:
    access = settings.access
    writing = WriterSettings(read_only=access.read_only, rate=access.write_rate)
    return Writer(client, record=write_reporter(metrics, _log), settings=writing)
