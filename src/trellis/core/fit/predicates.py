"""On which nodes does a pod fit, and why not on the others?

The scheduler's filters, in its order, each as a mask over all nodes: cordoned off, another node named, taints, selector
and affinity, volumes; then what other pods have left: ports, and room of every resource; then where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np

from trellis.base.reason import Reason, Severity
from trellis.core.fit.beside import beside, needed_labels
from trellis.core.fit.demand import Demand
from trellis.core.fit.neighbours import Neighbours
from trellis.core.fit.node_masks import matching_one, named, selections
from trellis.core.fit.nodes import NodeTable
from trellis.core.fit.occupancy import Occupancy
from trellis.core.fit.taints import CORDONED, tolerates
from trellis.core.fit.terms import NameRule
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


class Obstacle(msgspec.Struct, frozen=True):
    """Why so many nodes are out of the question.

    `resource` says of what there is too little, or which label is missing.
    """

    reason: Reason
    nodes: int
    resource: str = ""

    def __str__(self) -> str:
        about = f" ({self.resource})" if self.resource else ""
        return f"{self.nodes} {self.reason.code}{about}"


class Refusal(msgspec.Struct, frozen=True):
    """An obstacle, and the nodes that it is one of."""

    reason: Reason
    nodes: BoolColumn
    resource: str = ""


class _Check(NamedTuple):
    """One rule, and the nodes that follow it."""

    reason: Reason
    passed: BoolColumn
    resource: str = ""


def eligible(table: NodeTable, demand: Demand) -> BoolColumn:
    """The nodes that would take the pod if they were large enough and empty."""
    found = table.exists.copy()
    for check in _rules(table, demand):
        found &= check.passed
    return found


def fits(table: NodeTable, demand: Demand, used: Occupancy | None = None, near: Neighbours | None = None) -> BoolColumn:
    """The nodes on which the pod fits beside the pods there are; beside none if nothing is said about them."""
    found = eligible(table, demand)
    for check in _sizes(table, demand) if used is None else _room(used, demand):
        found &= check.passed
    for check in _beside(table, demand, near):
        found &= check.passed
    return found


def why_not(
    table: NodeTable, demand: Demand, used: Occupancy | None = None, near: Neighbours | None = None
) -> tuple[Obstacle, ...]:
    """What keeps the pod from the nodes on which it does not fit.

    A node is counted once, for the first rule it breaks; what no room could mend comes before what others have taken.
    """
    if not table.size:
        return (Obstacle(NO_NODES, 0),)
    found = refusals(table, demand, used, near)
    return tuple(Obstacle(each.reason, int(np.count_nonzero(each.nodes)), each.resource) for each in found)


def refusals(
    table: NodeTable, demand: Demand, used: Occupancy | None = None, near: Neighbours | None = None
) -> tuple[Refusal, ...]:
    """The same, node by node: which of them break which rule first."""
    left = table.exists.copy()
    found: dict[tuple[str, str], Refusal] = {}
    room = _room(used, demand) if used is not None else ()
    for check in chain(_rules(table, demand), _sizes(table, demand), room, _beside(table, demand, near)):
        refused = left > check.passed
        if refused.any():
            left ^= refused
            what = (check.reason.code, check.resource)
            before = found.get(what)
            nodes = refused if before is None else before.nodes | refused
            found[what] = Refusal(check.reason, nodes, check.resource)
    return tuple(found.values())


def _rules(table: NodeTable, demand: Demand) -> Iterator[_Check]:
    """What does not depend on other pods, nor on how large a node is."""
    if not tolerates(demand.tolerations, CORDONED):
        yield _Check(NODE_CORDONED, table.schedulable)
    if demand.node_name:
        yield _Check(NODE_NOT_NAMED, named(table, NameRule(demand.node_name, is_wanted=True)))
    yield _Check(TAINT_NOT_TOLERATED, table.tolerated(demand.tolerations))
    for mask in selections(table, demand):
        yield _Check(NODE_NOT_SELECTED, mask)
    for terms in demand.volumes:
        yield _Check(VOLUME_ELSEWHERE if terms else VOLUME_NOT_READY, matching_one(table, terms))
    for requirement in needed_labels(demand):
        yield _Check(TOPOLOGY_LABEL_MISSING, table.labelled(requirement), requirement.key)


def _sizes(table: NodeTable, demand: Demand) -> Iterator[_Check]:
    for resource, amount in demand.amounts:
        yield _Check(NODE_TOO_SMALL, table.offered(resource) >= amount, resource)


def _room(used: Occupancy, demand: Demand) -> Iterator[_Check]:
    for port in demand.ports:
        yield _Check(HOST_PORT_TAKEN, used.port_free(port))
    for resource, amount in demand.amounts:
        yield _Check(NODE_FULL, used.free(resource) >= amount, resource)


def _beside(table: NodeTable, demand: Demand, near: Neighbours | None) -> Iterator[_Check]:
    if near is None:
        # Nobody is there: what a pod asks of its like still says where the first of them can go.
        if not (demand.near or demand.spread):
            return
        near = Neighbours(table)
    for reason, rule in beside(table, near, demand):
        yield _Check(reason, rule.mask)
