"""Translates a Buffer: the number of its chunks, their shape, and the reasons.

A pure function of a Buffer, of the facts about its target or its nodes, and of the time. Quotas are shared by the
Buffers of a namespace, and so are applied to translations afterwards (`quotas.apply_quotas`).

The number is computed in this order: what the capacity asks for; at most the maximum per Buffer; zero outside the
schedule; without the filled chunks of a dedicated Buffer; within quotas. A dedicated Buffer keeps the fewest chunks
that cover, in every resource, its size minus the requests of the pods that fill it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from trellis.api.kube.pods import Pod
from trellis.api.kube.slices import NOTHING, Labels
from trellis.api.resolve import EffectiveBuffer, FixedPods, FixedReplicas, NodeClassTotals, PercentOfReplicas, Strategy
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.wording import pluralize
from trellis.core.buffers.node_classes import find_class_labels, split_into_chunks
from trellis.core.buffers.pods import is_live, to_document
from trellis.core.buffers.quota_usage import QuotaUsage
from trellis.core.buffers.shapes import ChunkShape, shape_from_class, shape_from_spec, shape_from_target
from trellis.core.buffers.translation_facts import BufferSettings, TargetFacts, TranslationFacts
from trellis.core.cluster.target_problems import NO_TARGET_REF, TargetProblem
from trellis.core.fit import read_running_demand_or_empty
from trellis.core.fit.demand import ResourceAmounts
from trellis.core.fit.resources import PODS
from trellis.core.recommend.amounts import ResourceAmounts as AmountsResourceAmounts

WITHIN_QUOTAS = Reason("WithinQuotas", "Resource quotas of the namespace do not limit the Buffer.")
LIMITED_BY_QUOTAS = Reason(
    "LimitedByQuotas", "Resource quotas of the namespace limit the number of chunks.", Severity.WARNING
)


class Translation(msgspec.Struct, frozen=True):
    """The chunks of one Buffer.

    `requested` is the number that its capacity asks for, `chunks` what remains of it; quotas, by name in `limited_by`,
    reduced it from `limited_from`. Without `pod_spec` the Buffer is not ready, and `ready` says why. `labels` are those
    of the pods; rules about other pods match them. `on_top` says that chunks are kept on top of running pods; otherwise
    they are counted as if no pods ran. `next_change` is when the schedule opens or closes next.
    """

    requested: int
    chunks: int
    ready: DetailedReason
    is_ready: bool = False
    pod_spec: Mapping[str, Any] | None = None
    labels: Labels = NOTHING
    usage: QuotaUsage | None = None
    limited_from: int = 0
    limited_by: tuple[str, ...] = ()
    notes: tuple[DetailedReason, ...] = ()
    on_top: bool = True
    next_change: float | None = None

    @property
    def limited(self) -> DetailedReason | None:
        """The reason if quotas reduce the chunks; None if they do not."""
        if not self.limited_by:
            return None
        names = ", ".join(self.limited_by)
        return DetailedReason(
            LIMITED_BY_QUOTAS, f"chunks limited from {self.limited_from} to {self.chunks} by quotas: {names}"
        )


_CHUNKS_WITHOUT_SIZE: Final = ((PODS, 1),)


def sum_filling_pods(pods: Iterable[Pod]) -> AmountsResourceAmounts:
    """The requests of all live pods that fill a Buffer."""
    return sum_filling_amounts(read_running_demand_or_empty(pod).amounts for pod in pods if is_live(pod))


def sum_filling_amounts(held: Iterable[ResourceAmounts]) -> AmountsResourceAmounts:
    """The sum of the amounts of pods that fill a Buffer."""
    used: Counter[str] = Counter()
    for amounts in held:
        used.update(dict(amounts))
    return dict(used)


def count_unfilled_chunks(chunks: int, chunk: ResourceAmounts, filled: AmountsResourceAmounts) -> int:
    """How many chunks are not filled. `filled` is what pods request, in the units of a chunk's amounts.

    The number of pods counts only if a chunk requests no resources.
    """
    sized = tuple((name, amount) for name, amount in chunk if name != PODS) or _CHUNKS_WITHOUT_SIZE
    rests = ((max(chunks * amount - filled.get(name, 0), 0), amount) for name, amount in sized)
    return max(-(-rest // amount) for rest, amount in rests)


BUFFER_READY = Reason("BufferReady", "The chunks of the Buffer are published in its status.")
CHUNKS_TRUNCATED = Reason(
    "ChunksTruncated",
    "The Buffer asks for more chunks than the maximum per Buffer, and gets the maximum.",
    Severity.WARNING,
)
OUTSIDE_SCHEDULE = Reason("OutsideSchedule", "No window of the Buffer's schedule is open: the Buffer has no chunks.")
SCHEDULE_UNREADABLE = Reason(
    "ScheduleUnreadable",
    "The Buffer's schedule is invalid, and is ignored: the Buffer applies at all times.",
    Severity.WARNING,
)
POD_SELECTOR_UNREADABLE = Reason(
    "PodSelectorUnreadable", "The Buffer's podSelector is invalid, so no pod fills the Buffer.", Severity.WARNING
)
BUFFER_FILLED = Reason("BufferFilled", "Pods fill a part of the dedicated Buffer; this part is no longer provisioned.")
CAPACITY_UNREADABLE = Reason("CapacityUnreadable", "The Buffer has no valid capacity.", Severity.ERROR)
TARGET_NOT_OBSERVED = Reason("TargetNotObserved", "The target has not been read yet.")
TARGET_WITHOUT_COUNT = Reason(
    "TargetWithoutCount", "The target has no number of replicas, so a percentage of it is unknown."
)
OTHER_TYPE = Reason("OtherBufferType", "Another controller provisions Buffers of this type: the Buffer is ignored.")
TARGET_KIND_EXCLUDED = Reason("TargetKindExcluded", "Another controller translates Buffers for this kind of target.")


class _CapacityRequest(msgspec.Struct, frozen=True):
    """The number and the shape of chunks before limits apply."""

    count: int
    shape: ChunkShape
    notes: tuple[DetailedReason, ...] = ()


def find_skip_reason(buffer: EffectiveBuffer, settings: BufferSettings) -> DetailedReason | None:
    """Why a Buffer is not managed; None if it is."""
    if not buffer.is_active_capacity:
        return DetailedReason(OTHER_TYPE, f"{buffer.type} is not a type that Trellis provisions")
    if buffer.target is not None and buffer.target.kind in settings.set_aside:
        return DetailedReason(
            TARGET_KIND_EXCLUDED,
            f"targets of kind {buffer.target.kind} are left to another controller (--set-aside-target-kinds)",
        )
    return None


def translate(buffer: EffectiveBuffer, facts: TranslationFacts, now: float, settings: BufferSettings) -> Translation:
    """Translate a managed Buffer, as if there were no quotas."""
    is_open, change = _read_schedule(buffer, now)
    request = _read_capacity(buffer, facts, settings)
    if isinstance(request, DetailedReason):
        return Translation(0, 0, request, next_change=change)
    notes = [*request.notes, *request.shape.notes, *_list_unreadable_fields(buffer)]
    size = min(request.count, settings.most_chunks)
    chunks = size
    ready = DetailedReason(BUFFER_READY, request.shape.source.reason.meaning)
    if size < request.count:
        fewer = pluralize(size, "chunk")
        ready = DetailedReason(CHUNKS_TRUNCATED, f"limited from {request.count} to {fewer}, the maximum of one Buffer")
    if buffer.filled_by is not None:
        chunks = count_unfilled_chunks(size, request.shape.amounts, facts.filled)
        if chunks < size:
            notes.append(DetailedReason(BUFFER_FILLED, f"pods fill {size - chunks} of {pluralize(size, 'chunk')}"))
    return Translation(
        requested=request.count,
        chunks=chunks if is_open else 0,
        ready=ready if is_open else DetailedReason(OUTSIDE_SCHEDULE),
        is_ready=is_open,
        pod_spec=to_document(request.shape.spec),
        labels=request.shape.labels,
        usage=request.shape.usage,
        notes=tuple(notes),
        on_top=buffer.strategy is Strategy.KEEP_EMPTY or buffer.filled_by is not None,
        next_change=change,
    )


def _list_unreadable_fields(buffer: EffectiveBuffer) -> Iterator[DetailedReason]:
    """Fields that are ignored because they cannot be read: the API server stores them, `trellis check` refuses them."""
    if buffer.schedule_problem:
        yield DetailedReason(
            SCHEDULE_UNREADABLE,
            f"the Buffer applies at all times, because its schedule is invalid: {buffer.schedule_problem}",
        )
    if buffer.selector_problem:
        yield DetailedReason(
            POD_SELECTOR_UNREADABLE,
            f"no pod fills the Buffer, because its podSelector is invalid: {buffer.selector_problem}",
        )


def _read_schedule(buffer: EffectiveBuffer, now: float) -> tuple[bool, float | None]:
    """Whether the Buffer counts now, and when that changes."""
    if buffer.schedule is None:
        return True, None
    moment = datetime.fromtimestamp(now, UTC)
    change = buffer.schedule.next_change(moment)
    return buffer.schedule.is_active(moment), None if change is None else change.timestamp()


def _read_capacity(
    buffer: EffectiveBuffer, facts: TranslationFacts, settings: BufferSettings
) -> _CapacityRequest | DetailedReason:
    match buffer.capacity:
        case FixedReplicas() | PercentOfReplicas() as capacity:
            return _read_replicas(buffer, capacity, facts)
        case NodeClassTotals() as totals:
            return _read_node_class(buffer, totals, facts, settings)
        case FixedPods(count=count, pod_spec=spec, labels=labels):
            shape = shape_from_spec(spec, labels)
            return shape if isinstance(shape, DetailedReason) else _CapacityRequest(count, shape)
        case None:
            return DetailedReason(CAPACITY_UNREADABLE)


def _read_replicas(
    buffer: EffectiveBuffer, capacity: FixedReplicas | PercentOfReplicas, facts: TranslationFacts
) -> _CapacityRequest | DetailedReason:
    if buffer.target is None:
        return DetailedReason(NO_TARGET_REF, "capacity.replicas needs a targetRef")
    match facts.target:
        case None:
            return DetailedReason(TARGET_NOT_OBSERVED)
        case TargetProblem(reason=reason, message=message):
            return DetailedReason(reason, message)
        case TargetFacts() as target:
            shape = shape_from_target(target)
    if isinstance(shape, DetailedReason):
        return shape
    if isinstance(capacity, FixedReplicas):
        return _CapacityRequest(capacity.count, shape)
    return (
        DetailedReason(TARGET_WITHOUT_COUNT)
        if target.replicas is None
        else _CapacityRequest(capacity.count_for(target.replicas), shape)
    )


def _read_node_class(
    buffer: EffectiveBuffer, totals: NodeClassTotals, facts: TranslationFacts, settings: BufferSettings
) -> _CapacityRequest | DetailedReason:
    if isinstance(facts.target, TargetProblem):
        return DetailedReason(facts.target.reason, facts.target.message)
    labels = find_class_labels(buffer, settings)
    if isinstance(labels, DetailedReason):
        return labels
    chunks = split_into_chunks(totals, facts.nodes, settings)
    if isinstance(chunks, DetailedReason):
        return chunks
    # A selector alone may match nodes of many classes, some of them with taints that chunks must not tolerate.
    is_unknown = buffer.target is not None and not facts.nodes.count
    shape = shape_from_class(chunks.requests, labels, None if is_unknown else facts.nodes.taints)
    return shape if isinstance(shape, DetailedReason) else _CapacityRequest(chunks.count, shape, chunks.notes)
