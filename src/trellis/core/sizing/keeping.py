"""What must give way so that a pod that runs keeps its class? As little as will do.

The class of a pod is fixed when it is made, and a resize that would change it is refused as a whole.

| class | what is kept |
|---|---|
| Guaranteed | every request is equal to its limit: where the limit is not ours to change, neither is changed |
| Burstable | one request at least is below its limit: if none would be left, one is set a unit below it |
| BestEffort | nothing is set |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trellis.base.reason import Reason
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.sizing.drafts import Draft, Part
from trellis.core.sizing.fitting import leave
from trellis.core.sizing.qos import QosClass, qos_of
from trellis.core.sizing.rules import newly_refused
from trellis.core.sizing.shapes import PodShape

KEPT_QOS = Reason(
    "KeptQosClass", "The recommendation was changed, or not applied, so that the pod keeps its QoS class."
)


def keep_class(drafts: Sequence[Draft], shape: PodShape, limits: NamespaceLimits) -> None:
    """Changes what is sized so that the pod keeps its class."""
    if shape.has_own_resources:
        return
    if shape.qos is QosClass.GUARANTEED:
        _keep_equal(drafts)
    elif shape.qos is QosClass.BURSTABLE and _qos(drafts, shape) is QosClass.GUARANTEED:
        _keep_apart(drafts, limits)
    if _qos(drafts, shape) is not shape.qos or any(newly_refused(draft, limits) for draft in drafts):
        for draft in drafts:
            leave(draft, KEPT_QOS)


def _keep_equal(drafts: Sequence[Draft]) -> None:
    for part in _sized(drafts):
        if not part.follows and part.request != part.limit:
            part.leave(KEPT_QOS)
        elif part.request != part.limit:
            part.limit = part.request
            part.note(KEPT_QOS)


def _keep_apart(drafts: Sequence[Draft], limits: NamespaceLimits) -> None:
    """First tried where request and limit were apart before: that is what the author of the pod wrote."""
    choices = sorted(_sized(drafts), key=lambda part: part.spec[0] == part.spec[1])
    for part in choices:
        if part.request < 2 or part.request != part.limit:
            continue
        part.request -= 1
        if not any(newly_refused(draft, limits) for draft in drafts):
            part.note(KEPT_QOS)
            return
        part.request += 1


def _sized(drafts: Sequence[Draft]) -> Iterator[Part]:
    return (part for draft in drafts for part in draft.parts if part.sized)


def _qos(drafts: Sequence[Draft], shape: PodShape) -> QosClass:
    return qos_of([*_sized_amounts(drafts), *((each.requests, each.limits) for each in shape.plain_inits)])


def _sized_amounts(drafts: Sequence[Draft]) -> Iterator[tuple[Counts, Counts]]:
    for parts in zip(*(draft.parts for draft in drafts), strict=True):
        yield (
            dict(zip(RESOURCES, (part.request for part in parts), strict=True)),
            dict(zip(RESOURCES, (part.limit for part in parts), strict=True)),
        )
