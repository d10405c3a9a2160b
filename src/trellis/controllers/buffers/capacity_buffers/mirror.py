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
    build_owner_reference,
    ensure_object,
    ensure_template,
    is_owned,
)
from trellis.core.buffers import DetailedReason, Translation, export_buffer
from trellis.core.buffers.capacity_buffers import build_empty_spec, exported_template_name
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.kube.client import Client
from trellis.kube.events import build_reference
from trellis.kube.resources import BUFFERS, POD_TEMPLATES, Resource
from trellis.kube.write.actions import Action, DeleteObject, PatchObject, Target, build_target
from trellis.kube.write.outcomes import Result
from trellis.kube.write.patches import apply_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.event_queue import EventSink

FIELD_MANAGER: Final = "trellis-buffers-translate"
KEPT_AS_CAPACITY_BUFFER: Final = "KeptAsCapacityBuffer"

HELD_BY_CAPACITY_BUFFER = Reason(
    "HeldByCapacityBuffer", "A CapacityBuffer of the same name provisions the capacity of the Buffer."
)
MINIMUM_HELD_BY_CAPACITY_BUFFER = Reason(
    "MinimumHeldByCapacityBuffer",
    "A CapacityBuffer of the same name provisions the part of the minimum that pods do not use; "
    "its replicas follow the pods.",
)
MINIMUM_NOT_OBSERVED = Reason(
    "MinimumNotObserved",
    "The part of the minimum that pods use is unknown: trellis buffers needs to list and watch nodes and all pods.",
    Severity.WARNING,
)
CAPACITY_BUFFER_EMPTY = Reason(
    "CapacityBufferEmpty",
    "The Buffer has no chunks at the moment, so its CapacityBuffer does not exist or has no replicas.",
)
CAPACITY_BUFFERS_NOT_SERVED = Reason(
    "CapacityBuffersNotServed",
    "The cluster does not serve the kind CapacityBuffer, or RBAC does not allow to read it.",
    Severity.WARNING,
)

KEPT: Final = (HELD_BY_CAPACITY_BUFFER, MINIMUM_HELD_BY_CAPACITY_BUFFER)


def find_condition(buffer: Buffer) -> StatusCondition | None:
    """The condition of a Buffer about its CapacityBuffer, if it has one."""
    conditions = buffer.status.conditions or () if buffer.status is not None else ()
    return next((condition for condition in conditions if condition.type == KEPT_AS_CAPACITY_BUFFER), None)


def build_condition_action(buffer: Buffer, detailed: DetailedReason, now: float) -> Action | None:
    """Apply the condition with this reason; None if the Buffer has it already."""
    status, before = "True" if detailed.reason in KEPT else "False", find_condition(buffer)
    expected = (status, detailed.reason.code, str(detailed), buffer.metadata.generation)
    if before is not None and (before.status, before.reason, before.message, before.observed_generation) == expected:
        return None
    since = before.last_transition_time if before is not None and before.status == status else None
    condition = {
        "type": KEPT_AS_CAPACITY_BUFFER,
        "status": status,
        "observedGeneration": buffer.metadata.generation,
        "lastTransitionTime": since or format_time(datetime.fromtimestamp(now, UTC)),
        "reason": detailed.reason.code,
        "message": str(detailed),
    }
    return _apply(buffer, {"conditions": [condition]})


def build_condition_removal(buffer: Buffer) -> Action:
    """Remove the condition: an apply removes what it does not name any more."""
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


# A write that the settings skip is not tried again.
_DONE: Final = (Result.APPLIED, Result.GONE, Result.SKIPPED)

T = TypeVar("T", bound=KubeObject)


async def remove_mirror(
    writer: Writer, buffer: Buffer, objects: Iterable[tuple[Resource[Any], KubeObject | None]]
) -> float | None:
    """Delete the objects that the Buffer owns, then its condition; returns the seconds to a retry if that failed."""
    for resource, mirrored in objects:
        if mirrored is not None and is_owned(mirrored, buffer.metadata.uid):
            outcome = await writer.write(DeleteObject(build_target(resource, mirrored, with_version=False)))
            if outcome.result not in _DONE:
                return RETRY_SECONDS
    if find_condition(buffer) is None:
        return None
    outcome = await writer.write(build_condition_removal(buffer))
    return None if outcome.result in _DONE else RETRY_SECONDS


