"""Which objects: label selectors, in their text form and their object form.

The rules are those of `labels.Parse` and `metav1.LabelSelectorAsSelector` in Kubernetes 1.36.

A field of an API that holds a selector can be absent or empty, and the two are opposites: an absent one selects nothing
(`Selector.nothing()`), an empty one everything (`selector_from_object` without arguments). Only the caller can see the
difference, so the caller decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from trellis.base.errors import InvalidSelector, shown
from trellis.base.label_requirements import Operator, Requirement, requirement
from trellis.base.names import nearest
from trellis.base.selector_text import read_requirements

_OBJECT_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}

_LISTS_VALUES = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN)


class Selector(msgspec.Struct, frozen=True, gc=False):
    """All of its requirements at once; none of them selects everything."""

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False

    @classmethod
    def everything(cls) -> Selector:
        """Selects every object."""
        return cls()

    @classmethod
    def nothing(cls) -> Selector:
        """Selects no object. It prints as "", as everything does: ask `selects_nothing` before sending it."""
        return cls(selects_nothing=True)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return not self.selects_nothing and all(r.matches(labels) for r in self.requirements)

    @property
    def wanted(self) -> tuple[Requirement, ...]:
        """The requirements that list the values a label must have: by one of them an index finds who may be meant."""
        return tuple(each for each in self.requirements if each.operator in _LISTS_VALUES)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


class MatchExpression(msgspec.Struct, frozen=True):
    """One entry of `matchExpressions`, as it is written."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


def parse_selector(text: str) -> Selector:
    """The text form. An empty text selects everything."""
    return _selector(read_requirements(text))


def selector_from_object(
    match_labels: Mapping[str, str] | None = None, match_expressions: Sequence[MatchExpression] | None = None
) -> Selector:
    """The object form. Without labels and expressions it selects everything."""
    requirements = [
        requirement(key, Operator.EQUALS, (value,), f"matchLabels[{shown(key)}]")
        for key, value in (match_labels or {}).items()
    ]
    for index, expression in enumerate(match_expressions or ()):
        place = f"matchExpressions[{index}]"
        operator = _object_operator(expression.operator, place)
        requirements.append(requirement(expression.key, operator, expression.values, place))
    return _selector(requirements)


def _selector(requirements: Iterable[Requirement]) -> Selector:
    """Sorted by key, as Kubernetes prints them; in the order written where a key recurs."""
    return Selector(tuple(sorted(requirements, key=lambda r: r.key)))


def _object_operator(name: str, place: str) -> Operator:
    if name in _OBJECT_OPERATORS:
        return _OBJECT_OPERATORS[name]
    meant = nearest(name, _OBJECT_OPERATORS)
    hint = f'; did you mean "{meant}"?' if meant else ""
    raise InvalidSelector(name, f"{place}: the operators are {', '.join(_OBJECT_OPERATORS)}{hint}")
