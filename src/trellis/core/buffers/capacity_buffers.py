"""Upstream's CapacityBuffers: translates and reports them, and exports Buffers as such.

Upstream's rules in its latest release: the larger of `replicas` and `percentage`, rounded up, within `limits`; status
and conditions in upstream's words, which its node autoscalers and people's scripts read. Two things are mended: names
of managed templates do not collide, and quotas count pods and limits too.

The export is for clusters whose nodes Cluster Autoscaler or Karpenter manages: one CapacityBuffer and one PodTemplate
per Buffer, made from its translation. The number is final, so that a schedule, bounds and what fills a dedicated Buffer
are in it. Upstream always keeps capacity on top of what runs. Of a Buffer that counts whether used or not, only what
pods leave of it is translated, and its number changes as they come and go.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

import msgspec

from trellis.api.kinds.buffer import ACTIVE_CAPACITY
from trellis.api.kube.capacity_buffers import CapacityBuffer, CapacityBufferSpec
from trellis.api.kube.meta import Condition
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.times import format_time
from trellis.base.wording import pluralize
from trellis.core.buffers.chunks import BUFFER_READY, CHUNKS_TRUNCATED, TARGET_NOT_OBSERVED, Translation
from trellis.core.buffers.pods import to_document
from trellis.core.buffers.quota_usage import QuotaUsage
from trellis.core.buffers.shapes import shape_from_target
from trellis.core.buffers.translation_facts import BufferSettings, TargetFacts, TranslationFacts
from trellis.core.cluster.target_problems import TargetProblem
from trellis.core.fit.resources import parse_nanos_or_zero

SIZE_NOT_STATED = Reason("SizeNotStated", "The CapacityBuffer has no valid size.", Severity.ERROR)
LIMITS_NOT_REQUESTED = Reason(
    "LimitsNotRequested", "The CapacityBuffer limits only resources that its pods do not request.", Severity.ERROR
)
NO_REFERENCE = Reason(
    "NoReference", "The CapacityBuffer references neither a pod template nor a workload.", Severity.ERROR
)

_LONGEST_NAME: Final = 253
_LARGEST_COUNT: Final = 2**31 - 1
_DIGEST_BYTES: Final = 5


def is_served(buffer: CapacityBuffer) -> bool:
    """Whether a CapacityBuffer has the strategy that is served; others, and their status, stay unchanged."""
    return (buffer.spec.provisioning_strategy or ACTIVE_CAPACITY) == ACTIVE_CAPACITY


def translate_capacity_buffer(buffer: CapacityBuffer, facts: TranslationFacts, settings: BufferSettings) -> Translation:
    """Translate a CapacityBuffer, as if there were no quotas. A referenced template is the `template` of the target."""
    spec = buffer.spec
    if spec.pod_template_ref is None and spec.scalable_ref is None:
        return _build_not_ready(DetailedReason(NO_REFERENCE, "neither podTemplateRef nor scalableRef is set"))
    match facts.target:
        case None:
            return _build_not_ready(DetailedReason(TARGET_NOT_OBSERVED))
        case TargetProblem(reason=reason, message=message):
            return _build_not_ready(DetailedReason(reason, message))
        case TargetFacts() as target:
            shape = shape_from_target(target)
    if isinstance(shape, DetailedReason):
        return _build_not_ready(shape)
    replicas = count_replicas(spec, target.replicas if spec.scalable_ref is not None else None, shape.usage)
    if isinstance(replicas, DetailedReason):
        return _build_not_ready(replicas)
    chunks = min(replicas, settings.most_chunks)
    cut = DetailedReason(
        CHUNKS_TRUNCATED, f"limited from {replicas} to {pluralize(chunks, 'replica')}, the maximum of one buffer"
    )
    return Translation(
        requested=replicas,
        chunks=chunks,
        ready=cut if chunks < replicas else DetailedReason(BUFFER_READY, "ready"),
        is_ready=True,
        pod_spec=to_document(shape.spec),
        labels=shape.labels,
        usage=shape.usage,
        notes=shape.notes,
    )


def count_replicas(spec: CapacityBufferSpec, scalable: int | None, usage: QuotaUsage) -> int | DetailedReason:
    """The number of replicas; `scalable` is the count of the workload, if it is known."""
    sizes = []
    if spec.replicas is not None:
        sizes.append(max(spec.replicas, 0))
    if spec.percentage is not None and scalable is not None:
        sizes.append(-(-max(spec.percentage, 0) * max(scalable, 0) // 100))
    if spec.limits is not None:
        fitting = [
            max(parse_nanos_or_zero(text), 0) // usage.amounts[f"requests.{name}"]
            for name, text in spec.limits.items()
            if f"requests.{name}" in usage.amounts
        ]
        if not fitting:
            return DetailedReason(LIMITS_NOT_REQUESTED, "resources in configured limits not found in the pod template")
        sizes = [min(*fitting, max(sizes, default=_LARGEST_COUNT))]
    if not sizes:
        return DetailedReason(SIZE_NOT_STATED, "replicas, percentage and limits are not defined")
    return min(max(sizes), _LARGEST_COUNT)


def managed_template_name(buffer: str) -> str:
    """The name of the template that is managed for a buffer of that name."""
    name = f"capacitybuffer-{buffer}-pod-template"
    if len(name) <= _LONGEST_NAME:
        return name
    # Different names that are cut to the same text must stay different.
    mark = f"-{blake2b(buffer.encode(), digest_size=_DIGEST_BYTES).hexdigest()}-pod-template"
    return f"capacitybuffer-{buffer}"[: _LONGEST_NAME - len(mark)] + mark


def build_capacity_status(
    buffer: CapacityBuffer, translation: Translation, template_generation: int | None, now: float
) -> dict[str, Any]:
    """The status without the node autoscaler's condition. `template_generation` is that of the managed template."""
    status: dict[str, Any] = {
        "conditions": _build_conditions(buffer, translation, format_time(datetime.fromtimestamp(now, UTC))),
        "provisioningStrategy": buffer.spec.provisioning_strategy or ACTIVE_CAPACITY,
    }
    if translation.is_ready:
        status["podTemplateRef"] = {"name": managed_template_name(buffer.metadata.name)}
        status["replicas"] = translation.chunks
        if template_generation is not None:
            status["podTemplateGeneration"] = template_generation
    return status


