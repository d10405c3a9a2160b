"""The removal of a node, step by step: taint it, wait, evict its pods, release it; or keep it after all.

Everything is checked again at each step. Until the node is released it can be kept, and is, if a pod is placed on it or
one of its pods fits nowhere else any more. The leaving taint keeps new pods away and has the time at which the removal
began; a node with the taint and without a known removal was abandoned by an earlier process. It replaces the soft
taint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node, Taint
from trellis.base.reasons import DetailedReason
from trellis.base.wording import choose_form, pluralize
from trellis.core.nodes.scale_down.decisions import (
    DELETION_NOT_OBSERVED,
    EVICTIONS_REFUSED,
    NODE_DELETE_DELAY_AFTER_TAINT,
    NODE_DRAINING,
    NODE_RELEASED,
    NODE_TAINTED,
    POD_ARRIVED_DURING_REMOVAL,
    REMOVAL_TAINT_NOT_OBSERVED,
    REMOVAL_TAINT_REMOVED,
    DrainPod,
    ReleaseNode,
    ScaleDownAction,
    SetTaints,
)
from trellis.core.nodes.scale_down.drainability import PodsToDrain
from trellis.core.nodes.scale_down.evictions import build_eviction, evict_best_effort
from trellis.core.nodes.scale_down.remembered_state import NEVER, NodeRemoval
from trellis.core.nodes.scale_down.view import ScaleDownView
from trellis.core.nodes.state.readiness import LEAVING_TAINT, UNNEEDED_TAINT

_EFFECT = "NoSchedule"
# Longer than any removal takes: the taint on a node of another autoscaler's group may be its own.
_OTHER_AUTOSCALER_SECONDS: Final = 1_800.0


def has_leaving_taint(node: Node) -> bool:
    """Whether the node has our taint."""
    return any(taint.key == LEAVING_TAINT for taint in node.spec.taints)


def read_leaving_time(node: Node) -> float | None:
    """The time in our taint; None without the taint, `NEVER` if it has no time."""
    taint = next((taint for taint in node.spec.taints if taint.key == LEAVING_TAINT), None)
    if taint is None:
        return None
    return float(taint.value) if taint.value.isdecimal() else NEVER


def is_abandoned(node: Node, now: float, *, is_in_group: bool) -> bool:
    """Whether the removal of a node that is not in the memory was abandoned.

    Only this autoscaler removes nodes of its groups; on other nodes the taint may be that of another process at work.
    """
    since = read_leaving_time(node)
    return since is not None and (is_in_group or now >= since + _OTHER_AUTOSCALER_SECONDS)


def add_leaving_taint(node: Node, since: float) -> SetTaints:
    """Add our taint to a node."""
    return _set_taints(node, (*_filter_taints(node), Taint(LEAVING_TAINT, f"{since:.0f}", _EFFECT)))


def remove_leaving_taint(node: Node) -> SetTaints:
    """Remove our taints from a node."""
    return _set_taints(node, _filter_taints(node))


def without_leaving_taint(node: Node) -> Node:
    """The node without our taint."""
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=_filter_taints(node)))


def _filter_taints(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.key not in (LEAVING_TAINT, UNNEEDED_TAINT))


def _set_taints(node: Node, taints: tuple[Taint, ...]) -> SetTaints:
    metadata = node.metadata
    return SetTaints(metadata.name, metadata.uid, metadata.resource_version, taints)


class RemovalStep(msgspec.Struct, frozen=True):
    """A decision about a node. Without a `removal` it is kept; `failed` says that its removal failed."""

    reason: DetailedReason
    removal: NodeRemoval | None = None
    actions: tuple[ScaleDownAction, ...] = ()
    recheck_at: float | None = None
    failed: bool = False


def find_new_pod(removal: NodeRemoval, pods: PodsToDrain) -> DetailedReason | None:
    """The reason to keep a node on which a pod was placed since the removal began; None if there is none."""
    for pod in pods.to_evict:
        if pod.pod.metadata.uid not in removal.pods:
            return DetailedReason(POD_ARRIVED_DURING_REMOVAL, f"{pod.key[0]}/{pod.key[1]}")
    return None


def keep_node(node: Node, reason: DetailedReason, *, failed: bool = False) -> RemovalStep:
    """Keep the node, and remove our taint."""
    return RemovalStep(reason, actions=(remove_leaving_taint(node),) if has_leaving_taint(node) else (), failed=failed)


def next_removal_step(removal: NodeRemoval, node: Node, pods: PodsToDrain, view: ScaleDownView) -> RemovalStep:
    """The next step of a removal."""
    now, settings = view.now, view.settings
    if removal.released_at is not None:
        deadline = removal.released_at + settings.node_release_seconds
        return (
            RemovalStep(DetailedReason(NODE_RELEASED), removal, recheck_at=deadline)
            if now < deadline
            else keep_node(node, DetailedReason(DELETION_NOT_OBSERVED), failed=True)
        )
    if not has_leaving_taint(node):
        if removal.tainted_at is not None:
            return keep_node(node, DetailedReason(REMOVAL_TAINT_REMOVED))
        if now - removal.started_at >= settings.max_pod_eviction_seconds:
            return keep_node(node, DetailedReason(REMOVAL_TAINT_NOT_OBSERVED), failed=True)
        return RemovalStep(DetailedReason(NODE_TAINTED), removal, (add_leaving_taint(node, removal.started_at),))
    if removal.tainted_at is None:
        removal = msgspec.structs.replace(removal, tainted_at=now, progress_at=now)
    evict_after = (removal.tainted_at or now) + settings.node_delete_delay_after_taint_seconds
    if now < evict_after:
        return RemovalStep(DetailedReason(NODE_DELETE_DELAY_AFTER_TAINT), removal, recheck_at=evict_after)
    if pods.is_empty and (last := evict_best_effort(removal, view)) is not None:
        return RemovalStep(last.reason, last.removal, last.evictions, last.recheck_at)
    if pods.is_empty:
        released = msgspec.structs.replace(removal, released_at=now)
        release = ReleaseNode(removal.node, removal.group, removal.instance)
        return RemovalStep(DetailedReason(NODE_RELEASED), released, (release,), now + settings.node_release_seconds)
    return _drain(removal, node, pods, view)


def _drain(removal: NodeRemoval, node: Node, pods: PodsToDrain, view: ScaleDownView) -> RemovalStep:
    now, count = view.now, len(pods.to_evict)
    # A terminating pod may take its grace period; the deadline is for evictions that are refused.
    if pods.terminating or removal.remaining_pods != count:
        removal = msgspec.structs.replace(removal, remaining_pods=count, progress_at=now)
    deadline = removal.progress_at + view.settings.max_pod_eviction_seconds
    if now >= deadline:
        details = f"{pluralize(count, 'pod')} {choose_form(count, 'is', 'are')} left"
        return keep_node(node, DetailedReason(EVICTIONS_REFUSED, details), failed=True)
    evictions = tuple(_build_evictions(pods, view))
    return RemovalStep(DetailedReason(NODE_DRAINING), removal, evictions, deadline)


def _build_evictions(pods: PodsToDrain, view: ScaleDownView) -> Iterator[DrainPod]:
    for pod in pods.to_evict:
        if view.budgets.find_eviction_problem(pod.pod) is None:
            view.budgets.count_eviction(pod.pod)
            yield build_eviction(pod, view.settings)
