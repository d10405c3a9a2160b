"""Reads the series of a Parquet file, in groups of row groups that share no series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from trellis.base.errors import InvalidSeries
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.sources.series.csv_parser import TextColumn
from trellis.sources.series.field_values import convert_to_seconds, parse_amounts, parse_times
from trellis.sources.series.headers import ColumnRoles, assign_roles
from trellis.sources.series.tables import LoadedSeries, SeriesName, SeriesTable, extract_series
from trellis.sources.series.units import AmountColumn, Machine

# A file is opened for each part of it: parts should not be too many.
_ROWS_TOGETHER: Final = 500_000
_PAIRS: Final = 100_000
_TEXTS: Final = ("string", "large_string", "string_view")


def list_row_groups(path: Path) -> Iterator[tuple[tuple[int, ...], int]]:
    """Row groups that can be read on their own, each with how many rows there are."""
    file = _open_file(path)
    roles = assign_roles(str(path), file.schema_arrow.names, Machine())
    rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    name_columns = [roles.header[column] for column in roles.names]
    groups: list[int] = []
    highest_before = ""
    for group in range(file.num_row_groups) if name_columns else ():
        # With names in several columns, the first says enough: what differs in it differs.
        lowest, highest = _read_name_range(file, group, name_columns[0])
        if sum(rows[member] for member in groups) >= _ROWS_TOGETHER and lowest > highest_before:
            yield tuple(groups), sum(rows[member] for member in groups)
            groups = []
        groups.append(group)
        highest_before = max(highest_before, highest)
    if not name_columns:
        groups = list(range(file.num_row_groups))
    if groups:
        yield tuple(groups), sum(rows[member] for member in groups)


def _read_name_range(file: Any, group: int, name: str) -> tuple[str, str]:
    """The first and the last of the names in a row group, as it says itself; nothing where they are no texts."""
    # Of a column with parts each has a number, so that numbers in the header are others.
    leaves = [file.schema.column(number).path for number in range(len(file.schema))]
    statistics = file.metadata.row_group(group).column(leaves.index(name)).statistics if name in leaves else None
    if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, str):
        return "", ""
    return statistics.min, statistics.max


def read_parquet(path: Path, groups: Sequence[int], name: str, machine: Machine) -> LoadedSeries:
    """All series of some row groups; one without a name gets the given one."""
    file = _open_file(path)
    roles = assign_roles(str(path), file.schema_arrow.names, machine)
    file = _open_file(path, [roles.header[column] for column in roles.names], file.metadata)
    table = file.read_row_groups(list(groups), [roles.header[column] for column in roles.columns])
    if not table.num_rows:
        raise InvalidSeries(str(path), "has no samples")
    before = sum(file.metadata.row_group(group).num_rows for group in range(min(groups)))
    series_table = SeriesTable(
        str(path),
        roles,
        np.arange(before + 1, before + 1 + table.num_rows, dtype=np.int64),
        _read_times(str(path), roles, table, before + 1),
        {amount.column: _read_amounts(str(path), roles, amount, table, before + 1) for amount in roles.amounts},
        *_read_names(roles, table),
    )
    return extract_series(series_table, name)


def _open_file(path: Path, names: Sequence[str] = (), metadata: Any = None) -> Any:
    """The file; columns of names are read as numbers and different names."""
    try:
        import pyarrow  # noqa: PLC0415 - a large library, for who has such files
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        rule = "is Parquet, which needs pyarrow: pip install 'trellis-autoscaler[parquet]'"
        raise InvalidSeries(str(path), rule) from error
    try:
        return parquet.ParquetFile(path, metadata=metadata, read_dictionary=list(names))
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InvalidSeries(str(path), f"is not a valid Parquet file: {str(error).splitlines()[0]}") from error


def _read_times(source: str, roles: ColumnRoles, table: Any, first: int) -> FloatColumn:
    name = roles.header[roles.time]
    column = table.column(name)
    values = column.to_numpy()
    if values.dtype.kind == "M":
        seconds: FloatColumn = values.astype("datetime64[us]").astype(np.float64) / 1e6
        return np.where(np.isnat(values), np.nan, seconds)
    if str(column.type) in _TEXTS:
        return convert_to_seconds(parse_times(source, name, _encode_texts(column), first))
    return convert_to_seconds(_read_numbers(source, name, table))


def _read_amounts(source: str, roles: ColumnRoles, amount: AmountColumn, table: Any, first: int) -> FloatColumn:
    name = roles.header[amount.column]
    column = table.column(name)
    if str(column.type) in _TEXTS:
        return parse_amounts(source, roles, amount, _encode_texts(column), first)
    return _read_numbers(source, name, table)


def _encode_texts(column: Any) -> TextColumn:
    return np.array([(text or "").encode() for text in column.to_pylist()])


def _read_numbers(source: str, name: str, table: Any) -> FloatColumn:
    column = table.column(name)
    if str(column.type) == "null":
        return np.full(table.num_rows, np.nan)
    if str(column.type).startswith("decimal"):
        column = column.cast("float64")
    values = column.to_numpy()
    if values.dtype.kind not in "fiu":
        raise InvalidSeries(source, f"column {name} has values of type {column.type} instead of numbers")
    numbers: FloatColumn = values.astype(np.float64)
    return numbers


def _read_names(roles: ColumnRoles, table: Any) -> tuple[list[SeriesName], IntColumn | None]:
    """The names of series, and which of them each row is of."""
    if not roles.names:
        return [], None
    names: list[SeriesName] = [()]
    which: IntColumn = np.zeros(table.num_rows, dtype=np.int64)
    for column in roles.names:
        coded = table.column(roles.header[column]).unify_dictionaries().combine_chunks().dictionary_encode()
        values = [_decode_text(value) for value in coded.dictionary.to_pylist()]
        indices = coded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
        values.append("")  # of rows without a name
        which = which * len(values) + indices
        pairs: IntColumn = np.arange(len(names) * len(values))
        if len(pairs) > _PAIRS:  # of which nearly all are of no row
            pairs, which = np.unique(which, return_inverse=True)
        halves = ((names[pair // len(values)], values[pair % len(values)]) for pair in pairs.tolist())
        names = [(*name, value) for name, value in halves]
    return names, which


def _decode_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
