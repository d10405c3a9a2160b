"""Standard output that survives its reader, and messages on standard error.

`trellis check ... | head -1` ends with the status of the check. A message is wrapped on a terminal, and one line for
programs.
"""

from __future__ import annotations

import io
import os
import sys
import textwrap
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STANDARD_OUTPUT: Final = 1
_DEFAULT_WIDTH: Final = 80


class _PipeWriter(io.FileIO):
    """A file descriptor that discards what is written once its reader has gone."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or discard."""
        try:
            written: int | None = super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes
        return written or 0


def discard_output_without_reader() -> None:
    """Let writes to a closed pipe succeed, so that the work goes on and sets the exit status."""
    output = sys.stdout
    if not isinstance(output, io.TextIOWrapper) or output is not sys.__stdout__:
        return
    if os.name == "nt" and output.isatty():  # a console has no reader that could go, and a stream of its own
        return
    writer = io.BufferedWriter(_PipeWriter(_STANDARD_OUTPUT, "w", closefd=False))
    sys.stdout = io.TextIOWrapper(
        writer,
        encoding=output.encoding,
        errors=output.errors,
        line_buffering=output.line_buffering,
        write_through=output.write_through,
    )


def write_message(text: str) -> None:
    """Write a message of the program to standard error."""
    click.echo(wrap_message(f"trellis: {text}"), err=True)


def wrap_message(text: str) -> str:
    """The text, wrapped at the width of the terminal that standard error is; elsewhere as it is."""
    width = get_message_width()
    if not width:
        return text
    lines = (
        textwrap.wrap(
            line,
            width,
            subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )
    return "\n".join("\n".join(wrapped) for wrapped in lines)


def get_message_width() -> int:
    """Columns at which messages are wrapped; zero where standard error is no terminal."""
    if not sys.stderr.isatty():
        return 0
    if columns := os.environ.get("COLUMNS", ""):
        return int(columns) if columns.isdecimal() else _DEFAULT_WIDTH
    return os.get_terminal_size(sys.stderr.fileno()).columns or _DEFAULT_WIDTH
