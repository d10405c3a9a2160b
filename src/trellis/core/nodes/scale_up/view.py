"""The view that a scale-up is planned on, and the limits of its orders: of the group, the cluster and one scale-up.

Where `enforce_node_group_min_size` is set, groups below their minimum size are filled up with what the limits leave
after pods and chunks are served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.wording import choose_form, pluralize
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.node_groups import GROUP_AT_MAXIMUM
from trellis.core.nodes.provisioning.lifecycle import NO_REQUESTS, RequestsView, observe_requests
from trellis.core.nodes.provisioning.pod_groups import Gang
from trellis.core.nodes.scale_up.remembered_state import (
    GROUP_BACKED_OFF,
    GroupBackoff,
    ScaleUpMemory,
    back_off,
    select_active_backoffs,
)
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.readiness import NodeReadiness, classify_nodes
from trellis.core.nodes.state.replacements import (
    NO_REPLACEMENTS,
    ReplacementDemands,
    ResizeReplacements,
    find_resize_replacements,
)
from trellis.core.nodes.state.simulation import ClusterSimulation, NodeTemplates
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.nodes.state.upcoming_nodes import UpcomingNodes, find_upcoming_nodes
from trellis.core.usage.columns import FloatColumn, IntColumn


class ScaleUpView(msgspec.Struct, frozen=True):
    """The snapshot, the readiness of its nodes, upcoming nodes, templates of new nodes, and backoffs of groups.

    `requests` are the ProvisioningRequests that are not over, `gangs` the PodGroups that lack pods and for which the
    scheduler has found no nodes, `resizes` the replacements of pods whose resizes do not fit on their nodes.
    """

    snapshot: ClusterSnapshot
    readiness: NodeReadiness
    upcoming: UpcomingNodes
    templates: NodeTemplates
    backoffs: Mapping[str, GroupBackoff]
    now: float
    settings: ScaleUpSettings
    requests: RequestsView = NO_REQUESTS
    gangs: tuple[Gang, ...] = ()
    resizes: ResizeReplacements = NO_REPLACEMENTS

    def get_target(self, name: str) -> int:
        """The target of a group, unconfirmed orders included."""
        unconfirmed_order = self.upcoming.unconfirmed_orders.get(name)
        reported = self.snapshot.groups[name].target
        return reported if unconfirmed_order is None else max(reported, unconfirmed_order.target)

    @property
    def largest_node(self) -> tuple[float, float]:
        """The most millicores and bytes of any existing or new node."""
        tables = (self.snapshot.table, self.templates.table)
        cores, memory = (max(float(table.offered(name).max(initial=0)) for table in tables) for name in (CPU, MEMORY))
        return cores, memory


def build_scale_up_view(
    snapshot: ClusterSnapshot, memory: ScaleUpMemory, now: float, settings: ScaleUpSettings
) -> ScaleUpView:
    readiness = classify_nodes(snapshot, now, settings)
    upcoming = find_upcoming_nodes(snapshot, memory.unconfirmed_orders, memory.missing_since, now, settings)
    backoffs = select_active_backoffs(memory.backoffs, now, settings)
    for failure in sorted(upcoming.failures, key=lambda failure: failure.failed_at):
        backoffs[failure.group] = back_off(
            backoffs.get(failure.group), failure.failed_at, str(failure.reason), settings
        )
    requests, resizes = observe_requests(snapshot, memory.requests, now), NO_REPLACEMENTS
    if settings.scale_up_for_resizes and snapshot.pending_resizes:
        resizes = find_resize_replacements(
            snapshot, ReplacementDemands(snapshot.storage, snapshot.growth, snapshot.device_claims)
        )
    return ScaleUpView(
        snapshot,
        readiness,
        upcoming,
        NodeTemplates(snapshot, readiness, settings.transient_taints),
        backoffs,
        now,
        settings,
        requests,
        snapshot.pod_groups.list_unschedulable_gangs(snapshot.pending, snapshot.placed, requests.list_consumers()),
        resizes,
    )


CLUSTER_AT_LIMIT = Reason(
    "ClusterAtLimit", "The cluster has reached its maximum of nodes, cores or memory.", Severity.WARNING
)
SCALE_UP_LIMITED = Reason(
    "ScaleUpLimited", "The maximum number of nodes is ordered for the group at once; the rest follows."
)

_UNLIMITED: Final = np.inf


class ScaleUpLimits:
    """All limits, and what remains of them while a plan is built."""

    def __init__(self, view: ScaleUpView) -> None:
        self._templates, self._settings = view.templates, view.settings
        groups = [state.group for state in view.templates.states]
        self._backoffs = {
            number: view.backoffs[group.name]
            for number, group in enumerate(groups)
            if group.name in view.backoffs and view.now < view.backoffs[group.name].until
        }
        self._suspended = {
            number: state.suspended for number, state in enumerate(view.templates.states) if state.suspended is not None
        }
        self._sizes = np.array([group.max_size - view.get_target(group.name) for group in groups], dtype=np.int64)
        self._per_scale_up = np.full(len(groups), view.settings.max_nodes_per_scaleup, dtype=np.int64)
        self._weights: dict[str, FloatColumn] = {
            "nodes": np.ones(len(groups)),
            "cores": view.templates.cores,
            "memory": view.templates.memory,
        }
        upcoming = np.array([view.upcoming.counts[group.name] for group in groups], dtype=np.float64)
        self._remaining = {
            name: limit - current - float(upcoming @ self._weights[name]) if limit else _UNLIMITED
            for name, (current, limit) in _compute_cluster_totals(view).items()
        }

    def count_allowed_nodes_by_group(self) -> IntColumn:
        """The number of nodes of each group that may be ordered, if none of other groups are."""
        # As floats: a node without a resource makes the quotient larger than any integer.
        allowed: FloatColumn = np.minimum(self._sizes, self._per_scale_up).astype(np.float64)
        for name, remaining in self._remaining.items():
            if remaining < _UNLIMITED:
                weights = np.maximum(self._weights[name], 1e-9)
                allowed = np.minimum(allowed, np.floor(max(remaining, 0.0) / weights + 1e-9))
        counts = allowed.astype(np.int64)
        counts[[*self._backoffs, *self._suspended]] = 0
        counts[counts < 0] = 0
        return counts

    def count_allowed_nodes(self, group: int) -> int:
        """How many nodes of one group may be ordered."""
        if group in self._backoffs or group in self._suspended:
            return 0
        remaining = (
            remaining / max(float(self._weights[name][group]), 1e-9) for name, remaining in self._remaining.items()
        )
        return max(0, int(min(self._sizes[group], self._per_scale_up[group], *(amount + 1e-9 for amount in remaining))))

    def record_order(self, group: int, count: int) -> None:
        """Record an order; a negative count revokes it."""
        self._sizes[group] -= count
        self._per_scale_up[group] -= count
        for name in self._remaining:
            self._remaining[name] -= count * float(self._weights[name][group])

    def explain_limit(self, group: int) -> DetailedReason:
        """The limit that keeps a group from more nodes."""
        name = self._templates.states[group].group.name
        if group in self._suspended:
            return self._suspended[group]
        if group in self._backoffs:
            return DetailedReason(GROUP_BACKED_OFF, f"{name} backs off: {self._backoffs[group].reason}")
        if self._sizes[group] <= 0:
            maximum = self._templates.states[group].group.max_size
            return DetailedReason(GROUP_AT_MAXIMUM, f"{name} has a maximum of {pluralize(maximum, 'node')}")
        for total, remaining in self._remaining.items():
            if remaining < self._weights[total][group]:
                return DetailedReason(
                    CLUSTER_AT_LIMIT, f"another node of {name} would exceed the cluster's limit of {total}"
                )
        maximum_at_once = self._settings.max_nodes_per_scaleup
        verb = choose_form(maximum_at_once, "is", "are")
        return DetailedReason(
            SCALE_UP_LIMITED, f"{pluralize(maximum_at_once, 'node')} of {name} {verb} ordered at once"
        )


def _compute_cluster_totals(view: ScaleUpView) -> dict[str, tuple[float, float]]:
    """The size of the cluster without upcoming nodes, and its limit; 0 for no limit."""
    table, settings = view.snapshot.table, view.settings
    existing = table.exists & ~view.readiness.starting
    return {
        "nodes": (float(np.count_nonzero(existing)), settings.max_nodes_total),
        "cores": (float(table.offered(CPU)[existing].sum()) / 1000, settings.cores_total),
        "memory": (float(table.offered(MEMORY)[existing].sum()), settings.memory_total),
    }


GROUP_BELOW_MINIMUM = Reason(
    "GroupBelowMinimum", "The node group is below its minimum size, and cannot grow now.", Severity.WARNING
)


def fill_to_minimum_sizes(
    view: ScaleUpView, simulation: ClusterSimulation, limits: ScaleUpLimits
) -> dict[str, DetailedReason]:
    """Add new nodes to groups below their minimum size, beside those that were added for pods.

    Returns the reasons of groups that stay below it.
    """
    if not view.settings.enforce_node_group_min_size:
        return {}
    notes: dict[str, DetailedReason] = {}
    new_counts = simulation.count_new_nodes()
    for number, state in enumerate(view.templates.states):
        group = state.group
        missing = group.min_size - view.get_target(group.name) - new_counts.get(number, 0)
        if missing <= 0:
            continue
        added = min(missing, limits.count_allowed_nodes(number))
        if added:
            simulation.add_new_nodes(number, added)
            limits.record_order(number, added)
        if added < missing:
            limit = limits.explain_limit(number)
            minimum = pluralize(group.min_size, "node")
            details = f"{group.name} has a minimum of {minimum} and lacks {missing - added}: {limit}"
            notes[group.name] = DetailedReason(GROUP_BELOW_MINIMUM, details)
    return notes
