"""How much: an exact amount of CPU, memory or anything else that Kubernetes counts.

    Quantity.parse("1.5Gi") + Quantity.parse("512Mi")   # prints as 2Gi
    Quantity.parse("100m") * Fraction(3, 2)              # prints as 150m

Two amounts are equal if they are equally much, however they were written. The format only says how to print.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, NoReturn

from trellis.base.errors import InvalidQuantity
from trellis.base.quantity_text import (
    LARGEST_COUNT,
    LARGEST_NANOS,
    NANOS,
    Format,
    read_quantity,
    rounded_up,
    write_quantity,
)

_NANOS_IN_MILLI = 10**6


class Quantity:
    """A whole number of nanos and the format to print it in; immutable.

    This is no msgspec struct on purpose: a struct would be read from an object with two fields, whereas a class of its
    own goes through the decoder's hook and is read from text, as every Kubernetes API writes it.
    """

    __slots__ = ("format", "nanos")

    nanos: int
    format: Format
    ZERO: ClassVar[Quantity]

    def __init__(self, nanos: int, format: Format = Format.DECIMAL_SI) -> None:  # noqa: A002 - the name of the API
        object.__setattr__(self, "nanos", nanos)
        object.__setattr__(self, "format", format)

    @classmethod
    def parse(cls, value: object) -> Quantity:
        """What the API server reads: text, or a bare number of a YAML file. True and False are not amounts."""
        if isinstance(value, str):
            return cls(*read_quantity(value))
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(max(-LARGEST_NANOS, min(value * NANOS, LARGEST_NANOS)))
        if isinstance(value, float):
            # The shortest text of a float is what stood in the file; `nan` and `inf` are refused as text.
            return cls(*read_quantity(repr(value)))
        raise InvalidQuantity(value, "a quantity is text or a number")

    @classmethod
    def from_milli(cls, milli: int) -> Quantity:
        """So many thousandths, the count CPU is reckoned in."""
        return cls(milli * _NANOS_IN_MILLI)

    @classmethod
    def from_units(cls, units: int, binary: bool = False) -> Quantity:
        """So many whole units, the count memory is reckoned in; `binary` prints them as Ki, Mi, Gi."""
        return cls(units * NANOS, Format.BINARY_SI if binary else Format.DECIMAL_SI)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero; at most 2^63-1 in magnitude, where Kubernetes would overflow."""
        return _saturated(rounded_up(self.nanos, _NANOS_IN_MILLI))

    @property
    def units(self) -> int:
        """Whole units, rounded away from zero; at most 2^63-1 in magnitude, where Kubernetes would overflow."""
        return _saturated(rounded_up(self.nanos, NANOS))

    @property
    def is_whole_milli(self) -> bool:
        """Whether `milli` says it exactly. CPU finer than that is refused by pod validation."""
        return self.nanos % _NANOS_IN_MILLI == 0

    @property
    def is_whole_unit(self) -> bool:
        """Whether `units` says it exactly. Memory finer than a byte draws a warning from the API server."""
        return self.nanos % NANOS == 0

    def exact(self) -> Fraction:
        """The amount in units."""
        return Fraction(self.nanos, NANOS)

    def ratio(self, other: Quantity) -> Fraction:
        """How many times the other this is. As with any number, the ratio to zero is a ZeroDivisionError."""
        return Fraction(self.nanos, other.nanos)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self._format_with(other))

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self._format_with(other))

    def __mul__(self, factor: int | Fraction) -> Quantity:
        """Exact to the nano, and rounded away from zero there."""
        if isinstance(factor, int):
            return Quantity(self.nanos * factor, self.format)
        return Quantity(rounded_up(self.nanos * factor.numerator, factor.denominator), self.format)

    __rmul__ = __mul__

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __abs__(self) -> Quantity:
        return Quantity(abs(self.nanos), self.format)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        return self.nanos >= other.nanos

    def __str__(self) -> str:
        return write_quantity(self.nanos, self.format)

    def __repr__(self) -> str:
        return f'Quantity("{self}")'

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a quantity cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a quantity cannot be changed: {name}")

    def __reduce__(self) -> tuple[type[Quantity], tuple[int, Format]]:
        # Copying and pickling go through the constructor: the default way sets attributes.
        return Quantity, (self.nanos, self.format)

    def _format_with(self, other: Quantity) -> Format:
        """Kubernetes keeps the format of the left side, unless that is zero and so has shown none."""
        return self.format if self.nanos else other.format


Quantity.ZERO = Quantity(0)


def _saturated(count: int) -> int:
    return max(-LARGEST_COUNT, min(count, LARGEST_COUNT))
