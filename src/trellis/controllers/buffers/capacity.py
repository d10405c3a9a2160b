"""What of upstream's CapacityBuffers is at work? They are served, made of Buffers, or neither.

They stand in one line with Buffers, and share the quotas of a namespace with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.kube.capacity_buffers import CapacityBuffer
from trellis.api.kube.pods import PodTemplate
from trellis.controllers.buffers.capacity_gathering import CapacityGathering
from trellis.controllers.buffers.capacity_keeping import CapacityKeeping
from trellis.controllers.buffers.capacity_publishing import CapacityPublishing
from trellis.controllers.buffers.capacity_serving import Serving
from trellis.controllers.buffers.capacity_watching import CapacityWatching, capacity_key
from trellis.controllers.buffers.elsewhere_settings import ElsewhereSettings
from trellis.controllers.buffers.gathering import Gathering
from trellis.controllers.buffers.sharing import Sharing
from trellis.controllers.buffers.templates import Templates
from trellis.controllers.buffers.translating import Translating
from trellis.controllers.buffers.withdrawing import Withdrawing
from trellis.core.buffers import BufferSettings
from trellis.core.model.keys import Key
from trellis.core.model.selecting import Selecting
from trellis.kube.changes import Change
from trellis.kube.client import Client
from trellis.kube.resources import BUFFERS, CAPACITY_BUFFERS, POD_TEMPLATES
from trellis.kube.served import Served
from trellis.kube.writer import Writer
from trellis.runtime.informers import Informers
from trellis.runtime.metrics import Metrics
from trellis.runtime.posting import Record


class CapacityShared(msgspec.Struct, frozen=True):
    """What CapacityBuffers share with Buffers: how targets are found, quotas, and who asks for which pods."""

    gathering: Gathering
    templates: Templates
    sharing: Sharing
    selecting: Selecting
    figures: BufferSettings
    on_top: Callable[[Buffer], int | None]


class Capacity:
    """CapacityBuffers, as far as the settings want them. `elsewhere` is told what Buffers have come to."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        settings: ElsewhereSettings,
        shared: CapacityShared,
        *,
        informers: Informers,
        served: Served,
        settle: Callable[[str], None],
        metrics: Metrics,
        record: Record,
        now: Callable[[], float],
    ) -> None:
        wanted = settings.serve_capacity_buffers or settings.translate
        self._watching = CapacityWatching(informers, served) if wanted else None
        self._serving: Serving | None = None
        self.elsewhere: Translating | Withdrawing = Withdrawing(client, writer)
        if self._watching is not None and settings.translate:
            self.elsewhere = Translating(self._watching, writer, shared.on_top, record=record, now=now)
        elif self._watching is not None:
            self._serving = Serving(
                self._watching,
                CapacityGathering(client, self._watching, shared.gathering, shared.templates),
                shared.sharing,
                CapacityKeeping(shared.selecting),
                CapacityPublishing(self._watching, writer, record=record, now=now),
                figures=shared.figures,
                settle=settle,
                metrics=metrics,
            )

    async def look(self, key: Key) -> float | None:
        """Look at a CapacityBuffer; the answer is in how many seconds to look again, if at all."""
        return None if self._serving is None else await self._serving.look(key)

    def keys(self) -> Iterable[Key]:
        """All that are served, as they stand in line."""
        return self._serving.watching.keys() if self._serving is not None else ()

    def keys_in(self, namespace: str) -> Iterable[Key]:
        """Those of a namespace."""
        return self._serving.watching.keys_in(namespace) if self._serving is not None else ()

    def keys_of(self, namespace: str, kind: str, name: str) -> Iterable[Key]:
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

    def subscribe(self, call: Callable[[Key], None]) -> None:
        """Have it said whom a change concerns: a CapacityBuffer, or the Buffer that owns it."""
        if self._watching is None:
            return

        def buffer_changed(change: Change[CapacityBuffer]) -> None:
            # A Buffer waits for the name if somebody else has it.
            call(capacity_key(change.key) if self._serving is not None else change.key)

        def template_changed(change: Change[PodTemplate]) -> None:
            for key in self.keys_of(change.key[0], POD_TEMPLATES.kind, change.key[1]):
                call(key)
            call_owners(change)

        def call_owners(change: Change[Any]) -> None:
            for each in (change.old, change.new):
                owner = each.metadata.controller if each is not None else None
                if owner is not None and owner.kind == BUFFERS.kind:
                    call((change.key[0], owner.name))
                elif owner is not None and owner.kind == CAPACITY_BUFFERS.kind:
                    call(capacity_key((change.key[0], owner.name)))

        self._watching.buffers.subscribe(buffer_changed)
        self._watching.templates.subscribe(template_changed)
