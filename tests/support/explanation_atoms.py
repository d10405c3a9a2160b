"""Codes, numbers and texts of answers, so that a test can ask whether an explanation has others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec
import numpy as np

from trellis.base.errors import InvalidQuantity, InvalidTime
from trellis.base.quantities import Quantity
from trellis.base.reasons import Reason
from trellis.base.times import parse_time


class Atoms:
    """Codes, numbers and texts of whatever is shown to it."""

    def __init__(self) -> None:
        self.codes: set[str] = set()
        self.numbers: set[float] = set()
        self.texts: set[str] = set()

    def add(self, value: Any) -> None:
        match value:
            case Reason():
                self.codes.add(value.code)
            case Enum() | str() | Quantity():
                self._text(str(value))
            case int() | float() | np.generic():
                self.numbers.add(float(value))
            case datetime():
                self.numbers.add(float(int(value.timestamp())))
            case _:
                for part in _parts(value):
                    self.add(part)

    def _text(self, text: str) -> None:
        """What a text says: itself, an amount in both units, or a time."""
        self.texts.add(text)
        with suppress(InvalidQuantity):
            result = Quantity.parse(text)
            self.numbers |= {float(result.milli), float(result.units)}
        with suppress(InvalidTime):
            self.numbers.add(float(int(parse_time(text).timestamp())))


def _parts(value: Any) -> Iterable[Any]:
    match value:
        case msgspec.Struct():
            return [getattr(value, field) for field in value.__struct_fields__]
        case Mapping():
            return [*value.keys(), *value.values()]
        case np.ndarray():
            return value.ravel().tolist()
        case Iterable():
            return value
        case _:
            return ()
