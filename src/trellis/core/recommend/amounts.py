"""Amounts of CPU and memory, in whole millicores and bytes: their layout in columns, and quantities read and printed.

A recommendation for all containers is one array with the axes (what, resource, container): what is one of `TARGET` to
`TOTAL`, resource is `CPU` or `MEMORY`, NaN is "none". A float holds every whole number that upstream's amounts can be.

Columns of quantities are printed and parsed for all containers at once; every text is the one that `Quantity` would
print. 800,000 texts take a quarter of a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from trellis.api.resolve.stored_values import read_stored_amount
from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity, QuantityFormat
from trellis.base.quantity_columns import parse_milli_column
from trellis.core.usage.columns import FloatColumn, IntColumn

# Upstream's largest amount. What is beyond it, as an upper bound without any confidence is, stops there.
LARGEST_AMOUNT: Final = 1e14
# A policy or a stored status that says more is read as this much: up to here a float holds every whole number.
LARGEST_EXACT_AMOUNT: Final = 2.0**53

CPU: Final = 0
MEMORY: Final = 1
RESOURCES: Final = ("cpu", "memory")

# The first axis of estimates.
LOWER: Final = 0
MIDDLE: Final = 1
UPPER: Final = 2

# The first axis of what is published, and its names there.
TARGET: Final = 0
LOWER_BOUND: Final = 1
UPPER_BOUND: Final = 2
UNCAPPED: Final = 3
TOTAL: Final = 4
STATUS_FIELDS: Final = ("target", "lowerBound", "upperBound", "uncappedTarget", "totalTarget")

MILLICORES_PER_CORE: Final = 1000.0  # in a core


def truncate_amounts(amounts: FloatColumn) -> FloatColumn:
    """Amounts as upstream converts them: fractions cut off, between 0 and `LARGEST`; NaN becomes 0."""
    return np.trunc(np.clip(np.nan_to_num(amounts, nan=0.0, posinf=LARGEST_AMOUNT, neginf=0.0), 0.0, LARGEST_AMOUNT))


_DECIMAL = np.array(["m", "", "k", "M", "G", "T", "P", "E"], dtype=object)
_BINARY = np.array(["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], dtype=object)
_NANOS_IN_MILLI = 10**6
_ABSENT = -1


def format_cpu_column(millicores: FloatColumn) -> list[str]:
    """`25m`, `1`, `100G`. NaN becomes `0`: the caller handles it."""
    numbers, steps = _divide_evenly(_convert_to_integers(millicores), 1000, len(_DECIMAL) - 1)
    suffixes = _DECIMAL[steps].tolist()
    return [f"{number}{suffix}" if number else "0" for number, suffix in zip(numbers.tolist(), suffixes, strict=True)]


def format_memory_column(amounts: FloatColumn) -> list[str]:
    """`250Mi`, `1238659775`: a binary suffix only where it loses nothing. Fractions are kept to a thousandth."""
    numbers, steps = _divide_evenly(_convert_to_integers(amounts), 1024, len(_BINARY) - 1)
    suffixes = _BINARY[steps].tolist()
    texts = [f"{number}{suffix}" for number, suffix in zip(numbers.tolist(), suffixes, strict=True)]
    # Below a kibibyte a binary amount prints as a decimal one, and so does a fraction.
    needs_quantity = (amounts % 1 != 0) | (amounts < 1024)
    for index in np.flatnonzero(needs_quantity & ~np.isnan(amounts)).tolist():
        milli = round(float(amounts[index]) * 1000)
        texts[index] = str(Quantity(milli * _NANOS_IN_MILLI, QuantityFormat.BINARY_SI))
    return texts


def parse_cpu_column(texts: Sequence[str | None]) -> FloatColumn:
    """Millicores of every text; NaN for none and for what is no quantity, or a negative one."""
    counts = _parse_milli_column(texts)
    return np.where(counts < 0, np.nan, counts)


def parse_memory_column(texts: Sequence[str | None]) -> FloatColumn:
    """Bytes of every text, to a thousandth."""
    counts = _parse_milli_column(texts)
    # Divided as integers: a float cannot tell that many thousandths apart.
    return np.where(counts < 0, np.nan, counts // 1000 + (counts % 1000) / 1000)


def _parse_milli_column(texts: Sequence[str | None]) -> IntColumn:
    try:
        return parse_milli_column(texts, missing=_ABSENT)
    except InvalidQuantity:  # one of them, or more: the others are read all the same
        return np.array([_parse_milli(text) for text in texts], dtype=np.int64)


def _parse_milli(text: str | None) -> int:
    try:
        return _ABSENT if text is None else Quantity.parse(text).milli
    except InvalidQuantity:
        return _ABSENT


def _convert_to_integers(amounts: FloatColumn) -> IntColumn:
    return np.nan_to_num(amounts, nan=0.0).astype(np.int64)


def _divide_evenly(numbers: IntColumn, factor: int, max_steps: int) -> tuple[IntColumn, IntColumn]:
    """Each number divided by the factor as often as it is divisible, and the count of divisions."""
    steps = np.zeros(len(numbers), dtype=np.int64)
    divisible = np.flatnonzero((numbers != 0) & (numbers % factor == 0))
    for _ in range(max_steps):
        if not len(divisible):
            break
        numbers[divisible] //= factor
        steps[divisible] += 1
        divisible = divisible[numbers[divisible] % factor == 0]
    return numbers, steps


ResourceAmounts: TypeAlias = Mapping[str, int]

# Digits that no amount may exceed.
_MAX_PLAIN_DIGITS: Final = 12


def parse_amounts(quantities: Mapping[str, str | int] | Mapping[str, str]) -> dict[str, int]:
    """Quantities as counts; those that cannot be read, and all but CPU and memory, are left out."""
    counts = {}
    for resource in RESOURCES:
        count = _parse_amount(resource, quantities.get(resource))
        if count is not None:
            counts[resource] = count
    return counts


# The amounts are few, as their texts are, and a new pod waits until all of its own are read.
@lru_cache(maxsize=4096, typed=True)
def _parse_amount(resource: str, quantity: str | int | None) -> int | None:
    if quantity is None:
        return None
    text = quantity if isinstance(quantity, str) else str(quantity)
    # As recommendations are written, of which there are many: `25m`, and plain bytes.
    is_milli = resource == "cpu" and text.endswith("m")
    digits = text[:-1] if is_milli else text
    if len(digits) <= _MAX_PLAIN_DIGITS and digits.isascii() and digits.isdigit():
        return int(digits) * (1000 if resource == "cpu" and not is_milli else 1)
    amount = read_stored_amount(text)
    if amount is None:
        return None
    return amount.milli if resource == "cpu" else amount.units


@lru_cache(maxsize=4096, typed=True)
def is_rounded_up(resource: str, text: str | None) -> bool:
    """Whether the count of a quantity is more than what is written: `1500m` of memory is a byte and a half."""
    amount, count = read_stored_amount(text), _parse_amount(resource, text)
    return (
        amount is not None and count is not None and amount.exact() < Fraction(count, 1000 if resource == "cpu" else 1)
    )
