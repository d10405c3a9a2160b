"""What does an answer of the oracle hold?

Everything but `ok` and `errors` counts only if `ok` is true.
"""

from __future__ import annotations

import json
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

FAULT = "Fault"


class Gvk(NamedTuple):
    """A kind as the API server names it."""

    group: str
    version: str
    kind: str


class Problem(msgspec.Struct, frozen=True):
    """One reason for a refusal; `text` is the API server's whole line.

    `type` is a field error type such as `FieldValueInvalid`, or `Refused` (a parser says no),
    `Decode` (turned away before any field is looked at) or `Fault` (no verdict at all).
    """

    path: str
    type: str
    detail: str
    text: str


class Verdict(msgspec.Struct, frozen=True):
    """The part that every answer has."""

    ok: bool
    errors: tuple[Problem, ...]

    @property
    def why(self) -> str:
        """Every reason, one per line: what to show when an assertion on `ok` fails."""
        return "\n".join(problem.text for problem in self.errors)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(problem.path for problem in self.errors)


V = TypeVar("V", bound=Verdict)


class Batch(Verdict, Generic[V], frozen=True):
    results: tuple[V, ...] = ()


class About(Verdict, frozen=True):
    """Whose word it is, and the limits on CEL that it applies."""

    go: str = ""
    modules: dict[str, str] = {}
    cel_compatibility: str = ""
    rule_cost_limit: int = 0
    schema_cost_limit: int = 0
    call_cost_limit: int = 0
    object_cost_limit: int = 0


class QuantityVerdict(Verdict, frozen=True):
    """`decimal` is exact. `value` and `milli_value` are Go's int64, which is 0 where it overflows."""

    canonical: str = ""
    value: int = 0
    milli_value: int = 0
    decimal: str = ""
    format: str = ""
    sign: int = 0


class DurationVerdict(Verdict, frozen=True):
    nanoseconds: int = 0
    canonical: str = ""


class SelectorVerdict(Verdict, frozen=True):
    """`matches` is None if no labels were asked about."""

    canonical: str = ""
    matches: bool | None = None


class DocumentVerdict(Verdict, frozen=True):
    raw: msgspec.Raw = msgspec.field(name="json", default=msgspec.Raw(b"null"))

    @property
    def value(self) -> Any:
        """The document. The standard reader keeps every digit of an integer, however long it is."""
        return json.loads(bytes(self.raw))


class RuleCost(msgspec.Struct, frozen=True):
    """What one CEL rule is reckoned to cost at worst; compare with `About.rule_cost_limit`."""

    version: str
    path: str
    cost: int


class DefinitionVerdict(Verdict, frozen=True):
    warnings: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    costs: tuple[RuleCost, ...] = ()


class ObjectVerdict(Verdict, frozen=True):
    """`pruned` are the unknown fields; `stored` is the object without them and with its defaults.

    Both are filled in for a refused object, too, unless its text was turned away (`Decode`).
    """

    pruned: tuple[str, ...] = ()
    stored: dict[str, Any] = msgspec.field(name="object", default_factory=dict)
