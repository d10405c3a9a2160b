"""Polls until a condition holds or a timeout passes.

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
TIMEOUT_SECONDS = 150.0


def until(condition: str, poll: Callable[[], T | None], seconds: float = TIMEOUT_SECONDS) -> T:
    """The first truthy result of `poll`. `condition` completes "waited for ..."."""
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE
    while True:
        result = poll()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimedOut(f"waited {seconds:g} s for {condition}")
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
