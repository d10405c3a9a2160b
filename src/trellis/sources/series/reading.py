"""Which usage is meant by a path, and what does it hold?

A path is a file, or a directory of files. Where a directory has a `manifest.csv` with a column `file`, that says which
files there are and what the series in them are called (`series_id`); else everything below it counts that is called
.csv, .csv.gz or .parquet.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from trellis.base.errors import InvalidSeries
from trellis.sources.series.csv_files import read_csv
from trellis.sources.series.headers import Machine
from trellis.sources.series.parquet_files import groups_of, read_parquet
from trellis.sources.series.tables import Found

MANIFEST: Final = "manifest.csv"
_ENDINGS: Final = (".csv", ".csv.gz", ".parquet")
# About as many bytes as a sample takes: enough to share files out fairly.
_BYTES_A_ROW: Final = {".csv": 35, ".csv.gz": 8}


class Part(msgspec.Struct, frozen=True):
    """Something that can be read on its own, also by another process; `rows` is about how many samples it has."""

    path: str
    name: str
    rows: int
    groups: tuple[int, ...] = ()


class Parts(msgspec.Struct, frozen=True):
    """What there is to read, and what of it cannot be."""

    parts: list[Part]
    problems: list[InvalidSeries]


def parts_of(paths: Sequence[str]) -> Parts:
    """What some paths stand for, each file once."""
    found = Parts([], [])
    seen: set[Path] = set()
    for given in paths:
        path = Path(given)
        if not path.exists():
            found.problems.append(InvalidSeries(given, "there is no such file or directory"))
            continue
        files = list(_below(path)) if path.is_dir() else [(path, _stem(path))]
        if not files:
            found.problems.append(InvalidSeries(given, "has no files that end in .csv, .csv.gz or .parquet"))
        for file, name in files:
            if file.resolve() not in seen:
                seen.add(file.resolve())
                _add(found, file, name)
    return found


def read_part(part: Part, machine: Machine = Machine()) -> Found:  # noqa: B008 - frozen, so that one can serve all
    """What a part holds; what cannot be used is among its problems."""
    try:
        if part.groups:
            return read_parquet(Path(part.path), part.groups, part.name, machine)
        return read_csv(Path(part.path), part.name, machine)
    except InvalidSeries as error:
        return Found([], [error], [])


def _add(found: Parts, file: Path, name: str) -> None:
    try:
        size = file.stat().st_size
        if file.suffix == ".parquet":
            found.parts.extend(Part(str(file), name, rows, groups) for groups, rows in groups_of(file))
        else:
            found.parts.append(Part(str(file), name, size // _BYTES_A_ROW.get(_ending(file), 35) + 1))
    except InvalidSeries as error:
        found.problems.append(error)
    except OSError as error:
        found.problems.append(InvalidSeries(str(file), f"cannot be read: {error.strerror}"))


def _below(directory: Path) -> Iterator[tuple[Path, str]]:
    """The files of a directory with the names of their series; hidden directories are left out."""
    manifest = directory / MANIFEST
    if manifest.is_file() and (listed := list(_listed(manifest))):
        yield from listed
        return
    for path in sorted(directory.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _below(path)
        elif path.name.endswith(_ENDINGS) and path.name != MANIFEST:
            yield path, _stem(path)


def _listed(manifest: Path) -> Iterator[tuple[Path, str]]:
    with manifest.open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            if file := row.get("file"):
                path = manifest.parent / file
                yield path, row.get("series_id") or row.get("series") or _stem(path)


def _ending(path: Path) -> str:
    return next((ending for ending in _ENDINGS if path.name.endswith(ending)), "")


def _stem(path: Path) -> str:
    return path.name.removesuffix(_ending(path))
