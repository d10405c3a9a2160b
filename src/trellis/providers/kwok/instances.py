"""How far is each node of a group, and what does it need to get further?"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.api.kwok_groups import KWOK_KEY, STARTING_TAINT, Mishap
from trellis.base.reason import Reason, Severity
from trellis.core.buffers.said import Said
from trellis.core.nodes.groups import Instance, InstanceState
from trellis.kube.actions import Action, PatchObject, target_of
from trellis.kube.patches import merge_patch
from trellis.kube.resources import NODES
from trellis.providers.kwok.orders import KWOK_VALUE, order_of

NODE_FAILED_TO_START = Reason("NodeFailedToStart", "A node was ordered and failed while it started.", Severity.WARNING)

_NEVER_UP: Final = (Mishap.NEVER_COME_UP, Mishap.FAIL_TO_START)


def instance_of(node: Node, now: float) -> Instance:
    """A node as an instance of its group, whose id is its name."""
    name, order, leaving = node.metadata.name, order_of(node), node.metadata.deletion_timestamp
    if leaving is not None:
        return Instance(name, InstanceState.LEAVING, leaving.timestamp(), name)
    if not is_starting(node):
        return Instance(name, InstanceState.RUNNING, order.due, name)
    if order.mishap == Mishap.FAIL_TO_START and now >= order.due:
        error = Said(NODE_FAILED_TO_START, "there was no machine for it")
        return Instance(name, InstanceState.FAILED, order.due, name, error)
    return Instance(name, InstanceState.ORDERED, order.at, name)


def is_starting(node: Node) -> bool:
    """Whether a node still carries the taint of its order."""
    return any(taint.key == STARTING_TAINT for taint in node.spec.taints)


def needed_by(node: Node, now: float) -> Action | float | None:
    """What a node that starts needs now, or when it will need something; None if it is on its own."""
    if node.metadata.deletion_timestamp is not None or not is_starting(node):
        return None
    order = order_of(node)
    if now < order.due:
        return None if order.mishap == Mishap.NEVER_COME_UP else order.due
    if order.mishap in _NEVER_UP:
        return None
    if node.metadata.labels.get(KWOK_KEY) != KWOK_VALUE:
        given = {"metadata": {"labels": {KWOK_KEY: KWOK_VALUE}}}
        return PatchObject(target_of(NODES, node, at_this_version=False), merge_patch(given))
    return _without_taint(node) if _is_ready(node) else None


def _without_taint(node: Node) -> Action:
    """The list is replaced as a whole, which holds for this version of the node alone."""
    left = [msgspec.to_builtins(taint) for taint in node.spec.taints if taint.key != STARTING_TAINT]
    return PatchObject(target_of(NODES, node), merge_patch({"spec": {"taints": left}}))


def _is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)
