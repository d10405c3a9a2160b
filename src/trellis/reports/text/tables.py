"""Aligns columns, shortens names and wraps lines for a terminal.

A table that is too wide is printed in parts by its caller.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

GAP = "  "
_HELD = "\u00a0"  # a space at which no line ends


def align_columns(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Cells padded to their columns: the first `left` columns begin on the left, numbers end on the right.

    A row of a single cell is a heading and widens nothing.
    """
    table = [row for row in rows if len(row) > 1]
    if not table:
        return ["".join(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    found = []
    for row in rows:
        cells = row if len(row) == 1 else _padded(row, widths, left)
        found.append(GAP.join(cells).rstrip())
    return found


def _padded(row: Sequence[str], widths: Sequence[int], left: int) -> list[str]:
    return [
        cell.ljust(width) if number < left else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def table_width(table: Sequence[str]) -> int:
    """Of the longest line."""
    return max(map(len, table), default=0)


def shorten(text: str, most: int) -> str:
    """A name that fits, its middle left out: both of its ends tell more."""
    if len(text) <= most:
        return text
    head = (most - 2) // 2
    return f"{text[:head]}..{text[len(text) - (most - 2 - head) :]}"


def wrap_text(text: str, room: int) -> list[str]:
    """Lines that never part a number from its sign of per cent."""
    kept = text.replace(" %", f"{_HELD}%")
    found = textwrap.wrap(kept, room, subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace(_HELD, " ") for line in found]


def wrap_line(line: str, room: int) -> list[str]:
    """A line in as many as fit; as it is where there is no `room` to go by, or where blanks draw something."""
    if not room or len(line) <= room or "  " in line.strip():
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, room, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
