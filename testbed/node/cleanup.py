"""Removes the cgroups and the directory of a sandbox when its owner has ended, in whatever way.

A process in a session of its own that holds one end of a pipe: the kernel closes the other end with the owner. What it
leaves because it was itself killed, the owner removes, and if that was killed too, the next sandbox.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from testbed.node import cgroups

_PATIENCE_SECONDS: Final = 10.0


@contextmanager
def at_the_end(cgroup: str, directory: Path) -> Iterator[None]:
    """Have both removed at the end of the block, and wait for that; also if this process is killed meanwhile."""
    command = [sys.executable, "-m", __name__, cgroup, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield
        finally:
            assert process.stdin is not None  # noqa: S101 - a pipe was asked for
            process.stdin.close()
            process.wait()
            remove(cgroup, directory)


def remove(cgroup: str, directory: Path) -> None:
    """Remove both. Safe to call twice, and while processes in them still end."""
    cgroups.remove(cgroup)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while directory.exists() and time.monotonic() < deadline:
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.02)


def main(cgroup: str, directory: Path) -> None:
    """Wait for the end of the owner, and clean up."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    remove(cgroup, directory)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
