"""Does a label satisfy one condition? The parts that a label selector is made of.

The rules are those of `labels.NewRequirement` and `Requirement.Matches` in Kubernetes 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from trellis.base.errors import InvalidSelector
from trellis.base.names import why_not_label_key, why_not_label_value

_INTEGER = re.compile(r"[+-]?0*([0-9]{1,19})")


class Operator(StrEnum):
    """How a label is compared; the value is what the text form writes."""

    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = ">"
    LESS_THAN = "<"


_EQUALS, _IN = Operator.EQUALS, Operator.IN


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One condition on one label. The values are sorted, each of them once."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """A label that is absent satisfies `!=`, `notin` and `!`, and nothing else."""
        value, operator = labels.get(self.key), self.operator
        # Nearly all that is ever asked, a million times over: without a look at the names of operators.
        if operator is _EQUALS or operator is _IN:
            return value in self.values
        match operator:
            case Operator.EQUALS | Operator.DOUBLE_EQUALS | Operator.IN:
                return value in self.values
            case Operator.NOT_EQUALS | Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GREATER_THAN | Operator.LESS_THAN:
                return value is not None and self._compares(value)

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"

    def _compares(self, value: str) -> bool:
        have, bound = _integer(value), _integer(self.values[0])
        if have is None or bound is None:
            return False
        return have > bound if self.operator is Operator.GREATER_THAN else have < bound


def requirement(key: str, operator: Operator, values: Sequence[str], place: str) -> Requirement:
    """A requirement that follows the rules; `place` is where it stands, for the message if it does not."""
    wrong = why_not_label_key(key)
    if wrong:
        raise InvalidSelector(key, f"{place}: a label key: {wrong}")
    unary = operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST)
    if unary and values:
        raise InvalidSelector(key, f"{place}: whether a label exists is asked without values")
    if not unary and not values:
        raise InvalidSelector(key, f"{place}: at least one value is needed")
    for value in values:
        wrong = why_not_label_value(value)
        if wrong:
            raise InvalidSelector(value, f"{place}: the value of label {key}: {wrong}")
        if operator in (Operator.GREATER_THAN, Operator.LESS_THAN) and _integer(value) is None:
            raise InvalidSelector(value, f"{place}: label {key} can only be compared with an integer")
    return Requirement(key, operator, tuple(sorted(set(values))))


def _integer(text: str) -> int | None:
    """A decimal int64, or None."""
    form = _INTEGER.fullmatch(text)
    if form is None:
        return None
    number = -int(form[1]) if text.startswith("-") else int(form[1])
    return number if -(2**63) <= number < 2**63 else None
