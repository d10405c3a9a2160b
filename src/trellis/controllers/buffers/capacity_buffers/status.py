"""Publishes a CapacityBuffer: a PodTemplate with the chunk, and then a status that refers to it.

The status is written as a whole and at the version that was read, as upstream's controller does: that controller may
have written the same fields before, which are replaced. Conditions of other writers are written back unchanged.
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
    build_owner_reference,
    ensure_template,
)
from trellis.controllers.buffers.capacity_buffers.state import CapacityBufferState
from trellis.controllers.buffers.events import record_events
from trellis.core.buffers import Translation, build_capacity_status, build_pod_template, managed_template_name
from trellis.kube.events import build_reference
from trellis.kube.resources import Resource
from trellis.kube.write.actions import Action, PatchStatus, build_target
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
    """Publishes translations of CapacityBuffers: the managed template, the status and Events."""

    def __init__(
        self, informers: CapacityBufferInformers, writer: Writer, *, record: EventSink, now: Callable[[], float]
    ) -> None:
        self._informers = informers
        self._writer = writer
        self._record = record
        self._now = now

    async def publish(
        self, buffer: CapacityBuffer, state: CapacityBufferState, translation: Translation
    ) -> float | None:
        """Write the template and the status; returns the seconds to a retry if that failed."""
        resource, namespace = self._informers.resource, buffer.metadata.namespace
        name = managed_template_name(buffer.metadata.name)
        template = self._informers.templates.get(namespace, name)
        now = (buffer, translation, template)
        if state.published is not None and all(
            published_part is current_part for published_part, current_part in zip(state.published, now, strict=True)
        ):
            return None
        published, generation = translation, None
        if translation.is_ready:
            document = build_pod_template(name, translation)
            result = await ensure_template(
                self._writer, template, build_owner_reference(resource, buffer), namespace, document
            )
            if result.problem is not None:
                published = msgspec.structs.replace(translation, ready=result.problem, is_ready=False)
            elif result.current is not None:
                generation = result.current.metadata.generation
            else:
                return result.retry
        action = build_status_action(resource, buffer, published, generation, self._now())
        if action is not None:
            outcome = await self._writer.write(action)
            if not outcome.applied:
                return _RETRIES.get(outcome.result)
        # A refused template is tried again in the next pass.
        state.published = now if published is translation else None
        record_events(self._record, build_reference(resource, buffer), state, published)
        return None


def build_status_action(
    resource: Resource[CapacityBuffer],
    buffer: CapacityBuffer,
    translation: Translation,
    generation: int | None,
    now: float,
) -> Action | None:
    """Write a translation, with the managed template of this generation; None if the status is up to date."""
    status = build_capacity_status(buffer, translation, generation, now)
    if _is_written(status, buffer):
        return None
    types = {condition["type"] for condition in status["conditions"]}
    others = [
        _build_condition_document(condition) for condition in buffer.status.conditions if condition.type not in types
    ]
    document = {**dict.fromkeys(_OURS), **status, "conditions": [*others, *status["conditions"]]}
    return PatchStatus(build_target(resource, buffer), document)


def _is_written(status: Mapping[str, Any], buffer: CapacityBuffer) -> bool:
    stored = buffer.status
    reference = {"name": stored.pod_template_ref.name} if stored.pod_template_ref is not None else None
    has = (reference, stored.pod_template_generation, stored.replicas, stored.provisioning_strategy)
    if has != tuple(status.get(name) for name in _OURS):
        return False
    stored_conditions = {condition.type: condition for condition in stored.conditions}
    return all(
        _is_same_condition(condition, stored_conditions.get(condition["type"])) for condition in status["conditions"]
    )


def _is_same_condition(document: Mapping[str, Any], stored: Condition | None) -> bool:
    return stored is not None and (
        (stored.status, stored.reason, stored.message, stored.observed_generation)
        == (document["status"], document["reason"], document["message"], document.get("observedGeneration", 0))
    )


def _build_condition_document(condition: Condition) -> dict[str, Any]:
    """A condition of another writer, with every field that the schema requires."""
    since, generation = condition.last_transition_time, condition.observed_generation
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        **({"lastTransitionTime": format_time(since)} if since is not None else {}),
        **({"observedGeneration": generation} if generation else {}),
    }
