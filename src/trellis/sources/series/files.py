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
        raise InvalidSeries(str(manifest), f"is not a valid table: {error}") from error
    return [name.strip().lower() for name in header], rows


def read_declared_resources(manifest: Path, machine: Machine) -> dict[str, DeclaredResources]:
    """The requests and limits that a manifest declares; raises `InvalidSeries` for an invalid number."""
    header, rows = read_manifest(manifest)
    column_numbers = {name: number for number, name in enumerate(header)}
    columns = find_declared_columns(column_numbers, machine)
    series = next((column_numbers[name] for name in ("series_id", "series") if name in column_numbers), None)
    if series is None or not columns:
        return {}
    declared: dict[str, DeclaredResources] = {}
    for line_number, row in enumerate(rows, start=2):
        if len(row) == len(header):
            amounts = {field: _parse_amount(row[at.column].strip(), field, at) for field, at in columns.items()}
            for field, at in columns.items():
                if amounts[field] < 0 or math.isinf(amounts[field]):
                    rule = f'row {line_number}, column {header[at.column]}: "{row[at.column].strip()}" is not an amount'
                    raise InvalidSeries(str(manifest), rule)
            declared[row[series]] = DeclaredResources(**amounts)
    return declared


def _parse_amount(text: str, field: str, at: AmountColumn) -> float:
    """Cores or bytes, from a number or a quantity, which says its unit itself; below 0 if it is neither."""
    try:
        return float(text or "nan") * at.scale
    except ValueError:
        [amount], _ = (parse_cores if field.startswith("cpu") else parse_bytes)([text])
        return float(amount) if at.scale == 1.0 and not np.isnan(amount) else -1.0


MANIFEST: Final = "manifest.csv"
_ENDINGS: Final = (".csv", ".csv.gz", ".parquet")
# About as many bytes as a sample takes: enough to share files out fairly.
_BYTES_A_ROW: Final = {".csv": 35, ".csv.gz": 8}


class SeriesPart(msgspec.Struct, frozen=True):
    """A part that can be read by itself, also by another process; `rows` estimates its samples."""

    path: str
    name: str
    rows: int
    groups: tuple[int, ...] = ()
    manifest: str = ""


class SeriesParts(msgspec.Struct, frozen=True):
    """The parts to read, and the problems of files that cannot be."""

    parts: list[SeriesPart]
    problems: list[InvalidSeries]


def find_parts(paths: Sequence[str]) -> SeriesParts:
    """The files at or below some paths, each once."""
    parts = SeriesParts([], [])
    resolved: set[Path] = set()
    for text in paths:
        path = Path(text)
        try:
            if not path.exists():
                parts.problems.append(InvalidSeries(text, "there is no such file or directory"))
                continue
            files = list(_list_files(path, parts.problems)) if path.is_dir() else [(path, _strip_ending(path))]
        except InvalidSeries as error:
            parts.problems.append(error)
            continue
        except OSError as error:
            parts.problems.append(_build_unreadable_error(text, error))
            continue
        if not files:
            parts.problems.append(InvalidSeries(text, "has no files that end in .csv, .csv.gz or .parquet"))
        for file, name in files:
            if file.resolve() not in resolved:
                resolved.add(file.resolve())
                manifest = file.parent / MANIFEST
                _add_file(parts, file, name, str(manifest) if path.is_dir() and manifest.is_file() else "")
    return parts


def read_part(part: SeriesPart, machine: Machine = Machine()) -> LoadedSeries:  # noqa: B008 - frozen, so that one can serve all
    """The series of a part, and its problems."""
    try:
        path = Path(part.path)
        loaded = (
            read_parquet(path, part.groups, part.name, machine) if part.groups else read_csv(path, part.name, machine)
        )
        return _with_manifest(loaded, Path(part.manifest), machine) if part.manifest else loaded
    except InvalidSeries as error:
        return LoadedSeries([], [error], [])


def _with_manifest(loaded: LoadedSeries, manifest: Path, machine: Machine) -> LoadedSeries:
    """The series with requests and limits of the manifest where their files have none."""
    try:
        stated = read_declared_resources(manifest, machine)
    except InvalidSeries as error:
        return replace(loaded, problems=[*loaded.problems, error])
    series = [
        replace(item, declared=item.declared.overlay(stated.get(item.name, DeclaredResources())))
        for item in loaded.series
    ]
    return replace(loaded, series=series)


def _add_file(parts: SeriesParts, file: Path, name: str, manifest: str) -> None:
    try:
        size = file.stat().st_size
        if file.suffix == ".parquet":
            parts.parts.extend(
                SeriesPart(str(file), name, rows, groups, manifest) for groups, rows in list_row_groups(file)
            )
        else:
            rows = size // _BYTES_A_ROW.get(_find_ending(file), 35) + 1
            parts.parts.append(SeriesPart(str(file), name, rows, manifest=manifest))
    except InvalidSeries as error:
        parts.problems.append(error)
    except OSError as error:
        parts.problems.append(_build_unreadable_error(str(file), error))


def _build_unreadable_error(path: str, error: OSError) -> InvalidSeries:
    return InvalidSeries(path, f"cannot be read: {error.strerror}")


def _list_files(directory: Path, problems: list[InvalidSeries]) -> Iterator[tuple[Path, str]]:
    """The files of a directory with the names of their series; hidden directories are left out."""
    manifest = directory / MANIFEST
    if manifest.is_file() and (listed := list(_list_manifest_files(manifest))):
        yield from listed
        return
    for path in sorted(directory.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            try:
                yield from _list_files(path, problems)
            except OSError as error:
                problems.append(_build_unreadable_error(str(path), error))
        elif path.name.endswith(_ENDINGS) and path.name != MANIFEST:
            yield path, _strip_ending(path)


def _list_manifest_files(manifest: Path) -> Iterator[tuple[Path, str]]:
    header, rows = read_manifest(manifest)
    for row in rows:
        fields = dict(zip(header, row, strict=False))
        if file := fields.get("file"):
            path = manifest.parent / file
            yield path, fields.get("series_id") or fields.get("series") or _strip_ending(path)


def _find_ending(path: Path) -> str:
    return next((ending for ending in _ENDINGS if path.name.endswith(ending)), "")


def _strip_ending(path: Path) -> str:
    return path.name.removesuffix(_find_ending(path))
