"""Records Events on pending pods, Buffers and nodes; logs and counts orders, releases, evictions and failures.

An Event is recorded when its cause begins. Pods get the Events that Cluster Autoscaler records. Of thousands of pending
pods, a limited number get theirs in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trellis.api.kube.meta import ObjectReference
from trellis.api.registry import BUFFER
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.controllers.buffer_provisioning.buffer_reports import BufferEvents
from trellis.controllers.nodes import metrics as named
from trellis.controllers.nodes.informers import NodeInformers
from trellis.core.cluster.store import ObjectKey
from trellis.core.nodes.scale_down.decisions import NODE_DELETE_DELAY_AFTER_TAINT, NodeDecision, NodeOutcome
from trellis.core.nodes.scale_up.decisions import (
    BufferDecision,
    NodeOrder,
    PendingPodsDecision,
)
from trellis.core.nodes.state.replacements import RESIZE_AWAITS_NODE, RESIZE_WITHOUT_EVICTION
from trellis.kube.write.outcomes import WriteOutcome
from trellis.providers.protocol import GroupProblem
from trellis.runtime.telemetry.event_queue import EventSink
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

# As Cluster Autoscaler calls it.
SCALE_DOWN = Reason("ScaleDown", "The pod was evicted so that its node can be removed.")

_log: Final = Logger("trellis.nodes")


class ActionReporter:
    """Logs and counts orders, releases, evictions and problems of node groups."""

    def __init__(self, metrics: Metrics, record: EventSink) -> None:
        self._metrics = metrics
        self._record = record
        self._problems: frozenset[tuple[str, str]] = frozenset()
        self._notes: frozenset[tuple[str, str]] = frozenset()
        self._lost: frozenset[tuple[str, float]] = frozenset()

    def report_order(self, order: NodeOrder, failure: str | None, lacking: int) -> None:
        """Report an order: the failure, if it failed, and how many of its writes were not applied."""
        fields: dict[str, Any] = {
            "group": order.group,
            "count": order.count,
            "target": order.target,
            "reason": order.reason.reason,
        }
        if failure is not None:
            self._metrics.add(named.ORDERS_FAILED, 1, order.group)
            _log.warning("ordering nodes failed", **fields, why=failure)
        elif lacking:
            _log.info("an order was only partly written", **fields, lacking=lacking)
        else:
            self._metrics.add(named.ORDERED, order.count, order.group, order.reason.reason.code)
            _log.info("ordered", **fields)

    def report_lost_orders(self, lost: Mapping[str, float]) -> None:
        """Report confirmed orders whose nodes never came, by group with the time since when; each counts once."""
        current = frozenset(lost.items())
        for group, _ in current - self._lost:
            self._metrics.add(named.ORDERS_FAILED, 1, group)
        self._lost = current

    def report_release(self, group: str, instance: str, cause: DetailedReason, failure: str | None) -> None:
        """Report the release of an instance: the failure, if it failed."""
        if failure is not None:
            _log.warning("removing a node failed", group=group, instance=instance, why=failure)
            return
        self._metrics.add(named.RELEASED, 1, group, cause.reason.code)
        _log.info("removed a node", group=group, instance=instance, reason=cause.reason, why=cause)

    def report_eviction(self, outcome: WriteOutcome) -> None:
        """Report an eviction that was applied; one that a disruption budget forbids is tried again."""
        if outcome.applied:
            self._metrics.add(named.EVICTED, 1)
            pod = outcome.action.target
            self._record(ObjectReference("Pod", pod.namespace, pod.name, pod.uid, "v1"), SCALE_DOWN, "")
            _log.info("evicted", pod=f"{pod.namespace}/{pod.name}")

    def report_group_problems(self, problems: tuple[GroupProblem, ...]) -> None:
        """Report problems of node groups, each when it begins."""
        current = frozenset((problem.group, str(problem.reason)) for problem in problems)
        for group, message in sorted(current - self._problems):
            _log.warning("a node group is invalid", group=group, why=message)
        self._problems = current

    def report_group_notes(self, notes: Mapping[str, DetailedReason]) -> None:
        """Report notes about node groups, each when it begins."""
        current = frozenset((group, str(note)) for group, note in notes.items())
        for group, note in sorted(current - self._notes):
            _log.warning("a node group differs from its template", group=group, why=note)
        self._notes = current


TRIGGERED_SCALE_UP = Reason("TriggeredScaleUp", "Nodes were ordered for the pod.")
NOT_TRIGGER_SCALE_UP = Reason("NotTriggerScaleUp", "No node group can provide a node for the pod.", Severity.WARNING)

# The most pods with a new Event in one pass, for the sake of the API server.
_MOST_PODS: Final = 100


class NodeEvents:
    """Records Events on pods, Buffers, DaemonSets and nodes whose reason is new."""

    def __init__(self, record: EventSink, informers: NodeInformers) -> None:
        self._record = record
        self._informers = informers
        self._buffer_events = BufferEvents(record)
        # The codes of the last reasons: of pods by UID, of nodes, with their UID, by name.
        self._pods: dict[str, str] = {}
        self._nodes: dict[str, tuple[str, str]] = {}
        self._unread: dict[str, str] = {}

    def reset(self) -> None:
        """Forget the last Events: another process has led in the meantime."""
        self._pods, self._nodes, self._unread = {}, {}, {}
        self._buffer_events.reset()

    def record_pods(self, decisions: Iterable[PendingPodsDecision], failed: frozenset[str] = frozenset()) -> None:
        """Record pods for which nodes are ordered, or for which none can be. Orders of `failed` groups failed."""
        recorded: dict[str, str] = {}
        new_events = 0
        for key, reason, message in _list_pod_messages(decisions, failed):
            pod = self._informers.pods.get(*key)
            uid = pod.metadata.uid if pod is not None else ""
            code = reason.code if reason is not None else self._pods.get(uid, "")
            if not uid or not code:
                continue
            if reason is not None and self._pods.get(uid) != code:
                if new_events >= _MOST_PODS:
                    continue
                new_events += 1
                self._record(ObjectReference("Pod", key[0], key[1], uid, "v1"), reason, message)
            recorded[uid] = code
        self._pods = recorded

    def record_buffers(self, decisions: Iterable[BufferDecision]) -> None:
        """Record Buffers that are provisioned now, or no longer, or whose nodes are upcoming."""
        self._buffer_events.record_buffers(decisions)

    def record_unreadable(self, problems: Mapping[tuple[str, ObjectKey], DetailedReason]) -> None:
        """Record pods and DaemonSets that cannot be read; for a Buffer, `record_buffers` records it."""
        recorded: dict[str, str] = {}
        for (kind, key), problem in problems.items():
            record_unreadable = self._informers.find(kind, key) if kind != BUFFER.name else None
            if record_unreadable is None:
                continue
            uid = record_unreadable.metadata.uid
            recorded[uid] = problem.reason.code
            if self._unread.get(uid) != problem.reason.code:
                version = "v1" if kind == "Pod" else "apps/v1"
                self._record(ObjectReference(kind, *key, uid, version), problem.reason, str(problem))
        self._unread = recorded

    def record_nodes(self, decisions: Iterable[NodeDecision]) -> None:
        """Record nodes that are being removed, step by step, and those whose removal is given up."""
        recorded: dict[str, tuple[str, str]] = {}
        for decision in decisions:
            reason, (before, uid) = decision.reason.reason, self._nodes.get(decision.node, ("", ""))
            is_leaving = decision.outcome is NodeOutcome.LEAVING
            if not is_leaving and not before:
                continue
            node = self._informers.nodes.get("", decision.node)
            # A node that has just been released is not in the cache any more.
            uid = node.metadata.uid if node is not None else uid
            if before != reason.code and reason is not NODE_DELETE_DELAY_AFTER_TAINT:
                self._record(ObjectReference("Node", "", decision.node, uid, "v1"), reason, str(decision.reason))
            if is_leaving:
                recorded[decision.node] = (reason.code, uid)
        self._nodes = recorded


def _list_pod_messages(
    decisions: Iterable[PendingPodsDecision], failed: frozenset[str]
) -> Iterator[tuple[ObjectKey, Reason | None, str]]:
    """The reason and the message for each pod, if any.

    Of equal pods, those that fit on nodes come first, then those for which nodes are ordered, then the others. After a
    failed order, the next pass decides whether another group can be used.
    """
    for decision in decisions:
        first = len(decision.pods) - decision.unplaced
        ordered = first - sum(decision.ordered.values())
        groups = ", ".join(sorted(decision.ordered.keys() - failed))
        refusal = "; ".join((str(decision.reason), *map(str, decision.refused)))
        for place, key in enumerate(decision.pods):
            if place >= first:
                yield key, NOT_TRIGGER_SCALE_UP, refusal
            elif place >= ordered and groups:
                message = f"nodes of {groups} were ordered"
                if decision.reason.reason is RESIZE_AWAITS_NODE:
                    yield key, RESIZE_AWAITS_NODE, f"{message} for its replacement"
                else:
                    yield key, TRIGGERED_SCALE_UP, message
            elif decision.reason.reason is RESIZE_WITHOUT_EVICTION:
                yield key, RESIZE_WITHOUT_EVICTION, str(decision.reason)
            else:
                yield key, None, ""
