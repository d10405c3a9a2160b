"""The effective meaning of a Buffer."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from trellis.api.kinds.buffer import (
    ACTIVE_CAPACITY,
    Buffer,
    BufferPodSelector,
    BufferSchedule,
    BufferSpec,
    NodeClassCapacity,
    PercentCapacity,
    ReplicaCapacity,
    ReplicaShorthand,
)
from trellis.api.kinds.parts import TargetReference
from trellis.api.resolve.stored_values import read_stored_amount, read_stored_amounts
from trellis.base.cron import CronSchedule, CronWindow, CronWindows
from trellis.base.durations import parse_duration
from trellis.base.errors import InvalidInput
from trellis.base.quantities import Quantity
from trellis.base.selectors import Selector


class Strategy(StrEnum):
    """Whether capacity that is in use counts."""

    KEEP_EMPTY = "KeepEmpty"
    KEEP_MINIMUM = "KeepMinimum"


class FixedReplicas(msgspec.Struct, frozen=True, tag=True):
    """Capacity for a number of further pods of the target."""

    count: int


class PercentOfReplicas(msgspec.Struct, frozen=True, tag=True):
    """Capacity for a share of the target's replicas."""

    percent: int
    minimum: int
    maximum: int | None

    def count_for(self, replicas: int) -> int:
        """The chunks for a number of replicas: rounded up, then clamped to the bounds (the upper one wins)."""
        share = max(-(-self.percent * replicas // 100), self.minimum)
        return share if self.maximum is None else min(share, self.maximum)


class NodeClassTotals(msgspec.Struct, frozen=True, tag=True):
    """Capacity on nodes of a class, up to these totals."""

    cpu: Quantity
    memory: Quantity
    chunk: Mapping[str, Quantity] | None
    node_selector: Mapping[str, str]


class FixedPods(msgspec.Struct, frozen=True, tag=True):
    """Capacity for a number of pods with a given spec."""

    count: int
    pod_spec: Mapping[str, Any]
    labels: Mapping[str, str] = MappingProxyType({})


Capacity: TypeAlias = FixedReplicas | PercentOfReplicas | NodeClassTotals | FixedPods


class EffectiveBuffer(msgspec.Struct, frozen=True):
    """A Buffer with all defaults filled in. `capacity` is None where a stored object has none that can be used."""

    type: str
    strategy: Strategy
    target: TargetReference | None
    capacity: Capacity | None
    schedule: CronWindows | None
    # The pods that fill the Buffer; None if any may, as always with KeepEmpty.
    filled_by: Selector | None
    # The problem of a stored schedule or selector that cannot be read; else empty.
    schedule_problem: str = ""
    selector_problem: str = ""

    @property
    def is_active_capacity(self) -> bool:
        """Whether Trellis provisions the Buffer; it never writes Buffers of other types."""
        return self.type == ACTIVE_CAPACITY


def resolve_buffer(buffer: Buffer) -> EffectiveBuffer:
    """The meaning of an object."""
    spec = buffer.spec
    minimum = spec.recreation_strategy in {"KeepMinimum", "keep-minimum"}
    schedule, schedule_problem = _resolve_schedule(spec.schedule)
    filled_by, selector_problem = _resolve_selector(spec.pod_selector) if minimum else (None, "")
    return EffectiveBuffer(
        type=spec.type or ACTIVE_CAPACITY,
        strategy=Strategy.KEEP_MINIMUM if minimum else Strategy.KEEP_EMPTY,
        target=spec.target_ref,
        capacity=_resolve_capacity(spec),
        schedule=schedule,
        filled_by=filled_by,
        schedule_problem=schedule_problem,
        selector_problem=selector_problem,
    )


def _resolve_capacity(spec: BufferSpec) -> Capacity | None:
    if spec.replica_based_buffer_spec is not None:
        return _resolve_percent(spec.replica_based_buffer_spec)
    if spec.node_class_buffer_spec is not None:
        return _resolve_totals(spec.node_class_buffer_spec)
    capacity = spec.capacity
    if capacity is None:
        return None
    if capacity.replicas is not None:
        return _resolve_replicas(capacity.replicas)
    if capacity.node_class is not None:
        return _resolve_totals(capacity.node_class)
    pods = capacity.pods
    if pods is None or _is_negative(pods.replica_num):
        return None
    return FixedPods(pods.replica_num or 0, pods.pod_spec or {}, pods.pod_labels or {})


def _resolve_replicas(capacity: ReplicaCapacity) -> Capacity | None:
    if capacity.percent is not None:
        return _resolve_percent(capacity.percent)
    return None if capacity.exactly is None or capacity.exactly < 0 else FixedReplicas(capacity.exactly)


def _resolve_percent(capacity: PercentCapacity | ReplicaShorthand) -> PercentOfReplicas | None:
    percent = capacity.replicas_count_percentage if isinstance(capacity, ReplicaShorthand) else capacity.percent
    if any(map(_is_negative, (percent, capacity.min_count, capacity.max_count))):
        return None
    return PercentOfReplicas(percent or 0, minimum=capacity.min_count or 0, maximum=capacity.max_count)


def _resolve_totals(capacity: NodeClassCapacity) -> NodeClassTotals | None:
    cpu, memory = read_stored_amount(capacity.total_cpu), read_stored_amount(capacity.total_mem)
    if cpu is None or memory is None or min(cpu, memory) <= Quantity.ZERO:
        return None
    chunk = None if capacity.per_chunk_resources is None else read_stored_amounts(capacity.per_chunk_resources)
    return NodeClassTotals(cpu, memory, chunk, capacity.node_selector or {})


def _is_negative(count: int | None) -> bool:
    return count is not None and count < 0


def _resolve_schedule(written: BufferSchedule | None) -> tuple[CronWindows | None, str]:
    """The windows and the problem of a stored schedule. An unreadable schedule counts as always active."""
    if written is None:
        return None, ""
    zone = written.time_zone or "UTC"
    try:
        windows = tuple(
            CronWindow(CronSchedule.parse(window.start, zone), parse_duration(window.duration or "0s"))
            for window in written.windows or ()
        )
        return CronWindows(windows), ""
    except InvalidInput as error:
        return None, str(error)


def _resolve_selector(written: BufferPodSelector | None) -> tuple[Selector | None, str]:
    """The selector of pods that fill the Buffer, and its problem. An unreadable selector selects nothing."""
    if written is None:
        return None, ""
    try:
        return written.selector(), ""
    except InvalidInput as error:
        return Selector.nothing(), str(error)
