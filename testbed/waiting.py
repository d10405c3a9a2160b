"""Waits for what cannot be hurried.

The real controllers work in their own time, so tests against them must wait. This is the only place that
sleeps; it asks often, so that a wait costs little more than the thing itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from testbed.errors import TimedOut

T = TypeVar("T")

FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.25

# Longer than any wait that succeeds: a shared machine may be ten times slower than it was a minute ago.
PATIENCE = 150.0


def until(what: str, ask: Callable[[], T | None], seconds: float = PATIENCE) -> T:
    """The first answer that is something: not None, False, zero or empty. `what` completes "waited for ..."."""
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimedOut(f"waited {seconds:g} s for {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
