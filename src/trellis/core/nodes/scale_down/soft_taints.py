"""The soft taint of unneeded nodes: the scheduler prefers others, so that pods do not move to a node that goes next.

The taint has the effect `PreferNoSchedule` and the time since when the node is unneeded. It keeps no pod away, so that
no scale-up follows from it. It is set once a node has been unneeded for a moment, and removed as soon as the node is
needed again. The leaving taint replaces it. In a pass, only a limited number of nodes get or lose it.

All of the taints on nodes of our groups are ours, also those of an earlier process. On other nodes they are those of
another process at work, except where this process set them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node, Taint
from trellis.core.nodes.scale_down.decisions import NODE_NOT_SIMULATED, NodeDecision, NodeOutcome, SetTaints
from trellis.core.nodes.scale_down.view import ScaleDownView
from trellis.core.nodes.state.readiness import UNNEEDED_TAINT

_EFFECT: Final = "PreferNoSchedule"
# A node that is unneeded in a single pass, while pods start or end, is not tainted.
_SETTLING_SECONDS: Final = 30.0
# How many taints are removed in a pass if the feature is off.
_MOST_REMOVED_WHEN_OFF: Final = 10


class SoftTaintPlan(msgspec.Struct, frozen=True):
    """Changes of taints, the nodes that have a taint of ours, and when the next node is to be tainted."""

    actions: tuple[SetTaints, ...]
    tainted: frozenset[str]
    requeue_at: float | None = None


def plan_soft_taints(
    view: ScaleDownView, decisions: Mapping[str, NodeDecision], changed: Collection[str]
) -> SoftTaintPlan:
    """Plan the soft taints for the decisions of a pass. Other actions set the taints of `changed` nodes."""
    most = view.settings.max_bulk_soft_taint_count
    tainted, removed = _find_tainted(view, decisions, changed)
    removals = removed[: most or _MOST_REMOVED_WHEN_OFF]
    added, requeue_at = _find_to_taint(view, decisions, changed) if most else ([], None)
    additions = added[: max(0, most - len(removals))]
    return SoftTaintPlan(
        actions=(
            *(_remove_taint(view.snapshot.nodes[name]) for name in removals),
            *(_add_taint(view.snapshot.nodes[name], since) for since, name in additions),
        ),
        tainted=frozenset(tainted).difference(removals, changed).union(name for _, name in additions),
        requeue_at=requeue_at,
    )


def has_soft_taint(node: Node) -> bool:
    """Whether a node has our soft taint."""
    return any(taint.key == UNNEEDED_TAINT for taint in node.spec.taints)


def read_unneeded_time(node: Node) -> float | None:
    """The time in our soft taint; None without the taint or without a time."""
    taint = next((taint for taint in node.spec.taints if taint.key == UNNEEDED_TAINT), None)
    return float(taint.value) if taint is not None and taint.value.isdecimal() else None


def _find_tainted(
    view: ScaleDownView, decisions: Mapping[str, NodeDecision], changed: Collection[str]
) -> tuple[list[str], list[str]]:
    """The nodes with a taint of ours, and those of them that are to lose it."""
    tainted: list[str] = []
    removed: list[str] = []
    for name, node in view.snapshot.nodes.items():
        if not has_soft_taint(node) or not (view.get_group(name) or name in view.memory.soft_tainted):
            continue
        tainted.append(name)
        if name not in changed and not _is_removed(view, name) and not _keeps_taint(view, decisions[name]):
            removed.append(name)
    return tainted, removed


def _keeps_taint(view: ScaleDownView, decision: NodeDecision) -> bool:
    """Whether a node stays tainted. As long as its drain has not been simulated, nothing says that it is needed."""
    is_unneeded = decision.outcome is NodeOutcome.UNNEEDED or decision.reason.reason is NODE_NOT_SIMULATED
    return is_unneeded and view.settings.max_bulk_soft_taint_count > 0


def _find_to_taint(
    view: ScaleDownView, decisions: Mapping[str, NodeDecision], changed: Collection[str]
) -> tuple[list[tuple[float, str]], float | None]:
    """The nodes to taint, the longest unneeded first, and when the next one is to be tainted."""
    due: list[tuple[float, str]] = []
    later: list[float] = []
    for name, decision in decisions.items():
        if decision.outcome is not NodeOutcome.UNNEEDED or decision.since is None or name in changed:
            continue
        # Other taints keep pods away from a node that is not ready.
        if has_soft_taint(view.snapshot.nodes[name]) or not view.readiness.ready[view.snapshot.table.find(name)]:
            continue
        settled_at = decision.since + _SETTLING_SECONDS
        if view.now >= settled_at:
            due.append((decision.since, name))
        else:
            later.append(settled_at)
    return sorted(due), min(later, default=None)


def _is_removed(view: ScaleDownView, name: str) -> bool:
    """Whether the node is about to be removed, by this or another autoscaler."""
    return bool(view.readiness.leaving[view.snapshot.table.find(name)])


def _add_taint(node: Node, since: float) -> SetTaints:
    return _set_taints(node, (*node.spec.taints, Taint(UNNEEDED_TAINT, f"{since:.0f}", _EFFECT)))


def _remove_taint(node: Node) -> SetTaints:
    return _set_taints(node, tuple(taint for taint in node.spec.taints if taint.key != UNNEEDED_TAINT))


def _set_taints(node: Node, taints: tuple[Taint, ...]) -> SetTaints:
    metadata = node.metadata
    return SetTaints(metadata.name, metadata.uid, metadata.resource_version, taints)
