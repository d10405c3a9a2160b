"""Which nodes do a pod's selector and terms allow, as masks over all nodes?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trellis.core.fit.demand import Demand
from trellis.core.fit.nodes import NodeTable
from trellis.core.fit.terms import NameRule, NodeTerm
from trellis.core.usage.columns import BoolColumn


def selections(table: NodeTable, demand: Demand) -> Iterator[BoolColumn]:
    """The selector and the affinity of a pod, each as a mask that is not to be changed; all must hold."""
    for requirement in demand.selector:
        yield table.labelled(requirement)
    if demand.terms is not None:
        yield matching_one(table, demand.terms)


def matching_one(table: NodeTable, terms: tuple[NodeTerm, ...]) -> BoolColumn:
    """The nodes that one of the terms allows."""
    found = np.zeros(table.reach, dtype=np.bool_)
    for term in terms:
        found |= _matching(table, term)
    return found


def named(table: NodeTable, rule: NameRule) -> BoolColumn:
    """The node of that name, or all others."""
    found = np.full(table.reach, not rule.is_wanted)
    number = table.find(rule.name)
    if number >= 0:
        found[number] = rule.is_wanted
    return found


def _matching(table: NodeTable, term: NodeTerm) -> BoolColumn:
    found = np.ones(table.reach, dtype=np.bool_)
    for requirement in term.labels:
        found &= table.labelled(requirement)
    for rule in term.names:
        found &= named(table, rule)
    return found
