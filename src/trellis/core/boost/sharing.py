"""How is what a whole pod may have shared among the boosts of its containers?

All boosts are cut by one ratio, and none further than to nothing: what the pod needs without them is not theirs to
lower. Native sidecars run beside init containers before they run beside the others, so that each such stage is a sum of
its own. Boosts are given by the position of their container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trellis.base.reason import Reason
from trellis.core.boost.wishes import Wish
from trellis.core.sizing.shapes import PodShape
from trellis.core.sizing.totals import most_needed, needed

_CPU = "cpu"


def share(
    wishes: Mapping[int, Wish],
    shape: PodShape,
    amounts: Sequence[int],
    most: int,
    reason: Reason,
    *,
    of_limit: bool = False,
) -> None:
    """Cut the boosts so that requests, or limits, are within a maximum; `amounts` are those without boosts."""
    inits = [(each.limits if of_limit else each.requests).get(_CPU, 0) for each in shape.plain_inits]
    for stage in shape.stages:
        running = [wishes[position] for position in stage.running if position in wishes]
        _share_room(running, max(most - needed(stage, amounts, inits), 0), reason, of_limit)


def outgrows(wishes: Mapping[int, Wish], shape: PodShape, requests: Sequence[int], most: int) -> bool:
    """Whether a pod requests more than a maximum with its boosts, and does not without them."""
    inits = [each.requests.get(_CPU, 0) for each in shape.plain_inits]
    boosted = [
        request + wishes[position].rise() if position in wishes else request
        for position, request in enumerate(requests)
    ]
    return most_needed(shape.stages, requests, inits) <= most < most_needed(shape.stages, boosted, inits)


def _share_room(wishes: Sequence[Wish], room: int, reason: Reason, of_limit: bool) -> None:
    rises = [wish.rise(of_limit=of_limit) for wish in wishes]
    wanted = sum(rises)
    if wanted <= room:
        return
    for wish, rise in zip(wishes, rises, strict=True):
        if rise:
            wish.cut(wish.base + (wish.request - wish.base) * room // wanted, reason)
