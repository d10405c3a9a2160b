"""What happened to a workload, and why? Marks for its chart: what the cluster tells, and why it was decided."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from trellis.sim.results import Mark

# More than these nobody would see apart in a chart.
MOST_MARKS: Final = 200
# A workload that is changed or killed without end must not take all memory.
_MOST_NOTED: Final = 20_000


class Marking:
    """The marks of all workloads, and the reasons by pod for what is still to happen to it."""

    def __init__(self, workloads: int) -> None:
        self._marks: list[list[Mark]] = [[] for _ in range(workloads)]
        self._unnoted = [0] * workloads
        self._because: dict[str, tuple[str, str]] = {}

    def because(self, uid: str, why: str, text: str) -> None:
        """What happens to a pod from now on happens for this reason."""
        self._because[uid] = (why, text)

    def gone(self, uid: str) -> None:
        """A pod is no more."""
        self._because.pop(uid, None)

    def mark(self, workload: int, time: float, what: str, uid: str = "", text: str = "") -> None:
        """Something happened; with a pod's uid for the reason that was given last."""
        marks = self._marks[workload]
        if len(marks) >= _MOST_NOTED:
            self._unnoted[workload] += 1
            return
        why, said = self._because.get(uid, ("", ""))
        marks.append(Mark(time, what, why, text or said))

    def of_workload(self, workload: int) -> tuple[list[Mark], int]:
        """As many marks as fit, and how many more there were."""
        marks = self._marks[workload]
        kept = _thinned(marks) if len(marks) > MOST_MARKS else marks
        return kept, len(marks) - len(kept) + self._unnoted[workload]


def _thinned(marks: list[Mark]) -> list[Mark]:
    """What is rare is kept; of what is frequent some are, spread over all the time."""
    kinds: defaultdict[str, list[int]] = defaultdict(list)
    for position, mark in enumerate(marks):
        kinds[mark.what].append(position)
    kept: list[int] = []
    rarest_first = sorted(kinds.values(), key=len)
    for number, positions in enumerate(rarest_first):
        room = (MOST_MARKS - len(kept)) // (len(rarest_first) - number)
        count = min(len(positions), room)
        kept += [positions[each * len(positions) // count] for each in range(count)]
    return [marks[position] for position in sorted(kept)]
