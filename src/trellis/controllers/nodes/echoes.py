"""Has the watch shown what we wrote? A pass that is planned on an older view would order the same nodes once more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from trellis.api.kube.nodes import Node
from trellis.kube.actions import CreateObject, DeleteObject
from trellis.kube.changes import Change
from trellis.kube.informer import Informer
from trellis.kube.outcomes import Outcome
from trellis.kube.resources import NODES

# A watch that is later than this is not waited for: what is planned then is planned again.
_PATIENCE_SECONDS: Final = 5.0


class Echoes:
    """Waits for writes of nodes to come back."""

    def __init__(self, nodes: Informer[Node]) -> None:
        self._nodes = nodes
        # By the names of their nodes: of thousands that were ordered each is looked for when it comes.
        self._unseen: dict[str, list[Outcome]] = {}
        self._all_seen = asyncio.Event()

    def subscribe(self) -> None:
        """Begin to listen."""
        self._nodes.subscribe(self._node_changed)

    async def wait_for(self, outcomes: Iterable[Outcome]) -> None:
        """Return once all writes of nodes are seen that were applied, or after a while."""
        for each in outcomes:
            if each.applied and each.action.target.resource is NODES and not self._is_seen(each):
                self._unseen.setdefault(each.action.target.name, []).append(each)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._unseen:
                    self._all_seen.clear()
                    await self._all_seen.wait()
        except TimeoutError:
            return
        finally:
            self._unseen.clear()

    def _node_changed(self, change: Change[Node]) -> None:
        name = change.key[1]
        left = [each for each in self._unseen.pop(name, ()) if not self._is_seen(each)]
        if left:
            self._unseen[name] = left
        elif not self._unseen:
            self._all_seen.set()

    def _is_seen(self, outcome: Outcome) -> bool:
        action = outcome.action
        node = self._nodes.get("", action.target.name)
        if isinstance(action, DeleteObject):
            same = node is not None and node.metadata.uid == action.target.uid
            return not same or (node is not None and node.metadata.deletion_timestamp is not None)
        if isinstance(action, CreateObject):
            return node is not None
        return node is None or _is_as_new(node.metadata.resource_version, outcome.resource_version)


def _is_as_new(seen: str, written: str) -> bool:
    """Versions of one kind are numbers that grow."""
    return not (seen.isdigit() and written.isdigit()) or int(seen) >= int(written)
