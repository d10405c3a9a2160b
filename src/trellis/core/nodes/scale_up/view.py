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
from trellis.core.nodes.scale_up.memory import GROUP_BACKED_OFF, GroupBackoff, ScaleUpMemory, active_backoffs, back_off
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.readiness import NodeReadiness, UpcomingNodes, classify_nodes, find_upcoming_nodes
from trellis.core.nodes.state.simulation import ClusterSimulation, NodeTemplates
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.usage.columns import FloatColumn, IntColumn


class ScaleUpView(msgspec.Struct, frozen=True):
    """The snapshot, the readiness of its nodes, upcoming nodes, templates of new nodes, and backoffs of groups."""

    snapshot: ClusterSnapshot
    readiness: NodeReadiness
    upcoming: UpcomingNodes
    templates: NodeTemplates
    backoffs: Mapping[str, GroupBackoff]
    now: float
    settings: ScaleUpSettings

    def target(self, name: str) -> int:
        """The target of a group, unconfirmed orders included."""
        unconfirmed_order = self.upcoming.unconfirmed_orders.get(name)
        shown = self.snapshot.groups[name].target
        return shown if unconfirmed_order is None else max(shown, unconfirmed_order.target)

    @property
    def largest_node(self) -> tuple[float, float]:
        """The most millicores and bytes of any existing or new node."""
        tables = (self.snapshot.table, self.templates.table)
        cores, memory = (max(float(table.offered(name).max(initial=0)) for table in tables) for name in (CPU, MEMORY))
        return cores, memory


def build_scale_up_view(
    snapshot: ClusterSnapshot, memory: ScaleUpMemory, now: float, settings: ScaleUpSettings
) -> ScaleUpView:
    readiness = classify_nodes(snapshot, now, settings.max_node_provision_seconds)
    upcoming = find_upcoming_nodes(snapshot, memory.unconfirmed_orders, memory.missing_since, now, settings)
    backoffs = active_backoffs(memory.backoffs, now, settings)
    for failure in sorted(upcoming.failures, key=lambda failure: failure.failed_at):
        backoffs[failure.group] = back_off(
            backoffs.get(failure.group), failure.failed_at, str(failure.reason), settings
        )
    return ScaleUpView(snapshot, readiness, upcoming, NodeTemplates(snapshot, readiness), backoffs, now, settings)


CLUSTER_AT_LIMIT = Reason("ClusterAtLimit", "The cluster may not have more nodes, cores or memory.", Severity.WARNING)
SCALE_UP_LIMITED = Reason("ScaleUpLimited", "No more nodes of a group are ordered at once; the rest follows.")

_ENDLESS: Final = np.inf


class ScaleUpLimits:
    """What is left of all limits while a plan is built."""

    def __init__(self, view: ScaleUpView) -> None:
        self._templates, self._settings = view.templates, view.settings
        groups = [state.group for state in view.templates.states]
        self._backoffs = {
            at: view.backoffs[group.name]
            for at, group in enumerate(groups)
            if group.name in view.backoffs and view.now < view.backoffs[group.name].until
        }
        self._sizes = np.array([group.max_size - view.target(group.name) for group in groups], dtype=np.int64)
        self._at_once = np.full(len(groups), view.settings.max_nodes_per_scaleup, dtype=np.int64)
        self._weights: dict[str, FloatColumn] = {
            "nodes": np.ones(len(groups)),
            "cores": view.templates.cores,
            "memory": view.templates.memory,
        }
        upcoming = np.array([view.upcoming.counts[group.name] for group in groups], dtype=np.float64)
        self._left = {
            name: most - have - float(upcoming @ self._weights[name]) if most else _ENDLESS
            for name, (have, most) in _cluster_totals(view).items()
        }

    def allowed_nodes_by_group(self) -> IntColumn:
        """How many nodes of each group may be ordered, if none of other groups are."""
        # As floats: a node without a resource makes the quotient larger than any integer.
        least: FloatColumn = np.minimum(self._sizes, self._at_once).astype(np.float64)
        for name, left in self._left.items():
            if left < _ENDLESS:
                weights = np.maximum(self._weights[name], 1e-9)
                least = np.minimum(least, np.floor(max(left, 0.0) / weights + 1e-9))
        counts = least.astype(np.int64)
        counts[list(self._backoffs)] = 0
        counts[counts < 0] = 0
        return counts

    def allowed_nodes(self, group: int) -> int:
        """How many nodes of one group may be ordered."""
        if group in self._backoffs:
            return 0
        left = (left / max(float(self._weights[name][group]), 1e-9) for name, left in self._left.items())
        return max(0, int(min(self._sizes[group], self._at_once[group], *(amount + 1e-9 for amount in left))))

    def count_order(self, group: int, count: int) -> None:
        """Count an order; a negative count takes it back."""
        self._sizes[group] -= count
        self._at_once[group] -= count
        for name in self._left:
            self._left[name] -= count * float(self._weights[name][group])

    def why_no_order(self, group: int) -> DetailedReason:
        """Why no more nodes of a group may be ordered."""
        name = self._templates.states[group].group.name
        if group in self._backoffs:
            return DetailedReason(GROUP_BACKED_OFF, f"{name} is left alone: {self._backoffs[group].why}")
        if self._sizes[group] <= 0:
            most = self._templates.states[group].group.max_size
            return DetailedReason(GROUP_AT_MAXIMUM, f"{name} may have {pluralize(most, 'node')}")
        for total, left in self._left.items():
            if left < self._weights[total][group]:
                return DetailedReason(
                    CLUSTER_AT_LIMIT, f"another node of {name} is above the limit of {total} of the cluster"
                )
        together = self._settings.max_nodes_per_scaleup
        are = choose_form(together, "is", "are")
        return DetailedReason(SCALE_UP_LIMITED, f"{pluralize(together, 'node')} of {name} {are} ordered at once")


def _cluster_totals(view: ScaleUpView) -> dict[str, tuple[float, float]]:
    """The size of the cluster without upcoming nodes, and its limit; 0 for no limit."""
    table, settings = view.snapshot.table, view.settings
    there = table.exists & ~view.readiness.starting
    return {
        "nodes": (float(np.count_nonzero(there)), settings.max_nodes_total),
        "cores": (float(table.offered(CPU)[there].sum()) / 1000, settings.cores_total),
        "memory": (float(table.offered(MEMORY)[there].sum()), settings.memory_total),
    }


GROUP_BELOW_MINIMUM = Reason(
    "GroupBelowMinimum", "The group has fewer nodes than it is to have, and may not grow now.", Severity.WARNING
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
    opened = simulation.count_new_nodes()
    for number, state in enumerate(view.templates.states):
        group = state.group
        lacking = group.min_size - view.target(group.name) - opened.get(number, 0)
        if lacking <= 0:
            continue
        given = min(lacking, limits.allowed_nodes(number))
        if given:
            simulation.add_new_nodes(number, given)
            limits.count_order(number, given)
        if given < lacking:
            why = limits.why_no_order(number)
            details = f"{group.name} is to have {pluralize(group.min_size, 'node')} and lacks {lacking - given}: {why}"
            notes[group.name] = DetailedReason(GROUP_BELOW_MINIMUM, details)
    return notes
