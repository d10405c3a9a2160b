"""Starts child processes that ignore Ctrl-C: their parent decides when they stop.

Ctrl-C reaches all processes of the terminal. A child that ignores it does so only once it runs our code, and it takes a
while until then: the signal is blocked before the child is started, and the child inherits that.
"""

from __future__ import annotations

import signal
from multiprocessing.process import BaseProcess


def start_ignoring_interrupts(process: BaseProcess) -> None:
    """Start a process; a Ctrl-C in the meantime is not lost, and comes afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where a child may see a Ctrl-C that comes right now
        process.start()
        return
    from multiprocessing import resource_tracker  # noqa: PLC0415 -- for systems that have one

    # Without this the resource tracker starts with the first process, and lifts the block.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
