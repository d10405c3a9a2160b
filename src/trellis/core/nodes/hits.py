"""Which pods have come to where chunks of a Buffer were? Each counts once, for one Buffer.

A pod that waits may be seen before the scheduler has placed it. The chunk then makes way at once, and what it has left
is remembered for as long as the pod is expected there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


class Hits:
    """Counts for one plan, one Buffer after the other.

    `arrived` says how many pods have come to each node since the last plan, `expected` where pods that wait would be.
    """

    def __init__(self, arrived: dict[str, int], expected: Iterable[str]) -> None:
        self._arrived = Counter(arrived)
        self._expected = Counter(expected)

    def take(self, before: Iterable[str], after: Sequence[str]) -> tuple[int, tuple[str, ...]]:
        """On how many places of chunks pods have come, and the nodes of those that chunks have left for pods to come.

        `before` has the nodes of chunks at the last plan, and those that they had left then; `after` those of now.
        """
        hits = 0
        left_for: list[str] = []
        stayed = Counter(after)
        for node, count in Counter(name for name in before if name).items():
            left = max(count - stayed[node], 0)
            taken = min(left, self._arrived[node])
            awaited = min(left - taken, self._expected[node])
            self._arrived[node] -= taken
            self._expected[node] -= awaited
            hits += taken
            left_for += [node] * awaited
        return hits, tuple(left_for)
