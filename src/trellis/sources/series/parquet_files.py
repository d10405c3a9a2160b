"""Which usage does a Parquet file hold? Read group by group, as far as no series lies in two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from trellis.base.errors import InvalidSeries
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.sources.series.field_values import in_seconds
from trellis.sources.series.headers import Machine, Roles, roles_of
from trellis.sources.series.tables import Found, Table, series_in

# A file is opened for each part of it: parts should not be too many.
_ROWS_TOGETHER: Final = 500_000


def groups_of(path: Path) -> Iterator[tuple[tuple[int, ...], int]]:
    """Row groups that can be read on their own, each with how many rows there are."""
    file = _opened(path)
    roles = roles_of(str(path), file.schema_arrow.names, Machine())
    rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    named = [roles.header[column] for column in roles.names]
    together: list[int] = []
    before = ""
    for group in range(file.num_row_groups) if named else ():
        # With names in several columns, the first says enough: what differs in it differs.
        statistics = file.metadata.row_group(group).column(roles.names[0]).statistics
        lowest, highest = (statistics.min, statistics.max) if statistics and statistics.has_min_max else ("", "")
        if sum(rows[each] for each in together) >= _ROWS_TOGETHER and lowest > before:
            yield tuple(together), sum(rows[each] for each in together)
            together = []
        together.append(group)
        before = max(before, highest)
    if not named:
        together = list(range(file.num_row_groups))
    if together:
        yield tuple(together), sum(rows[each] for each in together)


def read_parquet(path: Path, groups: Sequence[int], name: str, machine: Machine) -> Found:
    """All series of some row groups; one without a name has the given one."""
    file = _opened(path)
    roles = roles_of(str(path), file.schema_arrow.names, machine)
    file = _opened(path, [roles.header[column] for column in roles.names], file.metadata)
    table = file.read_row_groups(list(groups), [roles.header[column] for column in roles.columns])
    if not table.num_rows:
        raise InvalidSeries(str(path), "has no samples")
    before = sum(file.metadata.row_group(group).num_rows for group in range(min(groups)))
    found = Table(
        str(path),
        roles,
        np.arange(before + 1, before + 1 + table.num_rows, dtype=np.int64),
        _times(str(path), roles, table),
        {each.column: _numbers(str(path), roles.header[each.column], table) for each in (*roles.cpu, *roles.memory)},
        *_named(roles, table),
    )
    return series_in(found, name)


def _opened(path: Path, names: Sequence[str] = (), metadata: Any = None) -> Any:
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
        raise InvalidSeries(str(path), f"is no Parquet file that can be read: {str(error).splitlines()[0]}") from error


def _times(source: str, roles: Roles, table: Any) -> FloatColumn:
    column = table.column(roles.header[roles.time])
    values = column.to_numpy()
    if values.dtype.kind == "M":
        found: FloatColumn = values.astype("datetime64[us]").astype(np.float64) / 1e6
        return found
    return in_seconds(_numbers(source, roles.header[roles.time], table))


def _numbers(source: str, name: str, table: Any) -> FloatColumn:
    values = table.column(name).to_numpy()
    if values.dtype.kind not in "fiu":
        raise InvalidSeries(source, f"column {name} has no numbers, but {table.column(name).type}")
    found: FloatColumn = values.astype(np.float64)
    return found


def _named(roles: Roles, table: Any) -> tuple[list[str], IntColumn | None]:
    """The names of series, and which of them each row is of."""
    if not roles.names:
        return [], None
    names: list[str] = [""]
    which: IntColumn = np.zeros(table.num_rows, dtype=np.int64)
    for column in roles.names:
        coded = table.column(roles.header[column]).unify_dictionaries().combine_chunks().dictionary_encode()
        values = [str(value) for value in coded.dictionary.to_pylist()]
        which = which * len(values) + coded.indices.to_numpy(zero_copy_only=False)
        names = [f"{name}/{value}" if name else value for name in names for value in values]
    return names, which
