"""Who is told what? Events on pods that wait, on Buffers and on nodes that go, each when it begins.

Pods are told as Cluster Autoscaler tells them, so that whoever knows its Events knows ours. Thousands of pods that wait
are told little by little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from trellis.api.kinds import BUFFER
from trellis.api.kube.meta import ObjectReference
from trellis.base.reason import Reason, Severity
from trellis.controllers.nodes.watching import Watching
from trellis.core.buffers.said import Said
from trellis.core.model.keys import Key
from trellis.core.nodes.buffer_status import with_room
from trellis.core.nodes.down_verdicts import NODE_SETTLING, NodeVerdict, Outcome
from trellis.core.nodes.verdicts import BUFFER_NEEDS_NOTHING, BUFFER_PROVISIONED, BufferVerdict, PodsVerdict
from trellis.runtime.posting import Record

TRIGGERED_SCALE_UP = Reason("TriggeredScaleUp", "Nodes have been ordered for the pod.")
NOT_TRIGGER_SCALE_UP = Reason("NotTriggerScaleUp", "No node can be ordered for the pod.", Severity.WARNING)

# Most pods that are told something in one pass; an API server has other things to do.
_MOST_PODS: Final = 100
_WELL: Final = (BUFFER_PROVISIONED, BUFFER_NEEDS_NOTHING)


class BufferTelling:
    """Records events on Buffers whose provisioning has changed."""

    def __init__(self, record: Record) -> None:
        self._record = record
        # The code that was last said, by the UID of a Buffer.
        self._said: dict[str, str] = {}

    def begin_anew(self) -> None:
        """Forget what was said: another process has said something in the meantime."""
        self._said = {}

    def buffers(self, verdicts: Iterable[BufferVerdict]) -> None:
        """Buffers whose room is there now, or no longer, or is on its way."""
        said: dict[str, str] = {}
        for each in verdicts:
            said[each.uid] = code = each.said.reason.code
            before = self._said.get(each.uid)
            if before != code and (before is not None or each.said.reason not in _WELL):
                about = ObjectReference(BUFFER.name, *each.key, each.uid, BUFFER.api_version)
                self._record(about, each.said.reason, _about_chunks(each))
        self._said = said


class Telling:
    """Tells what is new."""

    def __init__(self, record: Record, watching: Watching) -> None:
        self._record = record
        self._watching = watching
        self._about_buffers = BufferTelling(record)
        # What was last said: to pods by UID, about nodes, with their UID, by name.
        self._pods: dict[str, str] = {}
        self._nodes: dict[str, tuple[str, str]] = {}
        self._unread: dict[str, str] = {}

    def begin_anew(self) -> None:
        """Forget what was said: somebody else has led in the meantime."""
        self._pods, self._nodes, self._unread = {}, {}, {}
        self._about_buffers.begin_anew()

    def pods(self, verdicts: Iterable[PodsVerdict], failed: frozenset[str] = frozenset()) -> None:
        """Pods for which nodes are ordered, and those for which none can be. Of `failed` groups nothing came."""
        said: dict[str, str] = {}
        told = 0
        for key, reason, message in _about_pods(verdicts, failed):
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

    def buffers(self, verdicts: Iterable[BufferVerdict]) -> None:
        """Buffers whose room is there now, or no longer, or is on its way."""
        self._about_buffers.buffers(verdicts)

    def unreadable(self, problems: Mapping[tuple[str, Key], Said]) -> None:
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

    def nodes(self, verdicts: Iterable[NodeVerdict]) -> None:
        """Nodes that go, step by step, and those that are kept after all."""
        said: dict[str, tuple[str, str]] = {}
        for each in verdicts:
            reason, (before, uid) = each.said.reason, self._nodes.get(each.node, ("", ""))
            goes = each.outcome is Outcome.LEAVING
            if not goes and not before:
                continue
            node = self._watching.nodes.get("", each.node)
            # One that has just been given back is gone by now.
            uid = node.metadata.uid if node is not None else uid
            if before != reason.code and reason is not NODE_SETTLING:
                self._record(ObjectReference("Node", "", each.node, uid, "v1"), reason, str(each.said))
            if goes:
                said[each.node] = (reason.code, uid)
        self._nodes = said


def _about_pods(verdicts: Iterable[PodsVerdict], failed: frozenset[str]) -> Iterator[tuple[Key, Reason | None, str]]:
    """What each pod is told, if anything.

    Of pods alike those come first that have room, then those for which nodes are ordered, then the others. After an
    order that failed, the next pass knows whether there is another way.
    """
    for each in verdicts:
        first = len(each.pods) - each.unplaced
        ordered = first - sum(each.ordered.values())
        groups = ", ".join(sorted(each.ordered.keys() - failed))
        why = "; ".join((str(each.said), *map(str, each.refused)))
        for place, key in enumerate(each.pods):
            if place >= first:
                yield key, NOT_TRIGGER_SCALE_UP, why
            elif place >= ordered and groups:
                yield key, TRIGGERED_SCALE_UP, f"nodes of {groups} have been ordered"
            else:
                yield key, None, ""


def _about_chunks(verdict: BufferVerdict) -> str:
    refused = "".join(f"; {each}" for each in verdict.refused)
    return f"{with_room(verdict)}: {verdict.said}{refused}"
