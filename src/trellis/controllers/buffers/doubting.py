"""Which answers about a target are doubted, and asked for again?

Room must not go because an API server is slow, or has just started and forbids everything for a moment. And a scale
that nobody follows tells of its pods a moment after they have come.
"""

from __future__ import annotations

from typing import Final, Protocol

from trellis.base.selectors import Selector
from trellis.controllers.buffers.calming import clock
from trellis.core.buffers import Facts, FoundTarget
from trellis.core.model.target_problems import TARGET_FORBIDDEN, TARGET_UNREACHABLE, TargetProblem

# In so many seconds a scale is asked again that may have more to tell.
LATER_SECONDS: Final = 3.0
# A refusal that lasts so long is believed.
_SURE_SECONDS: Final = 30.0


class Asked(Protocol):
    """What is remembered of what was asked: `forbidden_since` is when, on the loop's clock, that was first refused."""

    selection: tuple[object, Selector] | None
    facts: Facts | None
    forbidden_since: float | None


def is_unsure(known: Asked, facts: Facts) -> bool:
    """Whether what was known before is to stand."""
    problem = facts.target.reason if isinstance(facts.target, TargetProblem) else None
    if problem is not TARGET_FORBIDDEN:
        known.forbidden_since = None
        return problem is TARGET_UNREACHABLE
    if known.forbidden_since is None:
        known.forbidden_since = clock()
    return clock() < known.forbidden_since + _SURE_SECONDS


def may_follow_up(known: Asked, facts: Facts) -> bool:
    """Whether these facts are news, and those of a kind whose count no watch shows."""
    target = facts.target
    is_counted = isinstance(target, FoundTarget) and target.replicas is not None
    return is_counted and known.selection is None and known.facts != facts
