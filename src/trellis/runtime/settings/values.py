"""Parses and formats the values of settings: text in a flag or a variable, JSON in a file.

Text is parsed as upstream's flags parse it, that is, as Go does: `1m0s` is a duration, `t` is true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, get_args, get_origin

import msgspec

from trellis.api.feature_gates import FeatureGates
from trellis.api.schema.fields import AMOUNT_PATTERN, DURATION_PATTERN, Field
from trellis.api.schema.tree import JsonShape, SchemaNode
from trellis.base.durations import Duration, parse_duration
from trellis.base.errors import InternalError, InvalidInput
from trellis.base.names import suggest_name
from trellis.base.quantities import Quantity
from trellis.runtime.settings.feature_gates import BOOLEANS, format_gates, gates_as_map, list_gate_names, parse_gates

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")


class SettingType(msgspec.Struct, frozen=True):
    """One type of setting. `read` raises `InvalidInput`; `show` formats a value as in a flag, `to_json` as in a file.

    `schema` is what it is in a configuration file, which allows the natural type of YAML only. A switch needs no value
    as a flag. A repeatable flag may be given several times and collects its values.
    """

    name: str
    read: Callable[[object], Any]
    schema: SchemaNode
    show: Callable[[Any], str] = str
    to_json: Callable[[Any], Any] = str
    switch: bool = False
    repeatable: bool = False


def get_setting_type(annotation: Any) -> SettingType:
    """The setting type of a Python type."""
    if annotation in _KINDS:
        return _KINDS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return choice_type(tuple(annotation), annotation)
    if get_origin(annotation) is tuple and get_args(annotation) == (str, ...):
        return _LIST
    raise InternalError(f"a setting cannot have the type {annotation}")


def choice_type(choices: tuple[str, ...], make: Callable[[str], Any] = str) -> SettingType:
    """One of several words."""

    def read(value: object) -> Any:
        if isinstance(value, str) and value in choices:
            return make(value)
        guess = suggest_name(value, choices) if isinstance(value, str) else None
        hint = f" (did you mean {guess}?)" if guess else ""
        raise InvalidInput(value, f"must be one of {', '.join(choices)}{hint}")

    schema = SchemaNode(JsonShape.STRING, Field(enum=choices))
    return SettingType(" or ".join(f"`{choice}`" for choice in choices), read, schema)


def _read_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in BOOLEANS:
        return BOOLEANS[value]
    raise InvalidInput(value, "must be true or false")


def _read_int(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise InvalidInput(value, "must be a whole number")


def _read_float(value: object) -> float:
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    elif isinstance(value, str) and "_" not in value:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
    if math.isfinite(number):
        return number
    raise InvalidInput(value, "must be a number")


def _read_str(value: object) -> str:
    if isinstance(value, str):
        return value
    raise InvalidInput(value, "must be text; put it in quotes")


def _read_list(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise InvalidInput(value, "must be a list of strings, or one string with commas")


def _same(value: Any) -> Any:
    return value


_TEXT: Final = SchemaNode(JsonShape.STRING, Field())
_BOOLEAN: Final = SchemaNode(JsonShape.BOOLEAN, Field())
_DURATION: Final = SchemaNode(
    JsonShape.STRING,
    Field(pattern=DURATION_PATTERN, pattern_message="must be a duration such as 10s, 2m or 1h30m, not negative"),
)
_QUANTITY: Final = SchemaNode(
    JsonShape.QUANTITY,
    Field(
        quantity=True,
        pattern=AMOUNT_PATTERN,
        pattern_message="must be a quantity such as 500m or 1.5Gi, not negative",
        minimum=0,
    ),
)
_GATES: Final = SchemaNode(JsonShape.OBJECT, Field(), members=dict.fromkeys(list_gate_names(), _BOOLEAN))

_LIST: Final = SettingType(
    "list",
    _read_list,
    SchemaNode(JsonShape.LIST, Field(), items=_TEXT),
    ",".join,
    to_json=list,
    repeatable=True,
)
_KINDS: Final[dict[Any, SettingType]] = {
    bool: SettingType(
        "true or false", _read_bool, _BOOLEAN, lambda value: str(value).lower(), to_json=_same, switch=True
    ),
    int: SettingType("whole number", _read_int, SchemaNode(JsonShape.INTEGER, Field()), to_json=_same),
    float: SettingType(
        "number", _read_float, SchemaNode(JsonShape.NUMBER, Field()), lambda value: f"{value:.15g}", to_json=_same
    ),
    str: SettingType("text", _read_str, _TEXT),
    Duration: SettingType("duration", parse_duration, _DURATION),
    Quantity: SettingType("quantity", Quantity.parse, _QUANTITY),
    FeatureGates: SettingType(
        "feature gates", parse_gates, _GATES, format_gates, to_json=gates_as_map, repeatable=True
    ),
}
