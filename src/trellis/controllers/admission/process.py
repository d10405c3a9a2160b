"""What does the process of an admission controller consist of? Its certificate, its name, its Lease, its answers."""

from __future__ import annotations

import asyncio
import math
import random
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from trellis.base.collector import set_aside
from trellis.controllers.admission.admission import Admission
from trellis.controllers.admission.certificates import keep_certificates
from trellis.controllers.admission.metrics import ADMISSION_METRICS
from trellis.controllers.admission.presence import Presence
from trellis.controllers.admission.registration import Registration
from trellis.controllers.admission.settings import AdmissionSettings
from trellis.kube.client import Client
from trellis.kube.writer import Writer, WriterSettings
from trellis.runtime.asking import answered
from trellis.runtime.component import NOT_YET_ASKED
from trellis.runtime.connecting import on_cluster
from trellis.runtime.health import Activity
from trellis.runtime.health_server import serving
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.shutdown import Main, Shutdown, until_stopped
from trellis.runtime.write_reports import reporting

FIELD_MANAGER: Final = "trellis-admission-controller"

_log: Final = Logger("trellis.admission")


def admitting(settings: AdmissionSettings) -> Main:
    """What a process with these settings does until it is told to stop."""
    return on_cluster(run_webhook, settings, FIELD_MANAGER, _log)


async def run_webhook(client: Client, settings: AdmissionSettings, stop: Shutdown) -> None:
    """Answer probes and reviews until it is time to stop."""
    metrics = Metrics(ADMISSION_METRICS)
    webhook = _Webhook(client, settings, metrics)
    # Nothing here has passes that could end: whoever answers a probe is alive.
    activity = Activity(math.inf, asyncio.get_running_loop().time)
    async with serving(
        settings.health,
        metrics=metrics,
        activity=activity,
        alive={"ping": lambda: None},
        ready={"informers": webhook.why_blind, "certificate": webhook.keeper.why_not_ready},
        remarks=webhook.remarks,
    ) as address:
        _log.info("started", port=settings.reviews.port, address=address)
        await until_stopped(stop, webhook.run(), "webhook")


class _Webhook:
    """Everything but the probes."""

    def __init__(self, client: Client, settings: AdmissionSettings, metrics: Metrics) -> None:
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self._admission: Admission | None = None
        self._seen = asyncio.Event()
        self._writer = _writer(client, settings, metrics)
        registration = settings.registration
        self.keeper = keep_certificates(
            settings.certificates,
            client,
            self._writer,
            metrics,
            hosts=registration.hosts,
            namespace=registration.namespace,
            now=lambda: datetime.now(UTC).timestamp(),
        )
        self._registration = Registration(
            client, self._writer, registration, scope=settings.scope, bundle=self.keeper.ca_bundle, metrics=metrics
        )
        self._presence = Presence(
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
        set_aside()
        self._seen.set()

    async def _answer(self) -> None:
        served = await answered(self._client.discover, _log)
        admission = self._admission = Admission(
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


def _writer(client: Client, settings: AdmissionSettings, metrics: Metrics) -> Writer:
    access = settings.access
    writing = WriterSettings(read_only=access.read_only, rate=access.write_rate)
    return Writer(client, record=reporting(metrics, _log), settings=writing)
