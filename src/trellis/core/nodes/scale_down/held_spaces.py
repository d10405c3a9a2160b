"""Space that nodes hold for replacements of pods: which pod each is for, and where it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from trellis.core.fit import Demand


class HeldSpace(msgspec.Struct, eq=False):
    """Space for the replacement of one pod: `home` is the node of the pod, `number` the node that holds the space.

    `for_growth` says that the pod has to leave its node for recommended growth, and not for a pending resize.
    """

    home: int
    number: int
    demand: Demand
    for_growth: bool


class HeldSpaces:
    """All space that is held, by the numbers of both nodes."""

    def __init__(self) -> None:
        self._by_home: defaultdict[int, list[HeldSpace]] = defaultdict(list)
        self._by_number: defaultdict[int, list[HeldSpace]] = defaultdict(list)

    def add(self, space: HeldSpace) -> None:
        self._by_home[space.home].append(space)
        self._by_number[space.number].append(space)

    def move(self, space: HeldSpace, number: int) -> None:
        """Let another node hold the space."""
        self._by_number[space.number].remove(space)
        space.number = number
        self._by_number[number].append(space)

    def remove(self, space: HeldSpace) -> None:
        """Hold the space no longer, because the pod itself has moved."""
        self._by_home[space.home].remove(space)
        self._by_number[space.number].remove(space)

    def list_of_pods_on(self, number: int, *, with_growth: bool) -> list[HeldSpace]:
        """The space for pods on a node."""
        return [space for space in self._by_home.get(number, ()) if with_growth or not space.for_growth]

    def group_on(self, number: int, *, with_growth: bool) -> Iterator[tuple[Demand, bool, list[HeldSpace]]]:
        """The space that a node holds for pods of other nodes, by demand and purpose."""
        groups: defaultdict[tuple[Demand, bool], list[HeldSpace]] = defaultdict(list)
        for space in self._by_number.get(number, ()):
            if space.home != number and (with_growth or not space.for_growth):
                groups[space.demand, space.for_growth].append(space)
        for (demand, for_growth), spaces in groups.items():
            yield demand, for_growth, spaces
