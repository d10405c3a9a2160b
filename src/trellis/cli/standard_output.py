"""Standard output that survives its reader: `trellis check ... | head -1` ends with the status of the check."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STANDARD_OUTPUT: Final = 1


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
