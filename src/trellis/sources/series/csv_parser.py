"""Splits a CSV file into columns of text, without a Python object for each field.

All separators and ends of lines are found at once, and a column is gathered byte by byte: a million rows take about a
quarter of a second a column. A block with quotes in it is read by Python's own reader.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from trellis.base.errors import InvalidSeries, format_value
from trellis.core.usage.columns import IntColumn

TextColumn: TypeAlias = npt.NDArray[np.bytes_]
_Bytes: TypeAlias = npt.NDArray[np.uint8]

_PIECE: Final = 32 << 20
_LINE: Final = 10
_SEPARATORS: Final = (",", ";", "\t")
_LONGEST: Final = 512  # bytes of a field; what is longer is not of a table of usage
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_EMPTY: Final = b"\r\n "  # no tab: it may separate fields of which the last is empty
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
# Other formats by their first bytes, and the remedy.
_OTHER_FORMATS: Final = (
    (b"PK\x03\x04", "is a spreadsheet or another archive: export it as CSV"),
    (b"PAR1", "is Parquet: rename it to end in .parquet"),
    (b"\xff\xfe", "is UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16: save it as UTF-8"),
    (b"{", "is JSON: give CSV or Parquet"),
    (b"[", "is JSON: give CSV or Parquet"),
)


class CsvFormat(msgspec.Struct, frozen=True):
    """The format of a file: its name, the fields of a row, the separator, and the selected fields."""

    source: str
    fields: int
    separator: str
    selected: tuple[int, ...]


class CsvBlock(msgspec.Struct, frozen=True):
    """Rows of a file from row `first` on, numbered as in an editor; a column of texts for each field.

    Only the wanted fields are there.
    """

    first: int
    columns: dict[int, TextColumn]


def read_header(source: str, stream: BinaryIO) -> tuple[list[str], str]:
    """The names in the first line, and what separates them."""
    line = stream.readline().removeprefix(_BYTE_ORDER_MARK)
    for prefix, rule in _OTHER_FORMATS:
        if line.startswith(prefix):
            raise InvalidSeries(source, rule)
    if not line.strip():
        raise InvalidSeries(source, "is empty: a header is needed, and a row for each sample")
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise InvalidSeries(source, f"row 1 is not text: byte {error.start + 1} is not UTF-8") from error
    if (wrong := _CONTROL.search(text)) is not None:
        raise InvalidSeries(source, f"row 1 is not text: character {wrong.start() + 1} is a control character")
    separator = max(_SEPARATORS, key=text.count)
    return next(csv.reader([text], delimiter=separator)), separator


def read_blocks(form: CsvFormat, stream: BinaryIO, size: int = _PIECE) -> Iterator[CsvBlock]:
    """The rows after the header, a bounded number at a time; empty lines at the end are none."""
    first, rest = 2, b""
    while True:
        read = stream.read(size)
        text = (rest + read).replace(b"\r\n", b"\n")
        complete = text.rfind(b"\n") + 1 if read else len(text)
        # Lines that may be the empty ones at the end wait for what comes after them.
        filled = len(text[:complete].rstrip(_EMPTY))
        end = (text.find(b"\n", filled) + 1 or len(text)) if filled else 0
        text, rest = text[:end].removesuffix(b"\n") + b"\n" if end else b"", text[end:]
        if text:
            columns, rows = (_parse_quoted if b'"' in text else _parse_unquoted)(form, text, first)
            yield CsvBlock(first, columns)
            first += rows
        if not read:
            return


def _parse_unquoted(form: CsvFormat, text: bytes, first: int) -> tuple[dict[int, TextColumn], int]:
    characters: _Bytes = np.frombuffer(text, dtype=np.uint8)
    is_line_end = characters == _LINE
    marks = np.flatnonzero(is_line_end | (characters == ord(form.separator)))
    lines = np.flatnonzero(is_line_end)
    if len(marks) != form.fields * len(lines) or (marks[form.fields - 1 :: form.fields] != lines).any():
        _refuse_fields(form, first, np.diff(np.searchsorted(marks, lines), prepend=-1), text)
    ends = marks.reshape(-1, form.fields)
    columns = {}
    for field in form.selected:
        before = ends[:, field - 1] if field else np.concatenate(([-1], lines[:-1]))
        columns[field] = _extract_column(form.source, characters, before + 1, ends[:, field], first)
    return columns, len(lines)


def _extract_column(source: str, text: _Bytes, begins: IntColumn, ends: IntColumn, first: int) -> TextColumn:
    lengths = ends - begins
    width = max(int(lengths.max()), 1)
    if width > _LONGEST:
        row = first + int(np.argmax(lengths))
        raise InvalidSeries(source, f"row {row}: a field of {width} characters is too long for a table of usage")
    fields: _Bytes = np.zeros((len(begins), width), dtype=np.uint8)
    shortest = int(lengths.min())
    for place in range(width):
        if place < shortest:
            fields[:, place] = text[begins + place]
        else:
            longer_fields = np.flatnonzero(lengths > place)
            fields[longer_fields, place] = text[begins[longer_fields] + place]
    return fields.view(f"S{width}")[:, 0]


def _parse_quoted(form: CsvFormat, text: bytes, first: int) -> tuple[dict[int, TextColumn], int]:
    rows = list(csv.reader(io.StringIO(text.decode("utf-8", "replace")), delimiter=form.separator))
    counts = np.array([len(row) for row in rows], dtype=np.int64)
    if (counts != form.fields).any():
        _refuse_fields(form, first, counts, text)
    return {field: np.array([row[field].encode() for row in rows]) for field in form.selected}, len(rows)


def _refuse_fields(form: CsvFormat, first: int, counts: IntColumn, text: bytes) -> None:
    row = int(np.flatnonzero(counts != form.fields)[0])
    if counts[row] <= 1 < form.fields and not text.split(b"\n", row + 1)[row].strip():
        raise InvalidSeries(form.source, f"row {first + row} is empty")
    rule = f"row {first + row} has {counts[row]} fields, and the header has {form.fields}"
    raise InvalidSeries(form.source, rule)


def build_field_error(source: str, row: int, column: str, text: bytes, rule: str) -> InvalidSeries:
    """An error about one field."""
    return InvalidSeries(source, f"row {row}, column {column}: {format_value(text.decode('utf-8', 'replace'))} {rule}")
