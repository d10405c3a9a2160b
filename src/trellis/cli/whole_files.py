"""How is a file written that is there whole or not at all? Beside its place, for its owner alone, and then moved.

What is no file is written to as it is: standard output, and a pipe or a device, whose place nothing may take.
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Final, cast

from trellis.cli.output_files import STANDARD_OUTPUT

COMPRESSED: Final = ".gz"
_OWNER_ALONE: Final = 0o600


@contextmanager
def written_whole(path: Path) -> Iterator[BufferedIOBase]:
    """A file to write to, gzipped if its name ends in `.gz`; whoever leaves with an error leaves nothing behind."""
    if path == STANDARD_OUTPUT:
        yield cast("BufferedIOBase", sys.stdout.buffer)
        sys.stdout.flush()
        return
    if path.exists() and not path.is_file():
        with path.open("wb") as file, _packed(path, file) as packed:
            yield packed
        return
    place = path.resolve()  # of a link it is the file that changes, and not the link
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ALONE)
    try:
        with os.fdopen(descriptor, "wb") as file, _packed(path, file) as packed:
            yield packed
        beside.replace(place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


@contextmanager
def _packed(path: Path, file: BufferedIOBase) -> Iterator[BufferedIOBase]:
    if not path.name.endswith(COMPRESSED):
        yield file
        return
    with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as compressed:
        yield compressed
