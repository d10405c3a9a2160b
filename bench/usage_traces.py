"""What have containers used, for weeks? Published traces, read from a directory that is given, or nothing.

A set is a folder with a manifest.csv and either one usage.parquet or a gzipped CSV file per series. Columns are known
by their names. CPU is what was used on average; memory is the maximum of each interval, where there is one.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from bench.measurement import CannotMeasure

Column = npt.NDArray[np.float64]

_CPU = ("cpu_cores", "cpu_fraction")
_MEMORY = (("memory_max_bytes", "memory_bytes"), ("memory_max_fraction", "memory_fraction"))
# What a fraction of the largest machine of a trace is taken for; nobody published it.
LARGEST_MACHINE = {"cpu_fraction": 100.0, "memory_fraction": 512.0 * 2**30}
_DAILY_OR_WEEKLY = ("cpu_diurnal", "cpu_weekly")


class Trace(msgspec.Struct, frozen=True):
    """One series: seconds, cores and bytes; memory is empty where nobody measured it.

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
    found: dict[str, Trace] = {}
    for manifest in sorted((path for path in manifests if path.exists()), key=_is_small):
        for trace in _read_set(manifest):
            found.setdefault(trace.name, trace)
    if not found:
        raise CannotMeasure(f"no manifest.csv with series in {directory} or in its folders")
    return list(found.values())


def _is_small(manifest: Path) -> bool:
    return not (manifest.parent / "usage.parquet").exists()


def _read_set(manifest: Path) -> Iterator[Trace]:
    with manifest.open(encoding="utf-8", newline="") as text:
        series = {row["series_id"]: row for row in csv.DictReader(text) if row.get("series_id")}
    large = manifest.parent / "usage.parquet"
    if large.exists():
        columns = _from_parquet(large, set(series))
    else:
        columns = (
            (name, _from_csv(manifest.parent / row["file"]))
            for name, row in series.items()
            if row.get("file", "").endswith(".csv.gz")
        )
    for name, found in columns:
        yield _trace(name, series[name], found)


def _from_parquet(path: Path, wanted: set[str]) -> Iterator[tuple[str, dict[str, Column]]]:
    from pyarrow import parquet  # noqa: PLC0415 - a large library, for who has such files

    file = parquet.ParquetFile(path)
    for group in range(file.num_row_groups):
        table = file.read_row_group(group)
        names = np.asarray(table.column("series_id").to_pylist())
        values = {
            name: table.column(name).to_numpy().astype(np.float64) for name in table.column_names if name != "series_id"
        }
        for name in dict.fromkeys(names.tolist()):
            if name in wanted:
                yield name, {column: found[names == name] for column, found in values.items()}


def _from_csv(path: Path) -> dict[str, Column]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in rows[0]}


def _trace(name: str, row: dict[str, str], columns: dict[str, Column]) -> Trace:
    cpu = next(column for column in _CPU if column in columns)
    memory = np.full(len(columns["timestamp"]), np.nan)
    for highest, average in _MEMORY:
        if average in columns:
            peak = columns.get(highest, columns[average])
            memory = np.where(np.isnan(peak), columns[average], peak) * LARGEST_MACHINE.get(average, 1.0)
    return Trace(
        name=name,
        group=f"job {row['job']}" if row.get("job") else name,
        labels=frozenset((row.get("classes") or row.get("label") or "").split("|")) - {""},
        random="random" in row.get("strata", "").split("|"),
        times=columns["timestamp"],
        cpu=columns[cpu] * LARGEST_MACHINE.get(cpu, 1.0),
        memory=memory if not np.isnan(memory).all() else np.zeros(0),
    )
