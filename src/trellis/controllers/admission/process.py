"""Composes the admission controller: certificate, registration, status Lease, informers, and the review server.

The server listens once the API server has said what it serves, and sizes pods as soon as the caches are synced. A pod
that is created before is admitted unchanged.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from trellis.api.kube.pods import Pod
from trellis.base.python_gc import freeze_live_objects
from trellis.controllers.admission import metrics as named
from trellis.controllers.admission.certificates.keeper import create_keeper
from trellis.controllers.admission.informers import AdmissionInformers, BoostCeilings, list_followed_kinds
from trellis.controllers.admission.metrics import ADMISSION_METRICS, ReviewMetrics
from trellis.controllers.admission.settings import AdmissionSettings
from trellis.controllers.admission.status_lease import StatusLease
from trellis.controllers.admission.webhook.owner_lookups import OwnerLookups, OwnerLookupSettings
from trellis.controllers.admission.webhook.registration import WebhookRegistration
from trellis.controllers.admission.webhook.reviews import PodDecisions, ReviewHandler
from trellis.controllers.admission.webhook.server import ReviewServer, ServerCallbacks
from trellis.controllers.admission.webhook.traced_reviews import describe_review, trace_reviews
from trellis.core.boost.boosted_size import CpuCeiling
from trellis.kube.client import Client
from trellis.kube.discovery import Served
from trellis.kube.flow_control import Draw
from trellis.kube.resources import HVPAS
from trellis.kube.scales import ScaleLookups
from trellis.runtime.addresses import Address
from trellis.runtime.component import ComponentSpec, Controller, ControllerContext, component_main
from trellis.runtime.informers import Informers
from trellis.runtime.manager.settings import ADMISSION
from trellis.runtime.manager.supervisor import ManagedComponent
from trellis.runtime.settings.component import effective_boost_settings
from trellis.runtime.shutdown import Main
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.runtime.telemetry.tracing import is_tracing

COMPONENT: Final = "vpa-admission-controller"
FIELD_MANAGER: Final = "trellis-admission-controller"


_log: Final = Logger("trellis.admission")


class ReviewService:
    """Answers reviews from what the informers show. `on_warmed_up` is called when the caches are synced."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        settings: AdmissionSettings,
        metrics: Metrics,
        served: Served,
        *,
        draw: Draw,
        on_warmed_up: Callable[[], object] = lambda: None,
    ) -> None:
        self._metrics = metrics
        self._on_warmed_up = on_warmed_up
        self._synced, new_target = asyncio.Event(), asyncio.Event()
        boost = effective_boost_settings(settings.scope.feature_gates, settings.reviews.max_allowed_cpu_boost, served)
        ceilings = BoostCeilings(must_fit=settings.reviews.require_fit) if boost.enabled else None
        self.review_metrics = ReviewMetrics(metrics)
        self._informer_set = informers
        self._informers = AdmissionInformers(
            informers,
            settings.scope,
            hvpas_served=served.serves(HVPAS),
            boost_ceilings=ceilings,
            on_new_target=new_target.set,
        )
        self._lookups = OwnerLookups(
            client,
            self._informers.lookups(),
            ScaleLookups(client, draw=draw),
            settings=OwnerLookupSettings(settings.reviews.owner_lookup_deadline.total_seconds()),
            new_target=new_target,
            on_result=lambda result: self.review_metrics.count(named.LOOKUPS, result),
            on_wait=lambda seconds: self.review_metrics.observe(named.LOOKUP_SECONDS, seconds),
        )
        self.decisions = PodDecisions(
            self._informers.governors,
            self._lookups,
            self._informers.limits,
            boost,
            ceilings.ceiling if ceilings else _no_ceiling,
            is_ready=self._synced.is_set,
        )
        observe = describe_review if is_tracing() else None
        self.handler = ReviewHandler(self.decisions, settings.scope.feature_gates, self.review_metrics, observe)
        self.handle = trace_reviews(self.handler.handle) if is_tracing() else self.handler.handle
        self._callbacks = ServerCallbacks(self.handle, self.handler.refuse, self.review_metrics.observe_times)

    def find_readiness_problem(self) -> str | None:
        """Why pods are not sized yet, if so."""
        return self._informer_set.find_readiness_problem() or (None if self._synced.is_set() else "not started")

    async def wait_until_synced(self) -> None:
        """Return once the caches are synced."""
        await self._synced.wait()

    def server(self, context: ssl.SSLContext | None) -> ReviewServer:
        """A server for these reviews."""
        return ReviewServer(self._callbacks, context)

    async def run(self, server: ReviewServer | None = None) -> None:
        """Keep what reviews are answered from, until cancelled."""
        self._metrics.register_flush(partial(self._export, server))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._wait_until_synced(), name="settling")
            group.create_task(self._keep_scales(), name="scales")
            group.create_task(self.review_metrics.run(), name="tally")
            if server is not None:
                group.create_task(server.watch(), name="connections")

    async def _wait_until_synced(self) -> None:
        await self._informer_set.wait_until_synced()
        self._synced.set()
        _log.info("caches synced", governors=len(self._informers.governors))
        self._on_warmed_up()

    async def _keep_scales(self) -> None:
        governors = self._informers.governors
        await self._informer_set.wait_until_synced()

        def scales_changed(targets: Any) -> None:
            for target in targets:
                governors.drop_selector(target.kind, target.namespace, target.name)

        await self._lookups.keep_scales(governors.list_scaled_targets, scales_changed)

    def _export(self, server: ReviewServer | None) -> None:
        """Set the gauges, before each scrape."""
        counts = self._informers.governors.count_by_kind()
        self._metrics.set_all(named.GOVERNORS, {(kind,): float(count) for kind, count in counts.items()})
        self._metrics.set(named.CONNECTIONS, float(len(server)) if server is not None else 0.0)


