"""On which nodes does a pod fit, and why not on the others?

The scheduler's filters, in its order, each as a mask over all nodes: cordoned off, another node named, taints, selector
and affinity; then what other pods have left: ports, and room of every resource. What it asks about other pods'
labels and about volumes is not among them yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np

from trellis.base.reason import Reason, Severity
from trellis.core.fit.demand import Demand
from trellis.core.fit.nodes import NodeTable
from trellis.core.fit.occupancy import Occupancy
from trellis.core.fit.taints import CORDONED, tolerates
from trellis.core.fit.terms import NameRule, NodeTerm
from trellis.core.usage.columns import BoolColumn

NO_NODES = Reason("NoNodes", "There is no node.", Severity.WARNING)
NODE_CORDONED = Reason("NodeCordoned", "The node is marked unschedulable.")
NODE_NOT_NAMED = Reason("NodeNotNamed", "The pod names another node.")
TAINT_NOT_TOLERATED = Reason("TaintNotTolerated", "The pod does not tolerate a taint of the node.")
NODE_NOT_SELECTED = Reason("NodeNotSelected", "The node does not match the pod's node selector or affinity.")
HOST_PORT_TAKEN = Reason("HostPortTaken", "Another pod on the node has a port that the pod asks for.")
NODE_TOO_SMALL = Reason("NodeTooSmall", "The node as a whole has less of a resource than the pod asks for.")
NODE_FULL = Reason("NodeFull", "Other pods on the node leave less of a resource than the pod asks for.")


class Obstacle(msgspec.Struct, frozen=True):
    """Why so many nodes are out of the question. `resource` says of what there is too little."""

    reason: Reason
    nodes: int
    resource: str = ""

    def __str__(self) -> str:
        about = f" ({self.resource})" if self.resource else ""
        return f"{self.nodes} {self.reason.code}{about}"


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


def fits(table: NodeTable, demand: Demand, used: Occupancy | None = None) -> BoolColumn:
    """The nodes on which the pod fits beside the pods there are; beside none if nothing is said about them."""
    found = eligible(table, demand)
    for check in _sizes(table, demand) if used is None else _room(used, demand):
        found &= check.passed
    return found


def why_not(table: NodeTable, demand: Demand, used: Occupancy | None = None) -> tuple[Obstacle, ...]:
    """What keeps the pod from the nodes on which it does not fit.

    A node is counted once, for the first rule it breaks; what no room could mend comes before what others have taken.
    """
    if not table.size:
        return (Obstacle(NO_NODES, 0),)
    left, remaining = table.exists.copy(), table.size
    counts: dict[tuple[str, str], Obstacle] = {}
    room = _room(used, demand) if used is not None else ()
    for check in chain(_rules(table, demand), _sizes(table, demand), room):
        left &= check.passed
        before, remaining = remaining, int(np.count_nonzero(left))
        if remaining < before:
            what = (check.reason.code, check.resource)
            counted = counts[what].nodes if what in counts else 0
            counts[what] = Obstacle(check.reason, counted + before - remaining, check.resource)
    return tuple(counts.values())


def _rules(table: NodeTable, demand: Demand) -> Iterator[_Check]:
    """What does not depend on other pods, nor on how large a node is."""
    if not tolerates(demand.tolerations, CORDONED):
        yield _Check(NODE_CORDONED, table.schedulable)
    if demand.node_name:
        yield _Check(NODE_NOT_NAMED, _named(table, NameRule(demand.node_name, is_wanted=True)))
    yield _Check(TAINT_NOT_TOLERATED, table.tolerated(demand.tolerations))
    for requirement in demand.selector:
        yield _Check(NODE_NOT_SELECTED, table.labelled(requirement))
    if demand.terms is not None:
        yield _Check(NODE_NOT_SELECTED, _matching_one(table, demand.terms))


def _sizes(table: NodeTable, demand: Demand) -> Iterator[_Check]:
    for resource, amount in demand.amounts:
        yield _Check(NODE_TOO_SMALL, table.offered(resource) >= amount, resource)


def _room(used: Occupancy, demand: Demand) -> Iterator[_Check]:
    for port in demand.ports:
        yield _Check(HOST_PORT_TAKEN, used.port_free(port))
    for resource, amount in demand.amounts:
        yield _Check(NODE_FULL, used.free(resource) >= amount, resource)


def _matching_one(table: NodeTable, terms: tuple[NodeTerm, ...]) -> BoolColumn:
    found = np.zeros(table.reach, dtype=np.bool_)
    for term in terms:
        found |= _matching(table, term)
    return found


def _matching(table: NodeTable, term: NodeTerm) -> BoolColumn:
    found = np.ones(table.reach, dtype=np.bool_)
    for requirement in term.labels:
        found &= table.labelled(requirement)
    for rule in term.names:
        found &= _named(table, rule)
    return found


def _named(table: NodeTable, rule: NameRule) -> BoolColumn:
    found = np.full(table.reach, not rule.is_wanted)
    number = table.find(rule.name)
    if number >= 0:
        found[number] = rule.is_wanted
    return found
