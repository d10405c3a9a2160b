"""Which rules about other pods does a pod bring, or meet?

Its own affinity, anti-affinity and spread, and the anti-affinity of the pods that are there already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trellis.base.label_requirements import Operator, Requirement
from trellis.base.reason import Reason
from trellis.core.fit.census import KeepingAway, MeantByAll, SpreadOver
from trellis.core.fit.demand import Demand
from trellis.core.fit.domain_rules import Apart, DomainRule, Near, Spread, totals
from trellis.core.fit.neighbours import Neighbours
from trellis.core.fit.node_masks import selections
from trellis.core.fit.nodes import NodeTable
from trellis.core.fit.pod_terms import PodQuery
from trellis.core.usage.columns import BoolColumn

POD_AFFINITY_UNMET = Reason("PodAffinityUnmet", "No pod that the pod must be near to runs in the node's domain.")
POD_ANTI_AFFINITY_BROKEN = Reason("PodAntiAffinityBroken", "A pod that the pod keeps away from runs in the domain.")
KEPT_AWAY_BY_PODS = Reason("KeptAwayByPods", "A pod that runs in the node's domain keeps such pods away from it.")
SPREAD_TOO_UNEVEN = Reason("SpreadTooUneven", "Pods would lie more unevenly over the domains than the pod allows.")


class Beside(NamedTuple):
    """One rule, and why a node is out of the question by it."""

    reason: Reason
    rule: DomainRule


def needed_labels(demand: Demand) -> Iterator[Requirement]:
    """Labels that a node must have, because a rule asks in which of its domains the node is."""
    for key in dict.fromkeys((*(each.key for each in demand.spread), *(each.key for each in demand.near))):
        yield Requirement(key, Operator.EXISTS)


def beside(table: NodeTable, near: Neighbours, demand: Demand) -> Iterator[Beside]:
    """The rules, in the scheduler's order."""
    if demand.spread:
        yield from _spread(table, near, demand)
    if demand.near:
        yield from _near(table, near, demand)
    for term in demand.resident.apart:
        codes, size = table.domains(term.key)
        counts = near.counts(MeantByAll((term.query,)))
        from_self = _means_self(term.query, near, demand)
        if from_self or counts.any():
            yield Beside(POD_ANTI_AFFINITY_BROKEN, Apart(codes, size, counts, from_self=from_self))
    for term in near.keeping_away(demand.resident):
        codes, size = table.domains(term.key)
        yield Beside(KEPT_AWAY_BY_PODS, Apart(codes, size, near.counts(KeepingAway(term)), from_self=False))


def _near(table: NodeTable, near: Neighbours, demand: Demand) -> Iterator[Beside]:
    counts = near.counts(MeantByAll(tuple(each.query for each in demand.near)))
    domains = [table.domains(key) for key in dict.fromkeys(each.key for each in demand.near)]
    # A pod on a node that is in none of the domains is no company: the scheduler does not see it.
    alone = not any(totals(codes, size, counts).any() for codes, size in domains)
    first = alone and all(_means_self(each.query, near, demand) for each in demand.near)
    for codes, size in domains:
        yield Beside(POD_AFFINITY_UNMET, Near(codes, size, counts, first=first))


def _spread(table: NodeTable, near: Neighbours, demand: Demand) -> Iterator[Beside]:
    in_all = table.exists.copy()
    for rule in demand.spread:
        in_all &= table.domains(rule.key)[0] > 0
    labels, namespace = dict(demand.resident.labels), demand.resident.namespace
    nobody = np.zeros(table.reach, dtype=np.int32)
    for rule in demand.spread:
        among = in_all.copy()
        for mask in _heeded(table, demand, heeds_affinity=rule.heeds_affinity, heeds_taints=rule.heeds_taints):
            among &= mask
        counts = near.counts(SpreadOver(namespace, rule.selector)) if rule.counts_pods else nobody
        codes, size = table.domains(rule.key)
        is_like = rule.selector.matches(labels)
        yield Beside(SPREAD_TOO_UNEVEN, Spread(codes, size, counts, among, rule, is_like=is_like))


def _heeded(table: NodeTable, demand: Demand, *, heeds_affinity: bool, heeds_taints: bool) -> Iterator[BoolColumn]:
    if heeds_affinity:
        yield from selections(table, demand)
    if heeds_taints:
        yield table.tolerated(demand.tolerations)


def _means_self(query: PodQuery, near: Neighbours, demand: Demand) -> bool:
    resident = demand.resident
    return query.means(resident.namespace, near.namespace_labels(resident.namespace), dict(resident.labels))
