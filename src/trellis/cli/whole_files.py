"""How is a file written that is there whole or not at all? Beside its place, for its owner alone, and then moved."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Final

COMPRESSED: Final = ".gz"
_OWNER_ALONE: Final = 0o600


@contextmanager
def written_whole(path: Path) -> Iterator[BufferedIOBase]:
    """A file to write to, gzipped if its name ends in `.gz`; whoever leaves with an error leaves nothing behind."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ALONE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if path.name.endswith(COMPRESSED):
                with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as compressed:
                    yield compressed
            else:
                yield file
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
