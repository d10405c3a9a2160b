"""What the fields of a Buffer must be to one another; those of its capacity have rules of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trellis.api import buffer_capacity_rules
from trellis.api.buffer import (
    ACTIVE_CAPACITY,
    BufferSchedule,
    BufferSpec,
    ScheduleWindow,
)
from trellis.api.buffer_capacity_rules import exactly_one
from trellis.api.fields import Rule, rule
from trellis.api.parts import LabelSelector
from trellis.api.problems import FORBIDDEN, INVALID, REQUIRED, SUSPICIOUS, Problem
from trellis.base.durations import parse_duration
from trellis.base.errors import InvalidInput
from trellis.base.schedules import Schedule

OUR_TYPES = "buffer.x-k8s.io/"
# Kinds that are certainly workloads, or certainly classes of nodes; others may be either.
WORKLOAD_KINDS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "Job", "ReplicationController"})
NODE_CLASS_KINDS = frozenset({"NodePool", "ComputeClass", "CustomComputeClass", "MachineDeployment", "KwokNodeGroup"})


@rule(
    BufferSpec,
    "capacity",
    "replicaBasedBufferSpec",
    "nodeClassBufferSpec",
    says="exactly one of capacity, replicaBasedBufferSpec, nodeClassBufferSpec must be given",
    cel=(
        "(has(self.capacity) ? 1 : 0) + (has(self.replicaBasedBufferSpec) ? 1 : 0) + "
        "(has(self.nodeClassBufferSpec) ? 1 : 0) == 1"
    ),
)
def capacity_is_spelled_once(spec: BufferSpec) -> Iterator[Problem]:
    """A shorthand stands for `capacity`; beside it one of them would be ignored."""
    yield from exactly_one(
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
    says="capacity.replicas needs a targetRef",
    cel=(
        "has(self.targetRef) || !((has(self.capacity) && has(self.capacity.replicas)) || "
        "has(self.replicaBasedBufferSpec))"
    ),
)
def replicas_need_a_target(spec: BufferSpec) -> Iterator[Problem]:
    """Room for further pods of what?"""
    wants = spec.replica_based_buffer_spec is not None or (spec.capacity and spec.capacity.replicas is not None)
    if wants and spec.target_ref is None:
        yield Problem(("targetRef",), REQUIRED, "required with capacity.replicas")


@rule(
    BufferSpec,
    "targetRef",
    "capacity",
    "nodeClassBufferSpec",
    says="capacity.nodeClass needs a targetRef or a nodeSelector",
    cel=(
        "has(self.targetRef) || ((!has(self.capacity) || !has(self.capacity.nodeClass) || "
        "has(self.capacity.nodeClass.nodeSelector) && size(self.capacity.nodeClass.nodeSelector) > 0) && "
        "(!has(self.nodeClassBufferSpec) || "
        "has(self.nodeClassBufferSpec.nodeSelector) && size(self.nodeClassBufferSpec.nodeSelector) > 0))"
    ),
)
def node_class_is_named(spec: BufferSpec) -> Iterator[Problem]:
    """Room on which nodes?"""
    node_class = spec.capacity.node_class if spec.capacity else None
    for capacity in (node_class, spec.node_class_buffer_spec):
        if capacity is not None and spec.target_ref is None and not capacity.node_selector:
            yield Problem(("targetRef",), REQUIRED, "required with capacity.nodeClass, unless it has a nodeSelector")


@rule(
    BufferSpec,
    "targetRef",
    "capacity",
    says="capacity.pods must not have a targetRef",
    cel="!(has(self.targetRef) && has(self.capacity) && has(self.capacity.pods))",
)
def pods_need_no_target(spec: BufferSpec) -> Iterator[Problem]:
    """The pods are given; a target would have nothing to say."""
    if spec.target_ref is not None and spec.capacity and spec.capacity.pods is not None:
        yield Problem(("targetRef",), FORBIDDEN, "must not be given with capacity.pods")


@rule(
    BufferSpec,
    "targetRef",
    "capacity",
    "replicaBasedBufferSpec",
    "nodeClassBufferSpec",
    says="target of another kind",
)
def target_goes_with_the_capacity(spec: BufferSpec) -> Iterator[Problem]:
    """A known kind of the wrong sort will never become ready; a kind we do not know may be of the right one."""
    if spec.target_ref is None:
        return
    kind = spec.target_ref.kind
    by_replicas = spec.replica_based_buffer_spec is not None or (spec.capacity and spec.capacity.replicas is not None)
    by_class = spec.node_class_buffer_spec is not None or (spec.capacity and spec.capacity.node_class is not None)
    if by_replicas and kind in NODE_CLASS_KINDS:
        yield Problem(("targetRef", "kind"), SUSPICIOUS, f"{kind} is a class of nodes and has no replicas")
    if by_class and kind in WORKLOAD_KINDS:
        yield Problem(("targetRef", "kind"), SUSPICIOUS, f"{kind} is a workload and not a class of nodes")


@rule(BufferSpec, "type", says="a type nobody provisions")
def type_is_known(spec: BufferSpec) -> Iterator[Problem]:
    """Other providers have types of their own; under our prefix there is one."""
    if spec.type and spec.type.startswith(OUR_TYPES) and spec.type != ACTIVE_CAPACITY:
        yield Problem(
            ("type",),
            SUSPICIOUS,
            f'"{spec.type}" is not known; the only type we provision is {ACTIVE_CAPACITY}',
        )


@rule(BufferSpec, "recreationStrategy", "podSelector", says="a podSelector without effect")
def selector_has_an_effect(spec: BufferSpec) -> Iterator[Problem]:
    """A Buffer that is kept empty is filled by nobody."""
    if spec.pod_selector is not None and spec.recreation_strategy not in {"KeepMinimum", "keep-minimum"}:
        yield Problem(("podSelector",), SUSPICIOUS, "has an effect with recreationStrategy KeepMinimum only")


@rule(ScheduleWindow, "start", says="start must be a cron expression")
def start_is_a_cron_expression(window: ScheduleWindow) -> Iterator[Problem]:
    """A window that never starts would silently switch the Buffer off."""
    try:
        Schedule.parse(window.start)
    except InvalidInput as error:
        yield Problem(("start",), INVALID, error.rule, window.start)


@rule(
    ScheduleWindow,
    "duration",
    says="duration must be longer than 0s",
    cel="duration(self.duration) > duration('0s')",
)
def window_has_a_length(window: ScheduleWindow) -> Iterator[Problem]:
    """The same for a window without length."""
    if window.duration is not None and not parse_duration(window.duration).nanos:
        yield Problem(("duration",), INVALID, "must be longer than 0s", window.duration)


@rule(BufferSchedule, "timeZone", says="timeZone must be an IANA name")
def time_zone_exists(schedule: BufferSchedule) -> Iterator[Problem]:
    """An unknown zone cannot be guessed."""
    if schedule.time_zone is None:
        return
    try:
        Schedule.parse("0 0 * * *", schedule.time_zone)
    except InvalidInput as error:
        yield Problem(("timeZone",), INVALID, error.rule, schedule.time_zone)


@rule(LabelSelector, "matchLabels", "matchExpressions", says="a selector that cannot be used")
def selector_is_valid(selector: LabelSelector) -> Iterator[Problem]:
    """Labels have rules of their own, and so have operators."""
    try:
        selector.selector()
    except InvalidInput as error:
        yield Problem((), INVALID, error.rule, error.value)


RULES: tuple[Rule[Any], ...] = (
    *buffer_capacity_rules.RULES,
    capacity_is_spelled_once,
    replicas_need_a_target,
    node_class_is_named,
    pods_need_no_target,
    target_goes_with_the_capacity,
    type_is_known,
    selector_has_an_effect,
    start_is_a_cron_expression,
    window_has_a_length,
    time_zone_exists,
    selector_is_valid,
)
