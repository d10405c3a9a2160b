"""Splits a table into series, one for each name, and checks each.

A column that counts seconds of CPU becomes the rate since the row before, as Prometheus computes it. A counter that
falls has begun anew with its container, and all that it counts since then was used. The first row of a series has
no rate and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from trellis.base.errors import InvalidSeries
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.sources.series.checks import SeriesOrigin, check_series, list_notes
from trellis.sources.series.headers import ColumnRoles
from trellis.sources.series.series import ContainerIdentity, DeclaredResources, Series
from trellis.sources.series.units import AmountColumn


def convert_counters(
    origin: SeriesOrigin, times: FloatColumn, seconds: FloatColumn, memory: FloatColumn
) -> tuple[SeriesOrigin, tuple[FloatColumn, FloatColumn, FloatColumn]]:
    """A series from its second row on, with cores instead of seconds; as it is, if its times cannot be used."""
    if len(times) < 2 or not (np.diff(times) > 0).all():
        return origin, (times, seconds, memory)
    return replace(origin, rows=origin.rows[1:]), (times[1:], _compute_rates(times, seconds)[1:], memory[1:])


def _compute_rates(times: FloatColumn, seconds: FloatColumn) -> FloatColumn:
    """Rates since the last row with a value."""
    measured = np.flatnonzero(~np.isnan(seconds))
    with np.errstate(invalid="ignore"):  # what is infinite is refused with its row
        used = np.diff(seconds[measured])
    used = np.where(used < 0, seconds[measured][1:], used)
    rates = np.full(len(seconds), np.nan)
    rates[measured[1:]] = used / np.diff(times[measured])
    return rates


class LoadedSeries(msgspec.Struct, frozen=True):
    """Loaded series, problems of those that cannot be used, and notes about the others."""

    series: list[Series]
    problems: list[InvalidSeries]
    notes: list[str]

    @classmethod
    def concatenate(cls, parts: Sequence[LoadedSeries]) -> LoadedSeries:
        """The contents of several parts, in order."""
        return cls(
            [series for part in parts for series in part.series],
            [problem for part in parts for problem in part.problems],
            [note for part in parts for note in part.notes],
        )


# The name of a series: a value for each column of names.
SeriesName: TypeAlias = tuple[str, ...]


class SeriesTable(msgspec.Struct, frozen=True):
    """Rows of a file in columns. `which` says, of which of the `names` a row is; None if all are of one series."""

    source: str
    roles: ColumnRoles
    rows: IntColumn
    times: FloatColumn
    amounts: dict[int, FloatColumn]
    names: list[SeriesName] = []
    which: IntColumn | None = None


def number_names(names: Sequence[SeriesName], lengths: IntColumn) -> tuple[list[SeriesName], IntColumn | None]:
    """Different names in their order, and their numbers row by row, from a name for each stretch of rows."""
    if not len(names):
        return [], None
    numbers: dict[SeriesName, int] = {}
    row_numbers = [numbers.setdefault(name, len(numbers)) for name in names]
    return list(numbers), np.repeat(np.array(row_numbers, dtype=np.int64), lengths)


def extract_series(table: SeriesTable, name: str) -> LoadedSeries:
    """Every series of a table; a table without names has one series, called `name`."""
    loaded = LoadedSeries([], [], list(table.roles.notes(table.source)))
    cpu, memory = (_read_amount(table, resource_columns) for resource_columns in (table.roles.cpu, table.roles.memory))
    for series_name, row_positions in _split_by_series(table):
        title = "/".join(filter(None, series_name))
        origin = _build_origin(table, row_positions, title)
        columns = (table.times[row_positions], cpu[row_positions], memory[row_positions])
        if table.roles.counts_seconds:
            origin, columns = convert_counters(origin, *columns)
        try:
            series = check_series(title or name, *columns, origin)
        except InvalidSeries as error:
            loaded.problems.append(error)
            continue
        identity = ContainerIdentity(**dict(zip(table.roles.identity_fields, series_name, strict=False)))
        declared = _read_declared(table, row_positions)
        loaded.series.append(replace(series, declared=declared, identity=identity))
        loaded.notes.extend(list_notes(series, origin))
    return loaded


def _split_by_series(table: SeriesTable) -> Iterator[tuple[SeriesName, IntColumn | slice]]:
    which = table.which
    if which is None:
        yield (), slice(None)
        return
    ends = np.cumsum(np.bincount(which, minlength=len(table.names)))
    together = bool((which[1:] >= which[:-1]).all())
    order = None if together else np.argsort(which, kind="stable")
    for name, end, size in zip(table.names, ends.tolist(), np.diff(ends, prepend=0).tolist(), strict=True):
        row_positions = slice(end - size, end)
        if size:
            yield name, row_positions if order is None else order[row_positions]


def _read_amount(table: SeriesTable, columns: Sequence[AmountColumn]) -> FloatColumn:
    """The first column that says something, row by row."""
    amounts: FloatColumn | None = None
    for column in columns:
        values = table.amounts[column.column]
        values = values if column.scale == 1.0 else values * column.scale
        amounts = values if amounts is None else np.where(np.isnan(amounts), values, amounts)
    return np.full(len(table.times), np.nan) if amounts is None else amounts


def _read_declared(table: SeriesTable, row_positions: IntColumn | slice) -> DeclaredResources:
    """The last valid values in the columns of requests and limits."""
    amounts = {}
    for field, column in table.roles.declared.items():
        values = table.amounts[column.column][row_positions]
        valid = values[np.isfinite(values) & (values >= 0)]
        amounts[field] = float(valid[-1]) * column.scale if len(valid) else np.nan
    return DeclaredResources(**amounts)


def _build_origin(table: SeriesTable, row_positions: IntColumn | slice, title: str) -> SeriesOrigin:
    header, roles = table.roles.header, table.roles
    return SeriesOrigin(
        source=table.source,
        rows=table.rows[row_positions],
        time=header[roles.time],
        cpu=header[roles.cpu[0].column] if roles.cpu else "cpu_cores",
        memory=header[roles.memory[0].column] if roles.memory else "memory_bytes",
        series=title,
    )
