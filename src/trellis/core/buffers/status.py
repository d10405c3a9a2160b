"""The status of a Buffer, made from its translation.

Only the fields of the Buffer controller: the pods, two conditions and the generation. `Provisioned` and
`lastFullyProvisioned` are the node autoscaler's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from trellis.api.kinds.buffer import Buffer, BufferStatus, PodCapacity
from trellis.api.kinds.parts import StatusCondition
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.pods import PodSpec, PodTemplateSpec
from trellis.base.errors import UnreadableObject
from trellis.base.reasons import Reason
from trellis.base.times import format_time
from trellis.core.buffers.chunks import WITHIN_QUOTAS, Translation

READY_FOR_PROVISIONING: Final = "ReadyForProvisioning"
LIMITED_BY_QUOTAS: Final = "LimitedByQuotas"

# The selector of the Buffer's scale: an HPA refuses to scale without one. No pod has this label.
NO_PODS: Final = "trellis.x-k8s.io/chunk=true"

# Shorter than the 32 KiB that the API accepts, because people read conditions.
_LONGEST: Final = 1_024


def build_status(translation: Translation, before: BufferStatus | None, generation: int, now: float) -> dict[str, Any]:
    """The fields of the status that the Buffer controller owns; None for a field that must be absent.

    The time of a transition moves only with the status of a condition.
    """
    stored = {condition.type: condition for condition in (before.conditions or ())} if before is not None else {}
    moment = format_time(datetime.fromtimestamp(now, UTC))
    conditions = []
    for type_, holds, reason, message in _list_conditions(translation):
        status = "True" if holds else "False"
        previous = stored.get(type_)
        since = previous.last_transition_time if previous is not None and previous.status == status else None
        conditions.append(
            {
                "type": type_,
                "status": status,
                "observedGeneration": generation,
                "lastTransitionTime": since or moment,
                "reason": reason.code,
                "message": message,
            }
        )
    pods: dict[str, Any] | None = None
    if translation.pod_spec is not None:
        pods = {"replicaNum": translation.chunks, "podSpec": translation.pod_spec}
        if translation.labels:
            pods["podLabels"] = dict(translation.labels)
    return {
        "podBasedBufferSpec": pods,
        "conditions": conditions,
        "selector": NO_PODS,
        "observedGeneration": generation,
    }


def is_status_current(status: Mapping[str, Any], before: BufferStatus | None) -> bool:
    """Whether an object has this status already."""
    if before is None or before.observed_generation != status["observedGeneration"]:
        return False
    if before.selector != status["selector"]:
        return False
    stored, pods = before.pod_based_buffer_spec, status["podBasedBufferSpec"]
    if (stored is None) is not (pods is None):
        return False
    if stored is not None and _read_pods(stored) != (pods["replicaNum"], pods["podSpec"], pods.get("podLabels", {})):
        return False
    stored_conditions = {condition.type: condition for condition in before.conditions or ()}
    return all(
        _is_condition_current(condition, stored_conditions.get(condition["type"])) for condition in status["conditions"]
    )


def read_last_shape(buffer: Buffer, *, target_stays: bool = False) -> PodTemplateSpec | None:
    """The shape in the status, if it is that of the present spec, or of the same target."""
    status = buffer.status
    pods = status.pod_based_buffer_spec if status is not None else None
    if status is None or pods is None:
        return None
    if status.observed_generation != buffer.metadata.generation and not target_stays:
        return None
    try:
        spec = convert_object(dict(pods.pod_spec or {}), PodSpec)
    except UnreadableObject:
        return None
    return PodTemplateSpec(ObjectMeta(labels=pods.pod_labels or {}), spec)


def _list_conditions(translation: Translation) -> Iterator[tuple[str, bool, Reason, str]]:
    """Type, status, reason and message of each condition, sorted by type."""
    limited = translation.limited
    if limited is None:
        yield LIMITED_BY_QUOTAS, False, WITHIN_QUOTAS, ""
    else:
        yield LIMITED_BY_QUOTAS, True, limited.reason, str(limited)
    yield READY_FOR_PROVISIONING, translation.is_ready, translation.ready.reason, _build_message(translation)


def _read_pods(stored: PodCapacity) -> tuple[int | None, Mapping[str, Any] | None, Mapping[str, str]]:
    return stored.replica_num, stored.pod_spec, stored.pod_labels or {}


def _build_message(translation: Translation) -> str:
    message = "; ".join(str(reason).removesuffix(".") for reason in (translation.ready, *translation.notes))
    return message if len(message) <= _LONGEST else message[: _LONGEST - 3] + "..."


def _is_condition_current(desired: Mapping[str, Any], stored: StatusCondition | None) -> bool:
    return (
        stored is not None
        and stored.status == desired["status"]
        and stored.reason == desired["reason"]
        and stored.message == desired["message"]
    )
