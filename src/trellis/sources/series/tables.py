"""Which series does a table hold? One, or one for each name in it; each is judged by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from trellis.base.errors import InvalidSeries
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.sources.series.checks import Origin, checked, notes_on
from trellis.sources.series.counters import with_rates
from trellis.sources.series.declared import Declared
from trellis.sources.series.headers import Roles
from trellis.sources.series.series import Series
from trellis.sources.series.units import Amount


class Found(msgspec.Struct, frozen=True):
    """What was read: series, what could not be used, and what is worth telling of the others."""

    series: list[Series]
    problems: list[InvalidSeries]
    notes: list[str]

    @classmethod
    def joined(cls, parts: Sequence[Found]) -> Found:
        """All of some, in order."""
        return cls(
            [each for part in parts for each in part.series],
            [each for part in parts for each in part.problems],
            [each for part in parts for each in part.notes],
        )


class Table(msgspec.Struct, frozen=True):
    """Rows of a file in columns. `which` says, of which of the `names` a row is; None if all are of one series."""

    source: str
    roles: Roles
    rows: IntColumn
    times: FloatColumn
    amounts: dict[int, FloatColumn]
    names: list[str] = []
    which: IntColumn | None = None


def numbered(names: Sequence[str], lengths: IntColumn) -> tuple[list[str], IntColumn | None]:
    """Different names in their order, and their numbers row by row, from a name for each stretch of so many rows."""
    if not len(names):
        return [], None
    numbers: dict[str, int] = {}
    found = [numbers.setdefault(name, len(numbers)) for name in names]
    return list(numbers), np.repeat(np.array(found, dtype=np.int64), lengths)


def series_in(table: Table, name: str) -> Found:
    """Every series of a table; `name` is that of the only one, where the table has no names."""
    found = Found([], [], list(table.roles.notes(table.source)))
    cpu, memory = (_amount(table, wanted) for wanted in (table.roles.cpu, table.roles.memory))
    for title, here in _parts(table):
        origin = _origin(table, here, title)
        columns = (table.times[here], cpu[here], memory[here])
        if table.roles.counts_seconds:
            origin, columns = with_rates(origin, *columns)
        try:
            one = checked(title or name, *columns, origin)
        except InvalidSeries as error:
            found.problems.append(error)
            continue
        found.series.append(msgspec.structs.replace(one, declared=_declared(table, here)))
        found.notes.extend(notes_on(one, origin))
    return found


def _parts(table: Table) -> Iterator[tuple[str, IntColumn | slice]]:
    which = table.which
    if which is None:
        yield "", slice(None)
        return
    ends = np.cumsum(np.bincount(which, minlength=len(table.names)))
    together = bool((which[1:] >= which[:-1]).all())
    order = None if together else np.argsort(which, kind="stable")
    for title, end, size in zip(table.names, ends.tolist(), np.diff(ends, prepend=0).tolist(), strict=True):
        here = slice(end - size, end)
        if size:
            yield title, here if order is None else order[here]


def _amount(table: Table, wanted: Sequence[Amount]) -> FloatColumn:
    """The first column that says something, row by row."""
    found: FloatColumn | None = None
    for each in wanted:
        values = table.amounts[each.column]
        values = values if each.scale == 1.0 else values * each.scale
        found = values if found is None else np.where(np.isnan(found), values, found)
    return np.full(len(table.times), np.nan) if found is None else found


def _declared(table: Table, here: IntColumn | slice) -> Declared:
    """What the columns of requests and limits say at last."""
    said = {}
    for field, each in table.roles.declared.items():
        values = table.amounts[each.column][here]
        known = values[np.isfinite(values) & (values >= 0)]
        said[field] = float(known[-1]) * each.scale if len(known) else np.nan
    return Declared(**said)


def _origin(table: Table, here: IntColumn | slice, title: str) -> Origin:
    header, roles = table.roles.header, table.roles
    return Origin(
        source=table.source,
        rows=table.rows[here],
        time=header[roles.time],
        cpu=header[roles.cpu[0].column] if roles.cpu else "cpu_cores",
        memory=header[roles.memory[0].column] if roles.memory else "memory_bytes",
        series=title,
    )
