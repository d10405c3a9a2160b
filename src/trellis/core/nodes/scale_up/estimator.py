"""Estimates which nodes of which groups would hold the pods and chunks that fit on no node.

Round by round the best group is chosen for all remaining pods, by an estimate for all groups at once, and the pods are
then packed on new nodes of it, one equivalence group after the other, first fit. A node is added only for a pod that no
added node takes, so that rules about other pods see no more nodes than there would be.

The estimate treats every equivalence group as if it had nodes of its own and left no part of a node unused. Pods of
several groups may need fewer nodes; the packing decides how many.

Groups whose nodes have GPUs or other devices are no option for pods that request none as long as another group can take
these pods, whatever the expanders prefer. Pods of a rule about zones or other domains have this choice in each domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trellis.base.selectors import LabelOperator, LabelRequirement
from trellis.core.fit import Demand
from trellis.core.fit.constraints.inter_pod_rules import POD_AFFINITY_UNMET, build_inter_pod_rules
from trellis.core.fit.devices import find_device_nodes, requests_devices
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.scale_up.expanders import Expander, ScaleUpOptions, balance_nodes, choose_group
from trellis.core.nodes.scale_up.view import ScaleUpLimits
from trellis.core.nodes.state.pods import PlacedPods, depends_on_other_pods
from trellis.core.nodes.state.simulation import (
    HOSTNAME_LABEL,
    ClusterSimulation,
    NodeTemplates,
    count_pods_per_new_node,
)
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn


class UnplacedPods:
    """Equal pods without a place: their number, and the places of those that were placed on new nodes."""

    def __init__(self, demand: Demand, count: int) -> None:
        self.demand = demand
        self.count = count
        self.requests = demand.requests
        self.places: IntColumn = np.zeros(0, dtype=np.int64)

    @property
    def depends_on_other_pods(self) -> bool:
        """Whether rules about other pods restrict where these fit."""
        return depends_on_other_pods(self.demand)

    @property
    def depends_on_domains(self) -> bool:
        """Whether rules restrict in which domains the nodes of these are."""
        return bool(self.demand.pod_affinity or self.demand.spread)

    @property
    def needs_devices(self) -> bool:
        """Whether these request GPUs or other devices."""
        return requests_devices(self.requests)

    def record_placed(self, numbers: IntColumn) -> None:
        """Record the nodes that some were placed on."""
        self.count -= len(numbers)
        self.places = np.concatenate((self.places, numbers))


IntMatrix = npt.NDArray[np.int64]


class _Capacities(NamedTuple):
    """How many of each of the unplaced pods a new node of each group holds.

    Groups that turned out not to take more of the pods have zeros in `remaining`; `suitable` is without groups whose
    devices would be idle, in `initial` all are as they were at first.
    """

    remaining: IntMatrix
    suitable: IntMatrix
    initial: IntMatrix


def estimate_options(
    templates: NodeTemplates, unplaced: Sequence[UnplacedPods], capacities: IntMatrix, allowed: IntColumn
) -> ScaleUpOptions | None:
    """All options; None if no group can take any pod.

    `capacities` has the number of each of the pods that a node of each group holds, `allowed` the number of nodes of
    each group that may be ordered.
    """
    counts: FloatColumn = np.array([pods.count for pods in unplaced], dtype=np.float64)
    open_positions = np.flatnonzero(counts)
    groups = np.flatnonzero((allowed > 0) & (capacities[open_positions] > 0).any(axis=0))
    if not len(groups):
        return None
    counts, fitting = counts[open_positions], capacities[np.ix_(open_positions, groups)]
    fits_any = fitting > 0
    needed = (counts[:, None] / np.maximum(fitting, 1) * fits_any).sum(axis=0)
    nodes = np.ceil(np.minimum(needed, allowed[groups]))
    # In a group that may not have enough nodes, each pod gets its share.
    share = np.minimum(1.0, nodes / np.maximum(np.ceil(needed), 1.0))
    cores, memory = (
        _sum_requests(unplaced, open_positions, name) * counts @ fits_any * share for name in (CPU, MEMORY)
    )
    return ScaleUpOptions(
        groups=groups,
        nodes=nodes,
        pods=counts @ fits_any * share,
        cores=templates.cores[groups] * nodes,
        memory=templates.memory[groups] * nodes,
        requested_cores=cores / 1000,
        requested_memory=memory,
        price=templates.prices[groups] * nodes,
        priority=templates.priorities[groups],
    )


def _sum_requests(unplaced: Sequence[UnplacedPods], positions: IntColumn, resource: str) -> FloatColumn:
    return np.array([unplaced[position].requests.get(resource, 0) for position in positions.tolist()], dtype=np.float64)


def split_groups_by_spread_domain(templates: NodeTemplates, demand: Demand, groups: IntColumn) -> list[IntColumn]:
    """Groups by the domains over which pods are spread, as positions; every node is a host of its own anyway."""
    keys = [constraint.key for constraint in demand.spread if constraint.key != HOSTNAME_LABEL]
    if not keys:
        return [np.arange(len(groups))]
    domains = np.stack([templates.table.domains(key)[0][groups] for key in keys])
    _, domain_of_group = np.unique(domains, axis=1, return_inverse=True)
    domain_of_group = domain_of_group.reshape(-1)
    return [np.flatnonzero(domain_of_group == domain) for domain in range(int(domain_of_group.max()) + 1)]


def find_groups_meeting_affinity(
    simulation: ClusterSimulation, placed: PlacedPods, demand: Demand, groups: IntColumn
) -> BoolColumn:
    """The groups whose nodes are in domains that meet the pod affinity."""
    mask = np.ones(len(groups), dtype=np.bool_)
    table, nodes = simulation.table, simulation.templates.nodes
    keys = dict.fromkeys(term.key for term in demand.pod_affinity)
    rules = (
        named.rule
        for named in build_inter_pod_rules(table, placed.existing_pods, demand)
        if named.reason is POD_AFFINITY_UNMET
    )
    for key, rule in zip(keys, rules, strict=True):
        if rule.changes:
            # The first pod of its kind may be in any domain.
            continue
        in_domain = table.exists & rule.mask
        meets_affinity: dict[str | None, bool] = {}
        for position, group in enumerate(groups.tolist()):
            value = nodes[group].metadata.labels.get(key)
            if value not in meets_affinity:
                same_value = (
                    None if value is None else table.labelled(LabelRequirement(key, LabelOperator.IN, (value,)))
                )
                meets_affinity[value] = same_value is not None and bool((in_domain & same_value).any())
            mask[position] &= meets_affinity[value]
    return mask


# Rounds beyond one for each group: rules about other pods may bring pods back to a group that could take no more.
_EXTRA_ROUNDS: Final = 64


class NodeEstimator:
    """Estimates new nodes for unplaced pods, within limits. `similar` has the similar groups of each group."""

    def __init__(
        self,
        simulation: ClusterSimulation,
        limits: ScaleUpLimits,
        expanders: Sequence[Expander],
        similar: Sequence[IntColumn] | None,
    ) -> None:
        self._simulation = simulation
        self._limits = limits
        self._expanders = expanders
        self._similar = similar
        self._sizes = np.array([state.target for state in simulation.templates.states], dtype=np.int64)
        self._has_devices = find_device_nodes(simulation.templates.table)

    def place_on_new_nodes(self, unplaced: Sequence[UnplacedPods], placed: PlacedPods) -> None:
        """Place as many pods as possible on new nodes."""
        templates = self._simulation.templates
        if not unplaced or not len(templates):
            return
        initial_capacities = np.stack([count_pods_per_new_node(templates, pods.demand) for pods in unplaced])
        count_before = -1
        # Pod affinity may be met once other pods are placed.
        while count_before != sum(pods.count for pods in unplaced):
            count_before = sum(pods.count for pods in unplaced)
            self._place_by_groups(unplaced, initial_capacities.copy(), initial_capacities, placed)
            if not any(pods.count and pods.demand.pod_affinity for pods in unplaced):
                return

    def _place_by_groups(
        self, unplaced: Sequence[UnplacedPods], capacities: IntMatrix, initial_capacities: IntMatrix, placed: PlacedPods
    ) -> None:
        for _ in range(len(self._simulation.templates) + _EXTRA_ROUNDS):
            allowed = self._limits.count_allowed_nodes_by_group()
            suitable = self._without_needless_devices(unplaced, capacities, allowed)
            options = estimate_options(self._simulation.templates, unplaced, suitable, allowed)
            if options is None:
                return
            self._place_on_best_group(unplaced, _Capacities(capacities, suitable, initial_capacities), placed, options)

    def _without_needless_devices(
        self, unplaced: Sequence[UnplacedPods], capacities: IntMatrix, allowed: IntColumn
    ) -> IntMatrix:
        """The capacities without those of nodes whose devices would be idle, for pods that fit on others."""
        if not self._has_devices.any():
            return capacities
        suitable = capacities.copy()
        for at, pods in enumerate(unplaced):
            if pods.needs_devices or pods.depends_on_domains:
                continue
            if ((capacities[at] > 0) & (allowed > 0) & ~self._has_devices).any():
                suitable[at, self._has_devices] = 0
        return suitable

    def _place_on_best_group(
        self,
        unplaced: Sequence[UnplacedPods],
        all_capacities: _Capacities,
        placed: PlacedPods,
        options: ScaleUpOptions,
    ) -> None:
        """Place pods on new nodes of the best group. Pods that do not fit do not try this group again."""
        capacities, suitable, initial_capacities = all_capacities
        group = choose_group(options, self._expanders)
        for at, pods in enumerate(unplaced):
            if not pods.count or not suitable[at, group]:
                continue
            count_before = pods.count
            members = (
                self._choose_by_domain(pods, placed, capacities[at], options)
                if pods.depends_on_domains
                else self._find_balanced_groups(group, capacities[at])
            )
            if not len(members):
                capacities[at] = 0
                continue
            self._place_on_members(pods, placed, members, int(capacities[at, members].max()))
            if pods.depends_on_other_pods and pods.count < count_before:
                # The places of these may have opened a domain of another group to the others.
                capacities[at] = initial_capacities[at]
            if pods.count:
                capacities[at, members] = 0

    def _find_balanced_groups(self, group: int, capacities: IntColumn) -> IntColumn:
        """The groups that are balanced with this one and have capacity for the pods."""
        alike = self._similar[group] if self._similar is not None else np.array([group], dtype=np.int64)
        return alike[capacities[alike] > 0]

    def _choose_by_domain(
        self, pods: UnplacedPods, placed: PlacedPods, capacities: IntColumn, options: ScaleUpOptions
    ) -> IntColumn:
        """The best group that meets the affinity, or the best of each domain that pods are spread over."""
        able = options.select(np.flatnonzero(capacities[options.groups]))
        if pods.demand.pod_affinity:
            able = able.select(
                np.flatnonzero(find_groups_meeting_affinity(self._simulation, placed, pods.demand, able.groups))
            )
            parts = [able] if len(able.groups) else []
        else:
            parts = [
                able.select(part)
                for part in split_groups_by_spread_domain(self._simulation.templates, pods.demand, able.groups)
            ]
        if not pods.needs_devices:
            parts = [self._prefer_groups_without_devices(part) for part in parts]
        return np.array([choose_group(part, self._expanders) for part in parts], dtype=np.int64)

    def _prefer_groups_without_devices(self, options: ScaleUpOptions) -> ScaleUpOptions:
        without_devices = np.flatnonzero(~self._has_devices[options.groups])
        return options.select(without_devices) if len(without_devices) else options

    def _place_on_members(self, pods: UnplacedPods, placed: PlacedPods, members: IntColumn, max_per_node: int) -> None:
        simulation = self._simulation
        existing_nodes = np.concatenate((simulation.ready, simulation.upcoming))
        nodes = np.concatenate((existing_nodes, simulation.new)) if pods.depends_on_other_pods else simulation.new
        pods.record_placed(simulation.place(placed, pods.demand, pods.count, nodes))
        pods_per_node = float(max_per_node)
        while pods.count:
            # At least one node in every domain, or the pods cannot be spread evenly.
            min_nodes = min(len(members), pods.count) if pods.demand.spread else 1
            sizes = np.zeros_like(members) if pods.demand.spread else self._sizes[members]
            rows = self._add_nodes(members, sizes, max(int(np.ceil(pods.count / pods_per_node)), min_nodes))
            if not len(rows):
                return
            nodes = np.concatenate((existing_nodes, simulation.new)) if pods.depends_on_other_pods else rows
            numbers = simulation.place(placed, pods.demand, pods.count, nodes)
            pods.record_placed(numbers)
            self.remove_nodes(rows[~simulation.build_mask(numbers)[rows]])
            if not len(numbers):
                return
            pods_per_node = min(max(len(numbers) / len(rows), 1.0), pods_per_node)

    def _add_nodes(self, members: IntColumn, sizes: IntColumn, count: int) -> IntColumn:
        allowed = np.array([self._limits.count_allowed_nodes(member) for member in members.tolist()], dtype=np.int64)
        shares = balance_nodes(count, sizes, allowed)
        added_rows: list[IntColumn] = []
        for group, share in zip(members.tolist(), shares.tolist(), strict=True):
            # All groups share the limits of the cluster.
            count_added = min(share, self._limits.count_allowed_nodes(group))
            if count_added:
                added_rows.append(self._simulation.add_new_nodes(group, count_added))
                self._limits.record_order(group, count_added)
                self._sizes[group] += count_added
        return np.concatenate(added_rows) if added_rows else np.zeros(0, dtype=np.int64)

    def remove_nodes(self, rows: IntColumn) -> None:
        """Remove new nodes that are not needed, also from the limits."""
        groups = self._simulation.get_groups(rows)
        for group, count in zip(*(column.tolist() for column in np.unique(groups, return_counts=True)), strict=True):
            self._limits.record_order(group, -count)
            self._sizes[group] -= count
        if len(rows):
            self._simulation.remove_new_nodes(rows)
