"""The cache of compiled programs, which several processes share."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """The user's cache, by the XDG rule that a relative path in the variable does not count."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "trellis-test"


@contextmanager
def hold_lock(lock: Path, busy: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock; `busy` is called once if another process holds it. The lock ends with its process."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if busy:
                busy()
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


@contextmanager
def write_atomically(built: Path) -> Iterator[Path]:
    """A temporary name that becomes `built` at the end: no process sees an incomplete program."""
    partial = built.with_name(f"{built.name}.{os.getpid()}.tmp")
    try:
        yield partial
        partial.replace(built)
    finally:
        partial.unlink(missing_ok=True)
