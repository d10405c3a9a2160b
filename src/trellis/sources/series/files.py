"""Finds and reads files of usage by path, with the manifest beside them.

A path is a file, or a directory of files. Where a directory has a `manifest.csv` with a column `file`, that lists the
files and what the series in them are called (`series_id`); else everything below it counts that is called
.csv, .csv.gz or .parquet. A manifest may also declare requests and limits, in columns named as those of usage.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from trellis.base.errors import InvalidSeries
from trellis.sources.amounts import parse_bytes, parse_cores
from trellis.sources.series.csv_files import read_csv
from trellis.sources.series.headers import find_declared_columns
from trellis.sources.series.parquet_files import list_row_groups, read_parquet
from trellis.sources.series.series import DeclaredResources
from trellis.sources.series.tables import LoadedSeries
from trellis.sources.series.units import AmountColumn, Machine


def read_manifest(manifest: Path) -> tuple[list[str], list[list[str]]]:
    """The names of its columns, in small letters, and its rows; `InvalidSeries` if it cannot be read."""
    try:
        with manifest.open(encoding="utf-8-sig", newline="") as text:
            header, *rows = list(csv.reader(text)) or [[]]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidSeries(str(manifest), f"is no table that can be read: {error}") from error
    return [name.strip().lower() for name in header], rows


def read_declared_resources(manifest: Path, machine: Machine) -> dict[str, DeclaredResources]:
    """What a manifest says of its series; `InvalidSeries` where that is no number."""
    header, rows = read_manifest(manifest)
    known = {name: number for number, name in enumerate(header)}
    columns = find_declared_columns(known, machine)
    series = next((known[name] for name in ("series_id", "series") if name in known), None)
    if series is None or not columns:
        return {}
    found: dict[str, DeclaredResources] = {}
    for line, row in enumerate(rows, start=2):
        if len(row) == len(header):
            said = {field: _parse_amount(row[at.column].strip(), field, at) for field, at in columns.items()}
            for field, at in columns.items():
                if said[field] < 0 or math.isinf(said[field]):
                    rule = f'row {line}, column {header[at.column]}: "{row[at.column].strip()}" is no amount'
                    raise InvalidSeries(str(manifest), rule)
            found[row[series]] = DeclaredResources(**said)
    return found


def _parse_amount(text: str, field: str, at: AmountColumn) -> float:
    """Cores or bytes, from a number or a quantity, which says its unit itself; below 0 if it is neither."""
    try:
        return float(text or "nan") * at.scale
    except ValueError:
        [found], _ = (parse_cores if field.startswith("cpu") else parse_bytes)([text])
        return float(found) if at.scale == 1.0 and not np.isnan(found) else -1.0


MANIFEST: Final = "manifest.csv"
_ENDINGS: Final = (".csv", ".csv.gz", ".parquet")
# About as many bytes as a sample takes: enough to share files out fairly.
_BYTES_A_ROW: Final = {".csv": 35, ".csv.gz": 8}


class SeriesPart(msgspec.Struct, frozen=True):
    """Something that can be read on its own, also by another process; `rows` is about how many samples it has."""

    path: str
    name: str
    rows: int
    groups: tuple[int, ...] = ()
    manifest: str = ""


class SeriesParts(msgspec.Struct, frozen=True):
    """What there is to read, and what of it cannot be."""

    parts: list[SeriesPart]
    problems: list[InvalidSeries]


def find_parts(paths: Sequence[str]) -> SeriesParts:
    """What some paths stand for, each file once."""
    found = SeriesParts([], [])
    seen: set[Path] = set()
    for given in paths:
        path = Path(given)
        try:
            if not path.exists():
                found.problems.append(InvalidSeries(given, "there is no such file or directory"))
                continue
            files = list(_below(path, found.problems)) if path.is_dir() else [(path, _stem(path))]
        except InvalidSeries as error:
            found.problems.append(error)
            continue
        except OSError as error:
            found.problems.append(_unreadable(given, error))
            continue
        if not files:
            found.problems.append(InvalidSeries(given, "has no files that end in .csv, .csv.gz or .parquet"))
        for file, name in files:
            if file.resolve() not in seen:
                seen.add(file.resolve())
                beside = file.parent / MANIFEST
                _add(found, file, name, str(beside) if path.is_dir() and beside.is_file() else "")
    return found


def read_part(part: SeriesPart, machine: Machine = Machine()) -> LoadedSeries:  # noqa: B008 - frozen, so that one can serve all
    """What a part holds; what cannot be used is among its problems."""
    try:
        path = Path(part.path)
        found = (
            read_parquet(path, part.groups, part.name, machine) if part.groups else read_csv(path, part.name, machine)
        )
        return _with_manifest(found, Path(part.manifest), machine) if part.manifest else found
    except InvalidSeries as error:
        return LoadedSeries([], [error], [])


def _with_manifest(found: LoadedSeries, manifest: Path, machine: Machine) -> LoadedSeries:
    """What a manifest says of requests and limits goes for series whose files do not say."""
    try:
        stated = read_declared_resources(manifest, machine)
    except InvalidSeries as error:
        return replace(found, problems=[*found.problems, error])
    series = [
        replace(each, declared=each.declared.over(stated.get(each.name, DeclaredResources()))) for each in found.series
    ]
    return replace(found, series=series)


def _add(found: SeriesParts, file: Path, name: str, manifest: str) -> None:
    try:
        size = file.stat().st_size
        if file.suffix == ".parquet":
            found.parts.extend(
                SeriesPart(str(file), name, rows, groups, manifest) for groups, rows in list_row_groups(file)
            )
        else:
            rows = size // _BYTES_A_ROW.get(_ending(file), 35) + 1
            found.parts.append(SeriesPart(str(file), name, rows, manifest=manifest))
    except InvalidSeries as error:
        found.problems.append(error)
    except OSError as error:
        found.problems.append(_unreadable(str(file), error))


def _unreadable(path: str, error: OSError) -> InvalidSeries:
    return InvalidSeries(path, f"cannot be read: {error.strerror}")


def _below(directory: Path, problems: list[InvalidSeries]) -> Iterator[tuple[Path, str]]:
    """The files of a directory with the names of their series; hidden directories are left out."""
    manifest = directory / MANIFEST
    if manifest.is_file() and (listed := list(_listed(manifest))):
        yield from listed
        return
    for path in sorted(directory.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            try:
                yield from _below(path, problems)
            except OSError as error:
                problems.append(_unreadable(str(path), error))
        elif path.name.endswith(_ENDINGS) and path.name != MANIFEST:
            yield path, _stem(path)


def _listed(manifest: Path) -> Iterator[tuple[Path, str]]:
    header, rows = read_manifest(manifest)
    for row in rows:
        said = dict(zip(header, row, strict=False))
        if file := said.get("file"):
            path = manifest.parent / file
            yield path, said.get("series_id") or said.get("series") or _stem(path)


def _ending(path: Path) -> str:
    return next((ending for ending in _ENDINGS if path.name.endswith(ending)), "")


def _stem(path: Path) -> str:
    return path.name.removesuffix(_ending(path))
