"""Which usage is meant by a path, and what does it hold?

A path is a file, or a directory of files. Where a directory has a `manifest.csv` with a column `file`, that says which
files there are and what the series in them are called (`series_id`); else everything below it counts that is called
.csv, .csv.gz or .parquet. A manifest may also say what the series request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from trellis.base.errors import InvalidSeries
from trellis.sources.series.csv_files import read_csv
from trellis.sources.series.declared import Declared, declared_in, read_manifest
from trellis.sources.series.parquet_files import groups_of, read_parquet
from trellis.sources.series.tables import Found
from trellis.sources.series.units import Machine

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
    manifest: str = ""


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


def read_part(part: Part, machine: Machine = Machine()) -> Found:  # noqa: B008 - frozen, so that one can serve all
    """What a part holds; what cannot be used is among its problems."""
    try:
        path = Path(part.path)
        found = (
            read_parquet(path, part.groups, part.name, machine) if part.groups else read_csv(path, part.name, machine)
        )
        return _with_manifest(found, Path(part.manifest), machine) if part.manifest else found
    except InvalidSeries as error:
        return Found([], [error], [])


def _with_manifest(found: Found, manifest: Path, machine: Machine) -> Found:
    """What a manifest says of requests and limits goes for series whose files do not say."""
    try:
        stated = declared_in(manifest, machine)
    except InvalidSeries as error:
        return replace(found, problems=[*found.problems, error])
    series = [replace(each, declared=each.declared.over(stated.get(each.name, Declared()))) for each in found.series]
    return replace(found, series=series)


def _add(found: Parts, file: Path, name: str, manifest: str) -> None:
    try:
        size = file.stat().st_size
        if file.suffix == ".parquet":
            found.parts.extend(Part(str(file), name, rows, groups, manifest) for groups, rows in groups_of(file))
        else:
            rows = size // _BYTES_A_ROW.get(_ending(file), 35) + 1
            found.parts.append(Part(str(file), name, rows, manifest=manifest))
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