class CapacityBufferMirrorRemoval:
    """Deletes mirrors of Buffers where Buffers are no longer mirrored."""

    def __init__(self, client: Client, writer: Writer) -> None:
        self._client = client
        self._writer = writer

    async def update(self, buffer: Buffer, _translation: Translation) -> float | None:
        """Delete the mirror of a Buffer. A Buffer without the condition causes no request."""
        return await self.remove(buffer)

    async def remove(self, buffer: Buffer) -> float | None:
        """Delete the mirror of a Buffer that is not managed here."""
        if find_condition(buffer) is None:
            return None
        namespace, name = buffer.metadata.namespace, buffer.metadata.name
        try:
            # The version that the cluster serves may have changed since: each one is read.
            candidates = [(version, await self._find(version, name, namespace)) for version in VERSIONS]
            template = await self._find(POD_TEMPLATES, exported_template_name(name), namespace)
        except (KubeError, UnreadableObject):
            return RETRY_SECONDS
        capacity = next((candidate for candidate in candidates if candidate[1] is not None), candidates[0])
        return await remove_mirror(self._writer, buffer, (capacity, (POD_TEMPLATES, template)))

    def forget(self, key: ObjectKey) -> None:
        """No state is kept."""

    def begin_anew(self) -> None:
        """No state is kept."""

    async def _find(self, resource: Resource[T], name: str, namespace: str) -> T | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None


# Tries, five seconds apart, after which the condition says that the use of a minimum is not known.
_UNOBSERVED_TRIES: Final = 6


