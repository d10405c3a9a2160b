"""Is a container's request too much, too little or fine, and what should it be?

A recommender may ask for less memory than was used at some time, which is harmless as a request. As a limit it would
kill the next time, so that no memory limit is put below the most that was seen, nor a request that is the limit too.
"""

from __future__ import annotations

import math

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.advice.policy import DAY, LimitRule, Policy, new_limit, part
from trellis.core.advice.surveyed import SurveyedContainer

MEMORY_AT_RISK = Reason(
    "MemoryAtRisk",
    "The container was killed for lack of memory, or needs more than its limit and will be.",
    Severity.ERROR,
)
UNDER_REQUESTED = Reason("UnderRequested", "More is used than is requested.", Severity.WARNING)
NO_REQUEST = Reason("NoRequest", "Nothing is requested of what is used.", Severity.WARNING)
OVER_REQUESTED = Reason("OverRequested", "More is requested than is needed.", Severity.WARNING)
REQUEST_UNKNOWN = Reason("RequestUnknown", "What is requested now could not be seen.")
LOW_CONFIDENCE = Reason("LowConfidence", "There is too little history to change anything.")
NO_USAGE_KNOWN = Reason("NoUsageKnown", "There is no usage to go by.")
FINE = Reason("Fine", "What is requested is what is needed.")

# What is said only where both the request and what is needed are known, by enough history.
COMPARED = frozenset({UNDER_REQUESTED, NO_REQUEST, OVER_REQUESTED, FINE})

# From the worst to the best: what a container is called by, if its resources differ.
ORDER = (
    MEMORY_AT_RISK,
    UNDER_REQUESTED,
    NO_REQUEST,
    OVER_REQUESTED,
    REQUEST_UNKNOWN,
    LOW_CONFIDENCE,
    NO_USAGE_KNOWN,
    FINE,
)
# One an hour for a day. Fewer say little, however far apart they are.
_LEAST_SAMPLES = 24


class Change(msgspec.Struct, frozen=True):
    """One resource of a container: request and limit as they are and as they should be, of one pod.

    `found` is what the recommender says, before bounds and steps. CPU is in millicores, and NaN is none. `capped` is
    what bounds the request, if a LimitRange does.
    """

    reason: Reason
    request_before: float
    request: float
    limit_before: float
    limit: float
    found: float
    capped: Reason | None = None

    @property
    def is_change(self) -> bool:
        """Whether anything should be other than it is."""
        return not (_same(self.request, self.request_before) and _same(self.limit, self.limit_before))

    @property
    def asked_before(self) -> float:
        """What is requested now; none counts as nothing."""
        return 0.0 if math.isnan(self.request_before) else self.request_before

    @property
    def asked(self) -> float:
        """What is to be requested; none counts as nothing."""
        return 0.0 if math.isnan(self.request) else self.request

    @property
    def difference(self) -> float:
        """How much more is to be requested than before, or less; nothing where that is not known."""
        return 0.0 if self.reason is REQUEST_UNKNOWN else self.asked - self.asked_before


def judged(container: SurveyedContainer, resource: str, policy: Policy, *, is_sized: bool = True) -> Change:
    """What to do about one resource of a container; `is_sized` is whether it is known what it requests."""
    before, limit = part(container.request, resource), part(container.limit, resource)
    found = part(container.estimate.target, resource)
    wanted = _wanted(container, resource, found, policy)
    reason = _reason(container, resource, wanted, policy)
    if reason is NO_REQUEST and not is_sized:
        reason = REQUEST_UNKNOWN
    if reason in {FINE, LOW_CONFIDENCE, NO_USAGE_KNOWN}:
        return Change(reason, before, before, limit, limit, found)
    limited = new_limit(policy, resource, (before, limit), wanted)
    if resource == "memory" and limited < container.highest.memory:
        limited = max(policy.bounded(resource, container.highest.memory), limited)
    return Change(reason, before, wanted, limit, limited, found)


def _wanted(container: SurveyedContainer, resource: str, found: float, policy: Policy) -> float:
    """The request that is found right, whatever it is now."""
    if math.isnan(found):
        return math.nan
    if resource == "memory" and policy.limits.memory is LimitRule.REQUEST:
        found = max(found, container.highest.memory)  # of NaN, the first stays
    return policy.bounded(resource, found)


def _reason(container: SurveyedContainer, resource: str, wanted: float, policy: Policy) -> Reason:
    before, limit = part(container.request, resource), part(container.limit, resource)
    if math.isnan(wanted):
        return NO_USAGE_KNOWN
    # Even a short history is enough to know that it is too little.
    killed = container.kills > 0 and not wanted <= before
    if resource == "memory" and (killed or wanted > limit):
        return MEMORY_AT_RISK
    if _is_young(container, policy):
        return LOW_CONFIDENCE
    if math.isnan(before):
        return NO_REQUEST
    slight = max(policy.tolerance * before, part(policy.slight, resource))
    is_bounded = before < part(policy.least, resource) or before > part(policy.most, resource)
    if abs(wanted - before) <= slight and not is_bounded:
        return FINE
    return UNDER_REQUESTED if wanted > before else OVER_REQUESTED


def _is_young(container: SurveyedContainer, policy: Policy) -> bool:
    """Whether there is too little history; where none is known, whoever made the estimate has to know."""
    if math.isnan(container.first):
        return not container.estimate.confidence >= 1.0
    return container.samples < _LEAST_SAMPLES or container.days * DAY < policy.history


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))
