"""Starts and stops the observation of headroom, and keeps its last result.

`trellis nodes` publishes in each Buffer's status whether it is provisioned, where it runs. While its Lease is free,
this process observes and publishes the status itself; once the Lease is held, it stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from trellis.api.kinds.buffer import Buffer
from trellis.controllers.buffer_provisioning.buffer_reports import (
    BufferEvents,
    translated_generation,
    with_unreadable_buffers,
)
from trellis.controllers.buffers import metrics
from trellis.controllers.buffers.headroom.informers import HeadroomInformers
from trellis.controllers.buffers.headroom.observation import HeadroomLoop
from trellis.controllers.buffers.settings import HeadroomSettings
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.nodes.buffers.headroom import ObservedHeadroom
from trellis.core.nodes.buffers.status import ProvisioningReport, StatusOwnership, build_provisioned_status
from trellis.kube.lease_records import LeaseObserver
from trellis.runtime.component import ControllerContext
from trellis.runtime.settings.component import NamespaceSettings
from trellis.runtime.telemetry.logs import Logger

# How often the Lease is read: its holder renews it about as often.
_POLL_SECONDS: Final = 5.0

_WAIT: Final = ProvisioningReport(StatusOwnership.WAIT)
_LEAVE: Final = ProvisioningReport(StatusOwnership.LEAVE)
_NOTHING: Final = ProvisioningReport(StatusOwnership.WRITE)

_log: Final = Logger("trellis.buffers")


class HeadroomController:
    """Runs `HeadroomLoop` while it is needed. `keys` are those of all Buffers, `enqueue` has one reconciled.

    `run` in a task of its own. `always` observes even while `trellis nodes` runs, for what mirrored Buffers keep.
    """

    def __init__(
        self,
        context: ControllerContext,
        scope: NamespaceSettings,
        settings: HeadroomSettings,
        *,
        always: bool,
        most_exported: int,
        keys: Callable[[], Iterable[ObjectKey]],
        enqueue: Callable[[ObjectKey], None],
    ) -> None:
        self._context = context
        self._scope = scope
        self._settings = settings
        self._always = always
        self._most_exported = most_exported
        self._keys = keys
        self._enqueue = enqueue
        namespace, _, name = settings.nodes_lease.partition("/")
        self._lease = LeaseObserver(context.client, namespace, name)
        self._events = BufferEvents(context.record_event)
        self._has_observed = False
        self._reports: dict[str, ProvisioningReport] = {}
        self._on_top: dict[str, int] = {}

    def provision(self, buffer: Buffer) -> ProvisioningReport:
        """The report about a Buffer's provisioning that this process publishes, if it does."""
        if self._lease.is_held is not False:
            return _WAIT if self._lease.is_held is None else _LEAVE
        return self._reports.get(buffer.metadata.uid, _NOTHING) if self._has_observed else _WAIT

    def on_top(self, buffer: Buffer) -> int | None:
        """How many chunks of a `KeepMinimum` Buffer are to be kept on top of running pods; None if unknown."""
        return self._on_top.get(buffer.metadata.uid)

    async def run(self) -> None:
        """Observe while this process has to, until cancelled."""
        async with asyncio.TaskGroup() as group:
            running: asyncio.Task[None] | None = None
            held: bool | None = None
            while True:
                await self._poll()
                is_needed = self._context.may_act() and (self._always or self._lease.is_held is False)
                if is_needed and running is None:
                    running = group.create_task(self._create_loop().run(), name="headroom")
                elif not is_needed and running is not None:
                    running.cancel()
                    await asyncio.wait({running})
                    running = None
                    self._forget()
                if held is not self._lease.is_held:
                    held = self._lease.is_held
                    self._events.reset()
                    for key in self._keys():
                        self._enqueue(key)
                await asyncio.sleep(_POLL_SECONDS)

    def _create_loop(self) -> HeadroomLoop:
        return HeadroomLoop(
            self._context,
            self._scope,
            self._settings.figures(),
            on_observed=self._observed,
        )

    async def _poll(self) -> None:
        before = self._lease.last_error
        await self._lease.poll()
        if self._lease.last_error and self._lease.last_error != before:
            lease = self._settings.nodes_lease
            _log.warning("reading the Lease of trellis nodes failed", lease=lease, why=self._lease.last_error)

    def _forget(self) -> None:
        self._has_observed, self._reports, self._on_top = False, {}, {}
        metrics.clear_headroom(self._context.metrics)

    def _observed(self, observed: ObservedHeadroom, informers: HeadroomInformers) -> None:
        """Keep an observation, and enqueue the Buffers that it affects."""
        now, is_first = self._context.now(), not self._has_observed
        before = self._on_top
        decisions = with_unreadable_buffers(observed.buffers, observed.problems, informers.buffers)
        self._has_observed, self._on_top, self._reports = True, dict(observed.on_top), {}
        for decision in decisions:
            buffer = informers.buffers.get(*decision.key)
            if buffer is not None and buffer.metadata.uid == decision.uid:
                generation = translated_generation(buffer)
                self._reports[decision.uid] = ProvisioningReport(StatusOwnership.WRITE, decision, generation)
        for buffer in informers.buffers.snapshot():
            uid, report = buffer.metadata.uid, self.provision(buffer)
            is_new = report.decision is None or (
                build_provisioned_status(report.decision, buffer.status, report.generation, now) is not None
            )
            if is_first or is_new or before.get(uid) != self._on_top.get(uid):
                self._enqueue(key_of(buffer))
        if self._lease.is_held is False:
            self._events.record_buffers(decisions)
            metrics.export_headroom(self._context.metrics, decisions, informers.buffers.snapshot(), self._most_exported)
