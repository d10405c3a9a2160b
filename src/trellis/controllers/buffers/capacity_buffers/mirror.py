"""Mirrors each Buffer as a CapacityBuffer, for nodes of Cluster Autoscaler or Karpenter (`--translate`).

The CapacityBuffer has the Buffer's name, a PodTemplate with the chunk, and the number of chunks; while there are none
it is empty. Both are owned by the Buffer and are deleted with it. The Buffer has one condition about it, applied under
a field manager of its own, so that no other writer of the status can lose it. Where Buffers are no longer mirrored,
`CapacityBufferMirrorRemoval` deletes the CapacityBuffer and the condition: otherwise its reader would keep capacity
that another component keeps by now.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.parts import StatusCondition
from trellis.api.kube.capacity_buffers import CapacityBuffer, CapacityBufferSpec
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.pods import PodTemplate
from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.base.reasons import Reason, Severity
from trellis.base.times import format_time
from trellis.controllers.buffers.capacity_buffers.informers import VERSIONS, CapacityBufferInformers
from trellis.controllers.buffers.capacity_buffers.owned_objects import (
    OWNED_NAME_TAKEN,
    REFUSED_SECONDS,
    RETRY_SECONDS,
    OwnedObjectResult,
    ensure_object,
    ensure_template,
    is_owned,
    owner_reference,
)
from trellis.core.buffers import DetailedReason, Translation, export_buffer
from trellis.core.buffers.capacity_buffers import build_empty_spec, exported_template_name
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.kube.client import Client
from trellis.kube.events import reference_to
from trellis.kube.resources import BUFFERS, POD_TEMPLATES, Resource
from trellis.kube.write.actions import Action, DeleteObject, PatchObject, Target, target_of
from trellis.kube.write.outcomes import Result
from trellis.kube.write.patches import apply_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.event_queue import EventSink

FIELD_MANAGER: Final = "trellis-buffers-translate"
KEPT_AS_CAPACITY_BUFFER: Final = "KeptAsCapacityBuffer"

KEPT_ELSEWHERE = Reason("KeptElsewhere", "A CapacityBuffer of the same name keeps the room of the Buffer.")
MINIMUM_KEPT_ELSEWHERE = Reason(
    "MinimumKeptElsewhere",
    "A CapacityBuffer of the same name keeps what pods leave of the minimum; its replicas follow as pods come and go.",
)
MINIMUM_NOT_OBSERVED = Reason(
    "MinimumNotObserved",
    "How much of the minimum pods use is not known: trellis buffers has to list and watch nodes and all pods.",
    Severity.WARNING,
)
NOTHING_ELSEWHERE = Reason(
    "NothingKeptElsewhere",
    "The Buffer stands for no pods at the moment, and so there is no CapacityBuffer, or it is empty.",
)
CAPACITY_BUFFERS_NOT_SERVED = Reason(
    "CapacityBuffersNotServed",
    "The cluster does not have the kind CapacityBuffer, or it may not be read.",
    Severity.WARNING,
)

KEPT: Final = (KEPT_ELSEWHERE, MINIMUM_KEPT_ELSEWHERE)


def find_condition(buffer: Buffer) -> StatusCondition | None:
    """What a Buffer says of it, if anything."""
    known = buffer.status.conditions or () if buffer.status is not None else ()
    return next((each for each in known if each.type == KEPT_AS_CAPACITY_BUFFER), None)


def build_condition_action(buffer: Buffer, said: DetailedReason, now: float) -> Action | None:
    """Have it say so; None if it does."""
    status, before = "True" if said.reason in KEPT else "False", find_condition(buffer)
    told = (status, said.reason.code, str(said), buffer.metadata.generation)
    if before is not None and (before.status, before.reason, before.message, before.observed_generation) == told:
        return None
    since = before.last_transition_time if before is not None and before.status == status else None
    condition = {
        "type": KEPT_AS_CAPACITY_BUFFER,
        "status": status,
        "observedGeneration": buffer.metadata.generation,
        "lastTransitionTime": since or format_time(datetime.fromtimestamp(now, UTC)),
        "reason": said.reason.code,
        "message": str(said),
    }
    return _apply(buffer, {"conditions": [condition]})


def build_condition_removal(buffer: Buffer) -> Action:
    """Have it say nothing of it any more: what an apply does not name is removed."""
    return _apply(buffer, {})


def _apply(buffer: Buffer, status: dict[str, Any]) -> Action:
    metadata = buffer.metadata
    document = {
        "apiVersion": BUFFERS.api_version,
        "kind": BUFFERS.kind,
        "metadata": {"name": metadata.name, "namespace": metadata.namespace},
        "status": status,
    }
    target = Target(BUFFERS, metadata.name, metadata.namespace)
    return PatchObject(target, apply_patch(document, force=True), subresource="status", field_manager=FIELD_MANAGER)


# Who may not write, by its settings, has nothing to try again.
_DONE: Final = (Result.APPLIED, Result.GONE, Result.SKIPPED)

T = TypeVar("T", bound=KubeObject)


async def remove_mirror(
    writer: Writer, buffer: Buffer, found: Iterable[tuple[Resource[Any], KubeObject | None]]
) -> float | None:
    """Delete of these what the Buffer owns, then its condition; in how many seconds to try again, if that failed."""
    for resource, each in found:
        if each is not None and is_owned(each, buffer.metadata.uid):
            outcome = await writer.write(DeleteObject(target_of(resource, each, at_this_version=False)))
            if outcome.result not in _DONE:
                return RETRY_SECONDS
    if find_condition(buffer) is None:
        return None
    outcome = await writer.write(build_condition_removal(buffer))
    return None if outcome.result in _DONE else RETRY_SECONDS


class CapacityBufferMirrorRemoval:
    """What is done where Buffers are not translated: what was kept at a time when they were is given up."""

    def __init__(self, client: Client, writer: Writer) -> None:
        self._client = client
        self._writer = writer

    async def keep(self, buffer: Buffer, _settled: Translation) -> float | None:
        """Keep nothing. Only a Buffer that tells of a CapacityBuffer costs anything."""
        return await self.leave(buffer)

    async def leave(self, buffer: Buffer) -> float | None:
        """The same for one that is none of ours."""
        if find_condition(buffer) is None:
            return None
        namespace, name = buffer.metadata.namespace, buffer.metadata.name
        try:
            # The kind may have come, gone and changed its version since: it is asked for in each.
            found = [(each, await self._find(each, name, namespace)) for each in VERSIONS]
            template = await self._find(POD_TEMPLATES, exported_template_name(name), namespace)
        except (KubeError, UnreadableObject):
            return RETRY_SECONDS
        capacity = next((each for each in found if each[1] is not None), found[0])
        return await remove_mirror(self._writer, buffer, (capacity, (POD_TEMPLATES, template)))

    def forget(self, key: ObjectKey) -> None:
        """There is nothing to forget."""

    def begin_anew(self) -> None:
        """There is nothing to forget."""

    async def _find(self, resource: Resource[T], name: str, namespace: str) -> T | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None


# After so many tries, five seconds apart, it is said that the use of a minimum is not known.
_UNOBSERVED_TRIES: Final = 6


class CapacityBufferMirror:
    """Keeps CapacityBuffers, each by the look at its Buffer."""

    def __init__(
        self,
        watching: CapacityBufferInformers,
        writer: Writer,
        on_top: Callable[[Buffer], int | None],
        *,
        record: EventSink,
        now: Callable[[], float],
    ) -> None:
        self._watching = watching
        self._writer = writer
        self._record = record
        self._now = now
        self._on_top = on_top
        # How often the use of a minimum was not known, in a row.
        self._unobserved: dict[ObjectKey, int] = {}
        # What agreed at the last look; as long as it is all the same, there is nothing to do.
        self._agreed: dict[ObjectKey, tuple[object, ...]] = {}

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
        if isinstance(kept, OwnedObjectResult):
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
        return await remove_mirror(
            self._writer, buffer, ((self._watching.resource, capacity), (POD_TEMPLATES, template))
        )

    def forget(self, key: ObjectKey) -> None:
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
        return await self._tell(buffer, DetailedReason(MINIMUM_NOT_OBSERVED)) or RETRY_SECONDS

    def _found(self, buffer: Buffer) -> tuple[CapacityBuffer | None, PodTemplate | None]:
        namespace, name = key_of(buffer)
        return self._watching.buffers.get(namespace, name), self._watching.templates.get(
            namespace, exported_template_name(name)
        )

    async def _upkeep(
        self, buffer: Buffer, settled: Translation, capacity: CapacityBuffer | None, template: PodTemplate | None
    ) -> DetailedReason | OwnedObjectResult[Any]:
        """What can be said now that all is as it should be, or what came of trying."""
        if not self._watching.seen:
            return OwnedObjectResult(problem=DetailedReason(CAPACITY_BUFFERS_NOT_SERVED))
        namespace, name = key_of(buffer)
        if capacity is not None and not is_owned(capacity, buffer.metadata.uid):
            return OwnedObjectResult(
                problem=DetailedReason(OWNED_NAME_TAKEN, f"CapacityBuffer {name} belongs to somebody else")
            )
        wanted = export_buffer(name, settled)
        if wanted is None:
            return await self._empty(buffer, capacity)
        owner = owner_reference(BUFFERS, buffer)
        kept = await ensure_template(self._writer, template, owner, namespace, wanted.template)
        if kept.found is None:
            return kept
        told = await self._capacity(buffer, capacity, wanted.spec)
        if told is not None:
            return told
        if not settled.on_top:
            return DetailedReason(MINIMUM_KEPT_ELSEWHERE)
        return DetailedReason(KEPT_ELSEWHERE, f"kept as CapacityBuffer {name}")

    async def _empty(self, buffer: Buffer, capacity: CapacityBuffer | None) -> DetailedReason | OwnedObjectResult[Any]:
        """Have it stand for nothing, if it is there: whoever provisions it may keep nothing for what nobody knows."""
        if capacity is not None:
            told = await self._capacity(buffer, capacity, build_empty_spec(buffer.metadata.name))
            if told is not None:
                return told
        return DetailedReason(NOTHING_ELSEWHERE)

    async def _capacity(
        self, buffer: Buffer, capacity: CapacityBuffer | None, spec: Mapping[str, Any]
    ) -> OwnedObjectResult[CapacityBuffer] | None:
        """Have the CapacityBuffer say this; None if it does."""
        if capacity is not None and capacity.spec == convert_object(dict(spec), CapacityBufferSpec):
            return None
        target = Target(self._watching.resource, buffer.metadata.name, buffer.metadata.namespace)
        kept = await ensure_object(self._writer, capacity, owner_reference(BUFFERS, buffer), target, {"spec": spec})
        return None if kept.found is not None else kept

    async def _tell(self, buffer: Buffer, said: DetailedReason) -> float | None:
        """Say it in the Buffer's condition, and in an Event if it is news; when to try again, if that failed."""
        action = build_condition_action(buffer, said, self._now())
        if action is None:
            return None
        before = find_condition(buffer)
        outcome = await self._writer.write(action)
        if not outcome.applied:
            return RETRY_SECONDS if outcome.result in (Result.FAILED, Result.THROTTLED) else None
        if said.reason not in KEPT if before is None else before.reason != said.reason.code:
            self._record(reference_to(BUFFERS, buffer), said.reason, str(said))
        return None
