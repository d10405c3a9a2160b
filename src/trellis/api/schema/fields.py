"""Declarations of fields and rules: each field of our kinds is declared once, with its meaning and its limits.

A field is an annotated struct member: `factor: Annotated[int | None, Field("Multiplies ...", minimum=1)] = None`.
Decoding, validation, the CRD's schema and the reference page all read that one line.

The limits are ours and not msgspec's on purpose: decoding checks JSON types alone, so that an object that was stored
before a rule existed can still be read and reported on. A constraint over several fields is a `Rule`, with the same
rule in CEL where CEL can express it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec

from trellis.api.problems import ValidationProblem
from trellis.base.durations import SPAN_PATTERN, SPAN_RULE

INT32_MAX = 2**31 - 1

# Upstream's own pattern for a quantity, kept letter for letter so that its CRD and ours accept the same text.
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
# A quantity that upstream does not have cannot be negative, and its exponent is an integer, as in the API server.
AMOUNT_PATTERN = r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"
# A Go duration that is not negative. Twenty characters cannot overflow 2^63 ns with at most six digits before a unit.
DURATION_PATTERN = r"^\+?((([0-9]{1,6}(\.[0-9]*)?)|(\.[0-9]+))(ns|us|µs|ms|s|m|h))+$|^0$"
DURATION_LENGTH = 20


class Field(msgspec.Struct, frozen=True):
    """What a field means and what it may hold. Only what is set applies.

    `opaque` keeps whatever else is written below the field; `like` gives an opaque field the schema of a struct while
    its value stays a plain dictionary, so that a template or a pod spec is kept as written and still checked.
    `added` marks a field that upstream's CRD does not have, `upstream_enum` the values that it knows where we know
    more.
    """

    doc: str = ""
    required: bool = False
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    minimum_message: str | None = None
    maximum: int | None = None
    pattern: str | None = None
    pattern_message: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    max_properties: int | None = None
    list_type: str | None = None
    list_keys: tuple[str, ...] = ()
    atomic_map: bool = False
    format: str | None = None
    nullable: bool = False
    quantity: bool = False
    opaque: bool = False
    like: type[msgspec.Struct] | None = None
    added: bool = False
    upstream_enum: tuple[str, ...] = ()

    def merged(self, inner: Field) -> Field:
        """This declaration, with unset attributes taken from the type that it annotates."""
        chosen = {
            name: getattr(self, name) if getattr(self, name) != default else getattr(inner, name)
            for name, default in _DEFAULTS.items()
        }
        return Field(**chosen)


_DEFAULTS: dict[str, Any] = dict(zip(Field.__struct_fields__, Field.__struct_defaults__, strict=True))

# Kubernetes' own message about text that is no quantity, which users search for.
_QUANTITY_MESSAGE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

# Quantities stay as written: code that computes with one parses it, and a patch never rewrites "1.5Gi" as "1536Mi".
QuantityText: TypeAlias = Annotated[
    str | int,
    Field(
        quantity=True,
        pattern=QUANTITY_PATTERN,
        pattern_message=f"must be a quantity such as 500m or 1.5Gi: {_QUANTITY_MESSAGE}",
        max_length=32,
    ),
]
AmountText: TypeAlias = Annotated[
    str | int,
    Field(
        quantity=True,
        pattern=AMOUNT_PATTERN,
        pattern_message="must be a quantity such as 500m or 1.5Gi, not negative",
        max_length=32,
        minimum=0,
    ),
]
DurationText: TypeAlias = Annotated[
    str,
    Field(
        pattern=DURATION_PATTERN,
        pattern_message="must be a duration such as 10s, 2m or 1h30m, not negative",
        max_length=DURATION_LENGTH,
    ),
]
TimeText: TypeAlias = Annotated[str, Field(format="date-time")]
Opaque: TypeAlias = Annotated[dict[str, Any], Field(opaque=True)]

T = TypeVar("T", bound=msgspec.Struct)
RuleCheck: TypeAlias = Callable[[T], Iterable[ValidationProblem]]


class Rule(msgspec.Struct, Generic[T], frozen=True):
    """A rule over several fields of one struct.

    `reads` are the fields it reads, as spelled on the wire: the rule runs only where all of them have the right types,
    so that a wrong value elsewhere neither hides it nor makes it fail.
    """

    on: type[T]
    reads: tuple[str, ...]
    check: RuleCheck[T]
    message: str
    cel: str | None = None

    def problems(self, value: T) -> Iterator[ValidationProblem]:
        """The problems of a value, each marked with whether the CRD finds it too."""
        for problem in self.check(value):
            yield msgspec.structs.replace(problem, in_crd=True) if self.cel else problem


def rule(on: type[T], *reads: str, message: str, cel: str | None = None) -> Callable[[RuleCheck[T]], Rule[T]]:
    """Declare a function over a struct as a rule."""

    def declare(check: RuleCheck[T]) -> Rule[T]:
        return Rule(on=on, reads=reads, check=check, message=message, cel=cel)

    return declare


SpanText: TypeAlias = Annotated[str, Field(pattern=SPAN_PATTERN, pattern_message=SPAN_RULE, max_length=32)]
