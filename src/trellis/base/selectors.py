"""Label selectors: their requirements, their text form and their object form.

The rules are those of `labels.NewRequirement`, `labels.Parse` and `metav1.LabelSelectorAsSelector` in Kubernetes 1.36.
In the text form (`app=web,tier in (front,back),!legacy`) `in` and `notin` are operators only where an operator is
expected, so they may also be keys and values. A value may be left out: `a=` asks for an empty label.

A field of an API that holds a selector can be absent or empty, and the two are opposites: an absent one selects nothing
(`Selector.nothing()`), an empty one everything (`selector_from_object` without arguments). Only the caller can see the
difference, so the caller decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from trellis.base.errors import InvalidSelector, format_value
from trellis.base.names import check_label_key, check_label_value, suggest_name

_INTEGER = re.compile(r"[+-]?0*([0-9]{1,19})")


class LabelOperator(StrEnum):
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


_EQUALS, _IN = LabelOperator.EQUALS, LabelOperator.IN


class LabelRequirement(msgspec.Struct, frozen=True, gc=False):
    """One condition on one label. The values are sorted, each of them once."""

    key: str
    operator: LabelOperator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """A label that is absent satisfies `!=`, `notin` and `!`, and nothing else."""
        value, operator = labels.get(self.key), self.operator
        # Nearly every call, a million times: fast path without comparing names of operators.
        if operator is _EQUALS or operator is _IN:
            return value in self.values
        match operator:
            case LabelOperator.EQUALS | LabelOperator.DOUBLE_EQUALS | LabelOperator.IN:
                return value in self.values
            case LabelOperator.NOT_EQUALS | LabelOperator.NOT_IN:
                return value not in self.values
            case LabelOperator.EXISTS:
                return value is not None
            case LabelOperator.DOES_NOT_EXIST:
                return value is None
            case LabelOperator.GREATER_THAN | LabelOperator.LESS_THAN:
                return value is not None and self._compares(value)

    def __str__(self) -> str:
        match self.operator:
            case LabelOperator.EXISTS:
                return self.key
            case LabelOperator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case LabelOperator.IN | LabelOperator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"

    def _compares(self, value: str) -> bool:
        actual, bound = _integer(value), _integer(self.values[0])
        if actual is None or bound is None:
            return False
        return actual > bound if self.operator is LabelOperator.GREATER_THAN else actual < bound


def build_requirement(key: str, operator: LabelOperator, values: Sequence[str], place: str) -> LabelRequirement:
    """A valid requirement; raises with `place`, its position, if it breaks a rule."""
    problem = check_label_key(key)
    if problem:
        raise InvalidSelector(key, f"{place}: a label key: {problem}")
    unary = operator in (LabelOperator.EXISTS, LabelOperator.DOES_NOT_EXIST)
    if unary and values:
        raise InvalidSelector(key, f"{place}: the operators Exists and DoesNotExist take no values")
    if not unary and not values:
        raise InvalidSelector(key, f"{place}: at least one value is needed")
    for value in values:
        problem = check_label_value(value)
        if problem:
            raise InvalidSelector(value, f"{place}: the value of label {key}: {problem}")
        if operator in (LabelOperator.GREATER_THAN, LabelOperator.LESS_THAN) and _integer(value) is None:
            raise InvalidSelector(value, f"{place}: label {key} can only be compared with an integer")
    return LabelRequirement(key, operator, tuple(sorted(set(values))))


def _integer(text: str) -> int | None:
    """A decimal int64, or None."""
    form = _INTEGER.fullmatch(text)
    if form is None:
        return None
    number = -int(form[1]) if text.startswith("-") else int(form[1])
    return number if -(2**63) <= number < 2**63 else None


_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+")
_SYMBOLS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_BINARY_OPERATORS = {
    op.value: op for op in LabelOperator if op not in (LabelOperator.EXISTS, LabelOperator.DOES_NOT_EXIST)
}
_END = ""  # no token is empty


def parse_requirements(text: str) -> list[LabelRequirement]:
    """The requirements of a text, in the order written."""
    tokens = _SelectorTokens(text)
    requirements: list[LabelRequirement] = []
    while tokens.peek() != _END or requirements:
        requirements.append(_parse_requirement(tokens))
        if tokens.peek() == _END:
            break
        tokens.expect(",")
    return requirements


class _SelectorTokens:
    """The tokens of one text, with the reading position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = format_value(text)
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def pop(self) -> str:
        token = self.peek()
        self._next += 1
        return token

    def expect(self, *expected: str) -> str:
        token = self.pop()
        if token not in expected:
            raise self.build_error(token, " or ".join(map(format_value, expected)))
        return token

    def pop_word(self, expected: str) -> str:
        token = self.pop()
        if token == _END or token in _SYMBOLS:
            raise self.build_error(token, expected)
        return token

    def build_error(self, token: str, expected: str) -> InvalidSelector:
        actual = format_value(token) if token else "the end"
        return InvalidSelector(self.text, f"found {actual} where {expected} was expected")


