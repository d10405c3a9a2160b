"""Which pods does one of upstream's CapacityBuffers stand for, and what does its status say?

Upstream's rules in its latest release: the larger of `replicas` and `percentage`, rounded up, within `limits`; status
and conditions in upstream's words, which its node autoscalers and people's scripts read. Two things are mended: names
of managed templates do not collide, and quotas count pods and limits too.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

from trellis.api.buffer import ACTIVE_CAPACITY
from trellis.api.kube.capacity_buffers import CapacityBuffer, CapacityBufferSpec
from trellis.api.kube.meta import Condition
from trellis.base.counted import counted
from trellis.base.reason import Reason, Severity
from trellis.base.times import format_time
from trellis.core.buffers.facts import Facts, FoundTarget
from trellis.core.buffers.pod_specs import written
from trellis.core.buffers.quota_usage import QuotaUsage
from trellis.core.buffers.said import Said
from trellis.core.buffers.settings import BufferSettings
from trellis.core.buffers.shapes import target_shape
from trellis.core.buffers.translate import BUFFER_READY, CHUNKS_CUT, TARGET_NOT_SEEN
from trellis.core.buffers.translation import Translation
from trellis.core.fit.resources import readable_nanos
from trellis.core.model.target_problems import TargetProblem

SIZE_NOT_STATED = Reason("SizeNotStated", "The CapacityBuffer states no size that can be used.", Severity.ERROR)
LIMITS_NOT_REQUESTED = Reason(
    "LimitsNotRequested", "The CapacityBuffer limits only what its pods do not request.", Severity.ERROR
)
NO_REFERENCE = Reason("NoReference", "The CapacityBuffer names neither a template nor a workload.", Severity.ERROR)

_LONGEST_NAME: Final = 253
_LARGEST_COUNT: Final = 2**31 - 1
_DIGEST_BYTES: Final = 5


def is_served(buffer: CapacityBuffer) -> bool:
    """Whether its strategy is the one that is ours; others, and their status, are left alone."""
    return (buffer.spec.provisioning_strategy or ACTIVE_CAPACITY) == ACTIVE_CAPACITY


def translate_capacity_buffer(buffer: CapacityBuffer, facts: Facts, settings: BufferSettings) -> Translation:
    """Its pods, as if there were no quotas. A template it names is the `template` of the target."""
    spec = buffer.spec
    if spec.pod_template_ref is None and spec.scalable_ref is None:
        return _not_ready(Said(NO_REFERENCE, "neither podTemplateRef nor scalableRef is set"))
    match facts.target:
        case None:
            return _not_ready(Said(TARGET_NOT_SEEN))
        case TargetProblem(reason=reason, message=message):
            return _not_ready(Said(reason, message))
        case FoundTarget() as target:
            shape = target_shape(target)
    if isinstance(shape, Said):
        return _not_ready(shape)
    wanted = wanted_replicas(spec, target.replicas if spec.scalable_ref is not None else None, shape.usage)
    if isinstance(wanted, Said):
        return _not_ready(wanted)
    chunks = min(wanted, settings.most_chunks)
    cut = Said(CHUNKS_CUT, f"cut from {wanted} to {counted(chunks, 'replica')}, the most that one buffer may have")
    return Translation(
        wanted=wanted,
        chunks=chunks,
        ready=cut if chunks < wanted else Said(BUFFER_READY, "ready"),
        is_ready=True,
        pod_spec=written(shape.spec),
        labels=shape.labels,
        usage=shape.usage,
        notes=shape.notes,
    )


def wanted_replicas(spec: CapacityBufferSpec, scalable: int | None, usage: QuotaUsage) -> int | Said:
    """How many; `scalable` is the count of the workload, if it is known."""
    sizes = []
    if spec.replicas is not None:
        sizes.append(max(spec.replicas, 0))
    if spec.percentage is not None and scalable is not None:
        sizes.append(-(-max(spec.percentage, 0) * max(scalable, 0) // 100))
    if spec.limits is not None:
        fits = [
            max(readable_nanos(text), 0) // usage.amounts[f"requests.{name}"]
            for name, text in spec.limits.items()
            if f"requests.{name}" in usage.amounts
        ]
        if not fits:
            return Said(LIMITS_NOT_REQUESTED, "resources in configured limits not found in the pod template")
        sizes = [min(*fits, max(sizes, default=_LARGEST_COUNT))]
    if not sizes:
        return Said(SIZE_NOT_STATED, "replicas, percentage and limits are not defined")
    return min(max(sizes), _LARGEST_COUNT)


def managed_template_name(buffer: str) -> str:
    """The template that is kept for a buffer of that name."""
    name = f"capacitybuffer-{buffer}-pod-template"
    if len(name) <= _LONGEST_NAME:
        return name
    # Names that are cut alike must not be alike.
    mark = f"-{blake2b(buffer.encode(), digest_size=_DIGEST_BYTES).hexdigest()}-pod-template"
    return f"capacitybuffer-{buffer}"[: _LONGEST_NAME - len(mark)] + mark


def capacity_status(
    buffer: CapacityBuffer, translation: Translation, template_generation: int | None, now: float
) -> dict[str, Any]:
    """Its status, but for the node autoscaler's condition. `template_generation` is that of the managed template."""
    status: dict[str, Any] = {
        "conditions": _conditions(buffer, translation, format_time(datetime.fromtimestamp(now, UTC))),
        "provisioningStrategy": buffer.spec.provisioning_strategy or ACTIVE_CAPACITY,
    }
    if translation.is_ready:
        status["podTemplateRef"] = {"name": managed_template_name(buffer.metadata.name)}
        status["replicas"] = translation.chunks
        if template_generation is not None:
            status["podTemplateGeneration"] = template_generation
    return status


def _conditions(buffer: CapacityBuffer, translation: Translation, now: str) -> list[dict[str, Any]]:
    known = {each.type: each for each in buffer.status.conditions}
    quotas = _condition(known, "LimitedByQuotas", bool(translation.limited_by), now)
    quotas |= {"reason": "ResourceQuotasAllocated", "message": _limited_words(translation)}
    quotas["observedGeneration"] = buffer.metadata.generation
    ready = _condition(known, "ReadyForProvisioning", translation.is_ready, now)
    if translation.is_ready:
        ready |= {"reason": "AttributesSetSuccessfully", "message": str(translation.ready)}
    else:
        ready |= {"reason": "error", "message": f"Buffer not ready for provisioning: {translation.ready}"}
    return [quotas, ready]


def _condition(known: dict[str, Condition], type_: str, holds: bool, now: str) -> dict[str, Any]:
    status, was = "True" if holds else "False", known.get(type_)
    since = was.last_transition_time if was is not None and was.status == status else None
    return {"type": type_, "status": status, "lastTransitionTime": now if since is None else format_time(since)}


def _limited_words(translation: Translation) -> str:
    if not translation.limited_by:
        return ""
    counts = f"from {translation.limited_from} to {translation.chunks}"
    return f"Buffer replicas limited {counts} due to quotas: {', '.join(translation.limited_by)}"


def _not_ready(why: Said) -> Translation:
    return Translation(0, 0, why)
