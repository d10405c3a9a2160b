"""CapacityBuffers as the settings enable them: served, mirrored, or neither.

They go through the work queue of Buffers, and share the quotas of a namespace with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.capacity_buffers import CapacityBuffer
from trellis.api.kube.pods import PodTemplate
from trellis.controllers.buffers.admitted_templates import AdmittedTemplates
from trellis.controllers.buffers.capacity_buffers.informers import CapacityBufferInformers, capacity_key
from trellis.controllers.buffers.capacity_buffers.mirror import CapacityBufferMirror, CapacityBufferMirrorRemoval
from trellis.controllers.buffers.capacity_buffers.reconcile import CapacityBufferReconciler
from trellis.controllers.buffers.capacity_buffers.state import CapacityBufferStates
from trellis.controllers.buffers.capacity_buffers.status import CapacityBufferPublisher
from trellis.controllers.buffers.capacity_buffers.view import CapacityBufferViewBuilder
from trellis.controllers.buffers.quota_shares import QuotaShares
from trellis.controllers.buffers.settings import CapacityBufferSettings
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
    """The parts that CapacityBuffers share with Buffers: views of targets, dry runs, quotas and selectors."""

    view: BufferViewBuilder
    templates: AdmittedTemplates
    shares: QuotaShares
    selectors: TargetSelectorIndex
    settings: BufferSettings
    on_top: Callable[[Buffer], int | None]


class CapacityBuffers:
    """CapacityBuffers, as the settings enable them. `mirror` keeps or removes those of Buffers."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        settings: CapacityBufferSettings,
        shared: SharedWithBuffers,
        *,
        informers: Informers,
        served: Served,
        enqueue_division: Callable[[str], None],
        metrics: Metrics,
        record: EventSink,
        now: Callable[[], float],
    ) -> None:
        is_enabled = settings.serve_capacity_buffers or settings.translate
        self._informers = CapacityBufferInformers(informers, served) if is_enabled else None
        self._reconciler: CapacityBufferReconciler | None = None
        self.mirror: CapacityBufferMirror | CapacityBufferMirrorRemoval = CapacityBufferMirrorRemoval(client, writer)
        if self._informers is not None and settings.translate:
            self.mirror = CapacityBufferMirror(self._informers, writer, shared.on_top, record=record, now=now)
        elif self._informers is not None:
            self._reconciler = CapacityBufferReconciler(
                self._informers,
                CapacityBufferViewBuilder(client, self._informers, shared.view, shared.templates),
                shared.shares,
                CapacityBufferStates(shared.selectors),
                CapacityBufferPublisher(self._informers, writer, record=record, now=now),
                settings=shared.settings,
                enqueue_division=enqueue_division,
                metrics=metrics,
            )

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Reconcile one CapacityBuffer; returns the seconds until it is reconciled again, if any."""
        return None if self._reconciler is None else await self._reconciler.reconcile(key)

    def keys(self) -> Iterable[ObjectKey]:
        """The keys in the work queue of all that are translated."""
        return self._reconciler.informers.keys() if self._reconciler is not None else ()

    def keys_in(self, namespace: str) -> Iterable[ObjectKey]:
        """The keys of those in a namespace."""
        return self._reconciler.informers.keys_in(namespace) if self._reconciler is not None else ()

    def list_keys_of(self, namespace: str, kind: str, name: str) -> Iterable[ObjectKey]:
        """The keys of those that refer to this object."""
        return self._reconciler.informers.list_keys_of(namespace, kind, name) if self._reconciler is not None else ()

    def is_awaited(self, namespace: str) -> bool:
        """Whether one of a namespace is not translated yet."""
        return self._reconciler is not None and self._reconciler.is_awaited(namespace)

    def forget_templates(self, namespace: str) -> None:
        """Forget templates of a namespace, because its LimitRanges have changed."""
        if self._reconciler is not None:
            self._reconciler.forget_templates(namespace)

    def clear(self) -> None:
        """Forget all, because another process has led in the meantime."""
        self.mirror.begin_anew()
        if self._reconciler is not None:
            self._reconciler.clear()

    def export(self) -> None:
        """Export how many there are, by decision."""
        if self._reconciler is not None:
            self._reconciler.export()

    def subscribe(self, enqueue: Callable[[ObjectKey], None]) -> None:
        """Enqueue the CapacityBuffer that a change concerns, or the Buffer that owns it."""
        if self._informers is None:
            return

        def buffer_changed(change: ObjectChange[CapacityBuffer]) -> None:
            # A Buffer waits for the name if another object has it.
            enqueue(capacity_key(change.key) if self._reconciler is not None else change.key)

        def template_changed(change: ObjectChange[PodTemplate]) -> None:
            for key in self.list_keys_of(change.key[0], POD_TEMPLATES.kind, change.key[1]):
                enqueue(key)
            enqueue_owners(change)

        def enqueue_owners(change: ObjectChange[Any]) -> None:
            for version in (change.old, change.new):
                owner = version.metadata.controller if version is not None else None
                if owner is not None and owner.kind == BUFFERS.kind:
                    enqueue((change.key[0], owner.name))
                elif owner is not None and owner.kind == CAPACITY_BUFFERS.kind:
                    enqueue(capacity_key((change.key[0], owner.name)))

        self._informers.buffers.subscribe(buffer_changed)
        self._informers.templates.subscribe(template_changed)
