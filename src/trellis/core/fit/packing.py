"""First-fit bin-packing of pods on nodes.

The result is that of placing pod after pod on the first node in order on which it fits beside all pods placed before,
but equal pods are placed together. Where only resources count they fill node after node, which is one cumulative sum.
Rules about other pods are followed pod by pod, on the nodes that the other filters leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from trellis.core.fit.constraints.existing_pods import ExistingPods
from trellis.core.fit.constraints.inter_pod_rules import build_inter_pod_rules
from trellis.core.fit.constraints.topology_domains import DomainRule
from trellis.core.fit.demand import Demand
from trellis.core.fit.filters import find_eligible_nodes
from trellis.core.fit.node_table import NodeTable
from trellis.core.fit.occupancy import Occupancy
from trellis.core.usage.columns import BoolColumn, IntColumn


class _PackingTarget(NamedTuple):
    """The nodes that pods are packed on."""

    table: NodeTable
    used: Occupancy
    existing_pods: ExistingPods
    nodes: IntColumn | None


def pack(
    table: NodeTable,
    used: Occupancy,
    groups: Iterable[tuple[Demand, int]],
    existing_pods: ExistingPods | None = None,
    nodes: IntColumn | None = None,
) -> list[IntColumn]:
    """Pack groups of equal pods on nodes. Returns, for each group, the number of the node of each pod that fits.

    A group is complete before the next begins. `nodes` are the numbers to try, in this order; by default all of them,
    ascending. Placed pods are added to `used` and `existing_pods`; pass copies of them to a simulation.
    """
    target = _PackingTarget(table, used, ExistingPods(table) if existing_pods is None else existing_pods, nodes)
    return [_pack_group(target, demand, count) for demand, count in groups]


def _pack_group(target: _PackingTarget, demand: Demand, count: int) -> IntColumn:
    table, used, existing_pods, nodes = target
    possible = find_eligible_nodes(table, demand)
    changing: list[DomainRule] = []
    for _, rule in build_inter_pod_rules(table, existing_pods, demand):
        if rule.changes:
            changing.append(rule)
        else:
            possible &= rule.mask
    numbers = np.flatnonzero(possible) if nodes is None else nodes[possible[nodes]]
    capacities = used.count_fitting(demand, numbers)
    if changing:
        placed = _place_in_turn(numbers, capacities, changing, count)
        used_nodes, counts = np.unique(placed, return_counts=True)
    else:
        used_nodes, counts = _fill_nodes(numbers, capacities, count)
        placed = np.repeat(used_nodes, counts)
    if len(used_nodes):
        used.add_many(used_nodes, demand, counts)
        existing_pods.add_many(used_nodes, demand.profile, counts)
    return placed


def _fill_nodes(numbers: IntColumn, capacities: IntColumn, count: int) -> tuple[IntColumn, IntColumn]:
    """Fill node after node until all pods are placed. Returns the nodes, and the number of pods on each."""
    counts = np.minimum(capacities, count)
    reached = np.cumsum(counts)
    last = int(np.searchsorted(reached, count))
    if last < len(counts):
        counts[last] -= reached[last] - count
        counts[last + 1 :] = 0
    used = np.flatnonzero(counts)
    return numbers[used], counts[used]


def _place_in_turn(numbers: IntColumn, capacities: IntColumn, rules: Sequence[DomainRule], count: int) -> IntColumn:
    """Place each pod on the first node that is open to it, until a pod fits on none."""
    has_capacity = capacities > 0
    numbers, capacities = numbers[has_capacity], capacities[has_capacity].tolist()
    placed: list[int] = []
    if not len(numbers):
        return np.zeros(0, dtype=np.int64)
    full = np.zeros(len(numbers), dtype=np.bool_)
    domains = [rule.codes[numbers] for rule in rules]
    is_open = _open_nodes(full, rules, domains)
    while len(placed) < count:
        position = int(is_open.argmax())
        if not is_open[position]:
            break
        number = int(numbers[position])
        placed.append(number)
        capacities[position] -= 1
        full[position] = not capacities[position]
        changed = [rule.record_placed(number) for rule in rules]
        if any(changed):
            is_open = _open_nodes(full, rules, domains)
        elif full[position]:
            is_open[position] = False
    return np.array(placed, dtype=np.int64)


def _open_nodes(full: BoolColumn, rules: Sequence[DomainRule], domains: Sequence[IntColumn]) -> BoolColumn:
    is_open = ~full
    for rule, domain in zip(rules, domains, strict=True):
        is_open &= rule.open[domain]
    return is_open
