"""How is the room of a Buffer kept where Cluster Autoscaler or Karpenter manages nodes? By a CapacityBuffer of its own.

It has the Buffer's name, a PodTemplate with the chunk, and the number that the Buffer came to. While the Buffer stands
for nothing it is empty. Both belong to the Buffer, and go with it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.kube.capacity_buffers import CapacityBuffer, CapacityBufferSpec
from trellis.api.kube.decode import convert_object
from trellis.api.kube.pods import PodTemplate
from trellis.controllers.buffers.capacity_watching import CapacityWatching
from trellis.controllers.buffers.owned import (
    OWNED_NAME_TAKEN,
    REFUSED_SECONDS,
    RETRY_SECONDS,
    Kept,
    is_owned,
    keep,
    owner_of,
)
from trellis.controllers.buffers.pod_templates import keep_template
from trellis.controllers.buffers.translated_condition import (
    CAPACITY_BUFFERS_NOT_SERVED,
    KEPT,
    KEPT_ELSEWHERE,
    MINIMUM_KEPT_ELSEWHERE,
    MINIMUM_NOT_OBSERVED,
    NOTHING_ELSEWHERE,
    condition_action,
    condition_in,
)
from trellis.controllers.buffers.withdrawing import withdraw
from trellis.core.buffers import Said, Translation, said_elsewhere
from trellis.core.buffers.elsewhere import empty_elsewhere, template_name
from trellis.core.model.keys import Key, key_of
from trellis.kube.actions import Target
from trellis.kube.events import reference_to
from trellis.kube.outcomes import Result
from trellis.kube.resources import BUFFERS, POD_TEMPLATES
from trellis.kube.writer import Writer
from trellis.runtime.posting import Record

# After so many tries, five seconds apart, it is said that the use of a minimum is not known.
_UNOBSERVED_TRIES: Final = 6


class Translating:
    """Keeps CapacityBuffers, each by the look at its Buffer."""

    def __init__(
        self,
        watching: CapacityWatching,
        writer: Writer,
        on_top: Callable[[Buffer], int | None],
        *,
        record: Record,
        now: Callable[[], float],
    ) -> None:
        self._watching = watching
        self._writer = writer
        self._record = record
        self._now = now
        self._on_top = on_top
        # How often the use of a minimum was not known, in a row.
        self._unobserved: dict[Key, int] = {}
        # What agreed at the last look; as long as it is all the same, there is nothing to do.
        self._agreed: dict[Key, tuple[object, ...]] = {}

    async def keep(self, buffer: Buffer, settled: Translation) -> float | None:
        """Keep what a Buffer has come to; in how many seconds to try again, if that failed."""
        key = key_of(buffer)
        capacity, template = self._found(buffer)
        on_top = self._replicas(buffer, settled)
        if on_top is None:
            return await self._unknown(buffer)
        self._unobserved.pop(key, None)
        seen = (buffer, settled, capacity, template, self._watching.seen, on_top)
        agreed = self._agreed.get(key)
        if agreed is not None and agreed[-1] == on_top and all(map(operator.is_, agreed[:-1], seen[:-1])):
            return None
        kept = await self._upkeep(buffer, msgspec.structs.replace(settled, chunks=on_top), capacity, template)
        if isinstance(kept, Kept):
            if kept.problem is None:
                return kept.retry
            return await self._tell(buffer, kept.problem) or REFUSED_SECONDS
        retry = await self._tell(buffer, kept)
        if retry is None:
            self._agreed[key] = seen
        return retry

    async def leave(self, buffer: Buffer) -> float | None:
        """A Buffer is none of ours: what was kept for it goes."""
        self.forget(key_of(buffer))
        capacity, template = self._found(buffer)
        return await withdraw(self._writer, buffer, ((self._watching.resource, capacity), (POD_TEMPLATES, template)))

    def forget(self, key: Key) -> None:
        """It is gone, and what it owns goes with it."""
        self._agreed.pop(key, None)
        self._unobserved.pop(key, None)

    def begin_anew(self) -> None:
        """Forget all: somebody else has led in the meantime."""
        self._agreed.clear()

    def _replicas(self, buffer: Buffer, settled: Translation) -> int | None:
        """How many replicas the CapacityBuffer has; None if it is not known how much of a minimum pods use."""
        if settled.on_top or not settled.chunks or settled.pod_spec is None:
            return settled.chunks
        on_top = self._on_top(buffer)
        return None if on_top is None else min(on_top, settled.chunks)

    async def _unknown(self, buffer: Buffer) -> float | None:
        """Leave the CapacityBuffer as it is until the use of the minimum is known, and say so if that takes long."""
        key = key_of(buffer)
        tries = self._unobserved[key] = self._unobserved.get(key, 0) + 1
        if tries < _UNOBSERVED_TRIES:
            return RETRY_SECONDS
        return await self._tell(buffer, Said(MINIMUM_NOT_OBSERVED)) or RETRY_SECONDS

    def _found(self, buffer: Buffer) -> tuple[CapacityBuffer | None, PodTemplate | None]:
        namespace, name = key_of(buffer)
        return self._watching.buffers.get(namespace, name), self._watching.templates.get(namespace, template_name(name))

    async def _upkeep(
        self, buffer: Buffer, settled: Translation, capacity: CapacityBuffer | None, template: PodTemplate | None
    ) -> Said | Kept[Any]:
        """What can be said now that all is as it should be, or what came of trying."""
        if not self._watching.seen:
            return Kept(problem=Said(CAPACITY_BUFFERS_NOT_SERVED))
        namespace, name = key_of(buffer)
        if capacity is not None and not is_owned(capacity, buffer.metadata.uid):
            return Kept(problem=Said(OWNED_NAME_TAKEN, f"CapacityBuffer {name} belongs to somebody else"))
        wanted = said_elsewhere(name, settled)
        if wanted is None:
            return await self._empty(buffer, capacity)
        owner = owner_of(BUFFERS, buffer)
        kept = await keep_template(self._writer, template, owner, namespace, wanted.template)
        if kept.found is None:
            return kept
        told = await self._capacity(buffer, capacity, wanted.spec)
        if told is not None:
            return told
        if not settled.on_top:
            return Said(MINIMUM_KEPT_ELSEWHERE)
        return Said(KEPT_ELSEWHERE, f"kept as CapacityBuffer {name}")

    async def _empty(self, buffer: Buffer, capacity: CapacityBuffer | None) -> Said | Kept[Any]:
        """Have it stand for nothing, if it is there: whoever provisions it may keep nothing for what nobody knows."""
        if capacity is not None:
            told = await self._capacity(buffer, capacity, empty_elsewhere(buffer.metadata.name))
            if told is not None:
                return told
        return Said(NOTHING_ELSEWHERE)

    async def _capacity(
        self, buffer: Buffer, capacity: CapacityBuffer | None, spec: Mapping[str, Any]
    ) -> Kept[CapacityBuffer] | None:
        """Have the CapacityBuffer say this; None if it does."""
        if capacity is not None and capacity.spec == convert_object(dict(spec), CapacityBufferSpec):
            return None
        target = Target(self._watching.resource, buffer.metadata.name, buffer.metadata.namespace)
        kept = await keep(self._writer, capacity, owner_of(BUFFERS, buffer), target, {"spec": spec})
        return None if kept.found is not None else kept

    async def _tell(self, buffer: Buffer, said: Said) -> float | None:
        """Say it in the Buffer's condition, and in an Event if it is news; when to try again, if that failed."""
        action = condition_action(buffer, said, self._now())
        if action is None:
            return None
        before = condition_in(buffer)
        outcome = await self._writer.write(action)
        if not outcome.applied:
            return RETRY_SECONDS if outcome.result in (Result.FAILED, Result.THROTTLED) else None
        if said.reason not in KEPT if before is None else before.reason != said.reason.code:
            self._record(reference_to(BUFFERS, buffer), said.reason, str(said))
        return None
