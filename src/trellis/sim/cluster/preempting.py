"""Who makes way for a pod that fits nowhere?

Pods of lower priority, on the node where the least important have to go, and the fewest of those. They end as pods do,
and until they have, the room is promised to whom they made way for: nobody of lower priority gets it. Disruption
budgets are not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from trellis.core.fit import Demand, fits
from trellis.core.fit.predicates import eligible
from trellis.sim.cluster.living import Living
from trellis.sim.cluster.making import Making
from trellis.sim.cluster.pods import nominated
from trellis.sim.cluster.state import State
from trellis.sim.cluster.watching import What


class Preempting:
    """Has pods go for others. `count` is how many have."""

    def __init__(self, state: State, making: Making) -> None:
        self._state = state
        self._making = making
        self._promises: dict[tuple[str, str], tuple[Living, int, Demand]] = {}
        self._lowest = min((template.spec.priority or 0 for template in state.templates), default=0)
        self.count = 0

    @contextmanager
    def promised(self, living: Living) -> Iterator[None]:
        """As if everybody to whom room is promised before this pod had it."""
        before = [
            (node, demand)
            for other, node, demand in self._kept()
            if other is not living and other.priority >= living.priority
        ]
        with self._trying(added=before):
            yield

    def make_way(self, living: Living, demand: Demand) -> None:
        """Have others go, if that helps the pod and it has not been promised a node already."""
        if any(other is living for other, _, _ in self._kept()):
            return
        self._promises.pop(living.key, None)
        if living.priority <= self._lowest:
            return
        options = (self._option(living, demand, number) for number in self._possible(living, demand))
        best = min((each for each in options if each is not None), key=lambda each: each[0], default=None)
        if best is None:
            self._state.put(living, nominated(living.pod, ""))
            return
        _, number, victims = best
        self._promises[living.key] = (living, number, demand)
        self._state.put(living, nominated(living.pod, self._state.nodes.objects[number].metadata.name))
        for each in victims:
            self.count += 1
            self._state.happened(each, What.PREEMPTED)
            self._making.delete(each)

    def _kept(self) -> list[tuple[Living, int, Demand]]:
        """The promises that still hold: the pod waits, and on its node somebody is going."""
        state = self._state
        self._promises = {
            key: each
            for key, each in self._promises.items()
            if state.pods.get(key) is each[0]
            and each[0].node < 0
            and not each[0].going
            and any(other.going for other in state.nodes.pods.get(each[1], {}).values())
        }
        return list(self._promises.values())

    def _possible(self, living: Living, demand: Demand) -> Iterator[int]:
        """The nodes on which somebody could make way."""
        nodes = self._state.nodes
        allowed = eligible(nodes.table, demand)
        for number, pods in nodes.pods.items():
            if allowed[number] and any(each.going or each.priority < living.priority for each in pods.values()):
                yield number

    def _option(
        self, living: Living, demand: Demand, number: int
    ) -> tuple[tuple[int, int, int], int, list[Living]] | None:
        """Who would have to go from a node, and how bad that is; None if it does not help."""
        here = list(self._state.nodes.pods[number].values())
        going = [each for each in here if each.going]
        lower = [each for each in here if not each.going and each.priority < living.priority]
        promised = [
            (node, theirs)
            for other, node, theirs in self._kept()
            if node == number and other.priority >= living.priority
        ]
        with self._trying(added=promised, removed=going):
            with self._trying(removed=lower):
                if not self._fits(demand, number):
                    return None
            victims = list(lower)
            # Whoever can stay does: the most important first, then who has been there longest.
            for each in sorted(lower, key=lambda each: (-each.priority, each.placed_at, each.key)):
                rest = [other for other in victims if other is not each]
                with self._trying(removed=rest):
                    if self._fits(demand, number):
                        victims = rest
        worst = max((each.priority for each in victims), default=self._lowest - 1)
        return (worst, len(victims), number), number, victims

    def _fits(self, demand: Demand, number: int) -> bool:
        nodes = self._state.nodes
        return bool(fits(nodes.table, demand, nodes.occupancy, nodes.near)[number])

    @contextmanager
    def _trying(self, added: Iterable[tuple[int, Demand]] = (), removed: Iterable[Living] = ()) -> Iterator[None]:
        """Some pods there and others gone, for a moment."""
        more, fewer = list(added), list(removed)
        self._move(more, fewer, 1)
        try:
            yield
        finally:
            self._move(more, fewer, -1)

    def _move(self, added: list[tuple[int, Demand]], removed: list[Living], times: int) -> None:
        used, near = self._state.nodes.occupancy, self._state.nodes.near
        for number, demand in added:
            used.add(number, demand, times)
            if near is not None:
                near.add(number, demand.resident, times)
        for each in removed:
            if each.held is not None:
                used.add(each.node, each.held, -times)
            if near is not None and each.resident is not None:
                near.add(each.node, each.resident, -times)
