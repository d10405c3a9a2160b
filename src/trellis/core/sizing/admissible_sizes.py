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
from trellis.core.sizing.shapes import ContainerList, sum_stage
from trellis.core.sizing.size_drafts import ContainerDraft, ResourceDraft

_NO_RANGE = ResourceRange()


def is_newly_refused(draft: ResourceDraft, limits: NamespaceLimits) -> bool:
    """Whether the API server would refuse the pod for something that is not wrong with it as it stands.

    A pod may be older than the LimitRange that it breaks. It cannot be helped there, but it is not made invalid.
    """
    if _is_invalid(draft) and not _is_invalid(draft.without_changes()):
        return True
    return _is_out_of_range(draft, limits) and not _is_out_of_range(draft.without_changes(), limits)


def _is_invalid(draft: ResourceDraft) -> bool:
    for container in draft.containers:
        if container.limit and container.request > container.limit:
            return True
    if draft.pod_request is not None and draft.sum_requests() > draft.pod_request:
        return True
    return draft.pod_limit is not None and any(
        container.limit > draft.pod_limit
        for container in draft.containers
        if container.shape.place is ContainerList.CONTAINERS
    )


def _is_out_of_range(draft: ResourceDraft, limits: NamespaceLimits) -> bool:
    for container in draft.containers:
        if _is_outside(draft.resource, container.request, container.limit, limits.container):
            return True
    return limits.pod != _NO_RANGE and _is_pod_outside(draft, limits.pod)


def _is_pod_outside(draft: ResourceDraft, bounds: ResourceRange) -> bool:
    request = draft.sum_requests() if draft.pod_request is None else draft.pod_request
    limit = draft.sum_limits() if draft.pod_limit is None else draft.pod_limit
    return _is_outside(draft.resource, request, limit, bounds)


def _is_outside(resource: str, request: int, limit: int, bounds: ResourceRange) -> bool:
    """A minimum demands a request, a maximum a limit, and a ratio demands both."""
    minimum, maximum = bounds.least.get(resource, 0), bounds.most.get(resource, 0)
    if minimum and (request < minimum or 0 < limit < minimum):
        return True
    if maximum and (not 0 < limit <= maximum or request > maximum):
        return True
    ratio = bounds.ratio.get(resource)
    return ratio is not None and (not request or not limit or limit > request * ratio)


FITTED_TO_POD_REQUEST = Reason(
    "FittedToPodRequest", "The recommendation was scaled so that all containers fit the pod-level request."
)
CAPPED_TO_POD_LIMIT = Reason("CappedToPodLimit", "A limit was lowered to the pod-level limit.")
FITTED_TO_RATIO = Reason(
    "FittedToLimitRequestRatio", "The recommendation was changed to fit the maxLimitRequestRatio of a LimitRange."
)
SIZE_NOT_ADMISSIBLE = Reason(
    "SizeNotAdmissible",
    "A resource keeps its size, because the API server would refuse the recommendation.",
    Severity.WARNING,
)

_NO_LIMITS = NamespaceLimits()


def make_admissible(draft: ResourceDraft, limits: NamespaceLimits) -> None:
    """Changes sized containers so that the API server admits the pod, unless it would refuse the pod in any case."""
    for container in draft.containers:
        if container.sized:
            _fit_container(container, draft.pod_limit, limits.container)
    if limits == _NO_LIMITS and draft.pod_request is None and draft.pod_limit is None:
        return  # no further rule applies
    if draft.pod_request is not None:
        _lower_requests(draft, draft.pod_request, FITTED_TO_POD_REQUEST)
    pod_maximum = limits.pod.most.get(draft.resource, 0)
    if pod_maximum and draft.pod_limit is None:
        _lower_limits(draft, pod_maximum)
    if pod_maximum and draft.pod_request is None:
        _lower_requests(draft, pod_maximum, FITTED_TO_POD_RANGE)
    if is_newly_refused(draft, limits):
        leave_unsized(draft, SIZE_NOT_ADMISSIBLE)


def leave_unsized(draft: ResourceDraft, reason: Reason) -> None:
    """Leaves the resource as it is in all containers."""
    for container in draft.containers:
        if container.sized:
            container.reset(reason)


def _fit_container(container: ContainerDraft, pod_limit: int | None, bounds: ResourceRange) -> None:
    minimum, maximum = bounds.least.get(container.resource, 0), bounds.most.get(container.resource, 0)
    if container.limit_follows:
        if maximum and container.limit > maximum:
            container.limit = maximum
            container.add_reason(CAPPED_TO_RANGE_MAX)
        if pod_limit is not None and container.limit > pod_limit:
            # The pod's limit holds for the container anyway, so that its request is none the less.
            container.limit = pod_limit
            container.add_reason(CAPPED_TO_POD_LIMIT)
        if container.limit < minimum:
            container.limit = minimum
            container.add_reason(CAPPED_TO_RANGE_MIN)
    if container.request < minimum:
        container.request = minimum
        container.add_reason(CAPPED_TO_RANGE_MIN)
    ratio = bounds.ratio.get(container.resource)
    if ratio is not None and container.limit > container.request * ratio:
        if container.limit_follows:
            container.limit = math.floor(container.request * ratio)
        else:
            container.request = math.ceil(container.limit / ratio)
        container.add_reason(FITTED_TO_RATIO)
    # The last word, because this is not a rule of the namespace but of every pod.
    if container.limit and container.request > container.limit:
        container.request = container.limit
        if not container.limit_follows:
            container.add_reason(CAPPED_TO_LIMIT)


def _lower_requests(draft: ResourceDraft, bound: int, reason: Reason) -> None:
    for stage in draft.stages:
        containers = [draft.containers[position] for position in stage.running]
        excess = sum_stage(stage, [container.request for container in draft.containers], draft.init_requests) - bound
        _lower_in_proportion(
            excess,
            [container for container in containers if container.sized],
            [container.request for container in containers if container.sized],
            reason,
        )


def _lower_limits(draft: ResourceDraft, bound: int) -> None:
    for stage in draft.stages:
        containers = [draft.containers[position] for position in stage.running]
        excess = sum_stage(stage, [container.limit for container in draft.containers], draft.init_limits) - bound
        following = [container for container in containers if container.limit_follows]
        _lower_in_proportion(excess, following, [container.limit for container in following], FITTED_TO_POD_RANGE)


def _lower_in_proportion(
    excess: int, containers: Sequence[ContainerDraft], amounts: Sequence[int], reason: Reason
) -> None:
    """Lowers the amounts in proportion until their sum fits."""
    total = sum(amounts)
    if excess <= 0 or total <= excess:
        return
    factor = Fraction(total - excess, total)
    for container in containers:
        limit = math.floor(container.limit * factor)
        container.lower_request(max(math.floor(container.request * factor), min(container.request, 1)))
        if container.limit_follows:
            container.limit = max(container.request, min(container.limit, limit))
        container.add_reason(reason)
