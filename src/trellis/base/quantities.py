"""Kubernetes quantities: exact amounts of CPU, memory or anything else, read from text and printed.

    Quantity.parse("1.5Gi") + Quantity.parse("512Mi")   # prints as 2Gi
    Quantity.parse("100m") * Fraction(3, 2)              # prints as 150m

Two amounts are equal if they are equally much, however they were written. The format only says how to print.

The rules are those of `resource.ParseQuantity` and `Quantity.CanonicalizeBytes` in Kubernetes 1.36. An amount is a
whole number of nanos: that is the finest step Kubernetes keeps, and what is finer is rounded away from zero, so that
a request for something never becomes nothing.

Three of the rules surprise. Only binary amounts are capped at 2^63-1; decimal ones are not. A text without digits
(`m`, `Ki`, `-`, `.`) is zero, unless its suffix is Pi, Ei or an exponent below nano. A binary amount that is a fraction
or below 1024 prints as a decimal.

Kubernetes errs at the far end, and Trellis does not follow it there: `1000E` prints as `1000E` (there as `1`), and an
exponent beyond 32 bits is huge (there it wraps around).
"""

from __future__ import annotations

import re
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, NoReturn

from trellis.base.errors import InvalidQuantity

NANOS_PER_UNIT = 10**9  # in one unit
LARGEST_COUNT = 2**63 - 1

# Decimal amounts are kept up to 10^36 units. Kubernetes keeps them all and computes 10^n, so that "1e-999999999"
# occupies a core for minutes. Counts in int64 are saturated 17 orders of magnitude earlier.
LARGEST_NANOS = 10**45
_LARGEST_DIGITS = 46

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?)0*([0-9]+)")
_FORM_RULE = "not a quantity; write a number and a suffix, such as 250m, 1.5 or 512Mi"
_SUFFIX_RULE = "no such suffix; the suffixes are n u m k M G T P E and Ki Mi Gi Ti Pi Ei"

_DECIMAL_SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_POWER_OF_TEN = {suffix: 3 * step - 9 for step, suffix in enumerate(_DECIMAL_SUFFIXES)}
_POWER_OF_TWO = {suffix: 10 * step for step, suffix in enumerate(_BINARY_SUFFIXES) if suffix}

# The nanos one digit of the fraction can move is exact for 69 places: 9 for nanos and 60 for Ei. All that later places
# can say is "a little more".
_SIGNIFICANT_PLACES = 69