def _parse_requirement(tokens: _SelectorTokens) -> LabelRequirement:
    if tokens.peek() == "!":
        tokens.pop()
        return build_requirement(tokens.pop_word("a label key"), LabelOperator.DOES_NOT_EXIST, (), tokens.place)
    key = tokens.pop_word("a label key")
    if tokens.peek() in (_END, ","):
        return build_requirement(key, LabelOperator.EXISTS, (), tokens.place)
    operator = _BINARY_OPERATORS[tokens.expect(*_BINARY_OPERATORS)]
    if operator in (LabelOperator.IN, LabelOperator.NOT_IN):
        return build_requirement(key, operator, _parse_values(tokens), tokens.place)
    value = "" if tokens.peek() in (_END, ",") else tokens.pop_word("a value")
    return build_requirement(key, operator, (value,), tokens.place)


def _parse_values(tokens: _SelectorTokens) -> list[str]:
    """`(a,b)`; between commas a value may be left out, and `()` is the one empty value."""
    tokens.expect("(")
    values = []
    while True:
        values.append("" if tokens.peek() in (",", ")") else tokens.pop_word("a value"))
        if tokens.expect(",", ")") == ")":
            return values


_OBJECT_OPERATORS = {
    "In": LabelOperator.IN,
    "NotIn": LabelOperator.NOT_IN,
    "Exists": LabelOperator.EXISTS,
    "DoesNotExist": LabelOperator.DOES_NOT_EXIST,
}

_LISTS_VALUES = (LabelOperator.EQUALS, LabelOperator.DOUBLE_EQUALS, LabelOperator.IN)


class Selector(msgspec.Struct, frozen=True, gc=False):
    """A selector: all of its requirements must hold. Without requirements it selects everything."""

    requirements: tuple[LabelRequirement, ...] = ()
    selects_nothing: bool = False

    @classmethod
    def everything(cls) -> Selector:
        """Selects every object."""
        return cls()

    @classmethod
    def nothing(cls) -> Selector:
        """Selects no object. It prints as "", as `everything` does: check `selects_nothing` before sending it."""
        return cls(selects_nothing=True)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return not self.selects_nothing and all(r.matches(labels) for r in self.requirements)

    @property
    def value_requirements(self) -> tuple[LabelRequirement, ...]:
        """The requirements that list the values of a label, by which an index looks up selectors."""
        return tuple(requirement for requirement in self.requirements if requirement.operator in _LISTS_VALUES)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


class MatchExpression(msgspec.Struct, frozen=True):
    """One entry of `matchExpressions`, as it is written."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


def parse_selector(text: str) -> Selector:
    """The text form. An empty text selects everything."""
    return _selector(parse_requirements(text))


def selector_from_object(
    match_labels: Mapping[str, str] | None = None, match_expressions: Sequence[MatchExpression] | None = None
) -> Selector:
    """The object form. Without labels and expressions it selects everything."""
    requirements = [
        build_requirement(key, LabelOperator.EQUALS, (value,), f"matchLabels[{format_value(key)}]")
        for key, value in (match_labels or {}).items()
    ]
    for index, expression in enumerate(match_expressions or ()):
        place = f"matchExpressions[{index}]"
        operator = _object_operator(expression.operator, place)
        requirements.append(build_requirement(expression.key, operator, expression.values, place))
    return _selector(requirements)


def _selector(requirements: Iterable[LabelRequirement]) -> Selector:
    """Sorted by key, as Kubernetes prints them; in the order written where a key recurs."""
    return Selector(tuple(sorted(requirements, key=lambda r: r.key)))


def _object_operator(name: str, place: str) -> LabelOperator:
    if name in _OBJECT_OPERATORS:
        return _OBJECT_OPERATORS[name]
    operator = suggest_name(name, _OBJECT_OPERATORS)
    hint = f'; did you mean "{operator}"?' if operator else ""
    raise InvalidSelector(name, f"{place}: the operators are {', '.join(_OBJECT_OPERATORS)}{hint}")