def _no_ceiling(_pod: Pod) -> CpuCeiling | None:
    return None


class AdmissionController(Controller):
    """The admission controller of a process: reviews, certificate, registration and status Lease."""

    def __init__(self, context: ControllerContext, settings: AdmissionSettings) -> None:
        registration = settings.registration
        self._address = Address("", settings.reviews.port)
        self._bundle_changed = asyncio.Event()
        self._keeper = create_keeper(
            settings.certificates,
            context.client,
            context.writer,
            context.metrics,
            hosts=registration.hosts,
            namespace=registration.namespace,
            now=context.now,
            on_bundle=lambda _bundle: self._bundle_changed.set(),
        )
        self._registration = WebhookRegistration(
            context.client,
            context.writer,
            registration,
            scope=settings.scope,
            bundle=self._keeper.ca_bundle,
            metrics=context.metrics,
        )
        self._reviews = ReviewService(
            context.client,
            context.informers,
            settings,
            context.metrics,
            context.served,
            draw=context.draw,
            on_warmed_up=freeze_live_objects,
        )
        self._server = self._reviews.server(self._keeper.context)
        self._status = StatusLease(
            context.client,
            context.writer,
            settings.presence,
            namespace=registration.namespace,
            identity=socket.gethostname(),
            find_absence_reason=self._find_absence_reason,
            now=lambda: datetime.fromtimestamp(context.now(), UTC),
        )

    def on_started_leading(self) -> None:
        """Do nothing: every replica answers reviews, and there is no leader."""

    def find_readiness_problem(self) -> str | None:
        """Why pods are not sized yet, if so."""
        return self._reviews.find_readiness_problem()

    def find_certificate_problem(self) -> str | None:
        """The problem that makes handshakes fail, if any."""
        return self._keeper.find_readiness_problem()

    async def run(self) -> None:
        """Work until cancelled, and then answer the reviews that have come."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run(), name="certificates")
            group.create_task(self._register(), name="registration")
            group.create_task(self._renew_status(), name="status")
            await self._server.start(self._address)
            try:
                await self._reviews.run(self._server)
            finally:
                await self._server.close()

    async def _register(self) -> None:
        """Register once there is an authority to name: nothing is wrong while it is still being made."""
        await self._keeper.wait_until_ready()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registration.run(), name="webhook configuration")
            group.create_task(self._follow_bundle(), name="bundle")

    async def _follow_bundle(self) -> None:
        while True:
            await self._bundle_changed.wait()
            self._bundle_changed.clear()
            self._registration.wake()

    async def _renew_status(self) -> None:
        """Renew the status Lease as soon as pods are sized, and not an interval later."""
        await self._keeper.wait_until_ready()
        await self._reviews.wait_until_synced()
        await self._registration.wait_until_registered()
        await self._status.run()

    def _find_absence_reason(self) -> str | None:
        return (
            self.find_readiness_problem()
            or self.find_certificate_problem()
            or self._registration.find_registration_problem()
        )


def admission_spec(settings: AdmissionSettings) -> ComponentSpec[AdmissionController]:
    """The admission controller as a component: every replica works, and nothing in it has passes that could end."""

    @asynccontextmanager
    async def build(context: ControllerContext) -> AsyncIterator[AdmissionController]:
        yield AdmissionController(context, settings)

    return ComponentSpec(
        component="admission",
        name=COMPONENT,
        field_manager=FIELD_MANAGER,
        log=_log,
        metrics=ADMISSION_METRICS,
        build=build,
        interval=None,
        namespaces=settings.scope.vpa_object_namespace,
        checks={
            "informers": AdmissionController.find_readiness_problem,
            "certificate": AdmissionController.find_certificate_problem,
        },
        started_with={"port": settings.reviews.port},
    )


def manage_admission(settings: AdmissionSettings) -> ManagedComponent:
    """The component as a process of several runs it."""
    return ManagedComponent(
        name=ADMISSION,
        settings=settings,
        metrics=ADMISSION_METRICS,
        followed=list_followed_kinds(settings.scope),
        open=lambda _metrics: nullcontext(admission_spec(settings)),
    )


def admission_main(settings: AdmissionSettings) -> Main:
    """The controller of a process with these settings."""
    return component_main(admission_spec(settings), settings)
