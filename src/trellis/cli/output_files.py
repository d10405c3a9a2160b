"""Writes results, manifests and dumps to files, after a check before the work that they can be written.

A dump or a manifest is written beside its place and then moved, so that it exists whole or not at all. What is no
regular file is written to as it is: standard output, and a pipe or a device, whose place nothing may take.
"""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Final, cast

import click

STANDARD_OUTPUT: Final = Path("-")
# Columns where neither a terminal nor $COLUMNS says how many there are, and the most: longer lines are hard to follow.
_DEFAULT_WIDTH, _MAX_WIDTH = 100, 140


class WriteFailed(click.ClickException):
    """The output could not be written."""

    exit_code = 2


def check_writable(outputs: Mapping[str, Path | None]) -> None:
    """Refuse outputs that cannot be written, by the name of their option."""
    for option, path in outputs.items():
        if path is None or path == STANDARD_OUTPUT:
            continue
        if path.is_dir():
            raise click.UsageError(f"{option} {path}: is a directory; name a file")
        if not path.parent.is_dir():
            raise click.UsageError(f"{option} {path}: there is no directory {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise click.UsageError(f"{option} {path}: may not be written")
    shared = [option for option, path in outputs.items() if path == STANDARD_OUTPUT]
    if len(shared) > 1:
        raise click.UsageError(f"{' and '.join(shared)} cannot both go to standard output")


def get_text_width(widest: int = _MAX_WIDTH) -> int:
    """Columns for a report: those of the terminal or of $COLUMNS, else 100, and never more than `widest`."""
    return min(shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns, widest)


def get_wrap_width() -> int:
    """Columns at which lines are wrapped for a person; zero where a program reads them, for which a line is a line."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def write_output(path: Path, make: Callable[[], bytes]) -> bool:
    """Write the result of `make` to a file, or print it; returns whether there is a file."""
    if path == STANDARD_OUTPUT:
        click.echo(make(), nl=False)
        return False
    try:
        path.write_bytes(make())
    except OSError as error:
        raise WriteFailed(f"{path}: {error.strerror or error}") from error
    return True


def check_directory(option: str, path: Path) -> None:
    """Refuse a directory in which no files can be written, before the work."""
    if path.exists() and not path.is_dir():
        raise click.UsageError(f"{option} {path}: is a file; name a directory")
    if not path.exists() and not path.parent.is_dir():
        raise click.UsageError(f"{option} {path}: there is no directory {path.parent}")


def write_texts(directory: Path, texts: Mapping[str, str]) -> None:
    """Write the texts at their paths, over what is there; other files stay."""
    try:
        for name, text in texts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".{path.name}.part")
            part.write_text(text, encoding="utf-8")
            part.replace(path)
    except OSError as error:
        raise WriteFailed(f"{error.filename or directory}: {error.strerror or error}") from error


COMPRESSED: Final = ".gz"
_OWNER_ONLY: Final = 0o600
# Windows would write line ends of its own.
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)


@contextmanager
def open_atomically(path: Path) -> Iterator[BufferedIOBase]:
    """A file to write to, gzipped if its name ends in `.gz`; an error leaves no file behind."""
    if path == STANDARD_OUTPUT:
        yield cast("BufferedIOBase", sys.stdout.buffer)
        sys.stdout.flush()
        return
    if path.exists() and not path.is_file():
        with path.open("wb") as file, _compress(path, file) as packed:
            yield packed
        return
    target = path.resolve()  # of a link it is the file that changes, and not the link
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, _OWNER_ONLY)
    try:
        with os.fdopen(descriptor, "wb") as file, _compress(path, file) as packed:
            yield packed
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _compress(path: Path, file: BufferedIOBase) -> Iterator[BufferedIOBase]:
    if not path.name.endswith(COMPRESSED):
        yield file
        return
    with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as compressed:
        yield compressed
