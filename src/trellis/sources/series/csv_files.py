"""Reads the series of a CSV file, which may be compressed with gzip, whatever it is called."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np

from trellis.base.errors import InvalidSeries
from trellis.core.usage.columns import IntColumn
from trellis.sources.series.csv_parser import CsvBlock, CsvFormat, TextColumn, read_blocks, read_header
from trellis.sources.series.field_values import convert_to_seconds, parse_amounts, parse_times
from trellis.sources.series.headers import ColumnRoles, assign_roles
from trellis.sources.series.tables import LoadedSeries, SeriesName, SeriesTable, extract_series, number_names
from trellis.sources.series.units import Machine

_GZIP: Final = b"\x1f\x8b"


def read_csv(path: Path, name: str, machine: Machine) -> LoadedSeries:
    """All series of a file; a single one gets the given name. Raises `InvalidSeries` if the file cannot be read."""
    source = str(path)
    with _open_file(path) as stream:
        header, separator = read_header(source, stream)
        roles = assign_roles(source, header, machine)
        form = CsvFormat(source, len(header), separator, roles.columns)
        pieces = [_parse_block(source, roles, piece) for piece in read_blocks(form, stream)]
    if not pieces:
        raise InvalidSeries(source, "has a header and no samples")
    table = pieces[0] if len(pieces) == 1 else _join_blocks(pieces)
    return extract_series(table, name)


@contextmanager
def _open_file(path: Path) -> Iterator[BinaryIO]:
    """The file as it was before it was compressed."""
    try:
        with path.open("rb") as raw:
            compressed = raw.read(2) == _GZIP
            raw.seek(0)
            if path.suffix == ".gz" and not compressed and path.stat().st_size:
                raise InvalidSeries(str(path), "is not gzip data, although its name ends in .gz")
            if compressed:
                with gzip.open(raw) as stream:
                    yield cast("BinaryIO", stream)
            else:
                yield raw
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise InvalidSeries(str(path), f"is a truncated or damaged gzip file: {error}") from error
    except OSError as error:
        raise InvalidSeries(str(path), f"cannot be read: {error.strerror or error}") from error


def _parse_block(source: str, roles: ColumnRoles, piece: CsvBlock) -> SeriesTable:
    header, columns = roles.header, piece.columns
    times = parse_times(source, header[roles.time], columns[roles.time], piece.first)
    amounts = {
        amount.column: parse_amounts(source, roles, amount, columns[amount.column], piece.first)
        for amount in roles.amounts
    }
    return SeriesTable(
        source,
        roles,
        np.arange(piece.first, piece.first + len(times), dtype=np.int64),
        convert_to_seconds(times),
        amounts,
        *_read_names([columns[field] for field in roles.names]),
    )


def _read_names(parts: list[TextColumn]) -> tuple[list[SeriesName], IntColumn | None]:
    """The names of series, and which of them each row is of."""
    if not parts:
        return [], None
    # Rows of one series mostly lie side by side: names are compared once for each stretch of them.
    changed = np.ones(len(parts[0]), dtype=np.bool_)
    changed[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in parts])
    begins = np.flatnonzero(changed)
    names = [
        tuple(part.decode("utf-8", "replace") for part in row) for row in zip(*_read_at(parts, begins), strict=True)
    ]
    return number_names(names, np.diff(begins, append=len(changed)))


def _read_at(parts: list[TextColumn], places: IntColumn) -> Iterator[list[bytes]]:
    for column in parts:
        yield column[places].tolist()


def _join_blocks(pieces: list[SeriesTable]) -> SeriesTable:
    names, which = number_names(
        [name for piece in pieces for name in piece.names],
        np.ones(sum(len(piece.names) for piece in pieces), dtype=np.int64),
    )
    if which is not None:
        starts = np.cumsum([0, *(len(piece.names) for piece in pieces)])
        numbers = [piece.which + start for piece, start in zip(pieces, starts, strict=False) if piece.which is not None]
        which = which[np.concatenate(numbers)]
    return SeriesTable(
        source=pieces[0].source,
        roles=pieces[0].roles,
        rows=np.concatenate([piece.rows for piece in pieces]),
        times=np.concatenate([piece.times for piece in pieces]),
        amounts={column: np.concatenate([piece.amounts[column] for piece in pieces]) for column in pieces[0].amounts},
        names=names,
        which=which,
    )
