"""Would the API server take a pod with these amounts of one resource?

The rules of Kubernetes 1.36 for what is created and what is resized: a request is at most its limit; the requests of
all containers are at most the pod's own request, and no limit of an ordinary container is above the pod's own (a
sidecar's may be); LimitRanges hold for every container and for the pod as a whole, whose own resources count there
instead of its containers'.
"""

from __future__ import annotations

from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.recommend.capping.limit_ranges import Range
from trellis.core.sizing.drafts import Draft
from trellis.core.sizing.shapes import Place

_NO_RANGE = Range()


def newly_refused(draft: Draft, limits: NamespaceLimits) -> bool:
    """Whether the API server would refuse the pod for something that is not wrong with it as it stands.

    A pod may be older than the LimitRange that it breaks. It cannot be helped there, but it is not made invalid.
    """
    if _invalid(draft) and not _invalid(draft.as_it_stands()):
        return True
    return _out_of_range(draft, limits) and not _out_of_range(draft.as_it_stands(), limits)


def _invalid(draft: Draft) -> bool:
    for part in draft.parts:
        if part.limit and part.request > part.limit:
            return True
    if draft.own_request is not None and draft.requested() > draft.own_request:
        return True
    return draft.own_limit is not None and any(
        part.limit > draft.own_limit for part in draft.parts if part.container.place is Place.CONTAINERS
    )


def _out_of_range(draft: Draft, limits: NamespaceLimits) -> bool:
    for part in draft.parts:
        if _outside(draft.resource, part.request, part.limit, limits.container):
            return True
    return limits.pod != _NO_RANGE and _pod_outside(draft, limits.pod)


def _pod_outside(draft: Draft, bounds: Range) -> bool:
    request = draft.requested() if draft.own_request is None else draft.own_request
    limit = draft.limited() if draft.own_limit is None else draft.own_limit
    return _outside(draft.resource, request, limit, bounds)


def _outside(resource: str, request: int, limit: int, bounds: Range) -> bool:
    """A minimum demands a request, a maximum a limit, and a ratio demands both."""
    least, most = bounds.least.get(resource, 0), bounds.most.get(resource, 0)
    if least and (request < least or 0 < limit < least):
        return True
    if most and (not 0 < limit <= most or request > most):
        return True
    ratio = bounds.ratio.get(resource)
    return ratio is not None and (not request or not limit or limit > request * ratio)
