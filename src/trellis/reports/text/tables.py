"""Aligns columns, shortens names and wraps lines for a terminal.

A table that is too wide is made anew with shorter names or fewer columns, see `choose_fitting`, and where nothing fits
its rows are stacked, see `stack_rows`. Rich is not used: docs/architecture.md has the figures.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence

NARROWEST = 40  # a narrower terminal is treated as one of this width
_GAP = "  "
_NO_BREAK = "\u00a0"


def align_columns(rows: Sequence[Sequence[str]], left_aligned: int = 1) -> list[str]:
    """Lines of padded cells: the first `left` columns are aligned left, the others right.

    A row of a single cell is a heading and widens nothing.
    """
    table = [row for row in rows if len(row) > 1]
    if not table:
        return ["".join(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [_GAP.join(row if len(row) == 1 else _pad_cells(row, widths, left_aligned)).rstrip() for row in rows]


def _pad_cells(row: Sequence[str], widths: Sequence[int], left_aligned: int) -> list[str]:
    return [
        cell.ljust(width) if number < left_aligned else cell.rjust(width)
        for number, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def choose_fitting(
    tables: Iterable[list[str]], width: int, otherwise: Callable[[], list[str]] | None = None
) -> list[str]:
    """The first table that is no wider than `width`; else what `otherwise` makes, or the last table."""
    table: list[str] = []
    for table in tables:
        if measure_width(table) <= width:
            return table
    return table if otherwise is None else otherwise()


def stack_rows(heads: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> list[str]:
    """A table for a terminal that is too narrow for its columns: below the name of a row, each figure on its line.

    A figure without a head, such as a percentage, follows the figure before it.
    """
    lines: list[str] = []
    for name, *cells in rows:
        lines += textwrap.wrap(name.strip(), width) or [""]
        figures: list[str] = []
        for head, cell in zip(heads[1:], map(str.strip, cells), strict=True):
            if head or not cell or not figures or not figures[-1]:
                figures.append(f"{head}: {cell}" if head and cell else cell)
            else:
                figures[-1] += f" ({cell})"
        for figure in filter(None, figures):
            lines += textwrap.wrap(figure, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return lines


def measure_width(table: Sequence[str]) -> int:
    """The length of the longest line."""
    return max(map(len, table), default=0)


def shorten(text: str, length: int) -> str:
    """A name of at most `length`, its middle left out: both ends tell more."""
    if len(text) <= length:
        return text
    head = (length - 2) // 2
    return f"{text[:head]}..{text[len(text) - (length - 2 - head) :]}"


def wrap_text(text: str, width: int) -> list[str]:
    """Wrapped lines; a number and its per cent sign stay on one line."""
    unbroken = text.replace(" %", f"{_NO_BREAK}%")
    lines = textwrap.wrap(unbroken, width, subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines]


def wrap_line(line: str, width: int) -> list[str]:
    """A line wrapped at a width; unchanged without a width, or where blanks are part of a drawing."""
    if not width or len(line) <= width or "  " in line.strip():
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
