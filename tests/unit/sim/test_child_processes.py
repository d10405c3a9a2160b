"""Ctrl-C is for the process that others were started by."""

from __future__ import annotations

import multiprocessing
import signal

from trellis.sim.child_processes import start_ignoring_interrupts


def test_a_child_process_ignores_ctrl_c_from_its_start() -> None:
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=signal.raise_signal, args=(signal.SIGINT,))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    start_ignoring_interrupts(child)
    child.join()
    assert child.exitcode == 0
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