def _build_conditions(buffer: CapacityBuffer, translation: Translation, now: str) -> list[dict[str, Any]]:
    stored = {condition.type: condition for condition in buffer.status.conditions}
    quotas = _build_condition(stored, "LimitedByQuotas", bool(translation.limited_by), now)
    quotas |= {"reason": "ResourceQuotasAllocated", "message": _describe_limit(translation)}
    quotas["observedGeneration"] = buffer.metadata.generation
    ready = _build_condition(stored, "ReadyForProvisioning", translation.is_ready, now)
    if translation.is_ready:
        ready |= {"reason": "AttributesSetSuccessfully", "message": str(translation.ready)}
    else:
        ready |= {"reason": "error", "message": f"Buffer not ready for provisioning: {translation.ready}"}
    return [quotas, ready]


def _build_condition(stored: dict[str, Condition], type_: str, holds: bool, now: str) -> dict[str, Any]:
    status, previous = "True" if holds else "False", stored.get(type_)
    since = previous.last_transition_time if previous is not None and previous.status == status else None
    return {"type": type_, "status": status, "lastTransitionTime": now if since is None else format_time(since)}


def _describe_limit(translation: Translation) -> str:
    if not translation.limited_by:
        return ""
    counts = f"from {translation.limited_from} to {translation.chunks}"
    return f"Buffer replicas limited {counts} due to quotas: {', '.join(translation.limited_by)}"


def _build_not_ready(problem: DetailedReason) -> Translation:
    return Translation(0, 0, problem)


# A template must name an image; this one never runs.
_NO_IMAGE: Final = "none"
# The strictest pod security standard, so that a dry run of a pod of the template is not refused.
_RESTRICTED_POD: Final = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_RESTRICTED_CONTAINER: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class ExportedBuffer(msgspec.Struct, frozen=True):
    """The spec of the CapacityBuffer and the PodTemplate it refers to.

    Names are those of the Buffer; namespace and owner are for the writer to add.
    """

    spec: Mapping[str, Any]
    template: Mapping[str, Any]


def export_buffer(name: str, translation: Translation) -> ExportedBuffer | None:
    """A Buffer as upstream's objects; None if it has no chunk."""
    if translation.pod_spec is None:
        return None
    return ExportedBuffer(
        spec={**build_empty_spec(name), "replicas": translation.chunks},
        template=build_pod_template(exported_template_name(name), translation),
    )


def build_empty_spec(name: str) -> dict[str, Any]:
    """The spec of a CapacityBuffer without replicas."""
    return {
        "provisioningStrategy": ACTIVE_CAPACITY,
        "podTemplateRef": {"name": exported_template_name(name)},
        "replicas": 0,
    }


def exported_template_name(buffer: str) -> str:
    """The name of a Buffer's template, which differs from that of a CapacityBuffer of the same name."""
    return managed_template_name(f"of-{buffer}")


def build_pod_template(name: str, translation: Translation) -> dict[str, Any]:
    """A PodTemplate that the API server admits, as well as pods of it."""
    spec = {**(translation.pod_spec or {}), "securityContext": _RESTRICTED_POD}
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_restrict_container(item) for item in spec[field]]
    if "resources" in spec:
        spec["resources"] = _add_limits(spec["resources"])
    # Admission sets the priority of the class, and refuses a pod that sets it itself.
    spec.pop("priority", None)
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name},
        "template": {"metadata": {"labels": dict(translation.labels)}, "spec": spec},
    }


def _restrict_container(container: Mapping[str, Any]) -> dict[str, Any]:
    resources = _add_limits(container.get("resources", {}))
    return {**container, "image": _NO_IMAGE, "resources": resources, "securityContext": _RESTRICTED_CONTAINER}


def _add_limits(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Resources with requests as limits, which devices and quotas of limits require and no scheduler reads."""
    requests = resources.get("requests", {})
    return {"requests": requests, "limits": requests} if requests else {}
