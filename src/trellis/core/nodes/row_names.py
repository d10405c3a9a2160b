"""What are nodes called that are not there yet? By their group and a number, and so the same from look to look.

Nodes of a group are alike as long as they are empty. What was meant for a number is therefore meant for any of them:
for one that is still on its way, or for one that has its Node by now, or has come up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.core.fit.resources import PODS
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.nodes.standing import Standing
from trellis.core.usage.columns import IntColumn


class RowNames:
    """Names of rows, none of which any node has: a colon is not allowed in those."""

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups
        self._next = [0] * len(groups)
        self._after_awaited = list(self._next)
        self._aliases: dict[str, int] = {}

    def next(self, group: int) -> str:
        """A name for another row of a group."""
        self._next[group] += 1
        return self._name(group, self._next[group] - 1)

    def alias(self, group: int, number: int) -> None:
        """Let a node that is there be found by the next name as well."""
        self._aliases[self.next(group)] = number

    def all_awaited(self) -> None:
        """Note that what is named from now on is to be ordered."""
        self._after_awaited = list(self._next)

    def find(self, name: str) -> int:
        """The number of the node that has a name as its second; -1 if none has."""
        return self._aliases.get(name, -1)

    def in_next_look(self, numbers: IntColumn, groups: IntColumn) -> dict[int, str]:
        """What rows to be ordered will be called: numbered on, without the gaps of those that were closed."""
        serials = list(self._after_awaited)
        called: dict[int, str] = {}
        for number, group in zip(numbers.tolist(), groups.tolist(), strict=True):
            called[number] = self._name(group, serials[group])
            serials[group] += 1
        return called

    def _name(self, group: int, serial: int) -> str:
        return f"{self._groups[group]}:{serial}"


def empty_nodes(snapshot: Snapshot, stands: Standing) -> dict[str, list[int]]:
    """The nodes of each group that are ready and have no pod but those that belong to them."""
    taken = snapshot.fixed.used.free(PODS) - snapshot.running.used.free(PODS)
    empty = stands.ready & (taken <= 0)
    found: dict[str, list[int]] = {}
    for number, name in zip(np.flatnonzero(empty).tolist(), snapshot.table.names(empty), strict=True):
        known = snapshot.ties.instances.get(name)
        if known is not None:
            found.setdefault(known[0], []).append(number)
    return found
