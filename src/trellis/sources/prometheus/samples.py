"""Joins responses about CPU and about memory into samples, by container and time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.samples import Samples
from trellis.sources.prometheus.responses import QueryResult


class JoinedSeries(msgspec.Struct, frozen=True):
    """Several results side by side: an entry for each container and time that any of them has.

    They are ordered by container, and by time for each of them. `rows` says which of `containers` an entry is of,
    `ticks` how many steps after the start. `unread` counts the series that do not say whose they are.
    """

    containers: Sequence[tuple[str, str, str]]
    rows: IntColumn
    ticks: IntColumn
    columns: Sequence[FloatColumn]
    unread: int

    @property
    def size(self) -> int:
        """The number of values in all columns."""
        return sum(int(np.count_nonzero(~np.isnan(column))) for column in self.columns)

    def build_samples(self, times: FloatColumn, cpu: FloatColumn, memory: FloatColumn) -> Samples:
        """The entries under the names of their containers."""
        names = [np.array(part, dtype=object) for part in zip(*self.containers, strict=True)] or [self.rows] * 3
        namespaces, pods, containers = (part[self.rows].tolist() for part in names)
        return Samples(namespaces, pods, containers, times, cpu, memory)


def join_results(
    results: Sequence[QueryResult], labels: tuple[str, str, str], start: float, step: float
) -> JoinedSeries:
    """Answers whose times all lie a whole number of steps after the start; NaN where one of them says nothing."""
    container_rows: dict[tuple[str, str, str], int] = {}
    rows_by_result = [_find_container_rows(result, labels, container_rows) for result in results]
    ticks = [np.rint((result.times - start) / step).astype(np.int64) for result in results]
    # No matter how far apart: rows are small numbers, and so are steps.
    stride = max((int(tick.max()) for tick in ticks if len(tick)), default=0) + 1
    codes = [
        rows[result.owners] * stride + tick for result, rows, tick in zip(results, rows_by_result, ticks, strict=True)
    ]
    usable = [(tick >= 0) & (code >= 0) for tick, code in zip(ticks, codes, strict=True)]
    entries = np.unique(np.concatenate([code[mask] for code, mask in zip(codes, usable, strict=True)]))
    columns = []
    for result, code, mask in zip(results, codes, usable, strict=True):
        column = np.full(len(entries), np.nan)
        column[np.searchsorted(entries, code[mask])] = result.values[mask]
        columns.append(column)
    is_known = np.logical_or.reduce([~np.isnan(column) for column in columns])
    rows, tick = np.divmod(entries[is_known], stride)
    unread = int(sum(np.count_nonzero(series_rows < 0) for series_rows in rows_by_result))
    return JoinedSeries(list(container_rows), rows, tick, [column[is_known] for column in columns], unread)


def _find_container_rows(
    result: QueryResult, labels: tuple[str, str, str], container_rows: dict[tuple[str, str, str], int]
) -> IntColumn:
    """The row of each series' container, -1 if a label is missing."""
    namespace, pod, container = labels
    rows = np.full(len(result.labels), -1, dtype=np.int64)
    for place, series_labels in enumerate(result.labels):
        key = (series_labels.get(namespace, ""), series_labels.get(pod, ""), series_labels.get(container, ""))
        if all(key):
            rows[place] = container_rows.setdefault(key, len(container_rows))
    return rows
