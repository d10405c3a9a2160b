"""When is a workload looked at again, beside when its plan says so? Soon after a change, and after a write that failed.

Whoever keeps time for an updater, in a cluster or in a model of one, goes by these.
"""

from __future__ import annotations

from typing import Final

from trellis.core.model.told import Told

# A controller that replaces a pod makes several changes in a moment, which are one look.
SETTLING_SECONDS: Final = 0.05
# A time that has come already must not make a loop without a pause.
SOONEST_SECONDS: Final = 0.1
# A write that failed on its preconditions was made from an old view, which is renewed by then.
RENEWED_SECONDS: Final = 2.0

_OUTDATED: Final = (Told.CONFLICT, Told.INVALID)
_DONE_WITH: Final = (Told.APPLIED, Told.SKIPPED, Told.GONE)


def again_after(told: Told) -> float | None:
    """In how many seconds another plan is to be made after this became of a write; None if a change will say."""
    if told in _OUTDATED:
        return RENEWED_SECONDS
    return None if told in _DONE_WITH else 0.0
