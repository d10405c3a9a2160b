"""Validation rules of the Buffer: its capacity, target, type, schedule and pod selector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trellis.api.kinds.buffer import (
    ACTIVE_CAPACITY,
    BufferCapacity,
    BufferPodSelector,
    BufferPodSpec,
    BufferSchedule,
    BufferSpec,
    NodeClassCapacity,
    PercentCapacity,
    ReplicaCapacity,
    ReplicaShorthand,
    ScheduleWindow,
)
from trellis.api.problems import FORBIDDEN, INVALID, REQUIRED, SUSPICIOUS, MapKey, ValidationProblem
from trellis.api.schema.fields import Rule, rule
from trellis.base.cron import CronSchedule
from trellis.base.durations import parse_duration
from trellis.base.errors import InvalidInput
from trellis.base.quantities import Quantity


def require_exactly_one(fields: dict[str, object]) -> Iterator[ValidationProblem]:
    """One problem unless exactly one of the named fields is there."""
    present = [name for name, value in fields.items() if value is not None]
    names = ", ".join(fields)
    if not present:
        yield ValidationProblem((), REQUIRED, f"exactly one of {names} must be given")
    for name in present[1:]:
        yield ValidationProblem((name,), FORBIDDEN, f"exactly one of {names} may be given, and {present[0]} is")


@rule(
    BufferCapacity,
    "replicas",
    "nodeClass",
    "pods",
    message="exactly one of replicas, nodeClass, pods must be given",
    cel="(has(self.replicas) ? 1 : 0) + (has(self.nodeClass) ? 1 : 0) + (has(self.pods) ? 1 : 0) == 1",
)
def capacity_is_unique(capacity: BufferCapacity) -> Iterator[ValidationProblem]:
    """The three ways to specify capacity exclude one another."""
    yield from require_exactly_one(
        {"replicas": capacity.replicas, "nodeClass": capacity.node_class, "pods": capacity.pods}
    )


@rule(
    ReplicaCapacity,
    "exactly",
    "percent",
    message="exactly one of exactly, percent must be given",
    cel="has(self.exactly) != has(self.percent)",
)
def replica_count_is_unique(capacity: ReplicaCapacity) -> Iterator[ValidationProblem]:
    """A number or a share, not both."""
    yield from require_exactly_one({"exactly": capacity.exactly, "percent": capacity.percent})


def _check_count_order(counts: PercentCapacity | ReplicaShorthand) -> Iterator[ValidationProblem]:
    low, high = counts.min_count, counts.max_count
    if low is not None and high is not None and low > high:
        yield ValidationProblem(("maxCount",), INVALID, f"must not be below minCount, which is {low}", high)


_COUNTS_CEL = "!has(self.minCount) || !has(self.maxCount) || self.minCount <= self.maxCount"


@rule(PercentCapacity, "minCount", "maxCount", message="minCount must not be above maxCount", cel=_COUNTS_CEL)
def percent_bounds_are_ordered(capacity: PercentCapacity) -> Iterator[ValidationProblem]:
    """No count lies between a minimum and a lower maximum."""
    yield from _check_count_order(capacity)


@rule(ReplicaShorthand, "minCount", "maxCount", message="minCount must not be above maxCount", cel=_COUNTS_CEL)
def shorthand_bounds_are_ordered(capacity: ReplicaShorthand) -> Iterator[ValidationProblem]:
    """The same in the shorthand."""
    yield from _check_count_order(capacity)


@rule(
    NodeClassCapacity,
    "totalCpu",
    "totalMem",
    message="totalCpu and totalMem must be above zero",
    cel=(
        "quantity(string(self.totalCpu)).isGreaterThan(quantity('0')) && "
        "quantity(string(self.totalMem)).isGreaterThan(quantity('0'))"
    ),
)
def totals_are_above_zero(capacity: NodeClassCapacity) -> Iterator[ValidationProblem]:
    """A chunk needs both resources; a total of zero leaves none."""
    for name, total in (("totalCpu", capacity.total_cpu), ("totalMem", capacity.total_mem)):
        if total is not None and not Quantity.parse(total):
            yield ValidationProblem((name,), INVALID, "must be above zero", total)


@rule(
    NodeClassCapacity,
    "totalCpu",
    "totalMem",
    "perChunkResources",
    message="a chunk must not exceed a total",
    cel=(
        "!has(self.perChunkResources) || ((!('cpu' in self.perChunkResources) || "
        "quantity(string(self.perChunkResources['cpu'])).compareTo(quantity(string(self.totalCpu))) <= 0) && "
        "(!('memory' in self.perChunkResources) || "
        "quantity(string(self.perChunkResources['memory'])).compareTo(quantity(string(self.totalMem))) <= 0))"
    ),
)
def chunk_fits_the_totals(capacity: NodeClassCapacity) -> Iterator[ValidationProblem]:
    """Not one chunk of that size would be within the limits."""
    chunk = capacity.per_chunk_resources or {}
    for resource, name, total in (
        ("cpu", "totalCpu", capacity.total_cpu),
        ("memory", "totalMem", capacity.total_mem),
    ):
        size = chunk.get(resource)
        if size is not None and total is not None and Quantity.parse(size) > Quantity.parse(total):
            rule_text = f"must not exceed {name}, which is {total}"
            yield ValidationProblem(("perChunkResources", MapKey(resource)), INVALID, rule_text, size)


@rule(NodeClassCapacity, "perChunkResources", message="a chunk must have cpu or memory above zero")
def chunk_is_not_empty(capacity: NodeClassCapacity) -> Iterator[ValidationProblem]:
    """Any number of empty chunks would fit, so the Buffer would have no size."""
    chunk = capacity.per_chunk_resources
    if chunk is None:
        return
    if not any(Quantity.parse(chunk.get(resource, 0)) for resource in ("cpu", "memory")):
        yield ValidationProblem(("perChunkResources",), INVALID, "must have cpu or memory above zero", chunk)


@rule(BufferPodSpec, "containers", message="requests and limits must be quantities, and each container needs a name")
def containers_can_be_read(spec: BufferPodSpec) -> Iterator[ValidationProblem]:
    """A pod that cannot be read has no size, and the Buffer would never become ready."""
    for index, container in enumerate(spec.containers or ()):
        if not container.get("name"):
            yield ValidationProblem(("containers", index, "name"), REQUIRED, "name must be given")
        resources = container.get("resources")
        if isinstance(resources, dict):
            yield from (
                problem.with_prefix(("containers", index, "resources")) for problem in _check_resources(resources)
            )


def _check_resources(resources: dict[str, Any]) -> Iterator[ValidationProblem]:
    for part in ("requests", "limits"):
        amounts = resources.get(part)
        for name, amount in amounts.items() if isinstance(amounts, dict) else ():
            try:
                if Quantity.parse(amount) < Quantity.ZERO:
                    yield ValidationProblem((part, MapKey(name)), INVALID, "must not be negative", amount)
            except InvalidInput as error:
                yield ValidationProblem((part, MapKey(name)), INVALID, error.rule, amount)
    if resources.get("claims"):
        yield ValidationProblem(
            ("claims",), SUSPICIOUS, "capacity for devices is not supported, so the Buffer never becomes ready"
        )


CAPACITY_RULES: tuple[Rule[Any], ...] = (
    capacity_is_unique,
    replica_count_is_unique,
    percent_bounds_are_ordered,
    shorthand_bounds_are_ordered,
    totals_are_above_zero,
    chunk_fits_the_totals,
    chunk_is_not_empty,
    containers_can_be_read,
)


OWN_TYPE_PREFIX = "buffer.x-k8s.io/"
# Kinds that are certainly workloads, or certainly classes of nodes; others may be either.
WORKLOAD_KINDS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "Job", "ReplicationController"})
NODE_CLASS_KINDS = frozenset(
    {"NodePool", "ComputeClass", "CustomComputeClass", "MachineDeployment", "KwokNodeGroup", "ClaimNodeGroup"}
)


@rule(
    BufferSpec,
    "capacity",
    "replicaBasedBufferSpec",
    "nodeClassBufferSpec",
    message="exactly one of capacity, replicaBasedBufferSpec, nodeClassBufferSpec must be given",
    cel=(
        "(has(self.capacity) ? 1 : 0) + (has(self.replicaBasedBufferSpec) ? 1 : 0) + "
        "(has(self.nodeClassBufferSpec) ? 1 : 0) == 1"
    ),
)
def shorthand_excludes_capacity(spec: BufferSpec) -> Iterator[ValidationProblem]:
    """A shorthand stands for `capacity`; beside it one of them would be ignored."""
    yield from require_exactly_one(
        {
            "capacity": spec.capacity,
            "replicaBasedBufferSpec": spec.replica_based_buffer_spec,
            "nodeClassBufferSpec": spec.node_class_buffer_spec,
        }
    )


@rule(
    BufferSpec,
    "targetRef",
    "capacity",
    "replicaBasedBufferSpec",
    message="capacity.replicas needs a targetRef",
    cel=(
        "has(self.targetRef) || !((has(self.capacity) && has(self.capacity.replicas)) || "
        "has(self.replicaBasedBufferSpec))"
    ),
)
def replicas_need_a_target(spec: BufferSpec) -> Iterator[ValidationProblem]:
    """Further replicas need a target whose pods they are."""
    needs_target = spec.replica_based_buffer_spec is not None or (spec.capacity and spec.capacity.replicas is not None)
    if needs_target and spec.target_ref is None:
        yield ValidationProblem(("targetRef",), REQUIRED, "required with capacity.replicas")


@rule(
    BufferSpec,
    "targetRef",
    "capacity",
    "nodeClassBufferSpec",
    message="capacity.nodeClass needs a targetRef or a nodeSelector",
    cel=(
        "has(self.targetRef) || ((!has(self.capacity) || !has(self.capacity.nodeClass) || "
        "has(self.capacity.nodeClass.nodeSelector) && size(self.capacity.nodeClass.nodeSelector) > 0) && "
        "(!has(self.nodeClassBufferSpec) || "
        "has(self.nodeClassBufferSpec.nodeSelector) && size(self.nodeClassBufferSpec.nodeSelector) > 0))"
    ),
)
def node_class_is_named(spec: BufferSpec) -> Iterator[ValidationProblem]:
    """Totals need a node class or a selector of nodes."""
    node_class = spec.capacity.node_class if spec.capacity else None
    for capacity in (node_class, spec.node_class_buffer_spec):
        if capacity is not None and spec.target_ref is None and not capacity.node_selector:
            yield ValidationProblem(
                ("targetRef",), REQUIRED, "required with capacity.nodeClass, unless it has a nodeSelector"
            )


@rule(
    BufferSpec,
    "targetRef",
    "capacity",
    message="capacity.pods must not have a targetRef",
    cel="!(has(self.targetRef) && has(self.capacity) && has(self.capacity.pods))",
)
def pods_need_no_target(spec: BufferSpec) -> Iterator[ValidationProblem]:
    """The pods are given; a target would have nothing to say."""
    if spec.target_ref is not None and spec.capacity and spec.capacity.pods is not None:
        yield ValidationProblem(("targetRef",), FORBIDDEN, "must not be given with capacity.pods")


@rule(
    BufferSpec,
    "targetRef",
    "capacity",
    "replicaBasedBufferSpec",
    "nodeClassBufferSpec",
    message="the kind of the target must suit the capacity: a workload for replicas, a node class for nodeClass",
)
def target_matches_the_capacity(spec: BufferSpec) -> Iterator[ValidationProblem]:
    """A known kind of the wrong sort will never become ready; a kind we do not know may be of the right one."""
    if spec.target_ref is None:
        return
    kind = spec.target_ref.kind
    by_replicas = spec.replica_based_buffer_spec is not None or (spec.capacity and spec.capacity.replicas is not None)
    by_class = spec.node_class_buffer_spec is not None or (spec.capacity and spec.capacity.node_class is not None)
    if by_replicas and kind in NODE_CLASS_KINDS:
        yield ValidationProblem(
            ("targetRef", "kind"), SUSPICIOUS, f"{kind} is a node class and has no replicas; use capacity.nodeClass"
        )
    if by_class and kind in WORKLOAD_KINDS:
        yield ValidationProblem(
            ("targetRef", "kind"), SUSPICIOUS, f"{kind} is a workload, not a node class; use capacity.replicas"
        )


@rule(BufferSpec, "type", message="type must be one that Trellis provisions")
def type_is_supported(spec: BufferSpec) -> Iterator[ValidationProblem]:
    """Other providers have types of their own; under our prefix there is one."""
    if spec.type and spec.type.startswith(OWN_TYPE_PREFIX) and spec.type != ACTIVE_CAPACITY:
        yield ValidationProblem(
            ("type",),
            SUSPICIOUS,
            f'"{spec.type}" is unknown; the only type that Trellis provisions is {ACTIVE_CAPACITY}',
        )


@rule(
    BufferSpec,
    "recreationStrategy",
    "podSelector",
    message="podSelector has an effect only with recreationStrategy KeepMinimum",
)
def selector_has_an_effect(spec: BufferSpec) -> Iterator[ValidationProblem]:
    """A Buffer that is kept empty is not filled by any workload."""
    if spec.pod_selector is not None and spec.recreation_strategy not in {"KeepMinimum", "keep-minimum"}:
        yield ValidationProblem(("podSelector",), SUSPICIOUS, "has an effect only with recreationStrategy KeepMinimum")


@rule(ScheduleWindow, "start", message="start must be a cron expression")
def start_is_a_cron_expression(window: ScheduleWindow) -> Iterator[ValidationProblem]:
    """A window that never starts would silently switch the Buffer off."""
    try:
        CronSchedule.parse(window.start)
    except InvalidInput as error:
        yield ValidationProblem(("start",), INVALID, error.rule, window.start)


@rule(
    ScheduleWindow,
    "duration",
    message="duration must be longer than 0s",
    cel="duration(self.duration) > duration('0s')",
)
def window_has_a_length(window: ScheduleWindow) -> Iterator[ValidationProblem]:
    """The same for a window without length."""
    if window.duration is not None and not parse_duration(window.duration).nanos:
        yield ValidationProblem(("duration",), INVALID, "must be longer than 0s", window.duration)


@rule(BufferSchedule, "timeZone", message="timeZone must be an IANA name")
def time_zone_exists(schedule: BufferSchedule) -> Iterator[ValidationProblem]:
    """An unknown zone cannot be guessed."""
    if schedule.time_zone is None:
        return
    try:
        CronSchedule.parse("0 0 * * *", schedule.time_zone)
    except InvalidInput as error:
        yield ValidationProblem(("timeZone",), INVALID, error.rule, schedule.time_zone)


@rule(BufferPodSelector, "matchLabels", "matchExpressions", message="podSelector must be a valid label selector")
def selector_is_valid(selector: BufferPodSelector) -> Iterator[ValidationProblem]:
    """Labels have rules of their own, and so have operators."""
    try:
        selector.selector()
    except InvalidInput as error:
        yield ValidationProblem((), INVALID, error.rule, error.value)


BUFFER_RULES: tuple[Rule[Any], ...] = (
    *CAPACITY_RULES,
    shorthand_excludes_capacity,
    replicas_need_a_target,
    node_class_is_named,
    pods_need_no_target,
    target_matches_the_capacity,
    type_is_supported,
    selector_has_an_effect,
    start_is_a_cron_expression,
    window_has_a_length,
    time_zone_exists,
    selector_is_valid,
)
