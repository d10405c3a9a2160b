"""Handles Ctrl-C: the first asks for the results so far, the second ends the command."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

# The exit status of a command that was ended by Ctrl-C.
INTERRUPTED = 130


@contextmanager
def catch_interrupt(message: str) -> Iterator[Callable[[], bool]]:
    """While the context is open, the first Ctrl-C requests a stop and prints the message; the second raises."""
    stop_requested = False

    def request_stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stop_requested
        if stop_requested:
            raise KeyboardInterrupt
        stop_requested = True
        click.echo(f"\n{message}", err=True)

    previous_handler = signal.signal(signal.SIGINT, request_stop)
    try:
        yield lambda: stop_requested
    finally:
        signal.signal(signal.SIGINT, previous_handler)
