"""The rules about other pods that apply to a pod, in the scheduler's order.

These are its own topology spread, affinity and anti-affinity, and the anti-affinity of the pods that run already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trellis.base.reasons import Reason
from trellis.base.selectors import LabelOperator, LabelRequirement
from trellis.core.fit.constraints.existing_pods import (
    AffinityPodQuery,
    AntiAffinityHolders,
    ExistingPods,
    SpreadPodQuery,
)
from trellis.core.fit.constraints.node_affinity import find_nodes_matching_any_term
from trellis.core.fit.constraints.pod_affinity import AffinityRule, AntiAffinityRule, PodQuery
from trellis.core.fit.constraints.topology_domains import DomainRule, count_pods_per_domain
from trellis.core.fit.constraints.topology_spread import TopologySpreadRule
from trellis.core.fit.demand import Demand
from trellis.core.fit.node_table import NodeTable
from trellis.core.usage.columns import BoolColumn


def find_node_selection_masks(table: NodeTable, demand: Demand) -> Iterator[BoolColumn]:
    """The nodes that match the node selector and the node affinity of a pod, as read-only masks; all must hold."""
    for requirement in demand.selector:
        yield table.labelled(requirement)
    if demand.node_affinity is not None:
        yield find_nodes_matching_any_term(table, demand.node_affinity)


POD_AFFINITY_UNMET = Reason(
    "PodAffinityUnmet", "No pod that the pod's affinity requires runs in the node's topology domain."
)
POD_ANTI_AFFINITY_BROKEN = Reason(
    "PodAntiAffinityBroken", "A pod that the pod's anti-affinity excludes runs in the node's topology domain."
)
EXISTING_POD_ANTI_AFFINITY = Reason(
    "ExistingPodAntiAffinity", "The anti-affinity of a pod in the node's topology domain excludes the pod."
)
SPREAD_TOO_UNEVEN = Reason("SpreadTooUneven", "The pod's topology spread constraints would be violated.")


class InterPodRule(NamedTuple):
    """One rule, and the reason for the nodes it closes."""

    reason: Reason
    rule: DomainRule


def list_required_topology_labels(demand: Demand) -> Iterator[LabelRequirement]:
    """The labels that a node must have, because rules of the pod are about their domains."""
    for key in dict.fromkeys(
        (*(constraint.key for constraint in demand.spread), *(term.key for term in demand.pod_affinity))
    ):
        yield LabelRequirement(key, LabelOperator.EXISTS)


def build_inter_pod_rules(table: NodeTable, existing: ExistingPods, demand: Demand) -> Iterator[InterPodRule]:
    """The rules, in the scheduler's order."""
    if demand.spread:
        yield from _spread_rules(table, existing, demand)
    if demand.pod_affinity:
        yield from _affinity_rules(table, existing, demand)
    for term in demand.profile.anti_affinity:
        codes, size = table.domains(term.key)
        counts = existing.counts(AffinityPodQuery((term.query,)))
        from_self = _matches_own_pod(term.query, existing, demand)
        if from_self or counts.any():
            yield InterPodRule(POD_ANTI_AFFINITY_BROKEN, AntiAffinityRule(codes, size, counts, from_self=from_self))
    for term in existing.find_anti_affinity_terms(demand.profile):
        codes, size = table.domains(term.key)
        yield InterPodRule(
            EXISTING_POD_ANTI_AFFINITY,
            AntiAffinityRule(codes, size, existing.counts(AntiAffinityHolders(term)), from_self=False),
        )


def _affinity_rules(table: NodeTable, existing: ExistingPods, demand: Demand) -> Iterator[InterPodRule]:
    counts = existing.counts(AffinityPodQuery(tuple(term.query for term in demand.pod_affinity)))
    domains = [table.domains(key) for key in dict.fromkeys(term.key for term in demand.pod_affinity)]
    # The scheduler ignores pods on nodes that are in none of the domains.
    is_alone = not any(count_pods_per_domain(codes, size, counts).any() for codes, size in domains)
    is_first = is_alone and all(_matches_own_pod(term.query, existing, demand) for term in demand.pod_affinity)
    for codes, size in domains:
        yield InterPodRule(POD_AFFINITY_UNMET, AffinityRule(codes, size, counts, first=is_first))


def _spread_rules(table: NodeTable, existing: ExistingPods, demand: Demand) -> Iterator[InterPodRule]:
    in_all = table.exists.copy()
    for rule in demand.spread:
        in_all &= table.domains(rule.key)[0] > 0
    labels, namespace = dict(demand.profile.labels), demand.profile.namespace
    no_pods = np.zeros(table.numbers_end, dtype=np.int32)
    for rule in demand.spread:
        counted = in_all.copy()
        for mask in _eligibility_masks(
            table, demand, honors_node_affinity=rule.honors_node_affinity, honors_node_taints=rule.honors_node_taints
        ):
            counted &= mask
        counts = existing.counts(SpreadPodQuery(namespace, rule.selector)) if rule.counts_pods else no_pods
        codes, size = table.domains(rule.key)
        counts_itself = rule.selector.matches(labels)
        yield InterPodRule(
            SPREAD_TOO_UNEVEN, TopologySpreadRule(codes, size, counts, counted, rule, counts_itself=counts_itself)
        )


def _eligibility_masks(
    table: NodeTable, demand: Demand, *, honors_node_affinity: bool, honors_node_taints: bool
) -> Iterator[BoolColumn]:
    if honors_node_affinity:
        yield from find_node_selection_masks(table, demand)
    if honors_node_taints:
        yield table.tolerated(demand.tolerations)


def _matches_own_pod(query: PodQuery, existing: ExistingPods, demand: Demand) -> bool:
    profile = demand.profile
    return query.matches(profile.namespace, existing.namespace_labels(profile.namespace), dict(profile.labels))
