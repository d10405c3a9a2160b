"""How is written down what a pass is about? What has changed of groups and budgets, and what is remembered.

What is remembered is what the last plans left, but for what became of them: only fields that are others are written.
`QuestionWriting` makes lines of questions, and `QuestionReading` makes of these lines the same questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from trellis.api.kube.policies import PodDisruptionBudget
from trellis.base.errors import InvalidRecording
from trellis.core.model.keys import Key, key_of
from trellis.core.model.recording import decode, encode
from trellis.core.model.store import Store
from trellis.core.model.succession import Step, step, take
from trellis.core.nodes.down_memory import DownMemory
from trellis.core.nodes.groups import GroupState, Instance, NodeGroup
from trellis.core.nodes.memory import UpMemory
from trellis.core.nodes.moves import Starts
from trellis.core.nodes.planning import Memory, Plans, Question

M = TypeVar("M", UpMemory, DownMemory)


class GroupLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A group: its declaration if that is new, and what became of its instances."""

    name: str
    target: int
    group: NodeGroup | None = None
    gone: tuple[Key, ...] = ()
    put: tuple[Instance, ...] = ()


class Remembered(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered otherwise than the last plans left it, by field; None is for what is forgotten."""

    up: Mapping[str, Any] = {}
    down: Mapping[str, Any] = {}


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """Plans are made, at that time. None is for what is as before; all groups are there if any is not."""

    now: float
    groups: tuple[GroupLine, ...] | None = None
    budgets: Step[PodDisruptionBudget] | None = None
    memory: Remembered | None = None


class QuestionWriting:
    """Remembers what was written last."""

    def __init__(self) -> None:
        self._groups: tuple[GroupState, ...] = ()
        self._budgets: Mapping[Key, PodDisruptionBudget] = {}
        self._memory = Memory()

    def line(self, asked: Question) -> Asked:
        """What is to be written of a question."""
        budgets = {key_of(each): each for each in asked.budgets}
        changed = step(self._budgets, budgets)
        self._budgets = budgets
        return Asked(asked.now, self._grouped(asked.groups), changed or None, self._remembered(asked.memory))

    def planned(self, plans: Plans) -> None:
        """What the next question is most likely to remember."""
        self._memory = Memory(plans.up.memory, plans.down.memory)

    def _grouped(self, groups: Sequence[GroupState]) -> tuple[GroupLine, ...] | None:
        before, self._groups = self._groups, tuple(groups)
        if before == self._groups:
            return None
        known = {each.group.name: each for each in before}
        return tuple(_group_line(known.get(each.group.name), each) for each in self._groups)

    def _remembered(self, now: Memory) -> Remembered | None:
        known = self._memory
        return None if now == known else Remembered(_changed(known.up, now.up), _changed(known.down, now.down))


class QuestionReading:
    """Knows what was read last."""

    def __init__(self) -> None:
        self._groups: tuple[GroupState, ...] = ()
        self._budgets: Store[PodDisruptionBudget] = Store()
        self._memory = Memory()

    def question(self, line: Asked, starts: Starts) -> Question:
        """What was asked; raises `InvalidRecording`."""
        if line.budgets is not None:
            take(self._budgets, line.budgets.gone, line.budgets.put)
        if line.groups is not None:
            known = {each.group.name: each for each in self._groups}
            self._groups = tuple(_group(known.get(each.name), each) for each in line.groups)
        memory, changed = self._memory, line.memory
        if changed is not None:
            memory = Memory(_taken(memory.up, changed.up), _taken(memory.down, changed.down))
        return Question(self._groups, tuple(self._budgets.snapshot()), memory, line.now, starts)

    def planned(self, plans: Plans) -> None:
        """What the next question goes on from: what is remembered now, which may be other than it was then."""
        self._memory = Memory(plans.up.memory, plans.down.memory)


def _group_line(before: GroupState | None, now: GroupState) -> GroupLine:
    known = before.by_id() if before is not None else {}
    # Providers list them anew each time.
    listed = [known[each.id] if known.get(each.id) == each else each for each in now.instances]
    became = step(_by_key(known.values()), _by_key(listed))
    declared = None if before is not None and before.group == now.group else now.group
    return GroupLine(now.group.name, now.target, declared, became.gone, became.put)


def _group(before: GroupState | None, line: GroupLine) -> GroupState:
    declared = line.group or (before.group if before is not None else None)
    if declared is None:
        raise InvalidRecording(line.name, "is a group that no line before declares")
    instances = _by_key(before.instances if before is not None else ())
    for key in line.gone:
        instances.pop(key, None)
    instances.update(_by_key(line.put))
    return GroupState(declared, line.target, tuple(instances.values()))


def _by_key(instances: Iterable[Instance]) -> dict[Key, Instance]:
    return {("", each.id): each for each in instances}


def _changed(known: M, now: M) -> dict[str, Any]:
    names = [name for name in now.__struct_fields__ if getattr(known, name) != getattr(now, name)]
    none, values = type(now)(), {name: getattr(now, name) for name in names}
    return {name: None if value == getattr(none, name) else value for name, value in values.items()}


def _taken(known: M, changed: Mapping[str, Any]) -> M:
    # What is not named is as if nothing were known.
    found = decode(encode({name: value for name, value in changed.items() if value is not None}), type(known))
    return replace(known, **{name: getattr(found, name) for name in changed if name in known.__struct_fields__})
