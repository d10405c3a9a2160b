"""How is a node known that we are about to remove? By a taint of ours, which says since when.

It keeps new pods away, and whoever finds it without knowing of a removal knows that somebody has left it behind.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.api.kube.nodes import Node, Taint
from trellis.core.nodes.down_actions import SetTaints
from trellis.core.nodes.down_memory import NEVER
from trellis.core.nodes.standing import LEAVING_TAINT

_EFFECT = "NoSchedule"
# Longer than any removal takes: a mark on a node of no group of ours may be that of another autoscaler at work.
_OTHERS_SECONDS: Final = 1_800.0


def is_marked(node: Node) -> bool:
    """Whether the node has our mark."""
    return any(each.key == LEAVING_TAINT for each in node.spec.taints)


def marked_since(node: Node) -> float | None:
    """Since when it has it; None if it has none. A mark that does not say has been there for ever."""
    mark = next((each for each in node.spec.taints if each.key == LEAVING_TAINT), None)
    if mark is None:
        return None
    return float(mark.value) if mark.value.isdecimal() else NEVER


def is_left_behind(node: Node, now: float, *, is_ours: bool) -> bool:
    """Whether nobody goes on with the removal of a node, of which this process knows nothing.

    Nodes of our groups are ours alone to remove; of others the mark is given time.
    """
    since = marked_since(node)
    return since is not None and (is_ours or now >= since + _OTHERS_SECONDS)


def marking(node: Node, since: float) -> SetTaints:
    """Put the mark on a node."""
    return _setting(node, (*_others(node), Taint(LEAVING_TAINT, f"{since:.0f}", _EFFECT)))


def unmarking(node: Node) -> SetTaints:
    """Take the mark off."""
    return _setting(node, _others(node))


def unmarked(node: Node) -> Node:
    """The node as it is without the mark."""
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=_others(node)))


def _others(node: Node) -> tuple[Taint, ...]:
    return tuple(each for each in node.spec.taints if each.key != LEAVING_TAINT)


def _setting(node: Node, taints: tuple[Taint, ...]) -> SetTaints:
    metadata = node.metadata
    return SetTaints(metadata.name, metadata.uid, metadata.resource_version, taints)
