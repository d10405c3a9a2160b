"""What happened to a workload, and why? Marks for its chart: what the cluster tells, and why it was decided."""

from __future__ import annotations

from typing import Final

from trellis.sim.results import Mark

# More than these nobody would see apart in a chart.
MOST_MARKS: Final = 200


class Marking:
    """The marks of all workloads, and the reasons by pod for what is still to happen to it."""

    def __init__(self, workloads: int) -> None:
        self._marks: list[list[Mark]] = [[] for _ in range(workloads)]
        self._left_out = [0] * workloads
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
        if len(marks) >= MOST_MARKS:
            self._left_out[workload] += 1
            return
        why, said = self._because.get(uid, ("", ""))
        marks.append(Mark(time, what, why, text or said))

    def of_workload(self, workload: int) -> tuple[list[Mark], int]:
        """The marks, and how many more there were."""
        return self._marks[workload], self._left_out[workload]
