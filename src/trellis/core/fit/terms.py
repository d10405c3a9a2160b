"""Which nodes does a pod allow? Its node selector and its required node affinity, compiled.

The rules of `GetRequiredNodeAffinity` in Kubernetes 1.36: all of the selector must hold, and one of the terms. A term
that is empty or cannot be read matches no node, and does not spoil the others.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.api.kube.meta import LabelSelectorRequirement
from trellis.api.kube.placement import NodeSelectorTerm
from trellis.api.kube.pods import PodSpec
from trellis.base.errors import InvalidSelector
from trellis.base.label_requirements import Operator, Requirement, requirement

_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}
_NAME: Final = "metadata.name"


class NameRule(msgspec.Struct, frozen=True, gc=False):
    """The node must, or must not, have this name."""

    name: str
    is_wanted: bool


class NodeTerm(msgspec.Struct, frozen=True, gc=False):
    """All of it must hold."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[NameRule, ...] = ()


def selector_of(spec: PodSpec) -> tuple[Requirement, ...]:
    """The node selector: labels that must be there with these values, however odd they look."""
    return tuple(Requirement(key, Operator.IN, (value,)) for key, value in sorted(spec.node_selector.items()))


def terms_of(spec: PodSpec) -> tuple[NodeTerm, ...] | None:
    """The terms of which one must hold; None if the pod asks for nothing of the kind."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return None
    read = (read_term(term) for term in affinity.required.node_selector_terms)
    return tuple(term for term in read if term is not None)


def read_term(term: NodeSelectorTerm) -> NodeTerm | None:
    """A term; None for one that matches no node, because it is empty or cannot be read."""
    if not (term.match_expressions or term.match_fields):
        return None
    try:
        labels = tuple(_requirement(each) for each in term.match_expressions)
        rules = [_name_rule(each) for each in term.match_fields]
    except InvalidSelector:
        return None
    return NodeTerm(labels, tuple(rule for rule in rules if rule is not None))


def _requirement(written: LabelSelectorRequirement) -> Requirement:
    operator = _OPERATORS.get(written.operator)
    if operator is None:
        raise InvalidSelector(written.operator, f"operator: the operators are {', '.join(_OPERATORS)}")
    if operator in (Operator.GREATER_THAN, Operator.LESS_THAN) and len(written.values) != 1:
        raise InvalidSelector(",".join(written.values), f"values: {written.operator} compares with one value")
    return requirement(written.key, operator, written.values, "matchExpressions")


def _name_rule(written: LabelSelectorRequirement) -> NameRule | None:
    """None for a rule that every node follows."""
    if written.operator not in ("In", "NotIn") or len(written.values) != 1:
        raise InvalidSelector(written.operator, "matchFields: a field is In or NotIn one value")
    is_wanted, value = written.operator == "In", written.values[0]
    if written.key == _NAME:
        return NameRule(value, is_wanted)
    # The scheduler knows no other field of a node and reads it as empty.
    return None if (value == "") == is_wanted else NameRule("", is_wanted=True)
