"""Which objects, written in one line: `app=web,tier in (front,back),!legacy`.

The grammar is that of `labels.Parse` in Kubernetes 1.36. `in` and `notin` are operators only where an operator is
expected, so they may also be keys and values. A value may be left out: `a=` asks for an empty label.
"""

from __future__ import annotations

import re

from trellis.base.errors import InvalidSelector, shown
from trellis.base.label_requirements import Operator, Requirement, requirement

_TOKEN = re.compile(r"==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+")
_SYMBOLS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_BINARY_OPERATORS = {op.value: op for op in Operator if op not in (Operator.EXISTS, Operator.DOES_NOT_EXIST)}
_END = ""  # no token is empty


def read_requirements(text: str) -> list[Requirement]:
    """In the order written; none if the text is empty."""
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    while tokens.peek() != _END or requirements:
        requirements.append(_requirement(tokens))
        if tokens.peek() == _END:
            break
        tokens.expect(",")
    return requirements


class _Tokens:
    """The tokens of one text, and how far they have been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = shown(text)
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def take(self) -> str:
        token = self.peek()
        self._next += 1
        return token

    def expect(self, *wanted: str) -> str:
        token = self.take()
        if token not in wanted:
            raise self.refusal(token, " or ".join(map(shown, wanted)))
        return token

    def word(self, what: str) -> str:
        token = self.take()
        if token == _END or token in _SYMBOLS:
            raise self.refusal(token, what)
        return token

    def refusal(self, token: str, wanted: str) -> InvalidSelector:
        found = shown(token) if token else "the end"
        return InvalidSelector(self.text, f"found {found} where {wanted} was expected")


def _requirement(tokens: _Tokens) -> Requirement:
    if tokens.peek() == "!":
        tokens.take()
        return requirement(tokens.word("a label key"), Operator.DOES_NOT_EXIST, (), tokens.place)
    key = tokens.word("a label key")
    if tokens.peek() in (_END, ","):
        return requirement(key, Operator.EXISTS, (), tokens.place)
    operator = _BINARY_OPERATORS[tokens.expect(*_BINARY_OPERATORS)]
    if operator in (Operator.IN, Operator.NOT_IN):
        return requirement(key, operator, _value_list(tokens), tokens.place)
    value = "" if tokens.peek() in (_END, ",") else tokens.word("a value")
    return requirement(key, operator, (value,), tokens.place)


def _value_list(tokens: _Tokens) -> list[str]:
    """`(a,b)`; between commas a value may be left out, and `()` is the one empty value."""
    tokens.expect("(")
    values = []
    while True:
        values.append("" if tokens.peek() in (",", ")") else tokens.word("a value"))
        if tokens.expect(",", ")") == ")":
            return values
