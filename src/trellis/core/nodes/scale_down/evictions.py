"""Evictions from a node in removal, and those of them that never stop it: of DaemonSet pods and of expendable pods.

Expendable pods are evicted when the drained pods have ended, and DaemonSet pods after them, because other pods may need
those until they have ended: a volume is unmounted by a plug-in that is such a pod. Each pod is evicted once. Where an
eviction is refused, the pod ends with the node. Where it is not, the removal waits for the pod within its grace period.
If the pods of a DaemonSet tolerate the leaving taint, it creates another pod, which is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

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
    """Evict expendable pods and then DaemonSet pods, or wait for them; None when the node can be released."""
    awaited = _find_ends(removal, view)
    if awaited:
        return BestEffortEvictions(removal, _build_reason(len(awaited)), (), min(awaited))
    for stage in range(removal.best_effort_stages, len(_STAGES)):
        pods = [*_list_pods(_STAGES[stage], removal, view)]
        if pods:
            return _begin(stage, pods, removal, view)
    return None


def _is_expendable(placed: PlacedPod, _removal: NodeRemoval, _settings: ScaleDownSettings) -> bool:
    return placed.is_expendable and not placed.is_fixed


def _is_evicted_daemon(placed: PlacedPod, removal: NodeRemoval, settings: ScaleDownSettings) -> bool:
    if not placed.is_fixed or is_mirror_pod(placed.pod):
        return False
    written = placed.pod.metadata.annotations.get(DAEMON_SET_EVICTION)
    if written in ("true", "false"):
        return written == "true"
    if removal.drains:
        return settings.daemonset_eviction_for_occupied_nodes
    return settings.daemonset_eviction_for_empty_nodes


_Stage: TypeAlias = Callable[[PlacedPod, NodeRemoval, ScaleDownSettings], bool]
_STAGES: Final[tuple[_Stage, ...]] = (_is_expendable, _is_evicted_daemon)


def _begin(stage: int, pods: list[PlacedPod], removal: NodeRemoval, view: ScaleDownView) -> BestEffortEvictions:
    uids = frozenset(placed.pod.metadata.uid for placed in pods)
    begun = msgspec.structs.replace(
        removal, best_effort_stages=stage + 1, best_effort_at=view.now, best_effort_pods=uids
    )
    evictions = tuple(
        build_eviction(placed, view.settings) for placed in pods if placed.pod.metadata.deletion_timestamp is None
    )
    return BestEffortEvictions(begun, _build_reason(len(pods)), evictions, view.now + _OBSERVATION_SECONDS)


def _list_pods(is_of_stage: _Stage, removal: NodeRemoval, view: ScaleDownView) -> Iterator[PlacedPod]:
    """The pods of a stage that can be evicted, or terminate already."""
    # No kubelet would end them there.
    if not view.snapshot.table.ready[view.snapshot.table.find(removal.node)]:
        return
    for placed in view.snapshot.pods_on(removal.node).values():
        pod = placed.pod
        # A pod that is only nominated has no node yet, and its eviction would delete it.
        if not pod.spec.node_name or is_overdue(pod, view.now) or not is_of_stage(placed, removal, view.settings):
            continue
        if pod.metadata.deletion_timestamp is not None:
            yield placed
        elif view.budgets.find_eviction_problem(pod) is None:
            view.budgets.count_eviction(pod)
            yield placed


def _find_ends(removal: NodeRemoval, view: ScaleDownView) -> list[float]:
    """Until when to wait for each of the evicted pods that are still there."""
    evicted_at = removal.best_effort_at
    if evicted_at is None:
        return []
    ends = (
        _find_end(placed, evicted_at)
        for placed in view.snapshot.pods_on(removal.node).values()
        if placed.pod.metadata.uid in removal.best_effort_pods
    )
    return [end for end in ends if end > view.now]


def _find_end(placed: PlacedPod, evicted_at: float) -> float:
    """Until when to wait for a pod: one whose deletion is not observed soon was not evicted."""
    deleted = placed.pod.metadata.deletion_timestamp
    return evicted_at + _OBSERVATION_SECONDS if deleted is None else deleted.timestamp() + OVERDUE_SECONDS


def _build_reason(count: int) -> DetailedReason:
    details = f"{pluralize(count, 'pod')} {choose_form(count, 'is', 'are')} left, expendable or of DaemonSets"
    return DetailedReason(NODE_DRAINING, details)
