"""Faults of a simulation: what fails, when, and for which workloads or nodes.

| kind             | about              | meaning                                                                      |
|------------------|--------------------|------------------------------------------------------------------------------|
| node-down        | nodes              | A node is off: nothing runs there, and after five minutes its pods are lost. |
| refuse-resizes   | workloads or nodes | Kubelets say of every resize that the node can never do it.                  |
| refuse-downsizes | workloads or nodes | The same of every resize that lowers something.                              |
| defer-resizes    | workloads or nodes | Kubelets put off every resize until this is over.                            |
| slow-starts      | workloads          | Pods take ten times as long to start.                                        |
| metrics-gap      | workloads          | Usage is not measured.                                                       |
| recommender-down | -                  | The recommender does not run, and starts anew afterwards.                    |
| updater-down     | -                  | The updater does not run, and starts anew afterwards.                        |
| admission-down   | -                  | The webhook does not answer: new pods stay as their template has them.       |
| vpa-deleted      | workloads          | The workload's VPA is deleted, and created anew afterwards.                  |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from trellis.sim.fleet import Fault

NODE_DOWN: Final = "node-down"
REFUSE_RESIZES: Final = "refuse-resizes"
REFUSE_DOWNSIZES: Final = "refuse-downsizes"
DEFER_RESIZES: Final = "defer-resizes"
SLOW_STARTS: Final = "slow-starts"
METRICS_GAP: Final = "metrics-gap"
RECOMMENDER_DOWN: Final = "recommender-down"
UPDATER_DOWN: Final = "updater-down"
ADMISSION_DOWN: Final = "admission-down"
VPA_DELETED: Final = "vpa-deleted"


class Faults:
    """All faults of a fleet, by kind."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._by_kind: defaultdict[str, list[Fault]] = defaultdict(list)
        for fault in faults:
            self._by_kind[fault.kind].append(fault)

    def list_faults(self, kind: str) -> tuple[Fault, ...]:
        """The faults of a kind, in the order in which they were written."""
        return tuple(self._by_kind.get(kind, ()))

    def is_active(self, kind: str, now: float, *names: str) -> bool:
        """Whether such a fault is active and affects one of these names; without names any fault of the kind counts."""
        return any(
            fault.begin <= now < fault.end and (not names or is_affected(fault, *names))
            for fault in self._by_kind.get(kind, ())
        )


def is_affected(fault: Fault, *names: str) -> bool:
    """Whether a fault affects one of these names, by shell patterns such as `web-*`."""
    return any(fnmatchcase(name, fault.about) for name in names)
