"""Validation problems: the field, the value and the rule it breaks, in the words of the API server.

The phrases ("Required value", "Unsupported value", ...) are the ones `kubectl` users know. A problem that the schema
of the CRD finds too is marked `in_crd`; by that mark the tests keep validator and CRD in agreement.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from trellis.base.errors import format_value
from trellis.base.reasons import Reason, Severity


class MapKey(str):
    """A path segment that is a key of a map, not a field: printed as `minAllowed[cpu]`."""

    __slots__ = ()


Path: TypeAlias = tuple[str | int, ...]

REQUIRED = Reason("Required", "A required field is missing or empty.", Severity.ERROR)
WRONG_TYPE = Reason("WrongType", "A value has another JSON type than its field.", Severity.ERROR)
UNSUPPORTED = Reason("Unsupported", "A value is not one of the values that the field supports.", Severity.ERROR)
INVALID = Reason("Invalid", "A value breaks a rule of its field.", Severity.ERROR)
FORBIDDEN = Reason("Forbidden", "A field is not allowed in this combination.", Severity.ERROR)
TOO_MANY = Reason("TooMany", "A list, map or string is longer than allowed.", Severity.ERROR)
DUPLICATE = Reason("Duplicate", "An entry that must be unique occurs twice.", Severity.ERROR)
UNKNOWN_FIELD = Reason(
    "UnknownField",
    "The kind does not have this field: it is misspelled, or belongs to a newer version.",
    Severity.ERROR,
)
DEPRECATED = Reason(
    "Deprecated", "A deprecated spelling that still works; the message names its replacement.", Severity.WARNING
)
SUSPICIOUS = Reason("Suspicious", "Valid, but probably not what was meant.", Severity.WARNING)

# How a message begins. Warnings begin with their rule: they are marked as warnings wherever they are shown.
_PHRASES = {
    REQUIRED.code: "Required value",
    WRONG_TYPE.code: "Invalid value",
    UNSUPPORTED.code: "Unsupported value",
    INVALID.code: "Invalid value",
    FORBIDDEN.code: "Forbidden",
    TOO_MANY.code: "Too many",
    DUPLICATE.code: "Duplicate value",
    UNKNOWN_FIELD.code: "Unknown field",
}
# What the API server calls them where tools read it.
_CAUSES = {
    REQUIRED.code: "FieldValueRequired",
    WRONG_TYPE.code: "FieldValueTypeInvalid",
    UNSUPPORTED.code: "FieldValueNotSupported",
    INVALID.code: "FieldValueInvalid",
    FORBIDDEN.code: "FieldValueForbidden",
    TOO_MANY.code: "FieldValueTooMany",
    DUPLICATE.code: "FieldValueDuplicate",
}
# Stands for the value of a secret.
HIDDEN = "(hidden)"
# Where the value adds nothing to the phrase.
_WITHOUT_VALUE = frozenset({REQUIRED.code, FORBIDDEN.code, UNKNOWN_FIELD.code})


class ValidationProblem(msgspec.Struct, frozen=True):
    """One problem at one path: `value` is what is written there, `rule` the rule it breaks.

    Of a secret the value is `HIDDEN`, and its line in a file is not shown either.
    """

    path: Path
    reason: Reason
    rule: str
    value: object = None
    in_crd: bool = False
    suggestion: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether the object is refused because of it; warnings do not refuse."""
        return self.reason.severity is Severity.ERROR

    @property
    def message(self) -> str:
        """The problem without its path."""
        code = self.reason.code
        parts = [_PHRASES[code]] if code in _PHRASES else []
        if parts and code not in _WITHOUT_VALUE:
            parts.append(format_value(self.value))
        text = ": ".join([*parts, self.rule])
        return f'{text} (did you mean "{self.suggestion}"?)' if self.suggestion else text

    @property
    def cause(self) -> str:
        """The reason in the words of the API server, for tools that read its refusals."""
        return _CAUSES.get(self.reason.code, self.reason.code)

    def with_prefix(self, prefix: Path) -> ValidationProblem:
        """The problem with its path prefixed by that of an outer field."""
        return msgspec.structs.replace(self, path=prefix + self.path)

    def __str__(self) -> str:
        return f"{format_path(self.path)}: {self.message}"


def format_path(path: Path) -> str:
    """A path as the API server prints it: `spec.containerPolicies[0].minAllowed[cpu]`."""
    text = ""
    for part in path:
        if isinstance(part, int | MapKey):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text or "."


def describe_supported_values(values: tuple[str, ...]) -> str:
    """The rule text of an enumeration."""
    return "supported values: " + ", ".join(f'"{value}"' for value in values)
