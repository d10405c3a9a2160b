"""Reads whole columns of quantity texts into int64 counts at once.

The plain forms, digits with at most one point and a suffix, are read in a few NumPy passes over the bytes of all texts:
200,000 different texts take 0.04 s, against 0.5 s one by one. Signs, exponents and very long numbers are left to
`Quantity`, and every text means here exactly what it means there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import LARGEST_COUNT, Quantity

Counts = NDArray[np.int64]

_MAX_DIGITS = 18  # more may not fit an int64
_MAX_PLACES = 9  # and nine for the suffix n: the divisor stays below 10^18
_NO_SUFFIX = -1  # as a length it leaves two marks or more before the suffix, which no plain text has
_BINARY_ROW = 128  # texts are ASCII, so 0..127 is the last byte and 128.. the byte before a last `i`
_TENS = 10 ** np.arange(_MAX_PLACES + 1, dtype=np.int64)


def parse_milli_column(values: Sequence[str | None], missing: int = 0) -> Counts:
    """`Quantity.milli` of every text: CPU. None becomes `missing`."""
    return _parse_column(values, missing, _MILLI, lambda quantity: quantity.milli)


def parse_unit_column(values: Sequence[str | None], missing: int = 0) -> Counts:
    """`Quantity.units` of every text: memory in bytes. None becomes `missing`."""
    return _parse_column(values, missing, _UNITS, lambda quantity: quantity.units)


class _SuffixTable(NamedTuple):
    """Length, factor and divisor of each suffix, by the row that the end of a text selects."""

    length: Counts
    factor: Counts
    divisor: Counts
    limit: Counts  # the largest number whose product with the factor fits an int64


class _SplitTexts(NamedTuple):
    """The parts of every text. Where `plain` is false the other columns have no meaning."""

    plain: NDArray[np.bool_]
    number: Counts  # all digits, the point left out
    places: Counts  # digits after the point
    suffix: NDArray[np.intp]  # row in the table of suffixes


def _parse_column(
    values: Sequence[str | None], missing: int, suffixes: _SuffixTable, count: Callable[[Quantity], int]
) -> Counts:
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    texts = _split_texts(_join_bytes(values), len(values), suffixes.length)
    divisor = suffixes.divisor[texts.suffix] * _TENS[texts.places]
    too_large = texts.number > suffixes.limit[texts.suffix]
    is_whole = divisor == 1
    counts = texts.number * suffixes.factor[texts.suffix]
    counts[too_large] = LARGEST_COUNT
    divided = np.flatnonzero(~is_whole)
    counts[divided] = -(-counts[divided] // divisor[divided])
    parsed: dict[str, int] = {}
    for index in np.flatnonzero(~texts.plain | (too_large & ~is_whole)).tolist():
        text = values[index]
        if text is None:
            counts[index] = missing
            continue
        if text not in parsed:
            parsed[text] = count(_parse_one(text, index))
        counts[index] = parsed[text]
    return counts


def _join_bytes(values: Sequence[str | None]) -> NDArray[np.uint8]:
    """All texts, each ended by a line feed. What is not ASCII becomes `?`, which no plain text has."""
    try:
        joined = "\n".join(values)  # type: ignore[arg-type]  # a None is found out here, at no cost for the rest
    except TypeError:
        for index, value in enumerate(values):
            if not isinstance(value, str | None):
                raise InvalidQuantity(value, f"item {index}: in a column, a quantity is text") from None
        joined = "\n".join(value or "" for value in values)
    return np.frombuffer(joined.encode("ascii", "replace") + b"\n", dtype=np.uint8)


def _split_texts(data: NDArray[np.uint8], size: int, suffix_length: Counts) -> _SplitTexts:
    marks = np.flatnonzero(data - np.uint8(ord("0")) > 9)  # all that is no digit; smaller bytes wrap around
    end_marks = np.flatnonzero(data[marks] == ord("\n"))
    if len(end_marks) != size:  # a text has a line feed in it: let the slow way name it
        nothing = np.zeros(size, dtype=np.int64)
        return _SplitTexts(np.zeros(size, dtype=np.bool_), nothing, nothing, nothing)
    ends = marks[end_marks]
    last = data[ends - 1]
    suffix = np.where(last == ord("i"), _BINARY_ROW + (data[np.maximum(ends - 2, 0)] & 127), last).astype(np.intp)
    length = suffix_length[suffix]
    marks_before_suffix = np.diff(end_marks, prepend=-1) - 1 - length
    first_mark = marks[np.concatenate(([0], end_marks[:-1] + 1))]
    has_point = (marks_before_suffix == 1) & (data[first_mark] == ord("."))
    places = np.where(has_point, ends - length - first_mark - 1, 0)
    stops = ends - end_marks  # where the digits of a text stop, once all that is no digit is left out
    digits = np.diff(stops, prepend=0)
    plain = (marks_before_suffix == 0) | has_point
    plain &= (digits > 0) & (digits <= _MAX_DIGITS) & (places <= _MAX_PLACES)
    places[~plain] = 0
    digits[~plain] = 0
    return _SplitTexts(plain, _read_numbers(np.delete(data, marks), stops, digits), places, suffix)


def _read_numbers(digit_bytes: NDArray[np.uint8], stops: Counts, digits: Counts) -> Counts:
    """The numbers whose `digits` last digits stop before `stops`, all of them one digit at a time."""
    padded = np.zeros(len(digit_bytes) + 1, dtype=np.uint8)  # a leading 0 to read where a number has begun not yet
    np.subtract(digit_bytes, ord("0"), out=padded[1:])
    numbers = np.zeros(len(stops), dtype=np.int64)
    for place in range(int(digits.max()), 0, -1):
        numbers *= 10
        numbers += padded[np.where(digits >= place, stops - place + 1, 0)]
    return numbers


def _parse_one(text: str, index: int) -> Quantity:
    try:
        return Quantity.parse(text)
    except InvalidQuantity as error:
        raise InvalidQuantity(text, f"item {index}: {error.rule}") from error


def _build_suffix_table(counts_in_unit: int) -> _SuffixTable:
    table = _SuffixTable(np.full(256, _NO_SUFFIX), *(np.ones(256, dtype=np.int64) for _ in range(3)))
    ends = {ord(c): (0, 0) for c in "0123456789."}  # the last byte of a text without a suffix
    ends |= {ord(c): (1, power) for c, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)}
    for row, (length, power) in ends.items():
        _set_row(table, row, length, counts_in_unit * 10 ** max(power, 0), 10 ** max(-power, 0))
    for step, letter in enumerate("KMGTPE", start=1):
        _set_row(table, _BINARY_ROW + ord(letter), 2, counts_in_unit << (10 * step), 1)
    return table


def _set_row(table: _SuffixTable, row: int, length: int, factor: int, divisor: int) -> None:
    shared = min(factor, divisor)  # the divisor is 1, or both are powers of ten
    table.length[row] = length
    table.factor[row] = min(factor // shared, LARGEST_COUNT)
    table.divisor[row] = divisor // shared
    table.limit[row] = LARGEST_COUNT // (factor // shared)


_MILLI = _build_suffix_table(counts_in_unit=1000)
_UNITS = _build_suffix_table(counts_in_unit=1)
