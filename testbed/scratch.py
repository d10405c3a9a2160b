"""The directories of running control planes, and their removal.

In memory where there is /dev/shm: etcd writes all the time. A directory is removed by the process that
made it; if that was killed, by the next one that makes one.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Its owner holds a lock on this file for as long as it lives; the kernel gives it back, whatever happens.
ALIVE = "alive"

# A directory this young may belong to a process that has not taken its lock yet.
YOUNG_SECONDS = 60.0

# No run takes a day, so a lock or log this old has no owner.
OLD_SECONDS = 86400.0


def root() -> Path:
    """Of all control planes of this user."""
    memory = Path("/dev/shm")  # noqa: S108 - private to this user by its mode
    base = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    directory = base / f"trellis-testbed-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


@contextmanager
def scratch(name: str = "") -> Iterator[Path]:
    """A directory of this name that is gone at the end."""
    _sweep()
    directory = root() / (name or f"own-{secrets.token_hex(4)}")
    directory.mkdir(mode=0o700)
    try:
        with (directory / ALIVE).open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _sweep() -> None:
    for path in root().iterdir():
        try:
            age = time.time() - path.stat().st_mtime
        except FileNotFoundError:  # its owner was quicker
            continue
        if path.is_dir() and age > YOUNG_SECONDS and not is_alive(path):
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_file() and age > OLD_SECONDS:
            path.unlink(missing_ok=True)


def is_alive(directory: Path) -> bool:
    """Whether the process that made it still has it."""
    try:
        with (directory / ALIVE).open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
