"""What does a plan say? Orders, verdicts and what to remember, from what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from trellis.base.reason import Reason
from trellis.core.buffers.said import Said
from trellis.core.fit import Demand
from trellis.core.nodes.chunks import Chunks
from trellis.core.nodes.decided import Decided, Kept, Waiting
from trellis.core.nodes.hits import Hits
from trellis.core.nodes.look import Look
from trellis.core.nodes.memory import UpMemory
from trellis.core.nodes.misses import misses
from trellis.core.nodes.needs import Need
from trellis.core.nodes.pricing import Prices
from trellis.core.nodes.refusing import refused_by
from trellis.core.nodes.trial import Trial
from trellis.core.nodes.upcoming import ORDER_LOST, Promise
from trellis.core.nodes.verdicts import (
    BUFFER_AWAITS_NODES,
    BUFFER_NEEDS_NOTHING,
    BUFFER_NODES_ORDERED,
    BUFFER_PROVISIONED,
    FOR_BUFFERS,
    FOR_MINIMUM,
    FOR_PODS,
    NODE_ORDERED,
    POD_AWAITS_NODE,
    POD_HAS_ROOM,
    BufferVerdict,
    GiveBack,
    GroupsRefused,
    Order,
    PodsVerdict,
    UpPlan,
)
from trellis.core.nodes.virtual import Seats, numbered
from trellis.core.usage.columns import IntColumn


def plan_of(seen: Look, memory: UpMemory, tried: Trial, decided: Decided) -> UpPlan:
    """The plan."""
    orders = tuple(_orders(seen, tried, decided))
    wanted = [each for each in decided.waiting if each.group.is_wanted]
    missing = [(each.group, len(each.group.pods) - len(each.seats.ready)) for each in wanted]
    on_top = [each.chunks for each in decided.kept if each.chunks.on_top]
    missed, uids = misses([each for each in missing if each[1]], on_top, memory.missed)
    teller = _Teller(seen, memory, tried, decided, missed)
    buffers = tuple(teller.buffer(each) for each in decided.kept)
    pods = tuple(teller.pods(each) for each in wanted)
    promised = {each.group: Promise(each.target, seen.now) for each in orders}
    ended = {each.group: each for each in seen.coming.failures if not each.instance}
    remembered = UpMemory(
        backoffs=seen.backoffs,
        promises={**seen.coming.promises, **promised},
        missing=seen.coming.missing,
        seats=teller.seats,
        places=teller.places,
        full_at={each.uid: each.full_at for each in buffers if each.full_at is not None},
        left=teller.left,
        missed=uids,
    )
    return UpPlan(
        orders=orders,
        give_backs=tuple(
            GiveBack(each.group, each.instance, each.said) for each in seen.coming.failures if each.instance
        ),
        pods=pods,
        buffers=buffers,
        # Where there is no instance to give back, nobody would be told otherwise.
        notes={**seen.templates.notes, **decided.notes, **{name: each.said for name, each in ended.items()}},
        memory=remembered,
        next_look=_next_look(seen),
        lost={name: each.at for name, each in ended.items() if each.said.reason is ORDER_LOST},
    )


class _Teller:
    """Puts into words what was found."""

    def __init__(self, seen: Look, memory: UpMemory, tried: Trial, decided: Decided, missed: Counter[str]) -> None:
        self._seen = seen
        self._memory = memory
        self._tried = tried
        self._limits = decided.limits
        self._missed = missed
        expected = [name for each in decided.waiting for name in tried.names(each.seats.ready)]
        self._hits = Hits(seen.snapshot.take_arrivals(), expected)
        self._prices = Prices(seen, tried)
        self._new = tried.mask(tried.new)
        # What is meant for whom, to be remembered.
        self.seats: dict[str, tuple[str, ...]] = {}
        self.places: dict[str, str] = {}
        self.left: dict[str, tuple[str, ...]] = {}

    def pods(self, found: Waiting) -> PodsVerdict:
        new, coming = self._split(found.need, found.seats)
        before = [self._memory.places.get(pod.uid, "") for pod in found.group.pods]
        meant = numbered(before, self._tried.names(_all(found.seats, found.need)), len(before))
        self.places.update((pod.uid, name) for pod, name in zip(found.group.pods, meant, strict=True) if name)
        told: Reason = NODE_ORDERED if len(found.need.places) else POD_AWAITS_NODE if coming else POD_HAS_ROOM
        said, refused = self._refused(found.need, found.group.demand, told)
        return PodsVerdict(
            pods=found.group.keys,
            said=said,
            on_ready=len(found.seats.ready),
            on_coming=coming,
            ordered=self._ordered(new),
            unplaced=found.need.left,
            refused=refused,
        )

    def buffer(self, found: Kept) -> BufferVerdict:
        chunks, seats, need = found.chunks, found.seats, found.need
        new, coming = self._split(need, seats)
        before = self._memory.seats.get(chunks.uid, ())
        meant = self.seats[chunks.uid] = numbered(before, self._tried.names(_all(seats, need)), chunks.count)
        ready = set(self._tried.names(np.unique(seats.ready)))
        nodes = tuple(name if name in ready else "" for name in meant)
        hits = self._hits_of(chunks, before, nodes) if chunks.on_top else 0
        is_full = len(seats.ready) == chunks.count
        if is_full:
            told = BUFFER_PROVISIONED if chunks.count else BUFFER_NEEDS_NOTHING
        else:
            told = BUFFER_NODES_ORDERED if len(need.places) else BUFFER_AWAITS_NODES
        said, refused = self._refused(need, chunks.demand, told)
        return BufferVerdict(
            key=chunks.key,
            uid=chunks.uid,
            said=said,
            chunks=chunks.count,
            on_ready=len(seats.ready),
            on_coming=coming,
            ordered=self._ordered(new),
            unplaced=need.left,
            refused=refused,
            nodes=nodes,
            hits=hits,
            misses=self._missed[chunks.uid],
            price=self._prices.of(chunks.demand, _all(seats, need)),
            full_at=self._seen.now if is_full else self._memory.full_at.get(chunks.uid),
        )

    def _hits_of(self, chunks: Chunks, before: Sequence[str], nodes: Sequence[str]) -> int:
        hits, left = self._hits.take((*before, *self._memory.left.get(chunks.uid, ())), nodes)
        if left:
            self.left[chunks.uid] = left
        return hits

    def _refused(self, need: Need, demand: Demand, otherwise: Reason) -> tuple[Said, tuple[GroupsRefused, ...]]:
        if not need.left:
            return Said(otherwise), ()
        return refused_by(self._seen.templates, self._limits, demand)

    def _split(self, need: Need, seats: Seats) -> tuple[IntColumn, int]:
        """The new nodes among the places of a need, and how many wait for any others.

        What fits a node that is there only once others have come, waits as well.
        """
        is_new = self._new[need.places]
        return need.places[is_new], len(seats.coming) + len(need.places) - int(np.count_nonzero(is_new))

    def _ordered(self, new: IntColumn) -> dict[str, int]:
        names = self._seen.templates.names
        counts = np.bincount(self._tried.groups_of(new)) if len(new) else new
        return {names[group]: int(counts[group]) for group in np.flatnonzero(counts).tolist()}


def _all(seats: Seats, need: Need) -> IntColumn:
    return np.concatenate((seats.ready, seats.coming, need.places))


def _orders(seen: Look, tried: Trial, decided: Decided) -> Iterable[Order]:
    pods, chunks = (_served(tried, needs) for needs in (decided.waiting, decided.kept))
    for group, count in tried.orders().items():
        name = seen.templates.states[group].group.name
        why = Said(FOR_PODS if group in pods else FOR_BUFFERS if group in chunks else FOR_MINIMUM)
        yield Order(name, count, seen.target(name) + count, why)


def _served(tried: Trial, found: Sequence[Waiting] | Sequence[Kept]) -> set[int]:
    """The groups of which new nodes are meant for some of these."""
    places = [each.need.places for each in found if len(each.need.places)]
    meant = np.concatenate(places) if places else tried.new[:0]
    return set(np.unique(tried.groups_of(meant[tried.mask(tried.new)[meant]])).tolist())


def _next_look(seen: Look) -> float | None:
    moments = [each.until for each in seen.backoffs.values() if each.until > seen.now]
    if seen.coming.next_look is not None:
        moments.append(seen.coming.next_look)
    return min(moments, default=None)
