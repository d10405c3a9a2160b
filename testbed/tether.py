"""Ends a program with the process that started it, even by kill -9.

Run as a script between the two: it asks the kernel (Linux's PR_SET_PDEATHSIG) for SIGKILL when the
parent ends, then becomes the program. The request survives exec. It is bound to the thread that started
this script, so programs are started from main threads only. A `preexec_fn` could do the same, but is not
safe beside threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def become_tethered(parent: int, command: list[str]) -> None:
    """Never returns, unless the program cannot be run."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it died before we asked, so the kernel will not tell us
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    become_tethered(int(sys.argv[1]), sys.argv[2:])
