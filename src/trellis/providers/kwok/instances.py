"""The order in the annotations of a Node, the state of its instance, and its next write.

All that is known of an order stands on its Node, so that any process can go on with it. Until its boot time is over
a node carries a taint that keeps pods away. By then it is given to kwok, which knows its nodes by an annotation, as
it is shipped, or by a label:

- By a label, a node gets it when it has booted, and is not ready before.
- By an annotation, kwok looks at nodes only when they are new (seen in 0.8), so that they have it from the beginning
  and are ready at once. The taint alone makes them wait.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from trellis.api.kinds.kwok_node_group import (
    BOOT_SECONDS_ANNOTATION,
    FAILURE_MODE_ANNOTATION,
    KWOK_KEY,
    ORDERED_AT_ANNOTATION,
    STARTING_TAINT,
    GroupFailureMode,
)
from trellis.api.kube.nodes import Node
from trellis.base.errors import InvalidTime
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.times import format_micro_time, parse_time
from trellis.core.nodes.node_groups import Instance, InstanceState
from trellis.kube.resources import NODES
from trellis.kube.write.actions import Action, PatchObject, build_target
from trellis.kube.write.patches import merge_patch

KWOK_VALUE: Final = "fake"

_LONGEST_BOOT: Final = 86_400.0


class KwokOrder(msgspec.Struct, frozen=True):
    """The time of the order of a node, its boot time, and its failure mode."""

    at: float
    boot_seconds: float
    failure_mode: str = ""

    @property
    def booted_at(self) -> float:
        """When it has booted."""
        return self.at + self.boot_seconds

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the node; without kwok's own for a node that fails."""
        at = format_micro_time(datetime.fromtimestamp(self.at, UTC))
        outcome = {FAILURE_MODE_ANNOTATION: self.failure_mode} if self.failure_mode else {KWOK_KEY: KWOK_VALUE}
        return {ORDERED_AT_ANNOTATION: at, BOOT_SECONDS_ANNOTATION: repr(self.boot_seconds), **outcome}


def read_order(node: Node) -> KwokOrder:
    """The order in the annotations of a node; without valid ones the node was up when it was created."""
    annotations, created = node.metadata.annotations, node.metadata.creation_timestamp
    at = _parse_instant(annotations.get(ORDERED_AT_ANNOTATION, ""))
    if at is None:
        at = created.timestamp() if created is not None else 0.0
    return KwokOrder(
        at, _parse_seconds(annotations.get(BOOT_SECONDS_ANNOTATION, "")), annotations.get(FAILURE_MODE_ANNOTATION, "")
    )


def build_node(document: dict[str, Any], name: str, order: KwokOrder) -> dict[str, Any]:
    """The Node to create for an order, from that of its group."""
    labels = {key: value for key, value in document["metadata"]["labels"].items() if key != KWOK_KEY}
    starting = {"key": STARTING_TAINT, "effect": "NoSchedule"}
    return {
        **document,
        "metadata": {
            "name": name,
            "labels": {**labels, "kubernetes.io/hostname": name},
            "annotations": order.annotations,
        },
        "spec": {"providerID": f"kwok://{name}", "taints": [*document["spec"].get("taints", ()), starting]},
        "status": {key: value for key, value in document["status"].items() if key != "conditions"},
    }


# Called for every node in every pass; reading a time takes longer than the rest of a node.
@lru_cache(maxsize=16_384)
def _parse_instant(text: str) -> float | None:
    try:
        return parse_time(text).timestamp()
    except InvalidTime:
        return None


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return min(seconds, _LONGEST_BOOT) if seconds >= 0 else 0.0


NODE_FAILED_TO_START = Reason("NodeFailedToStart", "A node was ordered and failed to start.", Severity.WARNING)

_NEVER_READY: Final = (GroupFailureMode.NEVER_COME_UP, GroupFailureMode.FAIL_TO_START)


def build_instance(node: Node, now: float) -> Instance:
    """A node as an instance of its group, whose id is its name."""
    name, order, leaving = node.metadata.name, read_order(node), node.metadata.deletion_timestamp
    if leaving is not None:
        return Instance(name, InstanceState.LEAVING, leaving.timestamp(), name)
    if not is_starting(node):
        return Instance(name, InstanceState.RUNNING, order.booted_at, name)
    if order.failure_mode == GroupFailureMode.FAIL_TO_START and now >= order.booted_at:
        error = DetailedReason(NODE_FAILED_TO_START, "the group had no machine for the node")
        return Instance(name, InstanceState.FAILED, order.booted_at, name, error)
    return Instance(name, InstanceState.ORDERED, order.at, name)


def is_starting(node: Node) -> bool:
    """Whether a node still carries the taint of its order."""
    return any(taint.key == STARTING_TAINT for taint in node.spec.taints)


def next_action(node: Node, now: float) -> Action | float | None:
    """The write that a starting node needs now, or when it needs one; None if it needs none."""
    if node.metadata.deletion_timestamp is not None or not is_starting(node):
        return None
    order = read_order(node)
    if now < order.booted_at:
        return None if order.failure_mode == GroupFailureMode.NEVER_COME_UP else order.booted_at
    if order.failure_mode in _NEVER_READY:
        return None
    if node.metadata.labels.get(KWOK_KEY) != KWOK_VALUE:
        patch = {"metadata": {"labels": {KWOK_KEY: KWOK_VALUE}}}
        return PatchObject(build_target(NODES, node, with_version=False), merge_patch(patch))
    return _without_taint(node) if _is_ready(node) else None


def _without_taint(node: Node) -> Action:
    """Remove the taint; the list is replaced as a whole, which is correct for this version of the node only."""
    taints = [msgspec.to_builtins(taint) for taint in node.spec.taints if taint.key != STARTING_TAINT]
    return PatchObject(build_target(NODES, node), merge_patch({"spec": {"taints": taints}}))


def _is_ready(node: Node) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)
