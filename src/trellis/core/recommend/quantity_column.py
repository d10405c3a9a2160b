"""How are whole columns of amounts written as quantities, and read again?

The plain cases are done for all at once; every text is the one that `Quantity` would print. 800,000 texts take a
quarter of a second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.base.errors import InvalidQuantity
from trellis.base.quantity import Quantity
from trellis.base.quantity_columns import milli_column
from trellis.base.quantity_text import Format
from trellis.core.usage.columns import FloatColumn, IntColumn

_DECIMAL = np.array(["m", "", "k", "M", "G", "T", "P", "E"], dtype=object)
_BINARY = np.array(["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], dtype=object)
_NANOS_IN_MILLI = 10**6
_ABSENT = -1


def cpu_texts(millicores: FloatColumn) -> list[str]:
    """`25m`, `1`, `100G`. What is NaN reads `0`: the caller knows which those are."""
    numbers, steps = _reduced(_counts(millicores), 1000, len(_DECIMAL) - 1)
    suffixes = _DECIMAL[steps].tolist()
    return [f"{number}{suffix}" if number else "0" for number, suffix in zip(numbers.tolist(), suffixes, strict=True)]


def memory_texts(amounts: FloatColumn) -> list[str]:
    """`250Mi`, `1238659775`: a binary suffix only where it loses nothing. Fractions are kept to a thousandth."""
    numbers, steps = _reduced(_counts(amounts), 1024, len(_BINARY) - 1)
    suffixes = _BINARY[steps].tolist()
    texts = [f"{number}{suffix}" for number, suffix in zip(numbers.tolist(), suffixes, strict=True)]
    # Below a kibibyte a binary amount prints as a decimal one, and so does a fraction.
    odd = (amounts % 1 != 0) | (amounts < 1024)
    for index in np.flatnonzero(odd & ~np.isnan(amounts)).tolist():
        milli = round(float(amounts[index]) * 1000)
        texts[index] = str(Quantity(milli * _NANOS_IN_MILLI, Format.BINARY_SI))
    return texts


def read_cpu(texts: Sequence[str | None]) -> FloatColumn:
    """Millicores of every text; NaN for none and for what is no quantity, or a negative one."""
    counts = _thousandths(texts)
    return np.where(counts < 0, np.nan, counts)


def read_memory(texts: Sequence[str | None]) -> FloatColumn:
    """Bytes of every text, to a thousandth."""
    counts = _thousandths(texts)
    # Divided as integers: so many thousandths are more than a float can tell apart.
    return np.where(counts < 0, np.nan, counts // 1000 + (counts % 1000) / 1000)


def _thousandths(texts: Sequence[str | None]) -> IntColumn:
    try:
        return milli_column(texts, missing=_ABSENT)
    except InvalidQuantity:  # one of them, or more: the others are read all the same
        return np.array([_read(text) for text in texts], dtype=np.int64)


def _read(text: str | None) -> int:
    try:
        return _ABSENT if text is None else Quantity.parse(text).milli
    except InvalidQuantity:
        return _ABSENT


def _counts(amounts: FloatColumn) -> IntColumn:
    return np.nan_to_num(amounts, nan=0.0).astype(np.int64)


def _reduced(numbers: IntColumn, factor: int, most: int) -> tuple[IntColumn, IntColumn]:
    """Every number divided by the factor as often as nothing is left over, and how often that was."""
    steps = np.zeros(len(numbers), dtype=np.int64)
    divisible = np.flatnonzero((numbers != 0) & (numbers % factor == 0))
    for _ in range(most):
        if not len(divisible):
            break
        numbers[divisible] //= factor
        steps[divisible] += 1
        divisible = divisible[numbers[divisible] % factor == 0]
    return numbers, steps
