"""Reads what a command line names as a file: also `-` for standard input, and pipes such as `<(zcat usage.csv.gz)`.

Readers seek, open a file twice, or hand its path to other processes. What cannot be read like that is copied to a
temporary file, which is removed however the command ends. Messages name what the user wrote, and not the copy.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedIOBase
from pathlib import Path
from types import FrameType
from typing import BinaryIO, Final, NoReturn

import click

STANDARD_INPUT: Final = "-"
_SHOWN: Final = "<stdin>"
_CHUNK: Final = 1 << 18  # bytes
_PARQUET: Final = b"PAR1"
# The exit status of a shell for a process that SIGTERM ended.
_TERMINATED: Final = 143

# Makes the names of copies in a text those that the user wrote.
RestoreNames = Callable[[str], str]


@contextmanager
def open_inputs(names: Sequence[str]) -> Iterator[tuple[list[str], RestoreNames]]:
    """The paths to read instead of these names, while the context is open."""
    if names.count(STANDARD_INPUT) > 1:
        raise click.UsageError("standard input (-) can be read only once")
    shown: dict[str, str] = {}

    def restore_names(text: str) -> str:
        for path, name in shown.items():
            text = text.replace(path, name)
        return text

    with ExitStack() as stack:
        paths: list[str] = []
        for name in names:
            copied = stack.enter_context(_copy_unseekable(name))
            paths.append(copied)
            if copied != name:
                shown[copied] = _SHOWN if name == STANDARD_INPUT else name
        with _restore_names_in_errors(restore_names):
            yield paths, restore_names


@contextmanager
def open_input(name: Path) -> Iterator[Path]:
    """The path to read instead of a name, while the context is open."""
    with open_inputs([str(name)]) as ([path], _):
        yield Path(path)


def check_file(option: str, name: Path) -> None:
    """Refuse a file that does not exist or is a directory, by the name of its option."""
    if str(name) == STANDARD_INPUT:
        return
    if name.is_dir():
        raise click.UsageError(f"{option} {name}: is a directory; name a file")
    if not name.exists():
        raise click.UsageError(f"{option} {name}: there is no such file")


def read_input(name: Path) -> tuple[str, bytes]:
    """The whole of a file or of standard input, and what messages call it."""
    if str(name) == STANDARD_INPUT:
        return _SHOWN, sys.stdin.buffer.read()
    return str(name), name.read_bytes()


@contextmanager
def _copy_unseekable(name: str) -> Iterator[str]:
    """The path of a copy if the name is standard input or a pipe, else the name itself."""
    path = Path(name)
    if name != STANDARD_INPUT and not path.is_fifo():
        yield name
        return
    with _exit_on_sigterm(), tempfile.TemporaryDirectory(prefix="trellis-") as directory:
        copy = Path(directory, "stdin" if name == STANDARD_INPUT else path.name)
        with copy.open("wb") as file:
            if name == STANDARD_INPUT:
                _copy(sys.stdin.buffer, file)
            else:
                with path.open("rb") as pipe:
                    _copy(pipe, file)
        yield str(_name_by_content(copy))


def _copy(source: BinaryIO | BufferedIOBase, target: BinaryIO | BufferedIOBase) -> None:
    """Copy to the end. A signal that comes right before a read is handled within a second, and not at the next byte."""
    try:
        descriptor = source.fileno()
    except OSError:  # not a file of the system
        shutil.copyfileobj(source, target)
        return
    if os.name == "nt":  # where only sockets can be waited for
        shutil.copyfileobj(source, target)
        return
    while True:
        if select.select([descriptor], [], [], 1.0)[0]:
            chunk = os.read(descriptor, _CHUNK)
            if not chunk:
                return
            target.write(chunk)


def _name_by_content(copy: Path) -> Path:
    """The copy, with the ending by which readers know Parquet; all else they know by the content."""
    with copy.open("rb") as file:
        is_parquet = file.read(len(_PARQUET)) == _PARQUET
    return copy.rename(copy.with_name(f"{copy.name}.parquet")) if is_parquet else copy


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exit that cleans up; by default it ends the process on the spot."""

    def leave(_signal: int, _frame: FrameType | None) -> NoReturn:
        sys.exit(_TERMINATED)

    try:
        previous = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # signals belong to the main thread, and a caller's is another one
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def _restore_names_in_errors(restore_names: RestoreNames) -> Iterator[None]:
    from trellis.base.errors import InvalidInput  # noqa: PLC0415 -- for those who read a file

    try:
        yield
    except InvalidInput as error:
        error.args = (restore_names(str(error)),)
        raise