class CapacityBufferMirror:
    """Keeps the CapacityBuffer of each Buffer current, when the Buffer is reconciled."""

    def __init__(
        self,
        informers: CapacityBufferInformers,
        writer: Writer,
        on_top: Callable[[Buffer], int | None],
        *,
        record: EventSink,
        now: Callable[[], float],
    ) -> None:
        self._informers = informers
        self._writer = writer
        self._record = record
        self._now = now
        self._on_top = on_top
        # The number of reconciles in a row in which the use of a minimum was not known.
        self._unobserved: dict[ObjectKey, int] = {}
        # The inputs of the last reconcile that left nothing to write; while they stay the same, nothing is written.
        self._last_inputs: dict[ObjectKey, tuple[object, ...]] = {}

    async def update(self, buffer: Buffer, translation: Translation) -> float | None:
        """Mirror the translation of a Buffer; returns the seconds to a retry if that failed."""
        key = key_of(buffer)
        capacity, template = self._find_mirror(buffer)
        on_top = self._count_replicas(buffer, translation)
        if on_top is None:
            return await self._wait_for_usage(buffer)
        self._unobserved.pop(key, None)
        inputs = (buffer, translation, capacity, template, self._informers.is_synced, on_top)
        last_inputs = self._last_inputs.get(key)
        if (
            last_inputs is not None
            and last_inputs[-1] == on_top
            and all(map(operator.is_, last_inputs[:-1], inputs[:-1]))
        ):
            return None
        result = await self._ensure_mirror(
            buffer, msgspec.structs.replace(translation, chunks=on_top), capacity, template
        )
        if isinstance(result, OwnedObjectResult):
            if result.problem is None:
                return result.retry
            return await self._publish_condition(buffer, result.problem) or REFUSED_SECONDS
        retry = await self._publish_condition(buffer, result)
        if retry is None:
            self._last_inputs[key] = inputs
        return retry

    async def remove(self, buffer: Buffer) -> float | None:
        """Delete the mirror of a Buffer that is not managed here."""
        self.forget(key_of(buffer))
        capacity, template = self._find_mirror(buffer)
        return await remove_mirror(
            self._writer, buffer, ((self._informers.resource, capacity), (POD_TEMPLATES, template))
        )

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted Buffer; the garbage collector deletes what it owns."""
        self._last_inputs.pop(key, None)
        self._unobserved.pop(key, None)

    def begin_anew(self) -> None:
        """Forget all, because another process has led in the meantime."""
        self._last_inputs.clear()

    def _count_replicas(self, buffer: Buffer, translation: Translation) -> int | None:
        """How many replicas the CapacityBuffer has; None if it is not known how much of a minimum pods use."""
        if translation.on_top or not translation.chunks or translation.pod_spec is None:
            return translation.chunks
        on_top = self._on_top(buffer)
        return None if on_top is None else min(on_top, translation.chunks)

    async def _wait_for_usage(self, buffer: Buffer) -> float | None:
        """Leave the CapacityBuffer as it is until the use of the minimum is known; publish that if it takes long."""
        key = key_of(buffer)
        tries = self._unobserved[key] = self._unobserved.get(key, 0) + 1
        if tries < _UNOBSERVED_TRIES:
            return RETRY_SECONDS
        return await self._publish_condition(buffer, DetailedReason(MINIMUM_NOT_OBSERVED)) or RETRY_SECONDS

    def _find_mirror(self, buffer: Buffer) -> tuple[CapacityBuffer | None, PodTemplate | None]:
        namespace, name = key_of(buffer)
        return self._informers.buffers.get(namespace, name), self._informers.templates.get(
            namespace, exported_template_name(name)
        )

    async def _ensure_mirror(
        self, buffer: Buffer, translation: Translation, capacity: CapacityBuffer | None, template: PodTemplate | None
    ) -> DetailedReason | OwnedObjectResult[Any]:
        """Write what differs: the reason for the condition if nothing does, otherwise the result of the write."""
        if not self._informers.is_synced:
            return OwnedObjectResult(problem=DetailedReason(CAPACITY_BUFFERS_NOT_SERVED))
        namespace, name = key_of(buffer)
        if capacity is not None and not is_owned(capacity, buffer.metadata.uid):
            return OwnedObjectResult(
                problem=DetailedReason(OWNED_NAME_TAKEN, f"CapacityBuffer {name} has another owner")
            )
        exported = export_buffer(name, translation)
        if exported is None:
            return await self._ensure_empty(buffer, capacity)
        owner = build_owner_reference(BUFFERS, buffer)
        template_result = await ensure_template(self._writer, template, owner, namespace, exported.template)
        if template_result.current is None:
            return template_result
        capacity_result = await self._ensure_capacity_buffer(buffer, capacity, exported.spec)
        if capacity_result is not None:
            return capacity_result
        if not translation.on_top:
            return DetailedReason(MINIMUM_HELD_BY_CAPACITY_BUFFER)
        return DetailedReason(HELD_BY_CAPACITY_BUFFER, f"provisioned as CapacityBuffer {name}")

    async def _ensure_empty(
        self, buffer: Buffer, capacity: CapacityBuffer | None
    ) -> DetailedReason | OwnedObjectResult[Any]:
        """Empty an existing CapacityBuffer, so that no capacity is provisioned for it."""
        if capacity is not None:
            result = await self._ensure_capacity_buffer(buffer, capacity, build_empty_spec(buffer.metadata.name))
            if result is not None:
                return result
        return DetailedReason(CAPACITY_BUFFER_EMPTY)

    async def _ensure_capacity_buffer(
        self, buffer: Buffer, capacity: CapacityBuffer | None, spec: Mapping[str, Any]
    ) -> OwnedObjectResult[CapacityBuffer] | None:
        """Write the spec of the CapacityBuffer; None if it has this spec already."""
        if capacity is not None and capacity.spec == convert_object(dict(spec), CapacityBufferSpec):
            return None
        target = Target(self._informers.resource, buffer.metadata.name, buffer.metadata.namespace)
        result = await ensure_object(
            self._writer, capacity, build_owner_reference(BUFFERS, buffer), target, {"spec": spec}
        )
        return None if result.current is not None else result

    async def _publish_condition(self, buffer: Buffer, detailed: DetailedReason) -> float | None:
        """Write the condition, and record an Event if its reason is new; returns the seconds to a retry, if any."""
        action = build_condition_action(buffer, detailed, self._now())
        if action is None:
            return None
        before = find_condition(buffer)
        outcome = await self._writer.write(action)
        if not outcome.applied:
            return RETRY_SECONDS if outcome.result in (Result.FAILED, Result.THROTTLED) else None
        if detailed.reason not in KEPT if before is None else before.reason != detailed.reason.code:
            self._record(build_reference(BUFFERS, buffer), detailed.reason, str(detailed))
        return None
