"""Publishes a CapacityBuffer: a PodTemplate with the chunk, and then a status that refers to it.

The status is written as a whole and at the version that was read, as upstream's controller does: that controller may
have written the same fields before, and what it left must go. Conditions of other writers are written back unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.capacity_buffers import CapacityBuffer
from trellis.api.kube.meta import Condition
from trellis.base.times import format_time
from trellis.controllers.buffers.capacity_buffers.informers import CapacityBufferInformers
from trellis.controllers.buffers.capacity_buffers.owned_objects import (
    CONFLICT_SECONDS,
    RETRY_SECONDS,
    ensure_template,
    owner_reference,
)
from trellis.controllers.buffers.capacity_buffers.state import CapacityBufferState
from trellis.controllers.buffers.events import record_events
from trellis.core.buffers import Translation, build_capacity_status, build_pod_template, managed_template_name
from trellis.kube.events import reference_to
from trellis.kube.resources import Resource
from trellis.kube.write.actions import Action, PatchStatus, target_of
from trellis.kube.write.outcomes import Result
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.event_queue import EventSink

_RETRIES: Final = {
    Result.CONFLICT: CONFLICT_SECONDS,
    Result.FAILED: RETRY_SECONDS,
    Result.THROTTLED: RETRY_SECONDS,
}
_OURS: Final = ("podTemplateRef", "podTemplateGeneration", "replicas", "provisioningStrategy")


class CapacityBufferPublisher:
    """Tells what CapacityBuffers have come to."""

    def __init__(
        self, watching: CapacityBufferInformers, writer: Writer, *, record: EventSink, now: Callable[[], float]
    ) -> None:
        self._watching = watching
        self._writer = writer
        self._record = record
        self._now = now

    async def publish(self, buffer: CapacityBuffer, known: CapacityBufferState, settled: Translation) -> float | None:
        """Keep the template and tell; in how many seconds to try again, if that failed."""
        resource, namespace = self._watching.resource, buffer.metadata.namespace
        name = managed_template_name(buffer.metadata.name)
        seen = self._watching.templates.get(namespace, name)
        now = (buffer, settled, seen)
        if known.told is not None and all(one is other for one, other in zip(known.told, now, strict=True)):
            return None
        told, generation = settled, None
        if settled.is_ready:
            document = build_pod_template(name, settled)
            kept = await ensure_template(self._writer, seen, owner_reference(resource, buffer), namespace, document)
            if kept.problem is not None:
                told = msgspec.structs.replace(settled, ready=kept.problem, is_ready=False)
            elif kept.found is not None:
                generation = kept.found.metadata.generation
            else:
                return kept.retry
        action = build_status_action(resource, buffer, told, generation, self._now())
        if action is not None:
            outcome = await self._writer.write(action)
            if not outcome.applied:
                return _RETRIES.get(outcome.result)
        # What was refused is tried again at the next pass.
        known.told = now if told is settled else None
        record_events(self._record, reference_to(resource, buffer), known, told)
        return None


def build_status_action(
    resource: Resource[CapacityBuffer], buffer: CapacityBuffer, told: Translation, generation: int | None, now: float
) -> Action | None:
    """Write what a translation says, with the managed template of this generation; None if the status says so."""
    status = build_capacity_status(buffer, told, generation, now)
    if _is_written(status, buffer):
        return None
    types = {each["type"] for each in status["conditions"]}
    others = [_condition_document(each) for each in buffer.status.conditions if each.type not in types]
    document = {**dict.fromkeys(_OURS), **status, "conditions": [*others, *status["conditions"]]}
    return PatchStatus(target_of(resource, buffer), document)


def _is_written(status: Mapping[str, Any], buffer: CapacityBuffer) -> bool:
    stored = buffer.status
    reference = {"name": stored.pod_template_ref.name} if stored.pod_template_ref is not None else None
    has = (reference, stored.pod_template_generation, stored.replicas, stored.provisioning_strategy)
    if has != tuple(status.get(name) for name in _OURS):
        return False
    known = {each.type: each for each in stored.conditions}
    return all(_is_same_condition(each, known.get(each["type"])) for each in status["conditions"])


def _is_same_condition(wanted: Mapping[str, Any], stored: Condition | None) -> bool:
    return stored is not None and (
        (stored.status, stored.reason, stored.message, stored.observed_generation)
        == (wanted["status"], wanted["reason"], wanted["message"], wanted.get("observedGeneration", 0))
    )


def _condition_document(condition: Condition) -> dict[str, Any]:
    """A condition of somebody else's, with every field that the schema wants."""
    since, generation = condition.last_transition_time, condition.observed_generation
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        **({"lastTransitionTime": format_time(since)} if since is not None else {}),
        **({"observedGeneration": generation} if generation else {}),
    }
