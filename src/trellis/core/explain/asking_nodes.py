"""Why is a node there, and why is it not removed? One answer about it."""

from __future__ import annotations

from typing import Final

from trellis.base.errors import InvalidInput
from trellis.base.names import nearest
from trellis.core.explain.explained import Explained
from trellis.core.explain.happening import events_in
from trellis.core.explain.nodes import node_part
from trellis.core.explain.noding import KnownGroups, noded_in
from trellis.core.explain.settings import Components
from trellis.core.explain.unseen import is_partial
from trellis.core.explain.unseen_nodes import unseen_about_nodes
from trellis.core.explain.wording import time_text
from trellis.core.model.collected import Collected

NODE_KIND: Final = "node"

# Where a cluster keeps Events about what is in no namespace.
_EVENTS_IN: Final = "default"


def explain_node(
    collected: Collected,
    name: str,
    groups: KnownGroups,
    components: Components | None = None,
    now: float | None = None,
) -> Explained:
    """All there is to say about a node; raises `InvalidInput` if there is none of that name."""
    node = collected.nodes.get("", name)
    if node is None:
        raise _unknown(collected, name)
    given, at = components or Components(), collected.time if now is None else now
    noded = noded_in(collected, groups, given, at)
    part = node_part(node, noded)
    unseen = tuple(unseen_about_nodes(collected, groups, given, noded))
    return Explained(
        kind=NODE_KIND,
        namespace="",
        name=name,
        time=time_text(at),
        node=part,
        events=tuple(events_in(collected, _EVENTS_IN, {("Node", name)})),
        unseen=unseen,
        partial=is_partial(unseen),
    )


def _unknown(collected: Collected, name: str) -> InvalidInput:
    for missing in collected.missing:
        if missing.what in ("Node", f"Node {name}"):
            return InvalidInput(name, f"is no Node that can be seen: {missing.why}")
    if ("", name) in collected.nodes.rejected:
        return InvalidInput(name, f"cannot be read: {collected.nodes.rejected['', name]}")
    guess = nearest(name, [each.metadata.name for each in collected.nodes])
    hint = f' (did you mean "{guess}"?)' if guess else "" if collected.is_whole else " (the dump is cut off)"
    return InvalidInput(name, f"there is no Node of that name{hint}")
