"""Replays a recording of any component, and reports the decisions that differ.

A difference says that the code, or what it depends on, decides otherwise than the release that was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

import msgspec

from trellis.base.errors import InvalidRecording, format_value
from trellis.base.json_lines import read_header, read_lines
from trellis.base.wording import pluralize
from trellis.core.recording.format import BUFFERS, HVPA, NODES, RECOMMENDER, UPDATER
from trellis.sim.replay.buffers import replay_buffers
from trellis.sim.replay.decisions import ReplayedDecision
from trellis.sim.replay.hvpa import replay_hvpa
from trellis.sim.replay.nodes import replay_nodes
from trellis.sim.replay.recommender import replay_recommender
from trellis.sim.replay.updater import replay_updater

_NOTHING: Final = object()
_LONGEST: Final = 200
# The most differences that are listed; of more the number is enough.
_MOST: Final = 20

_REPLAYS: Final[Mapping[str, Callable[[Iterable[tuple[str, msgspec.Raw]]], Iterator[ReplayedDecision]]]] = {
    RECOMMENDER: replay_recommender,
    UPDATER: replay_updater,
    HVPA: replay_hvpa,
    BUFFERS: replay_buffers,
    NODES: replay_nodes,
}


class DecisionDifference(msgspec.Struct, frozen=True):
    """A decision that differs: its number from 1, where in it, and what was and is decided there."""

    number: int
    path: str
    recorded: str
    decided: str
    about: str = ""

    def __str__(self) -> str:
        place = f"decision {self.number}{f' ({self.about})' if self.about else ''}"
        return f"{place} differs at {self.path}: recorded {self.recorded}, now {self.decided}"


class ReplayReport(msgspec.Struct, frozen=True):
    """How many decisions a recording has, how many differ now, and the first of those."""

    component: str
    release: str
    decisions: int
    different: int
    differences: tuple[DecisionDifference, ...] = ()

    @property
    def first(self) -> DecisionDifference | None:
        """The first difference; in many recordings the others follow from it."""
        return self.differences[0] if self.differences else None

    def __str__(self) -> str:
        if self.first is None:
            return f"{pluralize(self.decisions, 'decision')}, no differences"
        return f"{pluralize(self.decisions, 'decision')}, {self.different} different; the first: {self.first}"


def replay(data: bytes | Iterable[bytes]) -> ReplayReport:
    """Replay the lines of a recording of any component; raises `InvalidRecording`."""
    lines = read_lines(data)
    kind, first = next(lines)
    header = read_header(kind, first)
    component = _REPLAYS.get(header.component)
    if component is None:
        raise InvalidRecording(header.component, f"cannot be replayed; components that can: {', '.join(_REPLAYS)}")
    decisions = different = 0
    result: list[DecisionDifference] = []
    for replayed in component(chain([(kind, first)], lines)):
        decisions += 1
        if not replayed.is_same:
            different += 1
            if different <= _MOST:
                result.append(find_difference(replayed, decisions))
    return ReplayReport(header.component, header.release, decisions, different, tuple(result))


def find_difference(replayed: ReplayedDecision, number: int) -> DecisionDifference:
    """Find where two decisions differ."""
    before, now = (msgspec.json.decode(text) if text else None for text in (replayed.recorded, replayed.decided))
    path, was, is_now = _find_first_difference(before, now, "$")
    return DecisionDifference(number, path, _text(was), _text(is_now), replayed.about)


def _find_first_difference(was: Any, is_now: Any, path: str) -> tuple[str, Any, Any]:
    """The first place where they differ; the root if they differ in nothing but how they are written."""
    if isinstance(was, dict) and isinstance(is_now, dict):
        for key in was | is_now:
            recorded_part, decided_part = was.get(key, _NOTHING), is_now.get(key, _NOTHING)
            if recorded_part != decided_part:
                return _find_first_difference(recorded_part, decided_part, f"{path}.{key}")
    if isinstance(was, list) and isinstance(is_now, list):
        for at, (recorded_part, decided_part) in enumerate(zip(was, is_now, strict=False)):
            if recorded_part != decided_part:
                return _find_first_difference(recorded_part, decided_part, f"{path}[{at}]")
        if len(was) != len(is_now):
            at = min(len(was), len(is_now))
            recorded_part, decided_part = (value[at] if at < len(value) else _NOTHING for value in (was, is_now))
            return f"{path}[{at}]", recorded_part, decided_part
    return path, was, is_now


def _text(value: Any) -> str:
    return "nothing" if value is _NOTHING else format_value(value, _LONGEST)
