"""Changes drafts so that the API server admits the pod; only what is recommended gives way.

Upstream lets a policy break a LimitRange, and lets a sum of requests pass the pod's own: such a pod is not created at
all. Here each container is brought within its own bounds first, then all of them together, in proportion. Where that
is not enough, the resource stays as the pod has it, which the API server would have admitted.

The rules of Kubernetes 1.36 for pods that are created and resized: a request is at most its limit; the requests of all
containers are at most the pod's own request, and no limit of an ordinary container is above the pod's own (a sidecar's
may be); LimitRanges hold for every container and for the pod as a whole, whose own resources count there instead of
its containers'.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from trellis.base.reasons import Reason, Severity
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.recommend.capping.container import CAPPED_TO_LIMIT, CAPPED_TO_RANGE_MAX, CAPPED_TO_RANGE_MIN
from trellis.core.recommend.capping.limit_ranges import ResourceRange
from trellis.core.recommend.capping.pod import FITTED_TO_POD_RANGE
from trellis.core.sizing.drafts import ContainerDraft, ResourceDraft
from trellis.core.sizing.shapes import ContainerList, sum_stage

_NO_RANGE = ResourceRange()


def is_newly_refused(draft: ResourceDraft, limits: NamespaceLimits) -> bool:
    """Whether the API server would refuse the pod for something that is not wrong with it as it stands.

    A pod may be older than the LimitRange that it breaks. It cannot be helped there, but it is not made invalid.
    """
    if _invalid(draft) and not _invalid(draft.as_it_stands()):
        return True
    return _out_of_range(draft, limits) and not _out_of_range(draft.as_it_stands(), limits)


def _invalid(draft: ResourceDraft) -> bool:
    for part in draft.parts:
        if part.limit and part.request > part.limit:
            return True
    if draft.own_request is not None and draft.requested() > draft.own_request:
        return True
    return draft.own_limit is not None and any(
        part.limit > draft.own_limit for part in draft.parts if part.container.place is ContainerList.CONTAINERS
    )


def _out_of_range(draft: ResourceDraft, limits: NamespaceLimits) -> bool:
    for part in draft.parts:
        if _outside(draft.resource, part.request, part.limit, limits.container):
            return True
    return limits.pod != _NO_RANGE and _pod_outside(draft, limits.pod)


def _pod_outside(draft: ResourceDraft, bounds: ResourceRange) -> bool:
    request = draft.requested() if draft.own_request is None else draft.own_request
    limit = draft.limited() if draft.own_limit is None else draft.own_limit
    return _outside(draft.resource, request, limit, bounds)


def _outside(resource: str, request: int, limit: int, bounds: ResourceRange) -> bool:
    """A minimum demands a request, a maximum a limit, and a ratio demands both."""
    least, most = bounds.least.get(resource, 0), bounds.most.get(resource, 0)
    if least and (request < least or 0 < limit < least):
        return True
    if most and (not 0 < limit <= most or request > most):
        return True
    ratio = bounds.ratio.get(resource)
    return ratio is not None and (not request or not limit or limit > request * ratio)


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


def make_admissible(draft: ResourceDraft, limits: NamespaceLimits) -> None:
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
    if is_newly_refused(draft, limits):
        leave_unsized(draft, SIZE_NOT_ADMISSIBLE)


def leave_unsized(draft: ResourceDraft, reason: Reason) -> None:
    """Leaves the resource as it is in all containers."""
    for part in draft.parts:
        if part.sized:
            part.leave(reason)


def _fit_container(part: ContainerDraft, own_limit: int | None, bounds: ResourceRange) -> None:
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


def _lower_requests(draft: ResourceDraft, bound: int, reason: Reason) -> None:
    for stage in draft.stages:
        parts = [draft.parts[position] for position in stage.running]
        over = sum_stage(stage, [part.request for part in draft.parts], draft.init_requests) - bound
        _share(over, [part for part in parts if part.sized], [part.request for part in parts if part.sized], reason)


def _lower_limits(draft: ResourceDraft, bound: int) -> None:
    for stage in draft.stages:
        parts = [draft.parts[position] for position in stage.running]
        over = sum_stage(stage, [part.limit for part in draft.parts], draft.init_limits) - bound
        moving = [part for part in parts if part.follows]
        _share(over, moving, [part.limit for part in moving], FITTED_TO_POD_RANGE)


def _share(over: int, parts: Sequence[ContainerDraft], amounts: Sequence[int], reason: Reason) -> None:
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
