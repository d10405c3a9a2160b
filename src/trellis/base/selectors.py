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
        # Nearly all that is ever asked, a million times over: without a look at the names of operators.
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
        have, bound = _integer(value), _integer(self.values[0])
        if have is None or bound is None:
            return False
        return have > bound if self.operator is LabelOperator.GREATER_THAN else have < bound


def build_requirement(key: str, operator: LabelOperator, values: Sequence[str], place: str) -> LabelRequirement:
    """A requirement that follows the rules; `place` is where it stands, for the message if it does not."""
    wrong = check_label_key(key)
    if wrong:
        raise InvalidSelector(key, f"{place}: a label key: {wrong}")
    unary = operator in (LabelOperator.EXISTS, LabelOperator.DOES_NOT_EXIST)
    if unary and values:
        raise InvalidSelector(key, f"{place}: whether a label exists is asked without values")
    if not unary and not values:
        raise InvalidSelector(key, f"{place}: at least one value is needed")
    for value in values:
        wrong = check_label_value(value)
        if wrong:
            raise InvalidSelector(value, f"{place}: the value of label {key}: {wrong}")
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
    """In the order written; none if the text is empty."""
    tokens = _SelectorTokens(text)
    requirements: list[LabelRequirement] = []
    while tokens.peek() != _END or requirements:
        requirements.append(_parse_requirement(tokens))
        if tokens.peek() == _END:
            break
        tokens.expect(",")
    return requirements


class _SelectorTokens:
    """The tokens of one text, and how far they have been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = format_value(text)
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def take(self) -> str:
        token = self.peek()
        self._next += 1
        return token

    def expect(self, *expected: str) -> str:
        token = self.take()
        if token not in expected:
            raise self.refusal(token, " or ".join(map(format_value, expected)))
        return token

    def word(self, expected: str) -> str:
        token = self.take()
        if token == _END or token in _SYMBOLS:
            raise self.refusal(token, expected)
        return token

    def refusal(self, token: str, expected: str) -> InvalidSelector:
        actual = format_value(token) if token else "the end"
        return InvalidSelector(self.text, f"found {actual} where {expected} was expected")


def _parse_requirement(tokens: _SelectorTokens) -> LabelRequirement:
    if tokens.peek() == "!":
        tokens.take()
        return build_requirement(tokens.word("a label key"), LabelOperator.DOES_NOT_EXIST, (), tokens.place)
    key = tokens.word("a label key")
    if tokens.peek() in (_END, ","):
        return build_requirement(key, LabelOperator.EXISTS, (), tokens.place)
    operator = _BINARY_OPERATORS[tokens.expect(*_BINARY_OPERATORS)]
    if operator in (LabelOperator.IN, LabelOperator.NOT_IN):
        return build_requirement(key, operator, _parse_values(tokens), tokens.place)
    value = "" if tokens.peek() in (_END, ",") else tokens.word("a value")
    return build_requirement(key, operator, (value,), tokens.place)


def _parse_values(tokens: _SelectorTokens) -> list[str]:
    """`(a,b)`; between commas a value may be left out, and `()` is the one empty value."""
    tokens.expect("(")
    values = []
    while True:
        values.append("" if tokens.peek() in (",", ")") else tokens.word("a value"))
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
    """All of its requirements at once; none of them selects everything."""

    requirements: tuple[LabelRequirement, ...] = ()
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
    def value_requirements(self) -> tuple[LabelRequirement, ...]:
        """The requirements that list the values a label must have: an index files a selector under one of them."""
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
    meant = suggest_name(name, _OBJECT_OPERATORS)
    hint = f'; did you mean "{meant}"?' if meant else ""
    raise InvalidSelector(name, f"{place}: the operators are {', '.join(_OBJECT_OPERATORS)}{hint}")
