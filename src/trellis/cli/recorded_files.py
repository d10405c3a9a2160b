"""How does a command read what a component or `trellis dump` has written? With the file in what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trellis.base.errors import InvalidRecording
from trellis.core.model.collected import Collected
from trellis.runtime.recording import recorded


@contextmanager
def about(path: Path) -> Iterator[None]:
    """Have the file named in what is wrong with its lines."""
    try:
        yield
    except InvalidRecording as error:
        if error.value == str(path):
            raise
        raise InvalidRecording(str(path), str(error)) from error


def collected_from(dump: Path) -> Collected:
    """What a dump has; raises `InvalidRecording`."""
    with about(dump):
        return Collected.of(recorded(dump))
