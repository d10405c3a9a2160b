"""The scheduler's filters, in its order, each as a mask over all nodes.

First unschedulable nodes, the node name, taints, node selector and affinity, and volumes; then what other pods leave:
host ports and every resource; then the rules about other pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np

from trellis.base.reasons import Reason, Severity
from trellis.core.fit.constraints.existing_pods import ExistingPods
from trellis.core.fit.constraints.inter_pod_rules import inter_pod_rules, node_selection_masks, required_topology_labels
from trellis.core.fit.constraints.node_affinity import NodeNameRule, nodes_matching_any_term, nodes_matching_name
from trellis.core.fit.constraints.taints import CORDONED, tolerates
from trellis.core.fit.demand import Demand
from trellis.core.fit.node_table import NodeTable
from trellis.core.fit.occupancy import Occupancy
from trellis.core.usage.columns import BoolColumn

NO_NODES = Reason("NoNodes", "There is no node.", Severity.WARNING)
NODE_CORDONED = Reason("NodeCordoned", "The node is marked unschedulable.")
NODE_NOT_NAMED = Reason("NodeNotNamed", "The pod names another node.")
TAINT_NOT_TOLERATED = Reason("TaintNotTolerated", "The pod does not tolerate a taint of the node.")
NODE_NOT_SELECTED = Reason("NodeNotSelected", "The node does not match the pod's node selector or affinity.")
VOLUME_NOT_READY = Reason(
    "VolumeNotReady", "A volume of the pod is missing, lost, not bound yet, or for another pod alone.", Severity.WARNING
)
VOLUME_ELSEWHERE = Reason("VolumeElsewhere", "A volume of the pod cannot be reached from the node.")
TOPOLOGY_LABEL_MISSING = Reason("TopologyLabelMissing", "The node lacks a label by which the pod is to be placed.")
HOST_PORT_TAKEN = Reason("HostPortTaken", "Another pod on the node has a port that the pod asks for.")
NODE_TOO_SMALL = Reason("NodeTooSmall", "The node as a whole has less of a resource than the pod asks for.")
NODE_FULL = Reason("NodeFull", "Other pods on the node leave less of a resource than the pod asks for.")


class UnfitNodes(msgspec.Struct, frozen=True):
    """Why so many nodes are out of the question.

    `resource` says of what there is too little, or which label is missing.
    """

    reason: Reason
    nodes: int
    resource: str = ""

    def __str__(self) -> str:
        resource = f" ({self.resource})" if self.resource else ""
        return f"{self.nodes} {self.reason.code}{resource}"


class UnfitNodeMask(msgspec.Struct, frozen=True):
    """An obstacle, and the nodes that it is one of."""

    reason: Reason
    nodes: BoolColumn
    resource: str = ""


class _FilterResult(NamedTuple):
    """One rule, and the nodes that follow it."""

    reason: Reason
    passed: BoolColumn
    resource: str = ""


def eligible_nodes(table: NodeTable, demand: Demand) -> BoolColumn:
    """The nodes that would take the pod if they were large enough and empty."""
    mask = table.exists.copy()
    for check in _filter_nodes(table, demand):
        mask &= check.passed
    return mask


def fits(
    table: NodeTable, demand: Demand, used: Occupancy | None = None, near: ExistingPods | None = None
) -> BoolColumn:
    """The nodes on which the pod fits beside the pods there are; beside none if nothing is said about them."""
    mask = eligible_nodes(table, demand)
    for check in _filter_sizes(table, demand) if used is None else _filter_free_resources(used, demand):
        mask &= check.passed
    for check in _filter_inter_pod(table, demand, near):
        mask &= check.passed
    return mask


def explain_unfit_nodes(
    table: NodeTable, demand: Demand, used: Occupancy | None = None, near: ExistingPods | None = None
) -> tuple[UnfitNodes, ...]:
    """What keeps the pod from the nodes on which it does not fit.

    A node is counted once, for the first rule it breaks; what no room could mend comes before what others have taken.
    """
    if not table.size:
        return (UnfitNodes(NO_NODES, 0),)
    masks = find_unfit_nodes(table, demand, used, near)
    return tuple(UnfitNodes(unfit.reason, int(np.count_nonzero(unfit.nodes)), unfit.resource) for unfit in masks)


def find_unfit_nodes(
    table: NodeTable, demand: Demand, used: Occupancy | None = None, near: ExistingPods | None = None
) -> tuple[UnfitNodeMask, ...]:
    """The same, node by node: which of them break which rule first."""
    left = table.exists.copy()
    masks: dict[tuple[str, str], UnfitNodeMask] = {}
    free = _filter_free_resources(used, demand) if used is not None else ()
    for check in chain(
        _filter_nodes(table, demand), _filter_sizes(table, demand), free, _filter_inter_pod(table, demand, near)
    ):
        refused = left > check.passed
        if refused.any():
            left ^= refused
            key = (check.reason.code, check.resource)
            before = masks.get(key)
            nodes = refused if before is None else before.nodes | refused
            masks[key] = UnfitNodeMask(check.reason, nodes, check.resource)
    return tuple(masks.values())


def _filter_nodes(table: NodeTable, demand: Demand) -> Iterator[_FilterResult]:
    """What does not depend on other pods, nor on how large a node is."""
    if not tolerates(demand.tolerations, CORDONED):
        yield _FilterResult(NODE_CORDONED, table.schedulable)
    if demand.node_name:
        yield _FilterResult(NODE_NOT_NAMED, nodes_matching_name(table, NodeNameRule(demand.node_name, is_wanted=True)))
    yield _FilterResult(TAINT_NOT_TOLERATED, table.tolerated(demand.tolerations))
    for mask in node_selection_masks(table, demand):
        yield _FilterResult(NODE_NOT_SELECTED, mask)
    for terms in demand.volumes:
        yield _FilterResult(VOLUME_ELSEWHERE if terms else VOLUME_NOT_READY, nodes_matching_any_term(table, terms))
    for requirement in required_topology_labels(demand):
        yield _FilterResult(TOPOLOGY_LABEL_MISSING, table.labelled(requirement), requirement.key)


def _filter_sizes(table: NodeTable, demand: Demand) -> Iterator[_FilterResult]:
    for resource, amount in demand.amounts:
        yield _FilterResult(NODE_TOO_SMALL, table.offered(resource) >= amount, resource)


def _filter_free_resources(used: Occupancy, demand: Demand) -> Iterator[_FilterResult]:
    for port in demand.ports:
        yield _FilterResult(HOST_PORT_TAKEN, used.nodes_with_free_port(port))
    for resource, amount in demand.amounts:
        yield _FilterResult(NODE_FULL, used.free(resource) >= amount, resource)


def _filter_inter_pod(table: NodeTable, demand: Demand, near: ExistingPods | None) -> Iterator[_FilterResult]:
    if near is None:
        # Without other pods, a pod's rules about its like still say where the first of them can go.
        if not (demand.pod_affinity or demand.spread):
            return
        near = ExistingPods(table)
    for reason, rule in inter_pod_rules(table, near, demand):
        yield _FilterResult(reason, rule.mask)


def largest_request(table: NodeTable, demand: Demand, resource: str) -> int | None:
    """The most that the containers of a pod could request of one resource, all else equal; None if no node takes it.

    On the best node for it, with nothing else running there. The pod's overhead is taken off already.
    """
    mask = fits(table, demand.without(resource))
    if not mask.any():
        return None
    most = int(table.offered(resource)[mask].max())
    return max(most - dict(demand.overhead).get(resource, 0), 0)
