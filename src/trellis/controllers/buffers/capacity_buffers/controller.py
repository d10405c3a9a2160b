"""CapacityBuffers as far as the settings want them: served, mirrored, or neither.

They go through the work queue of Buffers, and share the quotas of a namespace with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.capacity_buffers import CapacityBuffer
from trellis.api.kube.pods import PodTemplate
from trellis.controllers.buffers.capacity_buffers.informers import CapacityBufferInformers, capacity_key
from trellis.controllers.buffers.capacity_buffers.mirror import CapacityBufferMirror, CapacityBufferMirrorRemoval
from trellis.controllers.buffers.capacity_buffers.reconcile import CapacityBufferReconciler
from trellis.controllers.buffers.capacity_buffers.state import CapacityBufferStates
from trellis.controllers.buffers.capacity_buffers.status import CapacityBufferPublisher
from trellis.controllers.buffers.capacity_buffers.view import CapacityBufferViewBuilder
from trellis.controllers.buffers.quota_shares import QuotaShares
from trellis.controllers.buffers.settings import CapacityBufferSettings
from trellis.controllers.buffers.template_dry_runs import TemplateDryRuns
from trellis.controllers.buffers.view import BufferViewBuilder
from trellis.core.buffers import BufferSettings
from trellis.core.cluster.store import ObjectKey
from trellis.core.cluster.target_selectors import TargetSelectorIndex
from trellis.kube.client import Client
from trellis.kube.discovery import Served
from trellis.kube.resources import BUFFERS, CAPACITY_BUFFERS, POD_TEMPLATES
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.write.writer import Writer
from trellis.runtime.informers import Informers
from trellis.runtime.telemetry.event_queue import EventSink
from trellis.runtime.telemetry.metrics import Metrics


class SharedWithBuffers(msgspec.Struct, frozen=True):
    """What CapacityBuffers share with Buffers: how targets are found, quotas, and who asks for which pods."""

    gathering: BufferViewBuilder
    templates: TemplateDryRuns
    sharing: QuotaShares
    selecting: TargetSelectorIndex
    figures: BufferSettings
    on_top: Callable[[Buffer], int | None]


class CapacityBuffers:
    """CapacityBuffers, as far as the settings want them. `elsewhere` is told what Buffers have come to."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        settings: CapacityBufferSettings,
        shared: SharedWithBuffers,
        *,
        informers: Informers,
        served: Served,
        settle: Callable[[str], None],
        metrics: Metrics,
        record: EventSink,
        now: Callable[[], float],
    ) -> None:
        wanted = settings.serve_capacity_buffers or settings.translate
        self._watching = CapacityBufferInformers(informers, served) if wanted else None
        self._serving: CapacityBufferReconciler | None = None
        self.elsewhere: CapacityBufferMirror | CapacityBufferMirrorRemoval = CapacityBufferMirrorRemoval(client, writer)
        if self._watching is not None and settings.translate:
            self.elsewhere = CapacityBufferMirror(self._watching, writer, shared.on_top, record=record, now=now)
        elif self._watching is not None:
            self._serving = CapacityBufferReconciler(
                self._watching,
                CapacityBufferViewBuilder(client, self._watching, shared.gathering, shared.templates),
                shared.sharing,
                CapacityBufferStates(shared.selecting),
                CapacityBufferPublisher(self._watching, writer, record=record, now=now),
                figures=shared.figures,
                settle=settle,
                metrics=metrics,
            )

    async def look(self, key: ObjectKey) -> float | None:
        """Look at a CapacityBuffer; the answer is in how many seconds to look again, if at all."""
        return None if self._serving is None else await self._serving.look(key)

    def keys(self) -> Iterable[ObjectKey]:
        """All that are served, as they stand in line."""
        return self._serving.watching.keys() if self._serving is not None else ()

    def keys_in(self, namespace: str) -> Iterable[ObjectKey]:
        """Those of a namespace."""
        return self._serving.watching.keys_in(namespace) if self._serving is not None else ()

    def keys_of(self, namespace: str, kind: str, name: str) -> Iterable[ObjectKey]:
        """Those that refer to this."""
        return self._serving.watching.keys_of(namespace, kind, name) if self._serving is not None else ()

    def awaits(self, namespace: str) -> bool:
        """Whether one of a namespace has not been translated yet."""
        return self._serving is not None and self._serving.awaits(namespace)

    def forget_templates(self, namespace: str) -> None:
        """What admission makes of pods there may be something else now."""
        if self._serving is not None:
            self._serving.forget_templates(namespace)

    def begin_anew(self) -> None:
        """Forget all: somebody else has led in the meantime."""
        self.elsewhere.begin_anew()
        if self._serving is not None:
            self._serving.begin_anew()

    def export(self) -> None:
        """Say how those that are served are."""
        if self._serving is not None:
            self._serving.export()

    def subscribe(self, call: Callable[[ObjectKey], None]) -> None:
        """Have it said whom a change concerns: a CapacityBuffer, or the Buffer that owns it."""
        if self._watching is None:
            return

        def buffer_changed(change: ObjectChange[CapacityBuffer]) -> None:
            # A Buffer waits for the name if somebody else has it.
            call(capacity_key(change.key) if self._serving is not None else change.key)

        def template_changed(change: ObjectChange[PodTemplate]) -> None:
            for key in self.keys_of(change.key[0], POD_TEMPLATES.kind, change.key[1]):
                call(key)
            call_owners(change)

        def call_owners(change: ObjectChange[Any]) -> None:
            for each in (change.old, change.new):
                owner = each.metadata.controller if each is not None else None
                if owner is not None and owner.kind == BUFFERS.kind:
                    call((change.key[0], owner.name))
                elif owner is not None and owner.kind == CAPACITY_BUFFERS.kind:
                    call(capacity_key((change.key[0], owner.name)))

        self._watching.buffers.subscribe(buffer_changed)
        self._watching.templates.subscribe(template_changed)
