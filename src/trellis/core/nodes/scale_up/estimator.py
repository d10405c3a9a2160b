"""Estimates which nodes of which groups would hold the pods and chunks that fit on no node.

Round by round the best group is chosen for all that is left, by an estimate for all groups at once, and the pods are
then packed on new nodes of it, one equivalence group after the other, first fit. A node is opened only for a pod that
no open node takes, so that rules about other pods see no more nodes than there would be.

The estimate treats every equivalence group as if it had nodes of its own and left no part of a node unused. Pods of
several groups may need fewer nodes; the packing decides how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from trellis.base.selectors import LabelOperator, LabelRequirement
from trellis.core.fit import Demand
from trellis.core.fit.constraints.inter_pod_rules import POD_AFFINITY_UNMET, inter_pod_rules
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.scale_up.expanders import Expander, ScaleUpOptions, balance_nodes, choose_group
from trellis.core.nodes.scale_up.view import ScaleUpLimits
from trellis.core.nodes.state.pods import PlacedPods, depends_on_other_pods
from trellis.core.nodes.state.simulation import HOSTNAME_LABEL, ClusterSimulation, NodeTemplates, pods_per_new_node
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

    def record_placed(self, numbers: IntColumn) -> None:
        """Record the nodes that some were placed on."""
        self.count -= len(numbers)
        self.places = np.concatenate((self.places, numbers))


IntMatrix = npt.NDArray[np.int64]


def estimate_options(
    templates: NodeTemplates, needs: Sequence[UnplacedPods], capacities: IntMatrix, allowed: IntColumn
) -> ScaleUpOptions | None:
    """The options that there are; None if no group can do anything.

    `capacities` says how many of each need a node of each group holds, `allowed` how many nodes of each may be ordered.
    """
    left: FloatColumn = np.array([pods.count for pods in needs], dtype=np.float64)
    some = np.flatnonzero(left)
    groups = np.flatnonzero((allowed > 0) & (capacities[some] > 0).any(axis=0))
    if not len(groups):
        return None
    left, able = left[some], capacities[np.ix_(some, groups)]
    takes = able > 0
    needed = (left[:, None] / np.maximum(able, 1) * takes).sum(axis=0)
    nodes = np.ceil(np.minimum(needed, allowed[groups]))
    # Of a group that may not have enough nodes, each pod gets its part.
    share = np.minimum(1.0, nodes / np.maximum(np.ceil(needed), 1.0))
    cores, memory = (_requested(needs, some, name) * left @ takes * share for name in (CPU, MEMORY))
    return ScaleUpOptions(
        groups=groups,
        nodes=nodes,
        pods=left @ takes * share,
        cores=templates.cores[groups] * nodes,
        memory=templates.memory[groups] * nodes,
        asked_cores=cores / 1000,
        asked_memory=memory,
        price=templates.prices[groups] * nodes,
        priority=templates.priorities[groups],
    )


def _requested(needs: Sequence[UnplacedPods], some: IntColumn, resource: str) -> FloatColumn:
    return np.array([needs[at].requests.get(resource, 0) for at in some.tolist()], dtype=np.float64)


def groups_by_spread_domain(templates: NodeTemplates, demand: Demand, groups: IntColumn) -> list[IntColumn]:
    """Groups by the domains over which pods are spread, as positions; every node is a host of its own anyway."""
    keys = [constraint.key for constraint in demand.spread if constraint.key != HOSTNAME_LABEL]
    if not keys:
        return [np.arange(len(groups))]
    domains = np.stack([templates.table.domains(key)[0][groups] for key in keys])
    _, which = np.unique(domains, axis=1, return_inverse=True)
    which = which.reshape(-1)
    return [np.flatnonzero(which == domain) for domain in range(int(which.max()) + 1)]


def groups_meeting_affinity(
    simulation: ClusterSimulation, placed: PlacedPods, demand: Demand, groups: IntColumn
) -> BoolColumn:
    """The groups whose nodes are in domains that meet the pod affinity."""
    mask = np.ones(len(groups), dtype=np.bool_)
    table, nodes = simulation.table, simulation.templates.nodes
    keys = dict.fromkeys(term.key for term in demand.pod_affinity)
    rules = (
        named.rule
        for named in inter_pod_rules(table, placed.existing_pods, demand)
        if named.reason is POD_AFFINITY_UNMET
    )
    for key, rule in zip(keys, rules, strict=True):
        if rule.changes:
            # The first pod of its kind may be in any domain.
            continue
        there = table.exists & rule.mask
        answers: dict[str | None, bool] = {}
        for at, group in enumerate(groups.tolist()):
            value = nodes[group].metadata.labels.get(key)
            if value not in answers:
                alike = None if value is None else table.labelled(LabelRequirement(key, LabelOperator.IN, (value,)))
                answers[value] = alike is not None and bool((there & alike).any())
            mask[at] &= answers[value]
    return mask


# Beyond one round for each group: rules about other pods may bring pods back to a group that could take no more.
_MORE_ROUNDS: Final = 64


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

    def place_on_new_nodes(self, needs: Sequence[UnplacedPods], placed: PlacedPods) -> None:
        """Place as many pods as possible on new nodes."""
        templates = self._simulation.templates
        if not needs or not len(templates):
            return
        first = np.stack([pods_per_new_node(templates, pods.demand) for pods in needs])
        before = -1
        # Pod affinity may be met once other pods are placed.
        while before != sum(pods.count for pods in needs):
            before = sum(pods.count for pods in needs)
            self._place_by_groups(needs, first.copy(), first, placed)
            if not any(pods.count and pods.demand.pod_affinity for pods in needs):
                return

    def _place_by_groups(
        self, needs: Sequence[UnplacedPods], capacities: IntMatrix, first: IntMatrix, placed: PlacedPods
    ) -> None:
        for _ in range(len(self._simulation.templates) + _MORE_ROUNDS):
            options = estimate_options(
                self._simulation.templates, needs, capacities, self._limits.allowed_nodes_by_group()
            )
            if options is None:
                return
            self._place_on_best_group(needs, capacities, first, placed, options)

    def _place_on_best_group(
        self,
        needs: Sequence[UnplacedPods],
        capacities: IntMatrix,
        first: IntMatrix,
        placed: PlacedPods,
        options: ScaleUpOptions,
    ) -> None:
        """Place pods on new nodes of the best group. Pods that do not fit do not try this group again."""
        group = choose_group(options, self._expanders)
        for at, need in enumerate(needs):
            if not need.count or not capacities[at, group]:
                continue
            before = need.count
            goes_by_domains = need.demand.pod_affinity or need.demand.spread
            members = (
                self._groups_by_domain(need, placed, capacities[at], options)
                if goes_by_domains
                else self._balanced_groups(group, capacities[at])
            )
            if not len(members):
                capacities[at] = 0
                continue
            self._place_on_members(need, placed, members, int(capacities[at, members].max()))
            if need.depends_on_other_pods and need.count < before:
                # Where these are now may have opened a domain of another group to the others.
                capacities[at] = first[at]
            if need.count:
                capacities[at, members] = 0

    def _balanced_groups(self, group: int, capacities: IntColumn) -> IntColumn:
        """The groups that are balanced with this one and have capacity for the pods."""
        alike = self._similar[group] if self._similar is not None else np.array([group], dtype=np.int64)
        return alike[capacities[alike] > 0]

    def _groups_by_domain(
        self, need: UnplacedPods, placed: PlacedPods, capacities: IntColumn, options: ScaleUpOptions
    ) -> IntColumn:
        """The best group that meets the affinity, or the best of each domain that pods are spread over."""
        able = options.take(np.flatnonzero(capacities[options.groups]))
        if need.demand.pod_affinity:
            able = able.take(
                np.flatnonzero(groups_meeting_affinity(self._simulation, placed, need.demand, able.groups))
            )
            parts = [able] if len(able.groups) else []
        else:
            parts = [
                able.take(part)
                for part in groups_by_spread_domain(self._simulation.templates, need.demand, able.groups)
            ]
        return np.array([choose_group(part, self._expanders) for part in parts], dtype=np.int64)

    def _place_on_members(self, need: UnplacedPods, placed: PlacedPods, members: IntColumn, most_on_one: int) -> None:
        simulation = self._simulation
        everywhere = np.concatenate((simulation.ready, simulation.upcoming))
        nodes = np.concatenate((everywhere, simulation.new)) if need.depends_on_other_pods else simulation.new
        need.record_placed(simulation.place(placed, need.demand, need.count, nodes))
        rate = float(most_on_one)
        while need.count:
            # One in every domain at least, or the pods cannot lie evenly.
            fewest = min(len(members), need.count) if need.demand.spread else 1
            sizes = np.zeros_like(members) if need.demand.spread else self._sizes[members]
            rows = self._add_nodes(members, sizes, max(int(np.ceil(need.count / rate)), fewest))
            if not len(rows):
                return
            nodes = np.concatenate((everywhere, simulation.new)) if need.depends_on_other_pods else rows
            numbers = simulation.place(placed, need.demand, need.count, nodes)
            need.record_placed(numbers)
            self._remove_nodes(rows[~simulation.mask(numbers)[rows]])
            if not len(numbers):
                return
            rate = min(max(len(numbers) / len(rows), 1.0), rate)

    def _add_nodes(self, members: IntColumn, sizes: IntColumn, count: int) -> IntColumn:
        allowed = np.array([self._limits.allowed_nodes(member) for member in members.tolist()], dtype=np.int64)
        shares = balance_nodes(count, sizes, allowed)
        opened: list[IntColumn] = []
        for group, more in zip(members.tolist(), shares.tolist(), strict=True):
            # The limits of the cluster are shared: what one group has taken is not there for the next.
            given = min(more, self._limits.allowed_nodes(group))
            if given:
                opened.append(self._simulation.add_new_nodes(group, given))
                self._limits.count_order(group, given)
                self._sizes[group] += given
        return np.concatenate(opened) if opened else np.zeros(0, dtype=np.int64)

    def _remove_nodes(self, rows: IntColumn) -> None:
        groups = self._simulation.groups_of(rows)
        for group, count in zip(*(column.tolist() for column in np.unique(groups, return_counts=True)), strict=True):
            self._limits.count_order(group, -count)
            self._sizes[group] -= count
        if len(rows):
            self._simulation.remove_new_nodes(rows)
