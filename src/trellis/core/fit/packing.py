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
from trellis.core.fit.constraints.inter_pod_rules import inter_pod_rules
from trellis.core.fit.constraints.topology_domains import DomainRule
from trellis.core.fit.demand import Demand
from trellis.core.fit.filters import eligible_nodes
from trellis.core.fit.node_table import NodeTable
from trellis.core.fit.occupancy import Occupancy
from trellis.core.usage.columns import BoolColumn, IntColumn


class _PackingTarget(NamedTuple):
    """Where pods are put."""

    table: NodeTable
    used: Occupancy
    near: ExistingPods
    nodes: IntColumn | None


def pack(
    table: NodeTable,
    used: Occupancy,
    groups: Iterable[tuple[Demand, int]],
    near: ExistingPods | None = None,
    nodes: IntColumn | None = None,
) -> list[IntColumn]:
    """Put groups of pods that are alike on nodes; of each group the numbers of the nodes, one for each pod placed.

    A group is complete before the next begins. `nodes` are the numbers to try, in this order: all of them, ascending,
    if nothing is said. What is placed is added to `used` and `near`; give copies of them to try something.
    """
    place = _PackingTarget(table, used, ExistingPods(table) if near is None else near, nodes)
    return [_pack_group(place, demand, count) for demand, count in groups]


def _pack_group(place: _PackingTarget, demand: Demand, count: int) -> IntColumn:
    table, used, near, nodes = place
    possible = eligible_nodes(table, demand)
    changing: list[DomainRule] = []
    for _, rule in inter_pod_rules(table, near, demand):
        if rule.changes:
            changing.append(rule)
        else:
            possible &= rule.mask
    numbers = np.flatnonzero(possible) if nodes is None else nodes[possible[nodes]]
    capacities = used.count_fitting(demand, numbers)
    if changing:
        placed = _place_one_by_one(numbers, capacities, changing, count)
        where, times = np.unique(placed, return_counts=True)
    else:
        where, times = _fill_nodes(numbers, capacities, count)
        placed = np.repeat(where, times)
    if len(where):
        used.add_many(where, demand, times)
        near.add_many(where, demand.profile, times)
    return placed


def _fill_nodes(numbers: IntColumn, capacities: IntColumn, count: int) -> tuple[IntColumn, IntColumn]:
    """Node after node filled to the brim, until all have a place: which nodes, and how many on each."""
    counts = np.minimum(capacities, count)
    reached = np.cumsum(counts)
    last = int(np.searchsorted(reached, count))
    if last < len(counts):
        counts[last] -= reached[last] - count
        counts[last + 1 :] = 0
    some = np.flatnonzero(counts)
    return numbers[some], counts[some]


def _place_one_by_one(numbers: IntColumn, capacities: IntColumn, rules: Sequence[DomainRule], count: int) -> IntColumn:
    """Each pod on the first node that is open to it. Who finds none leaves none for those after it."""
    has_room = capacities > 0
    numbers, capacities = numbers[has_room], capacities[has_room].tolist()
    placed: list[int] = []
    if not len(numbers):
        return np.zeros(0, dtype=np.int64)
    full = np.zeros(len(numbers), dtype=np.bool_)
    domains = [rule.codes[numbers] for rule in rules]
    is_open = _open_nodes(full, rules, domains)
    while len(placed) < count:
        at = int(is_open.argmax())
        if not is_open[at]:
            break
        number = int(numbers[at])
        placed.append(number)
        capacities[at] -= 1
        full[at] = not capacities[at]
        changed = [rule.take(number) for rule in rules]
        if any(changed):
            is_open = _open_nodes(full, rules, domains)
        elif full[at]:
            is_open[at] = False
    return np.array(placed, dtype=np.int64)


def _open_nodes(full: BoolColumn, rules: Sequence[DomainRule], domains: Sequence[IntColumn]) -> BoolColumn:
    is_open = ~full
    for rule, domain in zip(rules, domains, strict=True):
        is_open &= rule.open[domain]
    return is_open