class QuantityFormat(StrEnum):
    """The family of suffixes an amount was written in, and is printed in again."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


def parse_quantity(text: str) -> tuple[int, QuantityFormat]:
    """The nanos and the format of a text."""
    form = _FORM.fullmatch(text)
    if form is None or not text:
        raise InvalidQuantity(text, _FORM_RULE)
    sign, integer, fraction, suffix = form.groups(default="")
    power, written = _split_suffix(text, suffix)
    if not integer and not fraction and (power < -9 or suffix in ("Pi", "Ei")):
        raise InvalidQuantity(text, _FORM_RULE)
    if written is QuantityFormat.BINARY_SI:
        nanos = _binary_nanos(integer, fraction, power)
        if 0 < nanos < NANOS_PER_UNIT:
            written = QuantityFormat.DECIMAL_SI
    else:
        nanos = _decimal_nanos(integer, fraction, power)
    return (-nanos if sign == "-" else nanos), written


def format_quantity(nanos: int, written: QuantityFormat) -> str:
    """The canonical text: the largest suffix that leaves a whole number."""
    if nanos == 0:
        return "0"
    if written is QuantityFormat.BINARY_SI and abs(nanos) >= 1024 * NANOS_PER_UNIT and nanos % NANOS_PER_UNIT == 0:
        number, step = _divide_out(nanos // NANOS_PER_UNIT, 1024, most=len(_BINARY_SUFFIXES) - 1)
        return f"{number}{_BINARY_SUFFIXES[step]}"
    if written is QuantityFormat.DECIMAL_EXPONENT:
        number, step = _divide_out(nanos, 1000)
        return f"{number}e{3 * step - 9}" if step != 3 else str(number)
    number, step = _divide_out(nanos, 1000, most=len(_DECIMAL_SUFFIXES) - 1)
    return f"{number}{_DECIMAL_SUFFIXES[step]}"


def round_away_from_zero(numerator: int, denominator: int) -> int:
    """The quotient rounded away from zero, for a positive denominator."""
    return -(-numerator // denominator) if numerator >= 0 else numerator // denominator


def _split_suffix(text: str, suffix: str) -> tuple[int, QuantityFormat]:
    """The power, of two for a binary suffix and of ten for the others."""
    if (power := _POWER_OF_TEN.get(suffix)) is not None:
        return power, QuantityFormat.DECIMAL_SI
    if (power := _POWER_OF_TWO.get(suffix)) is not None:
        return power, QuantityFormat.BINARY_SI
    form = _EXPONENT.fullmatch(suffix)
    # Kubernetes reads the exponent into an int64: one of 20 digits is refused, not capped.
    if form is None or len(form[2]) > 19 or int(form[2]) > LARGEST_COUNT + (form[1] == "-"):
        raise InvalidQuantity(text, f'"{suffix}": {_SUFFIX_RULE}')
    return (-int(form[2]) if form[1] == "-" else int(form[2])), QuantityFormat.DECIMAL_EXPONENT


def _decimal_nanos(integer: str, fraction: str, power: int) -> int:
    """Works on the digits, never on 10^power: the power may be any int64."""
    digits = (integer + fraction).lstrip("0")
    if not digits:
        return 0
    nano_digits = len(digits) - len(fraction) + power + 9  # digits that count whole nanos
    if nano_digits > _LARGEST_DIGITS:
        return LARGEST_NANOS
    if nano_digits <= 0:
        return 1
    nanos = int(digits[:nano_digits].ljust(nano_digits, "0")) + bool(digits[nano_digits:].strip("0"))
    return min(nanos, LARGEST_NANOS)


def _binary_nanos(integer: str, fraction: str, power: int) -> int:
    integer = integer.lstrip("0")
    if len(integer) > 19:  # 2^63-1 has 19 digits
        return LARGEST_COUNT * NANOS_PER_UNIT
    if len(fraction) > _SIGNIFICANT_PLACES:
        has_remainder = "1" if fraction[_SIGNIFICANT_PLACES:].strip("0") else ""
        fraction = fraction[:_SIGNIFICANT_PLACES] + has_remainder
    scaled = int(integer + fraction or "0") * (NANOS_PER_UNIT << power)
    return min(round_away_from_zero(scaled, 10 ** len(fraction)), LARGEST_COUNT * NANOS_PER_UNIT)


def _divide_out(number: int, factor: int, most: int | None = None) -> tuple[int, int]:
    times = 0
    while number % factor == 0 and times != most:
        number //= factor
        times += 1
    return number, times


_NANOS_IN_MILLI = 10**6


class Quantity:
    """A whole number of nanos and the format to print it in; immutable.

    This is no msgspec struct on purpose: a struct would be read from an object with two fields, whereas a class of its
    own goes through the decoder's hook and is read from text, as every Kubernetes API writes it.
    """

    __slots__ = ("format", "nanos")

    nanos: int
    format: QuantityFormat
    ZERO: ClassVar[Quantity]

    def __init__(self, nanos: int, format: QuantityFormat = QuantityFormat.DECIMAL_SI) -> None:  # noqa: A002 - the name of the API
        object.__setattr__(self, "nanos", nanos)
        object.__setattr__(self, "format", format)

    @classmethod
    def parse(cls, value: object) -> Quantity:
        """Parse what the API server accepts: text, or a number of a YAML file. True and False are not amounts."""
        if isinstance(value, str):
            return cls(*parse_quantity(value))
        if isinstance(value, int) and not isinstance(value, bool):
            return cls(max(-LARGEST_NANOS, min(value * NANOS_PER_UNIT, LARGEST_NANOS)))
        if isinstance(value, float):
            # The shortest text of a float is what stood in the file; `nan` and `inf` are refused as text.
            return cls(*parse_quantity(repr(value)))
        raise InvalidQuantity(value, "a quantity is text or a number")

    @classmethod
    def from_milli(cls, milli: int) -> Quantity:
        """A quantity in thousandths, the unit of CPU."""
        return cls(milli * _NANOS_IN_MILLI)

    @classmethod
    def from_units(cls, units: int, binary: bool = False) -> Quantity:
        """A quantity in whole units, the unit of memory; `binary` prints it with Ki, Mi, Gi."""
        return cls(units * NANOS_PER_UNIT, QuantityFormat.BINARY_SI if binary else QuantityFormat.DECIMAL_SI)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero; at most 2^63-1 in magnitude, where Kubernetes would overflow."""
        return _saturate(round_away_from_zero(self.nanos, _NANOS_IN_MILLI))

    @property
    def units(self) -> int:
        """Whole units, rounded away from zero; at most 2^63-1 in magnitude, where Kubernetes would overflow."""
        return _saturate(round_away_from_zero(self.nanos, NANOS_PER_UNIT))

    @property
    def is_whole_milli(self) -> bool:
        """Whether `milli` is exact. Pod validation refuses finer CPU."""
        return self.nanos % _NANOS_IN_MILLI == 0

    @property
    def is_whole_unit(self) -> bool:
        """Whether `units` is exact. The API server warns about finer memory."""
        return self.nanos % NANOS_PER_UNIT == 0

    def exact(self) -> Fraction:
        """The amount in units."""
        return Fraction(self.nanos, NANOS_PER_UNIT)

    def ratio(self, other: Quantity) -> Fraction:
        """The ratio to another amount; raises ZeroDivisionError if that is zero."""
        return Fraction(self.nanos, other.nanos)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self._format_with(other))

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self._format_with(other))

    def __mul__(self, factor: int | Fraction) -> Quantity:
        """Exact to the nano, and rounded away from zero there."""
        if isinstance(factor, int):
            return Quantity(self.nanos * factor, self.format)
        return Quantity(round_away_from_zero(self.nanos * factor.numerator, factor.denominator), self.format)

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
        return format_quantity(self.nanos, self.format)

    def __repr__(self) -> str:
        return f'Quantity("{self}")'

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a quantity cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a quantity cannot be changed: {name}")

    def __reduce__(self) -> tuple[type[Quantity], tuple[int, QuantityFormat]]:
        # Copying and pickling go through the constructor: the default way sets attributes.
        return Quantity, (self.nanos, self.format)

    def _format_with(self, other: Quantity) -> QuantityFormat:
        """Kubernetes keeps the format of the left side, unless that is zero and so has shown none."""
        return self.format if self.nanos else other.format


Quantity.ZERO = Quantity(0)


def _saturate(count: int) -> int:
    return max(-LARGEST_COUNT, min(count, LARGEST_COUNT))
