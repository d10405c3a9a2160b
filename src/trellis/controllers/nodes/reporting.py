"""What was done, and what came to nothing? A line of the log for each, a count, and an Event on pods that are moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trellis.api.kube.meta import ObjectReference
from trellis.base.reason import Reason
from trellis.controllers.nodes import metrics as named
from trellis.core.buffers.said import Said
from trellis.core.nodes.verdicts import Order
from trellis.kube.outcomes import Outcome
from trellis.providers.protocol import GroupProblem
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.posting import Record

# As Cluster Autoscaler calls it.
SCALE_DOWN = Reason("ScaleDown", "The pod was evicted so that its node can go.")

_log: Final = Logger("trellis.nodes")


class Reporting:
    """Logs and counts."""

    def __init__(self, metrics: Metrics, record: Record) -> None:
        self._metrics = metrics
        self._record = record
        self._problems: frozenset[tuple[str, str]] = frozenset()
        self._notes: frozenset[tuple[str, str]] = frozenset()
        self._lost: frozenset[tuple[str, float]] = frozenset()

    def ordered(self, order: Order, why: str | None, lacking: int) -> None:
        """An order was given; `why` it came to nothing, if so, and how much of it was not written."""
        fields: dict[str, Any] = {
            "group": order.group,
            "count": order.count,
            "target": order.target,
            "reason": order.why.reason,
        }
        if why is not None:
            self._metrics.add(named.ORDERS_FAILED, 1, order.group)
            _log.warning("an order failed", **fields, why=why)
        elif lacking:
            _log.info("an order was not written in full", **fields, lacking=lacking)
        else:
            self._metrics.add(named.ORDERED, order.count, order.group, order.why.reason.code)
            _log.info("ordered", **fields)

    def orders_lost(self, lost: Mapping[str, float]) -> None:
        """Orders were confirmed and came to nothing, of each group since when; each counts once."""
        found = frozenset(lost.items())
        for group, _ in found - self._lost:
            self._metrics.add(named.ORDERS_FAILED, 1, group)
        self._lost = found

    def given_back(self, group: str, instance: str, said: Said, why: str | None) -> None:
        """An instance was given back; `why` it was not taken, if so."""
        if why is not None:
            _log.warning("not given back", group=group, instance=instance, why=why)
            return
        self._metrics.add(named.RELEASED, 1, group, said.reason.code)
        _log.info("given back", group=group, instance=instance, reason=said.reason, why=said)

    def evicted(self, outcome: Outcome) -> None:
        """An eviction was tried; a budget that forbids it for the moment is no news."""
        if outcome.applied:
            self._metrics.add(named.EVICTED, 1)
            pod = outcome.action.target
            self._record(ObjectReference("Pod", pod.namespace, pod.name, pod.uid, "v1"), SCALE_DOWN, "")
            _log.info("evicted", pod=f"{pod.namespace}/{pod.name}")

    def group_problems(self, problems: tuple[GroupProblem, ...]) -> None:
        """What is wrong with groups: said when it begins."""
        found = frozenset((each.group, str(each.said)) for each in problems)
        for group, why in sorted(found - self._problems):
            _log.warning("a group cannot be used", group=group, why=why)
        self._problems = found

    def group_notes(self, notes: Mapping[str, Said]) -> None:
        """What else is to be said of groups, each when it begins."""
        found = frozenset((group, str(said)) for group, said in notes.items())
        for group, why in sorted(found - self._notes):
            _log.warning("a group is not as it should be", group=group, why=why)
        self._notes = found
