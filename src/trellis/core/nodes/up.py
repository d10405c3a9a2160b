"""Which nodes should be ordered? The plan for more nodes: one function of what is in the cluster.

Real pods come first, then the chunks of Buffers; each is put where there is room, then where there will be, and for the
rest nodes are ordered. Groups that are to have more nodes than they have come last. What cannot be helped is told why.

    plan = plan_up(snapshot, memory, now, settings)
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trellis.core.nodes.chunks import in_turn
from trellis.core.nodes.claim_rivals import one_for_each_claim
from trellis.core.nodes.decided import Decided, Kept, Waiting
from trellis.core.nodes.equivalence import PodGroup, pod_groups
from trellis.core.nodes.expanders import expanders_named
from trellis.core.nodes.limits import Limits
from trellis.core.nodes.look import Look, look
from trellis.core.nodes.memory import UpMemory
from trellis.core.nodes.minimum_sizes import fill_up
from trellis.core.nodes.needs import Need
from trellis.core.nodes.opening import Opening
from trellis.core.nodes.similar import similar_groups
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.nodes.telling import plan_of
from trellis.core.nodes.trial import Trial, trial
from trellis.core.nodes.up_settings import UpSettings
from trellis.core.nodes.verdicts import UpPlan
from trellis.core.nodes.virtual import Seats, keep, seat_all
from trellis.core.usage.columns import IntColumn


def plan_up(snapshot: Snapshot, memory: UpMemory, now: float, settings: UpSettings) -> UpPlan:
    """The plan. The snapshot is as before afterwards, but for the arrivals of pods, which are taken."""
    seen = look(snapshot, memory, now, settings)
    # Before rows are added: limits count the nodes that there are.
    limits = Limits(seen)
    with trial(snapshot, seen.stands, seen.templates) as tried:
        tried.await_nodes(seen.coming)
        return plan_of(seen, memory, tried, _decide(seen, memory, tried, limits))


def place(seen: Look, memory: UpMemory, tried: Trial) -> tuple[list[Waiting], list[Kept]]:
    """Put pending pods and then the chunks of Buffers on nodes that are ready, or on their way."""
    groups = pod_groups(one_for_each_claim(seen.snapshot.pending.values(), tried), seen.largest)
    # Who was meant for a node that has been ordered stays so, before others look for room.
    meant = [[memory.places.get(pod.uid, "") for pod in group.pods] if memory.places else () for group in groups]
    here = np.concatenate((tried.ready, tried.coming))
    back = [
        keep(tried, tried.running, group.demand, before, here, len(group.pods))
        for group, before in zip(groups, meant, strict=True)
    ]
    waiting = [_seated(tried, group, kept) for group, kept in zip(groups, back, strict=True)]
    buffers = in_turn(seen.snapshot.buffers.values())
    kept = [
        Kept(chunks, seats, Need(chunks.demand, chunks.count - seats.count))
        for chunks, seats in zip(buffers, seat_all(tried, buffers, memory.seats), strict=True)
    ]
    return waiting, kept


def _decide(seen: Look, memory: UpMemory, tried: Trial, limits: Limits) -> Decided:
    waiting, kept = place(seen, memory, tried)
    similar = similar_groups([each.group for each in seen.templates.states])
    balanced = similar if seen.settings.balance_similar_node_groups else None
    opening = Opening(tried, limits, expanders_named(seen.settings.expanders), balanced)
    opening.open(_left(each.need for each in waiting if each.group.is_wanted), tried.running)
    opening.open(_left(each.need for each in kept if each.chunks.on_top), tried.running)
    opening.open(_left(each.need for each in kept if not each.chunks.on_top), tried.fixed)
    return Decided(waiting, kept, limits, fill_up(seen, tried, limits))


def _seated(tried: Trial, group: PodGroup, kept: IntColumn) -> Waiting:
    """Put pods on the nodes there are, then on those on their way."""
    count = len(group.pods) - len(kept)
    ready = tried.put(tried.running, group.demand, count, tried.ready)
    coming = tried.put(tried.running, group.demand, count - len(ready), tried.coming)
    there = tried.mask(tried.ready)[kept]
    seats = Seats(np.concatenate((kept[there], ready)), np.concatenate((kept[~there], coming)))
    return Waiting(group, seats, Need(group.demand, len(group.pods) - seats.count))


def _left(needs: Iterable[Need]) -> list[Need]:
    return [each for each in needs if each.left]
