"""Which nodes could go together? Tried in turn, with all that waits and all chunks of Buffers where they would be.

Nodes that are being removed come first, and go on only as long as nothing needs them. What waits and fits on one of
those alone is reason enough to keep it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
import numpy as np

from trellis.core.buffers.said import Said
from trellis.core.fit import Demand
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.candidates import Candidate, Minimums
from trellis.core.nodes.chunks import Chunks, in_turn
from trellis.core.nodes.claim_rivals import one_for_each_claim
from trellis.core.nodes.clearing import Clearing
from trellis.core.nodes.down_memory import Removal
from trellis.core.nodes.down_verdicts import NODE_NEEDED_AGAIN, NODE_NOT_TRIED, NODE_TAKES_OVER, PODS_ARE_COMING
from trellis.core.nodes.equivalence import pod_groups
from trellis.core.nodes.marks import unmarked
from trellis.core.nodes.moves import Successors
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.nodes.standing import Standing
from trellis.core.nodes.templates import Templates
from trellis.core.nodes.tenants import Tenants
from trellis.core.nodes.trial import Trial, trial
from trellis.core.nodes.virtual import seat_all
from trellis.core.nodes.worlds import World
from trellis.core.usage.columns import IntColumn


class Going(msgspec.Struct, frozen=True):
    """A node that is being removed and could still be kept, with who is on it."""

    removal: Removal
    number: int
    tenants: Tenants


class Question(msgspec.Struct, frozen=True):
    """What is to be tried, in this order; of candidates with pods at most so many, and as many not known as unneeded.

    `seats` has, by the UID of a Buffer, the nodes where its chunks were.
    """

    snapshot: Snapshot
    stands: Standing
    seats: Mapping[str, tuple[str, ...]]
    successors: Successors
    going: Sequence[Going]
    candidates: Sequence[Candidate]
    most: int


class Answer(msgspec.Struct, frozen=True):
    """Why nodes are needed: those that are being removed, and candidates. Who is in neither is not needed.

    `in_vain` are the candidates among them that something on them keeps.
    """

    needed: dict[str, Said]
    candidates: dict[str, Said]
    in_vain: frozenset[str]


def try_out(question: Question, minimums: Minimums) -> Answer:
    """Find out."""
    snapshot, stands = question.snapshot, question.stands
    with _without_marks(question), trial(snapshot, stands, Templates(snapshot, stands)) as made:
        out = np.array([each.number for each in question.going], dtype=np.int64)
        made.ready = made.ready[~np.isin(made.ready, out)]
        filled = _fill(question, made)
        needed = _needed(made, question.going, filled.left)
        order = _order(made.ready, [each.number for each in question.candidates])
        clearing = Clearing(made, question.successors, order, _largest(snapshot))
        for chunks, numbers in filled.seated:
            clearing.seat(chunks, numbers)
        _go_on(question.going, clearing, minimums, needed)
        return _answer(question, clearing, minimums, filled, needed)


class _Filled(msgspec.Struct, frozen=True):
    """Where pods that wait would be, where chunks are, and what has no place."""

    expected: frozenset[int]
    seated: list[tuple[Chunks, IntColumn]]
    left: list[tuple[World, Demand, int]]


def _fill(question: Question, made: Trial) -> _Filled:
    snapshot = question.snapshot
    expected: set[int] = set()
    left: list[tuple[World, Demand, int]] = []
    seated: list[tuple[Chunks, IntColumn]] = []
    for group in pod_groups(one_for_each_claim(snapshot.pending.values(), made), _largest(snapshot)):
        found = made.put(made.running, group.demand, len(group.pods), made.ready)
        expected.update(found.tolist())
        if group.is_wanted and len(found) < len(group.pods):
            left.append((made.running, group.demand, len(group.pods) - len(found)))
    buffers = in_turn(snapshot.buffers.values())
    for chunks, seats in zip(buffers, seat_all(made, buffers, question.seats), strict=True):
        seated.append((chunks, seats.ready))
        if seats.count < chunks.count:
            world = made.running if chunks.on_top else made.fixed
            left.append((world, chunks.demand, chunks.count - seats.count))
    return _Filled(frozenset(expected), seated, left)


def _needed(made: Trial, going: Sequence[Going], left: list[tuple[World, Demand, int]]) -> dict[str, Said]:
    """Which of the nodes that are being removed would take something that has no place; those can be used again."""
    needed: dict[str, Said] = {}
    names = {each.number: each.removal.node for each in going}
    numbers = np.array([*names], dtype=np.int64)
    for world, demand, count in left:
        for number in made.put(world, demand, count, numbers).tolist():
            whose = demand.resident.namespace
            needed.setdefault(names[number], Said(NODE_NEEDED_AGAIN, f"for pods or chunks of namespace {whose}"))
    again = [number for number, name in names.items() if name in needed]
    made.ready = np.concatenate((made.ready, np.array(again, dtype=np.int64)))
    return needed


def _go_on(going: Sequence[Going], clearing: Clearing, minimums: Minimums, needed: dict[str, Said]) -> None:
    for each in going:
        name = each.removal.node
        if name in needed:
            continue
        said = minimums.why_not(each.removal.group) or clearing.clear(each.number, each.tenants.moving)
        if said is not None:
            needed[name] = Said(NODE_NEEDED_AGAIN, str(said))
        else:
            minimums.take(each.removal.group)


def _answer(
    question: Question, clearing: Clearing, minimums: Minimums, filled: _Filled, needed: dict[str, Said]
) -> Answer:
    found: dict[str, Said] = {}
    in_vain: set[str] = set()
    tried: Counter[bool] = Counter()
    for each in question.candidates:
        is_known = each.since is not None
        said = minimums.why_not(each.group)
        if said is not None:
            found[each.name] = said
        elif each.number in filled.expected:
            found[each.name] = Said(PODS_ARE_COMING)
        elif clearing.hosts[each.number]:
            found[each.name] = Said(NODE_TAKES_OVER)
        elif each.tenants.moving and tried[is_known] >= question.most:
            found[each.name] = Said(NODE_NOT_TRIED)
        else:
            tried[is_known] += bool(each.tenants.moving)
            said = clearing.clear(each.number, each.tenants.moving)
            if said is None:
                minimums.take(each.group)
            else:
                found[each.name] = said
                in_vain.add(each.name)
    return Answer(needed, found, frozenset(in_vain))


def _order(ready: IntColumn, candidates: Sequence[int]) -> IntColumn:
    """Who takes what is moved: first the nodes that stay anyway, last those that are to go first."""
    last = np.array([*reversed(candidates)], dtype=np.int64)
    return np.concatenate((ready[~np.isin(ready, last)], last[np.isin(last, ready)]))


def _largest(snapshot: Snapshot) -> tuple[float, float]:
    cores, memory = (float(snapshot.table.offered(name).max(initial=0)) for name in (CPU, MEMORY))
    return cores, memory


@contextmanager
def _without_marks(question: Question) -> Iterator[None]:
    """The table as if nodes that are being removed were not marked: they are asked about as if they stayed."""
    snapshot = question.snapshot
    nodes = [snapshot.nodes[each.removal.node] for each in question.going]
    try:
        for node in nodes:
            snapshot.table.update(unmarked(node))
        yield
    finally:
        for node in nodes:
            snapshot.table.update(node)
