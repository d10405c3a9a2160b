"""The scheduler's filters, in its order, each as a mask over all nodes.

First unschedulable nodes, the node name, taints, node selector and affinity, and volumes; then host ports and resources
that other pods leave free; then the rules about other pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np

from trellis.base.reasons import Reason, Severity
from trellis.core.fit.constraints.existing_pods import ExistingPods
from trellis.core.fit.constraints.inter_pod_rules import (
    build_inter_pod_rules,
    find_node_selection_masks,
    list_required_topology_labels,
)
from trellis.core.fit.constraints.node_affinity import (
    NodeNameRule,
    find_nodes_matching_any_term,
    find_nodes_matching_name,
)
from trellis.core.fit.constraints.taints import CORDONED, tolerates
from trellis.core.fit.demand import Demand
from trellis.core.fit.node_table import NodeTable
from trellis.core.fit.occupancy import Occupancy
from trellis.core.usage.columns import BoolColumn

NO_NODES = Reason("NoNodes", "The cluster has no node.", Severity.WARNING)
NODE_CORDONED = Reason("NodeCordoned", "The node is unschedulable (cordoned).")
NODE_NOT_NAMED = Reason("NodeNotNamed", "The pod's spec.nodeName is another node.")
TAINT_NOT_TOLERATED = Reason("TaintNotTolerated", "The pod does not tolerate a taint of the node.")
NODE_NOT_SELECTED = Reason("NodeNotSelected", "The node does not match the pod's node selector or affinity.")
VOLUME_NOT_READY = Reason(
    "VolumeNotReady",
    "A volume of the pod is missing, lost, unbound, or in use by another pod exclusively.",
    Severity.WARNING,
)
VOLUME_NOT_REACHABLE = Reason("VolumeNotReachable", "A volume of the pod cannot be attached to the node.")
DEVICES_NOT_REACHABLE = Reason(
    "DevicesNotReachable", "Devices that are allocated to a resource claim of the pod cannot be used on the node."
)
TOPOLOGY_LABEL_MISSING = Reason(
    "TopologyLabelMissing", "The node lacks a topology label that the pod's constraints need."
)
HOST_PORT_TAKEN = Reason("HostPortTaken", "Another pod on the node uses a host port of the pod.")
NODE_TOO_SMALL = Reason("NodeTooSmall", "The node's allocatable of a resource is less than the pod requests.")
NODE_FULL = Reason("NodeFull", "Other pods on the node leave less of a resource than the pod requests.")


class UnfitNodes(msgspec.Struct, frozen=True):
    """A reason, and the number of nodes that are unfit for it.

    `resource` is the resource that is short, or the label that is missing.
    """

    reason: Reason
    nodes: int
    resource: str = ""

    def __str__(self) -> str:
        resource = f" ({self.resource})" if self.resource else ""
        return f"{self.nodes} {self.reason.code}{resource}"


class UnfitNodeMask(msgspec.Struct, frozen=True):
    """A reason, and the nodes that are unfit for it."""

    reason: Reason
    nodes: BoolColumn
    resource: str = ""


class _FilterResult(NamedTuple):
    """The nodes that pass one filter, and the reason for the others."""

    reason: Reason
    passed: BoolColumn
    resource: str = ""


def find_eligible_nodes(table: NodeTable, demand: Demand) -> BoolColumn:
    """The nodes that pass all filters but those about resources and other pods."""
    mask = table.exists.copy()
    for check in _filter_nodes(table, demand):
        mask &= check.passed
    return mask


def find_fitting_nodes(
    table: NodeTable, demand: Demand, used: Occupancy | None = None, existing_pods: ExistingPods | None = None
) -> BoolColumn:
    """The nodes on which the pod fits beside placed pods; without `used` and `existing_pods`, on empty nodes."""
    mask = find_eligible_nodes(table, demand)
    for check in _filter_sizes(table, demand) if used is None else _filter_free_resources(used, demand):
        mask &= check.passed
    for check in _filter_inter_pod(table, demand, existing_pods):
        mask &= check.passed
    return mask


def explain_unfit_nodes(
    table: NodeTable, demand: Demand, used: Occupancy | None = None, existing_pods: ExistingPods | None = None
) -> tuple[UnfitNodes, ...]:
    """The reasons why nodes are unfit, with the number of nodes.

    A node is counted once, for the first filter it does not pass. The size of a node comes before what other pods use.
    """
    if not table.size:
        return (UnfitNodes(NO_NODES, 0),)
    masks = find_unfit_nodes(table, demand, used, existing_pods)
    return tuple(UnfitNodes(unfit.reason, int(np.count_nonzero(unfit.nodes)), unfit.resource) for unfit in masks)


def find_unfit_nodes(
    table: NodeTable, demand: Demand, used: Occupancy | None = None, existing_pods: ExistingPods | None = None
) -> tuple[UnfitNodeMask, ...]:
    """The reasons why nodes are unfit, with the nodes: each has that of the first filter it does not pass."""
    remaining = table.exists.copy()
    masks: dict[tuple[str, str], UnfitNodeMask] = {}
    free = _filter_free_resources(used, demand) if used is not None else ()
    for check in chain(
        _filter_nodes(table, demand),
        _filter_sizes(table, demand),
        free,
        _filter_inter_pod(table, demand, existing_pods),
    ):
        refused = remaining > check.passed
        if refused.any():
            remaining ^= refused
            key = (check.reason.code, check.resource)
            merged = masks.get(key)
            nodes = refused if merged is None else merged.nodes | refused
            masks[key] = UnfitNodeMask(check.reason, nodes, check.resource)
    return tuple(masks.values())


def _filter_nodes(table: NodeTable, demand: Demand) -> Iterator[_FilterResult]:
    """The filters that depend neither on other pods nor on the size of a node."""
    if not tolerates(demand.tolerations, CORDONED):
        yield _FilterResult(NODE_CORDONED, table.schedulable)
    if demand.node_name:
        yield _FilterResult(
            NODE_NOT_NAMED, find_nodes_matching_name(table, NodeNameRule(demand.node_name, must_match=True))
        )
    yield _FilterResult(TAINT_NOT_TOLERATED, table.tolerated(demand.tolerations))
    for mask in find_node_selection_masks(table, demand):
        yield _FilterResult(NODE_NOT_SELECTED, mask)
    for terms in demand.volumes:
        yield _FilterResult(
            VOLUME_NOT_REACHABLE if terms else VOLUME_NOT_READY, find_nodes_matching_any_term(table, terms)
        )
    for terms in demand.allocations:
        yield _FilterResult(DEVICES_NOT_REACHABLE, find_nodes_matching_any_term(table, terms))
    for requirement in list_required_topology_labels(demand):
        yield _FilterResult(TOPOLOGY_LABEL_MISSING, table.labelled(requirement), requirement.key)


def _filter_sizes(table: NodeTable, demand: Demand) -> Iterator[_FilterResult]:
    for resource, amount in demand.amounts:
        yield _FilterResult(NODE_TOO_SMALL, table.offered(resource) >= amount, resource)


def _filter_free_resources(used: Occupancy, demand: Demand) -> Iterator[_FilterResult]:
    for port in demand.ports:
        yield _FilterResult(HOST_PORT_TAKEN, used.nodes_with_free_port(port))
    for resource, amount in demand.amounts:
        yield _FilterResult(NODE_FULL, used.free(resource) >= amount, resource)


def _filter_inter_pod(table: NodeTable, demand: Demand, existing_pods: ExistingPods | None) -> Iterator[_FilterResult]:
    if existing_pods is None:
        # Without other pods, the rules about equal pods still restrict where the first of them fits.
        if not (demand.pod_affinity or demand.spread):
            return
        existing_pods = ExistingPods(table)
    for reason, rule in build_inter_pod_rules(table, existing_pods, demand):
        yield _FilterResult(reason, rule.mask)


def find_largest_request(table: NodeTable, demand: Demand, resource: str) -> int | None:
    """The most that the containers of a pod could request of one resource, all else equal; None if it fits nowhere.

    On the largest node that it fits on, without other pods. The pod's overhead is subtracted.
    """
    mask = find_fitting_nodes(table, demand.without(resource))
    if not mask.any():
        return None
    most = int(table.offered(resource)[mask].max())
    return max(most - dict(demand.overhead).get(resource, 0), 0)
