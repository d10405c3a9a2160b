"""What is told of passes? Probes learn that they end, and the log of those that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from trellis.runtime.health import Activity
from trellis.runtime.logs import Logger
from trellis.runtime.loops import PassReport

# A pass that has not ended for so many intervals is taken for dead, as upstream's is.
_PATIENCE: Final = 5
# Passes that follow one another faster than this are given as much time as if they did not.
_SHORTEST: Final = 1.0


def passes_expected(interval: float) -> Activity:
    """What probes are told of passes that begin every so many seconds."""
    return Activity(_PATIENCE * max(interval, _SHORTEST), asyncio.get_running_loop().time)


def reporting(activity: Activity, log: Logger) -> Callable[[PassReport], None]:
    """What a loop reports to. A pass that failed is a sign of life too: the next one may do better."""

    def report(passed: PassReport) -> None:
        activity.touch()
        if passed.error is not None:
            log.error("pass failed", number=passed.number, failures=passed.failures, error=passed.error)

    return report
