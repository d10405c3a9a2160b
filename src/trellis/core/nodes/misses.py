"""Which pods wait although a Buffer was there for them? Each counts once, for one Buffer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence

from trellis.core.fit import Demand
from trellis.core.nodes.chunks import Chunks
from trellis.core.nodes.equivalence import PodGroup


def misses(
    waiting: Iterable[tuple[PodGroup, int]], buffers: Iterable[Chunks], known: frozenset[str]
) -> tuple[Counter[str], frozenset[str]]:
    """By the UID of a Buffer how many pods wait that one of its chunks was meant for, and the UIDs of all such pods.

    `waiting` says how many of each group have no place on a node that is ready; `known` were counted before.
    """
    found: Counter[str] = Counter()
    missed: set[str] = set()
    by_place: defaultdict[Hashable, list[Chunks]] = defaultdict(list)
    for chunks in buffers:
        by_place[_place(chunks.demand)].append(chunks)
    for group, count in waiting if by_place else ():
        served = _served_by(group, by_place.get(_place(group.demand), ()))
        if served is None:
            continue
        uids = [pod.uid for pod in group.pods[len(group.pods) - count :]]
        missed.update(uids)
        found[served.uid] += sum(uid not in known for uid in uids)
    return found, frozenset(missed)


def _served_by(group: PodGroup, candidates: Sequence[Chunks]) -> Chunks | None:
    """The Buffer that a pod was to be served by: one of its own namespace if there is one."""
    able = [each for each in candidates if _covers(each.demand, group.demand)]
    own = (each for each in able if each.key[0] == group.pods[0].key[0])
    return next(own, able[0] if able else None)


def _place(demand: Demand) -> Hashable:
    return demand.selector, demand.terms, demand.tolerations


def _covers(chunk: Demand, pod: Demand) -> bool:
    offered = chunk.requests
    return all(amount <= offered.get(name, 0) for name, amount in pod.amounts)
