"""How a quantity is written: the text forms of Kubernetes quantities, read and printed.

The rules are those of `resource.ParseQuantity` and `Quantity.CanonicalizeBytes` in Kubernetes 1.36. An amount is a
whole number of nanos: that is the finest step Kubernetes keeps, and what is finer is rounded away from zero, so that
who asks for something never gets nothing.

Three of the rules surprise. Only binary amounts are capped at 2^63-1; decimal ones are not. A text without digits
(`m`, `Ki`, `-`, `.`) is zero, unless its suffix is Pi, Ei or an exponent below nano. A binary amount that is a fraction
or below 1024 prints as a decimal.

Kubernetes errs at the far end, and we do not follow it there: `1000E` prints as `1000E` (there as `1`), and an exponent
beyond 32 bits is huge (there it wraps around).
"""

from __future__ import annotations

import re
from enum import StrEnum

from trellis.base.errors import InvalidQuantity

NANOS = 10**9  # in one unit
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
_TELLING_PLACES = 69


class Format(StrEnum):
    """The family of suffixes an amount was written in, and is printed in again."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


def read_quantity(text: str) -> tuple[int, Format]:
    """The nanos and the format of a text."""
    form = _FORM.fullmatch(text)
    if form is None or not text:
        raise InvalidQuantity(text, _FORM_RULE)
    sign, whole, fraction, suffix = form.groups(default="")
    power, written = _meaning(text, suffix)
    if not whole and not fraction and (power < -9 or suffix in ("Pi", "Ei")):
        raise InvalidQuantity(text, _FORM_RULE)
    if written is Format.BINARY_SI:
        nanos = _binary_nanos(whole, fraction, power)
        if 0 < nanos < NANOS:
            written = Format.DECIMAL_SI
    else:
        nanos = _decimal_nanos(whole, fraction, power)
    return (-nanos if sign == "-" else nanos), written


def write_quantity(nanos: int, written: Format) -> str:
    """The canonical text: the largest suffix that leaves a whole number."""
    if nanos == 0:
        return "0"
    if written is Format.BINARY_SI and abs(nanos) >= 1024 * NANOS and nanos % NANOS == 0:
        number, step = _without_factor(nanos // NANOS, 1024, most=len(_BINARY_SUFFIXES) - 1)
        return f"{number}{_BINARY_SUFFIXES[step]}"
    if written is Format.DECIMAL_EXPONENT:
        number, step = _without_factor(nanos, 1000)
        return f"{number}e{3 * step - 9}" if step != 3 else str(number)
    number, step = _without_factor(nanos, 1000, most=len(_DECIMAL_SUFFIXES) - 1)
    return f"{number}{_DECIMAL_SUFFIXES[step]}"


def rounded_up(numerator: int, denominator: int) -> int:
    """The quotient rounded away from zero, for a positive denominator."""
    return -(-numerator // denominator) if numerator >= 0 else numerator // denominator


def _meaning(text: str, suffix: str) -> tuple[int, Format]:
    """The power, of two for a binary suffix and of ten for the others."""
    if (power := _POWER_OF_TEN.get(suffix)) is not None:
        return power, Format.DECIMAL_SI
    if (power := _POWER_OF_TWO.get(suffix)) is not None:
        return power, Format.BINARY_SI
    form = _EXPONENT.fullmatch(suffix)
    # Kubernetes reads the exponent into an int64: one of 20 digits is refused, not capped.
    if form is None or len(form[2]) > 19 or int(form[2]) > LARGEST_COUNT + (form[1] == "-"):
        raise InvalidQuantity(text, f'"{suffix}": {_SUFFIX_RULE}')
    return (-int(form[2]) if form[1] == "-" else int(form[2])), Format.DECIMAL_EXPONENT


def _decimal_nanos(whole: str, fraction: str, power: int) -> int:
    """Works on the digits, never on 10^power: the power may be any int64."""
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return 0
    kept = len(digits) - len(fraction) + power + 9  # digits that count whole nanos
    if kept > _LARGEST_DIGITS:
        return LARGEST_NANOS
    if kept <= 0:
        return 1
    nanos = int(digits[:kept].ljust(kept, "0")) + bool(digits[kept:].strip("0"))
    return min(nanos, LARGEST_NANOS)


def _binary_nanos(whole: str, fraction: str, power: int) -> int:
    whole = whole.lstrip("0")
    if len(whole) > 19:  # 2^63-1 has 19 digits
        return LARGEST_COUNT * NANOS
    if len(fraction) > _TELLING_PLACES:
        a_little_more = "1" if fraction[_TELLING_PLACES:].strip("0") else ""
        fraction = fraction[:_TELLING_PLACES] + a_little_more
    scaled = int(whole + fraction or "0") * (NANOS << power)
    return min(rounded_up(scaled, 10 ** len(fraction)), LARGEST_COUNT * NANOS)


def _without_factor(number: int, factor: int, most: int | None = None) -> tuple[int, int]:
    times = 0
    while number % factor == 0 and times != most:
        number //= factor
        times += 1
    return number, times
