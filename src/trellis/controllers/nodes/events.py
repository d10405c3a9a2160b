"""Records Events on pending pods, Buffers and nodes; logs and counts what was done and what failed.

An Event is recorded when its cause begins. Pods get the Events that Cluster Autoscaler records. Of thousands of pending
pods, so many get theirs in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trellis.api.kube.meta import ObjectReference
from trellis.api.registry import BUFFER
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.controllers.nodes import metrics as named
from trellis.controllers.nodes.informers import NodeInformers
from trellis.core.cluster.store import ObjectKey
from trellis.core.nodes.buffers.status import describe_provisioned_chunks
from trellis.core.nodes.scale_down.decisions import NODE_SETTLING, NodeDecision, NodeOutcome
from trellis.core.nodes.scale_up.decisions import (
    BUFFER_NEEDS_NOTHING,
    BUFFER_PROVISIONED,
    BufferDecision,
    NodeOrder,
    PendingPodsDecision,
)
from trellis.kube.write.outcomes import WriteOutcome
from trellis.providers.protocol import GroupProblem
from trellis.runtime.telemetry.event_queue import EventSink
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

# As Cluster Autoscaler calls it.
SCALE_DOWN = Reason("ScaleDown", "The pod was evicted so that its node can go.")

_log: Final = Logger("trellis.nodes")


class ActionReporter:
    """Logs and counts."""

    def __init__(self, metrics: Metrics, record: EventSink) -> None:
        self._metrics = metrics
        self._record = record
        self._problems: frozenset[tuple[str, str]] = frozenset()
        self._notes: frozenset[tuple[str, str]] = frozenset()
        self._lost: frozenset[tuple[str, float]] = frozenset()

    def ordered(self, order: NodeOrder, why: str | None, lacking: int) -> None:
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

    def given_back(self, group: str, instance: str, said: DetailedReason, why: str | None) -> None:
        """An instance was given back; `why` it was not taken, if so."""
        if why is not None:
            _log.warning("not given back", group=group, instance=instance, why=why)
            return
        self._metrics.add(named.RELEASED, 1, group, said.reason.code)
        _log.info("given back", group=group, instance=instance, reason=said.reason, why=said)

    def evicted(self, outcome: WriteOutcome) -> None:
        """An eviction was tried; a budget that forbids it for the moment is no news."""
        if outcome.applied:
            self._metrics.add(named.EVICTED, 1)
            pod = outcome.action.target
            self._record(ObjectReference("Pod", pod.namespace, pod.name, pod.uid, "v1"), SCALE_DOWN, "")
            _log.info("evicted", pod=f"{pod.namespace}/{pod.name}")

    def group_problems(self, problems: tuple[GroupProblem, ...]) -> None:
        """What is wrong with groups: said when it begins."""
        found = frozenset((problem.group, str(problem.said)) for problem in problems)
        for group, why in sorted(found - self._problems):
            _log.warning("a group cannot be used", group=group, why=why)
        self._problems = found

    def group_notes(self, notes: Mapping[str, DetailedReason]) -> None:
        """What else is to be said of groups, each when it begins."""
        found = frozenset((group, str(said)) for group, said in notes.items())
        for group, why in sorted(found - self._notes):
            _log.warning("a group is not as it should be", group=group, why=why)
        self._notes = found


TRIGGERED_SCALE_UP = Reason("TriggeredScaleUp", "Nodes have been ordered for the pod.")
NOT_TRIGGER_SCALE_UP = Reason("NotTriggerScaleUp", "No node can be ordered for the pod.", Severity.WARNING)

# Most pods that are told something in one pass; an API server has other things to do.
_MOST_PODS: Final = 100
_PROVISIONED_REASONS: Final = (BUFFER_PROVISIONED, BUFFER_NEEDS_NOTHING)


class BufferEvents:
    """Records events on Buffers whose provisioning has changed."""

    def __init__(self, record: EventSink) -> None:
        self._record = record
        # The code that was last said, by the UID of a Buffer.
        self._said: dict[str, str] = {}

    def begin_anew(self) -> None:
        """Forget what was said: another process has said something in the meantime."""
        self._said = {}

    def buffers(self, verdicts: Iterable[BufferDecision]) -> None:
        """Buffers whose room is there now, or no longer, or is on its way."""
        said: dict[str, str] = {}
        for decision in verdicts:
            said[decision.uid] = code = decision.said.reason.code
            before = self._said.get(decision.uid)
            if before != code and (before is not None or decision.said.reason not in _PROVISIONED_REASONS):
                about = ObjectReference(BUFFER.name, *decision.key, decision.uid, BUFFER.api_version)
                self._record(about, decision.said.reason, _chunk_message(decision))
        self._said = said


class NodeEvents:
    """Tells what is new."""

    def __init__(self, record: EventSink, watching: NodeInformers) -> None:
        self._record = record
        self._watching = watching
        self._about_buffers = BufferEvents(record)
        # What was last said: to pods by UID, about nodes, with their UID, by name.
        self._pods: dict[str, str] = {}
        self._nodes: dict[str, tuple[str, str]] = {}
        self._unread: dict[str, str] = {}

    def begin_anew(self) -> None:
        """Forget the last Events: another process has led in the meantime."""
        self._pods, self._nodes, self._unread = {}, {}, {}
        self._about_buffers.begin_anew()

    def pods(self, verdicts: Iterable[PendingPodsDecision], failed: frozenset[str] = frozenset()) -> None:
        """Pods for which nodes are ordered, and those for which none can be. Of `failed` groups nothing came."""
        said: dict[str, str] = {}
        told = 0
        for key, reason, message in _pod_messages(verdicts, failed):
            pod = self._watching.pods.get(*key)
            uid = pod.metadata.uid if pod is not None else ""
            code = reason.code if reason is not None else self._pods.get(uid, "")
            if not uid or not code:
                continue
            if reason is not None and self._pods.get(uid) != code:
                if told >= _MOST_PODS:
                    continue
                told += 1
                self._record(ObjectReference("Pod", key[0], key[1], uid, "v1"), reason, message)
            said[uid] = code
        self._pods = said

    def buffers(self, verdicts: Iterable[BufferDecision]) -> None:
        """Buffers whose room is there now, or no longer, or is on its way."""
        self._about_buffers.buffers(verdicts)

    def unreadable(self, problems: Mapping[tuple[str, ObjectKey], DetailedReason]) -> None:
        """Pods and DaemonSets that cannot be read; what a Buffer cannot be read for is its verdict."""
        said: dict[str, str] = {}
        for (kind, key), why in problems.items():
            found = self._watching.find(kind, key) if kind != BUFFER.name else None
            if found is None:
                continue
            uid = found.metadata.uid
            said[uid] = why.reason.code
            if self._unread.get(uid) != why.reason.code:
                version = "v1" if kind == "Pod" else "apps/v1"
                self._record(ObjectReference(kind, *key, uid, version), why.reason, str(why))
        self._unread = said

    def nodes(self, verdicts: Iterable[NodeDecision]) -> None:
        """Nodes that go, step by step, and those that are kept after all."""
        said: dict[str, tuple[str, str]] = {}
        for decision in verdicts:
            reason, (before, uid) = decision.said.reason, self._nodes.get(decision.node, ("", ""))
            goes = decision.outcome is NodeOutcome.LEAVING
            if not goes and not before:
                continue
            node = self._watching.nodes.get("", decision.node)
            # One that has just been given back is gone by now.
            uid = node.metadata.uid if node is not None else uid
            if before != reason.code and reason is not NODE_SETTLING:
                self._record(ObjectReference("Node", "", decision.node, uid, "v1"), reason, str(decision.said))
            if goes:
                said[decision.node] = (reason.code, uid)
        self._nodes = said


def _pod_messages(
    verdicts: Iterable[PendingPodsDecision], failed: frozenset[str]
) -> Iterator[tuple[ObjectKey, Reason | None, str]]:
    """What each pod is told, if anything.

    Of pods alike those come first that have room, then those for which nodes are ordered, then the others. After an
    order that failed, the next pass knows whether there is another way.
    """
    for decision in verdicts:
        first = len(decision.pods) - decision.unplaced
        ordered = first - sum(decision.ordered.values())
        groups = ", ".join(sorted(decision.ordered.keys() - failed))
        why = "; ".join((str(decision.said), *map(str, decision.refused)))
        for place, key in enumerate(decision.pods):
            if place >= first:
                yield key, NOT_TRIGGER_SCALE_UP, why
            elif place >= ordered and groups:
                yield key, TRIGGERED_SCALE_UP, f"nodes of {groups} have been ordered"
            else:
                yield key, None, ""


def _chunk_message(verdict: BufferDecision) -> str:
    refused = "".join(f"; {refusal}" for refusal in verdict.refused)
    return f"{describe_provisioned_chunks(verdict)}: {verdict.said}{refused}"
