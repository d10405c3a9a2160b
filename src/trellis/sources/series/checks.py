"""Checks of a series: ascending times, valid amounts, and amounts in the unit of the column.

Gaps and values that were not measured are no error; they become notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from trellis.base.durations import describe_span
from trellis.base.errors import InvalidSeries
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.samples import MOST_CORES
from trellis.sources.series.series import Series

_LEAST_BYTES: Final = 1e3  # nothing that runs uses less on average
_MOST_BYTES: Final = 2.0**46  # 64 TiB: no machine has more memory
_LEAST_SAMPLES: Final = 2
_GAP: Final = 3.5  # usual distances: two samples may be lost before it is one
_YEAR: Final = 365 * 86_400.0
_MOST_YEARS: Final = 5
_RISING: Final = 50  # samples: a series that never falls for this long is hardly usage


class SeriesOrigin(msgspec.Struct, frozen=True):
    """The origin of a series: file, row numbers as in an editor, and column names."""

    source: str
    rows: IntColumn
    time: str
    cpu: str
    memory: str
    series: str = ""

    def build_row_error(self, place: int, column: str, rule: str) -> InvalidSeries:
        """An error about one field."""
        suffix = f" (series {self.series})" if self.series else ""
        return InvalidSeries(self.source, f"row {self.rows[place]}, column {column}{suffix}: {rule}")

    def build_error(self, rule: str) -> InvalidSeries:
        """An error about the series."""
        prefix = f"series {self.series} " if self.series else ""
        return InvalidSeries(self.source, f"{prefix}{rule}")


def check_series(name: str, times: FloatColumn, cpu: FloatColumn, memory: FloatColumn, origin: SeriesOrigin) -> Series:
    """The series, or `InvalidSeries` with the first row that is wrong."""
    if len(times) < _LEAST_SAMPLES:
        raise origin.build_error("has fewer than two samples")
    for place in _find_first(~np.isfinite(times)):
        raise origin.build_row_error(place, origin.time, "the time is missing")
    _check_order(times, origin)
    _check_span(times, origin)
    for values, column in ((cpu, origin.cpu), (memory, origin.memory)):
        for place in _find_first(values < 0):
            raise origin.build_row_error(place, column, f"{values[place]:g} is negative; usage cannot be negative")
        for place in _find_first(np.isinf(values)):
            raise origin.build_row_error(place, column, "usage cannot be infinite")
    _check_units(cpu, memory, origin)
    if np.isnan(cpu).all() and np.isnan(memory).all():
        raise origin.build_error("has neither CPU nor memory: all fields are empty or NaN")
    return Series(name, times, cpu, memory, origin.source)


def list_notes(series: Series, origin: SeriesOrigin) -> Iterator[str]:
    """Notes about missing samples, which are no error."""
    prefix = f"{origin.source}{f' (series {origin.series})' if origin.series else ''}"
    distances = np.diff(series.times)
    gaps = np.flatnonzero(distances > _GAP * series.interval)
    if len(gaps):
        longest = int(gaps[np.argmax(distances[gaps])])
        gap_text = f"{len(gaps)} gaps, the longest" if len(gaps) > 1 else "a gap"
        length = describe_span(float(distances[longest]))
        yield f"{prefix}: {gap_text} of {length} after row {origin.rows[longest]}"
    for values, column in ((series.cpu, origin.cpu), (series.memory, origin.memory)):
        is_unknown = np.isnan(values)
        if is_unknown.any() and not is_unknown.all():
            row = origin.rows[int(np.argmax(is_unknown))]
            share = f"{int(is_unknown.sum())} of {len(values)}"
            yield f"{prefix}: column {column}: {share} values are empty or NaN, the first in row {row}"
        if not is_unknown.all() and not (values > 0).any():
            yield f"{prefix}: column {column} is always 0, so requests cannot be compared with it"
    if _is_rising(series.cpu):
        yield f"{prefix}: column {origin.cpu} never falls; if it counts seconds, call it cpu_seconds_total"


def _check_order(times: FloatColumn, origin: SeriesOrigin) -> None:
    distances = np.diff(times)
    for place in _find_first(distances <= 0):
        above = origin.rows[place]
        if distances[place] == 0:
            raise origin.build_row_error(
                place + 1, origin.time, f"the same time as in row {above}; a series has one value for each time"
            )
        raise origin.build_row_error(place + 1, origin.time, f"earlier than row {above}; sort the rows by time")


def _check_span(times: FloatColumn, origin: SeriesOrigin) -> None:
    """Refuse a span of decades in which most hours are empty, which a single wrong time leads to."""
    years = float(times[-1] - times[0]) / _YEAR
    if years <= _MOST_YEARS:
        return
    distances = np.diff(times)
    longest = int(np.argmax(distances))
    if distances[longest] > _YEAR:
        rule = (
            f"{distances[longest] / _YEAR:.1f} years after row {origin.rows[longest]}; a series may cover "
            f"{_MOST_YEARS} years"
        )
        raise origin.build_row_error(longest + 1, origin.time, rule)
    raise origin.build_error(
        f"covers {years:.1f} years, and the maximum is {_MOST_YEARS}: is column {origin.time} in seconds since 1970?"
    )


def _check_units(cpu: FloatColumn, memory: FloatColumn, origin: SeriesOrigin) -> None:
    """Refuse what is off by orders of magnitude, with a guess at what it is."""
    with np.errstate(invalid="ignore"):
        if not ((cpu > MOST_CORES).any() or (memory < _LEAST_BYTES).any() or (memory > _MOST_BYTES).any()):
            return
    cores, size = _compute_median(cpu), _compute_median(memory)
    is_too_large, is_too_small = cores > MOST_CORES, 0 < size < _LEAST_BYTES
    if is_too_large and _is_rising(cpu):
        raise origin.build_error(
            f"column {origin.cpu} never falls, and has values such as {cores:.3g}: if it counts seconds, call it "
            "cpu_seconds_total"
        )
    if is_too_large and (is_too_small or np.isnan(size)):
        raise origin.build_error(
            f"column {origin.cpu} has values such as {cores:.3g}, too large for cores but right for "
            f"bytes: are {origin.cpu} and {origin.memory} swapped?"
        )
    if is_too_large:
        raise origin.build_error(
            f"column {origin.cpu} has values such as {cores:.3g}, too large for cores: call it "
            "cpu_millicores if they are millicores"
        )
    if is_too_small:
        raise origin.build_error(
            f"column {origin.memory} has values such as {size:.3g}, too small for bytes: call it "
            "memory_mib or memory_gib if they are"
        )
    if size > _MOST_BYTES:
        raise origin.build_error(
            f"column {origin.memory} has values such as {size / 2**40:.3g} TiB, and no machine has so much memory: "
            "name the column by its unit, such as memory_bytes or memory_mib"
        )
    for place in _find_first(cpu > MOST_CORES):
        raise origin.build_row_error(place, origin.cpu, f"{cpu[place]:g} cores are more than a container can use")
    for place in _find_first(memory > _MOST_BYTES):
        amount = f"{memory[place] / 2**40:.3g} TiB"
        raise origin.build_row_error(place, origin.memory, f"{amount} is more than a container can use")


def _is_rising(values: FloatColumn) -> bool:
    """Whether it only ever grows, in most steps, as a counter does."""
    if (np.diff(values[: 4 * _RISING]) < 0).any():  # of nearly all that is no counter
        return False
    steps = np.diff(values[~np.isnan(values)])
    return len(steps) >= _RISING and bool((steps >= 0).all() and 2 * np.count_nonzero(steps) > len(steps))


def _compute_median(values: FloatColumn) -> float:
    measured = values[~np.isnan(values)]
    return float(np.median(measured)) if len(measured) else float("nan")


def _find_first(wrong: BoolColumn) -> list[int]:
    places: list[int] = np.flatnonzero(wrong)[:1].tolist()
    return places
