"""Handles Ctrl-C: the first asks for the results so far, the second ends the command."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

# What a shell makes of a command that was ended by Ctrl-C.
INTERRUPTED = 130


@contextmanager
def asked_to_stop(said: str) -> Iterator[Callable[[], bool]]:
    """While inside, the first Ctrl-C is remembered and answered with what will happen; the second raises."""
    is_asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal is_asked
        if is_asked:
            raise KeyboardInterrupt
        is_asked = True
        click.echo(f"\n{said}", err=True)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: is_asked
    finally:
        signal.signal(signal.SIGINT, before)
