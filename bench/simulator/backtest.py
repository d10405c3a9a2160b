"""Measures a backtest: a thousand containers, thirty days of minutes, `default` deciding every hour.

Series are generated into Parquet files first, which is not measured. Each measurement is a process of its own: it reads
the files, replays and scores CPU and memory at every margin, and says what it took. With two processes what counts is
the time on the clock. The cost must grow with the series and with the days, and no faster.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.measurement import Row, python
from bench.process_usage import peak_megabytes
from trellis.sim.backtest.request import build_request
from trellis.sim.backtest.run import backtest
from trellis.sources.series.files import find_parts, read_part

SERIES, DAYS = 1_000, 30
_FILES = 10
_BAR_SECONDS, _BAR_MEGABYTES = 20.0, 2_000.0
_MINUTES = 24 * 60
_BEGIN = 1_790_035_200
_MIB = 2.0**20


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        write_series(whole, SERIES, DAYS)
        fewer, shorter = Path(folder) / "fewer", Path(folder) / "shorter"
        write_series(fewer, SERIES // 2, DAYS)
        write_series(shorter, SERIES, DAYS // 2)
        return list(_rows(whole, fewer, shorter))


def write_series(folder: Path, series: int, days: int) -> None:
    """Containers with a day and a night, noise, and a memory of their own size."""
    from pyarrow import Table, parquet  # noqa: PLC0415 - a large library

    folder.mkdir(parents=True)
    draw = np.random.default_rng(7)
    minutes = np.arange(days * _MINUTES)
    for number in range(_FILES):
        with parquet.ParquetWriter(folder / f"{number}.parquet", _schema(), compression="none") as file:
            for place in range(number * series // _FILES, (number + 1) * series // _FILES):
                wave = np.sin(2 * np.pi * (minutes / _MINUTES + draw.uniform()))
                cpu = draw.lognormal(-1, 1) * (1 + 0.5 * wave) * draw.lognormal(0, 0.2, len(minutes))
                memory = 600 * _MIB * draw.lognormal(0, 1) * (1 + 0.05 * wave) * draw.lognormal(0, 0.02, len(minutes))
                columns = [[f"app-{place}"] * len(minutes), _BEGIN + 60 * minutes, cpu, memory]
                file.write_table(Table.from_arrays([_array(column) for column in columns], schema=_schema()))


def _schema() -> object:
    import pyarrow  # noqa: PLC0415

    fields = [("series", pyarrow.string()), ("timestamp", pyarrow.int64())]
    return pyarrow.schema([*fields, ("cpu_cores", pyarrow.float64()), ("memory_bytes", pyarrow.float64())])


def _array(values: object) -> object:
    import pyarrow  # noqa: PLC0415

    return pyarrow.array(values)


def _rows(whole: Path, fewer: Path, shorter: Path) -> Iterator[Row]:
    title = f"backtest of {SERIES:,} series x {DAYS} d of minutes"
    alone, reading = _measured(whole, 1), _measured(whole, 0)
    yield _within(f"{title}: one core", alone["cpu"], _BAR_SECONDS, "s")
    yield _within(f"{title}: memory", alone["megabytes"], _BAR_MEGABYTES, "MB")
    yield Row(f"{title}: of that, reading the files", f"{reading['cpu']:.1f} s")
    pair = _measured(whole, 2)
    ratio = alone["seconds"] / pair["seconds"]
    yield Row(f"{title}: two processes", f"{pair['seconds']:.1f} s", f"{alone['seconds']:.1f} s", f"{ratio:.2f}x")
    for what, folder in ((f"{SERIES // 2:,} series", fewer), (f"{DAYS // 2} days", shorter)):
        half = _measured(folder, 1)
        growth = alone["cpu"] / half["cpu"]
        yield Row(f"{title}, against {what}", f"{alone['cpu']:.1f} s", f"{half['cpu']:.1f} s", f"{growth:.2f}x")


def _within(what: str, value: float, bar: float, unit: str) -> Row:
    return Row(what, f"{value:,.1f} {unit}", bar=f"<= {bar:,.0f} {unit}", met=value <= bar)


def _measured(folder: Path, processes: int) -> dict[str, float]:
    document: dict[str, float] = json.loads(python("-m", __name__, str(folder), str(processes)))
    return document


def run(folder: str, processes: int) -> dict[str, float]:
    """A backtest by so many processes; by none, the files are only read. Memory is that of the largest process."""
    if processes < 2:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    began, parts = time.perf_counter(), find_parts([folder]).parts
    if processes:
        backtest(build_request(["default"]), parts, processes=processes)
    else:
        for part in parts:
            read_part(part)
    helpers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() + helpers.ru_utime + helpers.ru_stime,
        "megabytes": max(peak_megabytes(os.getpid()), helpers.ru_maxrss * 1024 / 1e6),
    }


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]))))
