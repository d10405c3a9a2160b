"""Evictions from a node in removal, and those of them that never stop it: of DaemonSet pods and of expendable pods.

DaemonSet pods are evicted after all other pods have ended, because those may need them until then: a volume is
unmounted by a plug-in that is such a pod. Each is evicted once. Where an eviction is refused, the pod ends with the
node. Where it is not, the removal waits for the pod within its grace period. If the pods of a DaemonSet tolerate the
leaving taint, it creates another pod, which is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from trellis.base.reasons import DetailedReason
from trellis.base.wording import choose_form, pluralize
from trellis.core.nodes.scale_down.decisions import NODE_DRAINING, DrainPod
from trellis.core.nodes.scale_down.drainability import OVERDUE_SECONDS, is_overdue
from trellis.core.nodes.scale_down.remembered_state import NodeRemoval
from trellis.core.nodes.scale_down.view import ScaleDownView
from trellis.core.nodes.settings import ScaleDownSettings
from trellis.core.nodes.state.pods import PlacedPod, is_mirror_pod

# Set on a pod of a DaemonSet, it counts before the settings.
DAEMON_SET_EVICTION: Final = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
# How long the deletion of an evicted pod may take to be observed.
_OBSERVATION_SECONDS: Final = 5.0


class BestEffortEvictions(msgspec.Struct, frozen=True):
    """The removal while such pods are evicted or end: why it waits, the evictions, and until when it waits."""

    removal: NodeRemoval
    reason: DetailedReason
    evictions: tuple[DrainPod, ...]
    recheck_at: float


def build_eviction(placed: PlacedPod, settings: ScaleDownSettings) -> DrainPod:
    """The eviction of a pod, with a grace period no longer than the settings allow."""
    own, longest = placed.pod.spec.termination_grace_period_seconds, settings.max_graceful_termination_seconds
    grace = longest if own is not None and own > longest else None
    return DrainPod(placed.node, placed.key[0], placed.key[1], placed.pod.metadata.uid, grace)


def evict_best_effort(removal: NodeRemoval, view: ScaleDownView) -> BestEffortEvictions | None:
    """Evict DaemonSet pods and expendable pods, or wait for them; None when the node can be released."""
    if removal.best_effort_at is None:
        return _begin(removal, view)
    ends = [end for pod in _list_evicted(removal, view) if (end := _find_end(pod, removal.best_effort_at)) > view.now]
    return BestEffortEvictions(removal, _build_reason(len(ends)), (), min(ends)) if ends else None


def _begin(removal: NodeRemoval, view: ScaleDownView) -> BestEffortEvictions | None:
    pods = [*_list_best_effort_pods(removal, view)]
    if not pods:
        return None
    uids = frozenset(pod.pod.metadata.uid for pod in pods)
    begun = msgspec.structs.replace(removal, best_effort_at=view.now, best_effort_pods=uids)
    evictions = tuple(build_eviction(pod, view.settings) for pod in pods if not _is_terminating(pod))
    return BestEffortEvictions(begun, _build_reason(len(pods)), evictions, view.now + _OBSERVATION_SECONDS)


def _list_best_effort_pods(removal: NodeRemoval, view: ScaleDownView) -> Iterator[PlacedPod]:
    # No kubelet would end them there.
    if not view.snapshot.table.ready[view.snapshot.table.find(removal.node)]:
        return
    for placed in view.snapshot.pods_on(removal.node).values():
        pod = placed.pod
        # A pod that is only nominated has no node yet, and its eviction would delete it.
        if not pod.spec.node_name or is_overdue(pod, view.now) or not _is_to_be_evicted(placed, removal, view.settings):
            continue
        if _is_terminating(placed):
            yield placed
        elif view.budgets.find_eviction_problem(pod) is None:
            view.budgets.count_eviction(pod)
            yield placed


def _is_to_be_evicted(placed: PlacedPod, removal: NodeRemoval, settings: ScaleDownSettings) -> bool:
    if is_mirror_pod(placed.pod):
        return False
    if not placed.is_fixed:
        return placed.is_expendable
    written = placed.pod.metadata.annotations.get(DAEMON_SET_EVICTION)
    if written in ("true", "false"):
        return written == "true"
    if removal.drains:
        return settings.daemonset_eviction_for_occupied_nodes
    return settings.daemonset_eviction_for_empty_nodes


def _list_evicted(removal: NodeRemoval, view: ScaleDownView) -> Iterator[PlacedPod]:
    for placed in view.snapshot.pods_on(removal.node).values():
        if placed.pod.metadata.uid in removal.best_effort_pods:
            yield placed


def _find_end(placed: PlacedPod, evicted_at: float) -> float:
    """Until when to wait for a pod: one whose deletion is not observed soon was not evicted."""
    deleted = placed.pod.metadata.deletion_timestamp
    return evicted_at + _OBSERVATION_SECONDS if deleted is None else deleted.timestamp() + OVERDUE_SECONDS


def _is_terminating(placed: PlacedPod) -> bool:
    return placed.pod.metadata.deletion_timestamp is not None


def _build_reason(count: int) -> DetailedReason:
    details = f"{pluralize(count, 'pod')} {choose_form(count, 'is', 'are')} left, of DaemonSets or expendable"
    return DetailedReason(NODE_DRAINING, details)
