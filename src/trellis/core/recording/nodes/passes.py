"""Lines of a recording with the settings, the input of each pass, and the recommended sizes of pods.

A cluster has a hundred thousand pods, and little of it changes from pass to pass: only what has changed is written, of
objects, groups, budgets, memory and decisions. Memory is what the last plans left, except for the results of executing
them, so only fields that differ are written. Each line continues from the ones before it. A line of kind `began` starts
anew: the planner has forgotten everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from trellis.api.kube.policies import PodDisruptionBudget
from trellis.base.errors import InvalidRecording
from trellis.base.json_lines import decode_payload, encode_payload
from trellis.base.reasons import DetailedReason
from trellis.core.cluster.store import ObjectKey, ObjectStore, key_of
from trellis.core.fit.resources import CPU, ResourceCounts
from trellis.core.nodes.autoscaler_pass import AutoscalerMemory, PassInput, PassPlans
from trellis.core.nodes.node_groups import GroupState, Instance, NodeGroup
from trellis.core.nodes.scale_down.remembered_state import ScaleDownMemory
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings
from trellis.core.nodes.state.recommended_sizes import RecommendedSize
from trellis.core.recording.format import ObjectChanges, apply_changes, diff_objects, encoded_fields

BOOSTED: Final = "boosted"
SIZES: Final = "sizes"


class NodesRecordingStart(msgspec.Struct, frozen=True):
    """The settings of the plans that follow."""

    up: ScaleUpSettings
    down: ScaleDownSettings
    expendable_below: int


class BoostsLine(msgspec.Struct, frozen=True):
    """In recordings without sizes: the CPU with which the replacements of pods would start, where it changed."""

    starts: tuple[tuple[ObjectKey, ResourceCounts], ...]

    def build_sizes(self) -> dict[ObjectKey, RecommendedSize | None]:
        """The same as recommended sizes."""
        return {
            key: RecommendedSize({name: {CPU: millicores} for name, millicores in containers.items()})
            for key, containers in self.starts
        }


class SizesLine(msgspec.Struct, frozen=True):
    """The recommended sizes that changed; None for pods without one."""

    sizes: tuple[tuple[ObjectKey, RecommendedSize | None], ...]


M = TypeVar("M", ScaleUpMemory, ScaleDownMemory)


class GroupLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A group: its declaration if that changed, the changes of its instances, and why its size cannot change now.

    `removals_suspended` is why it cannot become smaller now.
    """

    name: str
    target: int
    group: NodeGroup | None = None
    removed: tuple[ObjectKey, ...] = ()
    put: tuple[Instance, ...] = ()
    suspended: DetailedReason | None = None
    removals_suspended: DetailedReason | None = None


class MemoryLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of the memory that differ from the last plans; None for fields that are reset."""

    up: Mapping[str, Any] = {}
    down: Mapping[str, Any] = {}


class PassLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """Plans are made, at that time. None stands for unchanged input; all groups are listed if any changed."""

    now: float
    groups: tuple[GroupLine, ...] | None = None
    budgets: ObjectChanges[PodDisruptionBudget] | None = None
    memory: MemoryLine | None = None


class PassInputWriter:
    """Builds the lines of passes, against the input last written."""

    def __init__(self) -> None:
        self._groups: tuple[GroupState, ...] = ()
        self._budgets: Mapping[ObjectKey, PodDisruptionBudget] = {}
        self._memory = AutoscalerMemory()

    def build_line(self, pass_input: PassInput) -> PassLine:
        """The line of a pass: what has changed of its input."""
        budgets = {key_of(budget): budget for budget in pass_input.budgets}
        changed = diff_objects(self._budgets, budgets)
        self._budgets = budgets
        return PassLine(
            pass_input.now, self._group_lines(pass_input.groups), changed or None, self._memory_line(pass_input.memory)
        )

    def record_plans(self, plans: PassPlans) -> None:
        """Record the memory that the next pass most likely starts from."""
        self._memory = AutoscalerMemory(plans.up.memory, plans.down.memory)

    def _group_lines(self, groups: Sequence[GroupState]) -> tuple[GroupLine, ...] | None:
        before, self._groups = self._groups, tuple(groups)
        if before == self._groups:
            return None
        groups_before = {state.group.name: state for state in before}
        return tuple(_group_line(groups_before.get(state.group.name), state) for state in self._groups)

    def _memory_line(self, now: AutoscalerMemory) -> MemoryLine | None:
        before = self._memory
        return (
            None if now == before else MemoryLine(_diff_memory(before.up, now.up), _diff_memory(before.down, now.down))
        )


class PassInputReader:
    """Reads the lines of passes, against the input last read."""

    def __init__(self) -> None:
        self._groups: tuple[GroupState, ...] = ()
        self._budgets: ObjectStore[PodDisruptionBudget] = ObjectStore()
        self._memory = AutoscalerMemory()

    def read_input(self, line: PassLine) -> PassInput:
        """The input of a pass; raises `InvalidRecording`."""
        if line.budgets is not None:
            apply_changes(self._budgets, line.budgets.removed, line.budgets.put)
        if line.groups is not None:
            groups_before = {state.group.name: state for state in self._groups}
            self._groups = tuple(_build_group_state(groups_before.get(group.name), group) for group in line.groups)
        memory, changed = self._memory, line.memory
        if changed is not None:
            memory = AutoscalerMemory(_with_changes(memory.up, changed.up), _with_changes(memory.down, changed.down))
        return PassInput(self._groups, tuple(self._budgets.snapshot()), memory, line.now)

    def record_plans(self, plans: PassPlans) -> None:
        """Record the memory from which the next pass starts: that of the replayed plans, not of the recorded ones."""
        self._memory = AutoscalerMemory(plans.up.memory, plans.down.memory)


def _group_line(before: GroupState | None, now: GroupState) -> GroupLine:
    instances_before = before.index_by_id() if before is not None else {}
    # Providers list them anew each time.
    listed = [
        instances_before[instance.id] if instances_before.get(instance.id) == instance else instance
        for instance in now.instances
    ]
    instance_changes = diff_objects(_by_key(instances_before.values()), _by_key(listed))
    new_group = None if before is not None and before.group == now.group else now.group
    return GroupLine(
        now.group.name,
        now.target,
        new_group,
        instance_changes.removed,
        instance_changes.put,
        now.suspended,
        now.removals_suspended,
    )


def _build_group_state(before: GroupState | None, line: GroupLine) -> GroupState:
    group = line.group or (before.group if before is not None else None)
    if group is None:
        raise InvalidRecording(line.name, "is a node group that no line before declares")
    instances = _by_key(before.instances if before is not None else ())
    for key in line.removed:
        instances.pop(key, None)
    instances.update(_by_key(line.put))
    return GroupState(group, line.target, tuple(instances.values()), line.suspended, line.removals_suspended)


def _by_key(instances: Iterable[Instance]) -> dict[ObjectKey, Instance]:
    return {("", instance.id): instance for instance in instances}


def _diff_memory(before: M, now: M) -> dict[str, Any]:
    """The fields that changed, under their recorded names; None for one that has its default again."""
    defaults, values_before = dict(encoded_fields(type(now)())), dict(encoded_fields(before))
    return {
        name: None if value == defaults[name] else value
        for name, value in encoded_fields(now)
        if value != values_before[name]
    }


def _with_changes(before: M, changed: Mapping[str, Any]) -> M:
    # A field that is None in the line has its default.
    values = decode_payload(
        encode_payload({name: value for name, value in changed.items() if value is not None}), type(before)
    )
    names = zip(before.__struct_fields__, before.__struct_encode_fields__, strict=True)
    return replace(before, **{name: getattr(values, name) for name, recorded in names if recorded in changed})
