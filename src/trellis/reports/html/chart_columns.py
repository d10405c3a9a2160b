"""Encodes the columns of charts compactly for a page.

A column becomes whole numbers: its values in units of a ten-thousandth of the largest, so with about four digits.
Only the steps from one value to the next are written, with run lengths: requests and bounds hardly change, and
usage moves by little. Equal columns are written once, because variants share the usage.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.core.usage.columns import FloatColumn

_FINEST = 9999.0
_NEGLIGIBLE = 1e-9  # cores or bytes that are none
_UNKNOWN = "n"


class ChartColumns:
    """A pool of columns; the page's data refer to them by number."""

    def __init__(self) -> None:
        self.encoded: list[list[float | str]] = []
        self._numbers: dict[tuple[float, str], int] = {}

    def add(self, values: Sequence[float]) -> int:
        """The number of a column with these values."""
        column = np.asarray(values, dtype=np.float64)
        column = np.where(np.isfinite(column), column, np.nan)
        top = float(np.nanmax(np.abs(column))) if np.isfinite(column).any() else 0.0
        # A unit of few digits, rounded up, so that it is written exactly and nothing exceeds the finest.
        return self._add_to_pool(float(f"{top / _FINEST:.3e}") if top > _NEGLIGIBLE else 1.0, column)

    def add_times(self, values: Sequence[float]) -> int:
        """The number of a column with these times, to the second."""
        return self._add_to_pool(1.0, np.asarray(values, dtype=np.float64))

    def _add_to_pool(self, unit: float, column: FloatColumn) -> int:
        key = (unit, _encode_steps(np.rint(column / unit)))
        number = self._numbers.setdefault(key, len(self.encoded))
        if number == len(self.encoded):
            self.encoded.append([*key])
        return number


def _encode_steps(counts: FloatColumn) -> str:
    """`5,-1,2*3,n*4`: steps from nought on, with how often; `n` is unknown and steps over. Nought is left out."""
    is_finite = np.isfinite(counts)
    steps = np.full(len(counts), np.nan)
    steps[is_finite] = np.diff(counts[is_finite], prepend=0.0)
    if not len(steps):
        return ""
    same = (steps[1:] == steps[:-1]) | (np.isnan(steps[1:]) & np.isnan(steps[:-1]))
    begins = np.flatnonzero(np.concatenate(([True], ~same)))
    lengths = np.diff(np.append(begins, len(steps)))
    text = ",".join(
        _encode_step(step) + (f"*{length}" if length > 1 else "")
        for step, length in zip(steps[begins].tolist(), lengths.tolist(), strict=True)
    )
    return text or "0"  # nothing at all is a column without values


def _encode_step(step: float) -> str:
    if step != step:  # noqa: PLR0124 (NaN is not itself)
        return _UNKNOWN
    return f"{step:.0f}" if step else ""
