"""Parses and formats the values of settings: text in a flag or a variable, text or JSON in a file.

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
from trellis.base.durations import Duration, parse_duration
from trellis.base.errors import InternalError, InvalidInput
from trellis.base.names import suggest_name
from trellis.base.quantities import Quantity
from trellis.runtime.settings.feature_gates import BOOLEANS, format_gates, parse_gates

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")


class SettingType(msgspec.Struct, frozen=True):
    """One type of setting. `read` raises `InvalidInput`; `show` formats a value as in a flag.

    A switch needs no value as a flag. A repeatable flag may be given several times and collects its values.
    """

    name: str
    read: Callable[[object], Any]
    show: Callable[[Any], str] = str
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

    return SettingType(" or ".join(f"`{choice}`" for choice in choices), read)


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


_LIST: Final = SettingType("list", _read_list, ",".join, repeatable=True)
_KINDS: Final[dict[Any, SettingType]] = {
    bool: SettingType("true or false", _read_bool, lambda value: str(value).lower(), switch=True),
    int: SettingType("whole number", _read_int),
    float: SettingType("number", _read_float, lambda value: f"{value:.15g}"),
    str: SettingType("text", _read_str),
    Duration: SettingType("duration", parse_duration),
    Quantity: SettingType("quantity", Quantity.parse),
    FeatureGates: SettingType("feature gates", parse_gates, format_gates, repeatable=True),
}
