"""Writes and reads the files of recordings, gzipped if the name ends in `.gz`.

A failure to write does not stop a controller: the first failure is logged and ends the recording. A process that is
killed leaves everything up to its last `flush`.
"""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Annotated, ClassVar, Final

from trellis import __version__
from trellis.base.errors import InvalidInput, InvalidRecording
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, encode_line
from trellis.runtime.settings.declarations import Setting, Settings
from trellis.runtime.settings.loader import setting_values
from trellis.runtime.telemetry.logs import Logger

_BUFFER_BYTES: Final = 1 << 18
_COMPRESSED: Final = ".gz"
_GZIP: Final = b"\x1f\x8b"
# The usual 9 takes ten times as long for a fifth less.
_LEVEL: Final = 3

_log: Final = Logger("trellis.recording")


class RecorderSettings(Settings, frozen=True):
    """Recording of inputs and decisions, for a replay."""

    title: ClassVar[str] = "Recording"

    record: Annotated[
        str,
        Setting(
            "File for all inputs and decisions, for `trellis simulate --replay`; compressed if it ends in `.gz`.",
            why="Off: the file grows with every change in the cluster.",
        ),
    ] = ""


class Recorder:
    """Writes lines, from any thread. Check `is_on` before building a payload only for the recording."""

    def __init__(self, file: BufferedIOBase | None) -> None:
        self._file = file
        self._waiting = bytearray()
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether lines are recorded."""
        return self._file is not None

    def write(self, kind: str, payload: object) -> None:
        """Append a line; without a file, do nothing."""
        if self._file is None:
            return
        line = encode_line(kind, payload)
        with self._lock:
            self._waiting += line
            if len(self._waiting) >= _BUFFER_BYTES:
                self._write_buffer()

    def flush(self) -> None:
        """Write all lines up to here to the file."""
        with self._lock:
            self._write_buffer()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._write_buffer()
            self._close_file()

    def _write_buffer(self) -> None:
        if self._file is None or not self._waiting:
            return
        try:
            self._file.write(self._waiting)
            self._file.flush()
        except OSError as error:
            _log.error("writing the recording failed; recording stopped", why=error)
            self._close_file()
        self._waiting.clear()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                _log.error("the end of the recording may be missing", why=error)


NO_RECORDER: Final = Recorder(None)


def open_recorder(path: str, component: str, settings: Settings) -> Recorder:
    """Record into a file, which is overwritten; without a path, record nothing. Raises `InvalidInput`."""
    if not path:
        return NO_RECORDER
    try:
        file = Path(path).open("wb")  # noqa: SIM115 - open as long as the process lives
    except OSError as error:
        raise InvalidInput(path, f"flag --record: cannot be written: {error.strerror or error}") from error
    recorder = Recorder(_Compressed(file) if path.endswith(_COMPRESSED) else file)
    recorder.write(HEADER, RecordingHeader(FORMAT_VERSION, component, __version__, setting_values(settings)))
    recorder.flush()
    return recorder


def read_recording(path: Path) -> Iterator[bytes]:
    """The lines of a recording, as they are in the file; raises `InvalidRecording`."""
    try:
        with path.open("rb") as raw:
            is_compressed = raw.peek(len(_GZIP)).startswith(_GZIP)  # by its content: it may have been renamed
            with gzip.open(raw) if is_compressed or path.name.endswith(_COMPRESSED) else raw as file:
                yield from file
    except EOFError:
        # The recording process was killed. What it flushed has been read.
        return
    except (OSError, zlib.error) as error:
        cause = (error.strerror if isinstance(error, OSError) else None) or error
        raise InvalidRecording(str(path), f"cannot be read: {cause}") from error


class _Compressed(gzip.GzipFile):
    """Compresses while writing; closing it closes the file."""

    def __init__(self, file: BufferedIOBase) -> None:
        super().__init__(fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0)
        self._below = file

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._below.close()
