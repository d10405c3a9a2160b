"""What must give way so that the API server takes the pod? What is recommended, and never what is not.

Upstream lets a policy break a LimitRange, and lets a sum of requests pass the pod's own: such a pod is not created at
all, which helps nobody. Here each container is brought within its own bounds first, then all of them together, in
proportion. Where that is not enough the resource stays as the pod has it, which the API server would have taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from trellis.base.reason import Reason, Severity
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.recommend.capping.container import CAPPED_TO_LIMIT, CAPPED_TO_RANGE_MAX, CAPPED_TO_RANGE_MIN
from trellis.core.recommend.capping.limit_ranges import Range
from trellis.core.recommend.capping.pod import FITTED_TO_POD_RANGE
from trellis.core.sizing.drafts import Draft, Part
from trellis.core.sizing.rules import newly_refused
from trellis.core.sizing.totals import needed

FITTED_TO_POD_REQUEST = Reason(
    "FittedToPodRequest", "The recommendation was scaled so that all containers fit the pod's own request."
)
CAPPED_TO_POD_LIMIT = Reason("CappedToPodLimit", "A limit was lowered to the pod's own limit.")
FITTED_TO_RATIO = Reason(
    "FittedToLimitRequestRatio", "The recommendation was changed to fit the maxLimitRequestRatio of a LimitRange."
)
SIZE_NOT_ADMISSIBLE = Reason(
    "SizeNotAdmissible",
    "A resource stays as the pod has it, because the API server would refuse the recommendation.",
    Severity.WARNING,
)

_NO_LIMITS = NamespaceLimits()


def fit(draft: Draft, limits: NamespaceLimits) -> None:
    """Changes what is sized so that the pod is taken, unless it would not be taken in any case."""
    for part in draft.parts:
        if part.sized:
            _fit_container(part, draft.own_limit, limits.container)
    if limits == _NO_LIMITS and draft.own_request is None and draft.own_limit is None:
        return  # nothing else is asked of it
    if draft.own_request is not None:
        _lower_requests(draft, draft.own_request, FITTED_TO_POD_REQUEST)
    most = limits.pod.most.get(draft.resource, 0)
    if most and draft.own_limit is None:
        _lower_limits(draft, most)
    if most and draft.own_request is None:
        _lower_requests(draft, most, FITTED_TO_POD_RANGE)
    if newly_refused(draft, limits):
        leave(draft, SIZE_NOT_ADMISSIBLE)


def leave(draft: Draft, reason: Reason) -> None:
    """Leaves the resource as it is in all containers."""
    for part in draft.parts:
        if part.sized:
            part.leave(reason)


def _fit_container(part: Part, own_limit: int | None, bounds: Range) -> None:
    least, most = bounds.least.get(part.resource, 0), bounds.most.get(part.resource, 0)
    if part.follows:
        if most and part.limit > most:
            part.limit = most
            part.note(CAPPED_TO_RANGE_MAX)
        if own_limit is not None and part.limit > own_limit:
            # The pod's limit holds for the container anyway, so that its request is none the less.
            part.limit = own_limit
            part.note(CAPPED_TO_POD_LIMIT)
        if part.limit < least:
            part.limit = least
            part.note(CAPPED_TO_RANGE_MIN)
    if part.request < least:
        part.request = least
        part.note(CAPPED_TO_RANGE_MIN)
    ratio = bounds.ratio.get(part.resource)
    if ratio is not None and part.limit > part.request * ratio:
        if part.follows:
            part.limit = math.floor(part.request * ratio)
        else:
            part.request = math.ceil(part.limit / ratio)
        part.note(FITTED_TO_RATIO)
    # The last word, because this is not a rule of the namespace but of every pod.
    if part.limit and part.request > part.limit:
        part.request = part.limit
        if not part.follows:
            part.note(CAPPED_TO_LIMIT)


def _lower_requests(draft: Draft, bound: int, reason: Reason) -> None:
    for stage in draft.stages:
        parts = [draft.parts[position] for position in stage.running]
        over = needed(stage, [part.request for part in draft.parts], draft.init_requests) - bound
        _share(over, [part for part in parts if part.sized], [part.request for part in parts if part.sized], reason)


def _lower_limits(draft: Draft, bound: int) -> None:
    for stage in draft.stages:
        parts = [draft.parts[position] for position in stage.running]
        over = needed(stage, [part.limit for part in draft.parts], draft.init_limits) - bound
        moving = [part for part in parts if part.follows]
        _share(over, moving, [part.limit for part in moving], FITTED_TO_POD_RANGE)


def _share(over: int, parts: Sequence[Part], amounts: Sequence[int], reason: Reason) -> None:
    """What is too much is taken from each in proportion to what it has."""
    all_of_it = sum(amounts)
    if over <= 0 or all_of_it <= over:
        return
    factor = Fraction(all_of_it - over, all_of_it)
    for part in parts:
        limit = math.floor(part.limit * factor)
        part.lower(max(math.floor(part.request * factor), min(part.request, 1)))
        if part.follows:
            part.limit = max(part.request, min(part.limit, limit))
        part.note(reason)
