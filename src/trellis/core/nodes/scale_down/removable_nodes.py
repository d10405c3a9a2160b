"""Decides which nodes are candidates for removal: those that pass every check short of a drain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from trellis.api.kube.nodes import Node
from trellis.base.reasons import DetailedReason
from trellis.core.nodes.node_groups import GROUP_AT_MINIMUM, GroupState, find_release_problems
from trellis.core.nodes.scale_down.decisions import (
    NODE_IN_USE,
    NODE_STARTING,
    NODE_TERMINATING,
    NODE_UNREADY_KEPT,
    NODE_WITHOUT_GROUP,
    PENDING_POD_FITS,
    SCALE_DOWN_DISABLED,
    SCALE_DOWN_OFF,
)
from trellis.core.nodes.scale_down.drainability import (
    DO_NOT_DISRUPT,
    PodsToDrain,
    find_pods_to_drain,
)
from trellis.core.nodes.scale_down.remembered_state import NodeRemoval, UnremovableNode
from trellis.core.nodes.scale_down.view import ScaleDownView, get_utilization_threshold

SCALE_DOWN_DISABLED_ANNOTATION: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


class ScaleDownCandidate(msgspec.Struct, frozen=True):
    """A node that might be removed. `unneeded_since` is None if it was needed in the last pass."""

    name: str
    number: int
    group: str
    instance: str
    pods: PodsToDrain
    utilization: float
    price: float
    is_ready: bool
    unneeded_since: float | None

    @property
    def drain_order(self) -> tuple[bool, float, bool, float, float, str]:
        """Sorts candidates: the longest unneeded first, then empty nodes by price, then by utilization."""
        is_new, occupied = self.unneeded_since is None, not self.pods.is_empty
        return (
            is_new,
            self.unneeded_since or 0.0,
            occupied,
            0.0 if occupied else -self.price,
            self.utilization,
            self.name,
        )


class CandidateFilter:
    """Checks which nodes are candidates."""

    def __init__(self, view: ScaleDownView) -> None:
        self._view = view

    def check(self, name: str, node: Node) -> ScaleDownCandidate | UnremovableNode | DetailedReason:
        """The candidate; the unremovable node, if it was so a short while ago; or the reason why it is no candidate."""
        number = self._view.snapshot.table.find(name)
        member = self._view.snapshot.node_instances.instances.get(name)
        if member is None:
            return DetailedReason(NODE_WITHOUT_GROUP)
        if self._view.readiness.leaving[number]:
            return DetailedReason(NODE_TERMINATING)
        if self._view.readiness.starting[number]:
            return DetailedReason(NODE_STARTING)
        problem = self.find_removal_problem(node) or self._view.snapshot.groups[member[0]].removal_problem
        if problem is not None:
            return problem
        settings = self._view.get_group_settings(member[0])
        ready, utilization = bool(self._view.readiness.ready[number]), float(self._view.utilization[number])
        if not ready and not self._view.settings.scale_down_unready_enabled:
            return DetailedReason(NODE_UNREADY_KEPT)
        has_devices = bool(self._view.has_devices[number])
        if ready and utilization > get_utilization_threshold(settings, has_devices=has_devices):
            return DetailedReason(NODE_IN_USE)
        unremovable = self._view.memory.unremovable.get(name)
        if unremovable is not None and self._view.now < unremovable.until:
            return unremovable
        pods = self.find_pods(name)
        if pods.refusal is not None:
            return pods.refusal
        if any(not pod.pod.spec.node_name for pod in pods.to_evict):
            return DetailedReason(PENDING_POD_FITS)
        group, instance = member
        price = self._view.snapshot.groups[group].group.price
        since = self._view.memory.unneeded_since.get(name, unremovable.since if unremovable is not None else None)
        return ScaleDownCandidate(name, number, group, instance.id, pods, utilization, price, ready, since)

    def find_removal_problem(self, node: Node) -> DetailedReason | None:
        """The setting or annotation that forbids the removal of a node; None if there is none."""
        if not self._view.settings.scale_down_enabled:
            return DetailedReason(SCALE_DOWN_OFF)
        for key in (SCALE_DOWN_DISABLED_ANNOTATION, DO_NOT_DISRUPT):
            if node.metadata.annotations.get(key) == "true":
                return DetailedReason(SCALE_DOWN_DISABLED, f"{key}: true")
        return None

    def find_pods(self, name: str) -> PodsToDrain:
        """The pods to drain from a node."""
        view = self._view
        snapshot = view.snapshot
        pods = snapshot.pods_on(name).values()
        return find_pods_to_drain(pods, view.now, view.budgets, view.settings, snapshot.device_claims)


class GroupMinimums:
    """How many nodes of each group may still be removed without going below its minimum size."""

    def __init__(
        self,
        groups: Mapping[str, GroupState],
        removals: Iterable[NodeRemoval],
        candidates: Iterable[ScaleDownCandidate],
    ) -> None:
        # Two nodes may have the same instance, which counts once.
        instances_by_group: dict[str, dict[str, None]] = {}
        for group, instance in (
            *((removal.group, removal.instance) for removal in removals),
            *((candidate.group, candidate.instance) for candidate in candidates),
        ):
            instances_by_group.setdefault(group, {})[instance] = None
        self._remaining: dict[str, int] = {}
        self._reasons: dict[str, DetailedReason] = {
            name: DetailedReason(GROUP_AT_MINIMUM) for name in instances_by_group
        }
        for name, instances in instances_by_group.items():
            refused = find_release_problems(groups[name], instances)
            self._remaining[name] = len(instances) - len(refused)
            self._reasons.update((name, reason) for reason in refused.values())

    def find_minimum_problem(self, group: str) -> DetailedReason | None:
        """The minimum size that forbids to remove another node of a group; None if it may be removed."""
        return None if self._remaining[group] > 0 else self._reasons[group]

    def count_removal(self, group: str) -> None:
        """Count a node of a group that is removed."""
        self._remaining[group] -= 1
