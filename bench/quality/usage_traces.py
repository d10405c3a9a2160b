"""Published traces of weeks of usage, read from a given directory, or nothing.

A set is a folder with a manifest.csv and either one usage.parquet or a gzipped CSV file per series, as the reader of
series knows them. CPU is what was used on average; memory is the maximum of each interval, where there is one.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from bench.measurement import CannotMeasure
from trellis.sources.series.files import find_parts, read_part
from trellis.sources.series.series import Series

Column = npt.NDArray[np.float64]

_DAILY_OR_WEEKLY = ("cpu_diurnal", "cpu_weekly")


class Trace(msgspec.Struct, frozen=True):
    """One series: seconds, cores and bytes; memory is empty where it was not measured.

    `group` is the same for replicas of one job: together they count as one series.
    """

    name: str
    group: str
    labels: frozenset[str]
    random: bool
    times: Column
    cpu: Column
    memory: Column

    @property
    def cyclic(self) -> bool:
        """Whether it is labelled daily or weekly."""
        return any(label.startswith(_DAILY_OR_WEEKLY) for label in self.labels)


def load_traces(directory: Path) -> list[Trace]:
    """All series below a directory, large sets first; one that is in two sets is read once."""
    manifests = [directory / "manifest.csv", *sorted(directory.glob("*/manifest.csv"))]
    result: dict[str, Trace] = {}
    for manifest in sorted((path for path in manifests if path.exists()), key=_is_small):
        for trace in _read_set(manifest):
            result.setdefault(trace.name, trace)
    if not result:
        raise CannotMeasure(f"no manifest.csv with series in {directory} or in its folders")
    return list(result.values())


def _is_small(manifest: Path) -> bool:
    return not (manifest.parent / "usage.parquet").exists()


def _read_set(manifest: Path) -> Iterator[Trace]:
    with manifest.open(encoding="utf-8", newline="") as text:
        rows = {row["series_id"]: row for row in csv.DictReader(text) if row.get("series_id")}
    for part in find_parts([str(manifest.parent)]).parts:
        for series in read_part(part).series:
            if series.name in rows:
                yield _trace(series, rows[series.name])


def _trace(series: Series, row: dict[str, str]) -> Trace:
    return Trace(
        name=series.name,
        group=f"job {row['job']}" if row.get("job") else series.name,
        labels=frozenset((row.get("classes") or row.get("label") or "").split("|")) - {""},
        random="random" in row.get("strata", "").split("|"),
        times=series.times,
        cpu=series.cpu,
        memory=series.memory if series.has_memory else np.zeros(0),
    )
