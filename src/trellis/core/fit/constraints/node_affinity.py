"""Node selector and required node affinity of a pod, compiled, and the nodes that match them.

The rules of `GetRequiredNodeAffinity` in Kubernetes 1.36: all of the selector must hold, and one of the terms. A term
that is empty or cannot be read matches no node and does not affect the others.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.meta import LabelSelectorRequirement
from trellis.api.kube.placement import NodeSelectorTerm
from trellis.api.kube.pods import PodSpec
from trellis.base.errors import InvalidSelector
from trellis.base.selectors import LabelOperator, LabelRequirement, build_requirement
from trellis.core.fit.node_table import NodeTable
from trellis.core.usage.columns import BoolColumn

_OPERATORS: Final = {
    "In": LabelOperator.IN,
    "NotIn": LabelOperator.NOT_IN,
    "Exists": LabelOperator.EXISTS,
    "DoesNotExist": LabelOperator.DOES_NOT_EXIST,
    "Gt": LabelOperator.GREATER_THAN,
    "Lt": LabelOperator.LESS_THAN,
}
_NAME: Final = "metadata.name"


class NodeNameRule(msgspec.Struct, frozen=True, gc=False):
    """The node must, or must not, have this name."""

    name: str
    must_match: bool


class NodeTerm(msgspec.Struct, frozen=True, gc=False):
    """A term of a node affinity; all of its rules must hold."""

    labels: tuple[LabelRequirement, ...] = ()
    names: tuple[NodeNameRule, ...] = ()


def read_node_selector(spec: PodSpec) -> tuple[LabelRequirement, ...]:
    """The labels of the node selector with their required values, valid or not."""
    return tuple(LabelRequirement(key, LabelOperator.IN, (value,)) for key, value in sorted(spec.node_selector.items()))


def read_node_affinity(spec: PodSpec) -> tuple[NodeTerm, ...] | None:
    """The terms of which one must hold; None if the pod has no required node affinity."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return None
    read = (read_node_term(term) for term in affinity.required.node_selector_terms)
    return tuple(term for term in read if term is not None)


def read_node_term(term: NodeSelectorTerm) -> NodeTerm | None:
    """The compiled term; None if it matches no node, because it is empty or cannot be read."""
    if not (term.match_expressions or term.match_fields):
        return None
    try:
        labels = tuple(_requirement(expression) for expression in term.match_expressions)
        rules = [_name_rule(field) for field in term.match_fields]
    except InvalidSelector:
        return None
    return NodeTerm(labels, tuple(rule for rule in rules if rule is not None))


def _requirement(written: LabelSelectorRequirement) -> LabelRequirement:
    operator = _OPERATORS.get(written.operator)
    if operator is None:
        raise InvalidSelector(written.operator, f"operator: the operators are {', '.join(_OPERATORS)}")
    if operator in (LabelOperator.GREATER_THAN, LabelOperator.LESS_THAN) and len(written.values) != 1:
        raise InvalidSelector(",".join(written.values), f"values: {written.operator} compares with one value")
    return build_requirement(written.key, operator, written.values, "matchExpressions")


def _name_rule(written: LabelSelectorRequirement) -> NodeNameRule | None:
    """The compiled rule; None if it holds for every node."""
    if written.operator not in ("In", "NotIn") or len(written.values) != 1:
        raise InvalidSelector(written.operator, "matchFields: a field is In or NotIn one value")
    must_match, value = written.operator == "In", written.values[0]
    if written.key == _NAME:
        return NodeNameRule(value, must_match)
    # The scheduler knows no other field of a node and reads it as empty.
    return None if (value == "") == must_match else NodeNameRule("", must_match=True)


def find_nodes_matching_any_term(table: NodeTable, terms: tuple[NodeTerm, ...]) -> BoolColumn:
    """The nodes that one of the terms allows."""
    mask = np.zeros(table.numbers_end, dtype=np.bool_)
    for term in terms:
        mask |= _nodes_matching_term(table, term)
    return mask


def find_nodes_matching_name(table: NodeTable, rule: NodeNameRule) -> BoolColumn:
    """The node of that name, or all others."""
    mask = np.full(table.numbers_end, not rule.must_match)
    number = table.find(rule.name)
    if number >= 0:
        mask[number] = rule.must_match
    return mask


def _nodes_matching_term(table: NodeTable, term: NodeTerm) -> BoolColumn:
    mask = np.ones(table.numbers_end, dtype=np.bool_)
    for requirement in term.labels:
        mask &= table.labelled(requirement)
    for rule in term.names:
        mask &= find_nodes_matching_name(table, rule)
    return mask
