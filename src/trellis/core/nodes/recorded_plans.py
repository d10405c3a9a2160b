"""What was decided, so that it can be written down and compared? What is to be done, and what is said that is new.

Reasons are given by their codes: another wording is no other decision. Most nodes, pods and Buffers are told in each
pass what they were told before: only who is told something else is there, and None for who is told nothing any more.
What is remembered is not there. Where it is other than it was, what is decided from it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from trellis.base.reason import Reason
from trellis.core.buffers.said import Said
from trellis.core.nodes.planning import Plans
from trellis.core.nodes.verdicts import BufferVerdict, PodsVerdict

_APART: Final = frozenset({"memory", "notes", "nodes", "pods", "buffers"})

Told = Mapping[str, Any]


class Decided(msgspec.Struct, frozen=True, omit_defaults=True):
    """Both plans. `pods` has the code of what each pod is told, `alike` the rest, by the first of those alike."""

    up: Told
    down: Told
    nodes: Told = {}
    pods: Told = {}
    alike: Told = {}
    buffers: Told = {}
    notes: Told = {}
    problems: Told = {}


class Decisions:
    """Makes of plans what is to be written; remembers who was told what."""

    def __init__(self) -> None:
        self._told: dict[str, Told] = {}

    def of(self, plans: Plans, now: float) -> Decided:
        """What is to be compared of both plans."""
        up, down = plans.up, plans.down
        codes = {"/".join(key): each.said.reason.code for each in up.pods for key in each.pods}
        problems = {f"{kind} {'/'.join(key)}": said for (kind, key), said in plans.problems.items()}
        return Decided(
            up=_acted(up),
            down=_acted(down),
            nodes=self._new("nodes", {each.node: each for each in down.nodes}),
            pods=self._new("pods", codes),
            alike=self._new("alike", {"/".join(each.pods[0]): _counted(each) for each in up.pods}),
            buffers=self._new("buffers", {"/".join(each.key): told_undated(each, now) for each in up.buffers}),
            notes=self._new("notes", up.notes),
            problems=self._new("problems", problems),
        )

    def _new(self, kind: str, told: Told) -> Told:
        before, self._told[kind] = self._told.get(kind, {}), told
        return changed(before, told)


def changed(before: Told, told: Told) -> Told:
    """Who is told something else than before, with reasons by their codes; None for who is told nothing any more."""
    new = {about: _by_code(each) for about, each in told.items() if before.get(about) != each}
    return new | {about: None for about in before if about not in told}


def _acted(plan: msgspec.Struct) -> Told:
    """All of a plan but what stands apart."""
    return {name: _by_code(getattr(plan, name)) for name in plan.__struct_fields__ if name not in _APART}


def _counted(verdict: PodsVerdict) -> Told:
    """Who they are is told one by one."""
    return {**_by_code(replace(verdict, pods=())), "pods": len(verdict.pods)}


def told_undated(verdict: BufferVerdict, now: float) -> BufferVerdict:
    """A Buffer that has all its room has it at this moment, which would make its verdict a new one in each pass."""
    return replace(verdict, full_at=None) if verdict.full_at == now else verdict


def _by_code(value: Any) -> Any:
    match value:
        case Said(reason=reason, details=details):
            return [reason.code, details]
        case Reason():
            return value.code
        case msgspec.Struct():
            # Its kind, because actions of several kinds stand in one list.
            fields = {name: _by_code(getattr(value, name)) for name in value.__struct_fields__}
            return {"kind": type(value).__name__, **fields}
        case tuple() | list():
            return [_by_code(each) for each in value]
        case Mapping():
            return {name: _by_code(each) for name, each in value.items()}
        case _:
            return value
