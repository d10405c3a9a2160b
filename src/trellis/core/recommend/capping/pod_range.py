"""Scales the containers of a pod in proportion until the whole pod fits a LimitRange for pods.

The sum of requests and the sum of limits must reach the minimum, and the sum of limits must not pass the maximum. A
container without a recommendation is scaled with the others, as if its own request were recommended: otherwise the API
server would refuse the pod for it. Upstream does the same. A container under `mode: Off` and a resource that is not
controlled keep what they have, and the others fit around them; upstream scales those too, or panics over them. A
maximum that they alone exceed cannot be met, and nothing is changed for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import msgspec

from trellis.core.recommend.capping.container import PodContainer
from trellis.core.recommend.capping.limit_ranges import Range
from trellis.core.recommend.capping.proportions import limit_in_proportion, scaled


class _Share(msgspec.Struct, frozen=True):
    """What a container adds to its pod: a request, and a limit if it has one; `moves` says what is scaled."""

    name: str
    request: int
    limit: Fraction
    moves: bool
    limit_moves: bool


def fit_pod(
    recommended: Mapping[str, int],
    resource: str,
    containers: Sequence[PodContainer],
    limits_follow: Mapping[str, bool],
    limits: Range,
) -> dict[str, int]:
    """The recommended amounts of one resource, by container, scaled in proportion where the range asks for it."""
    least, most = limits.least.get(resource, 0), limits.most.get(resource, 0)
    if not recommended or not (least or most):
        return dict(recommended)
    shares = [_share(each, resource, recommended, limits_follow, limits) for each in containers]
    requests, all_limits = sum(share.request for share in shares), sum((share.limit for share in shares), Fraction(0))
    if requests < least:
        return dict(recommended) | _scaled_requests(shares, least)
    if 0 < all_limits < least:
        return dict(recommended) | _scaled_limits(shares, least, up=True)
    if most and all_limits > most:
        return dict(recommended) | _scaled_limits(shares, most, up=False)
    return dict(recommended)


def _share(
    container: PodContainer,
    resource: str,
    recommended: Mapping[str, int],
    limits_follow: Mapping[str, bool],
    limits: Range,
) -> _Share:
    request, limit = container.requests.get(resource, 0), container.limits.get(resource, 0)
    default = limits.default_limit.get(resource, 0)
    moves = container.name in recommended
    wanted = recommended.get(container.name, request)
    if moves and limits_follow.get(container.name, True):
        follows = limit_in_proportion(wanted, request, limit, default)
        return _Share(container.name, wanted, follows or Fraction(0), moves, limit_moves=follows is not None)
    return _Share(container.name, wanted, Fraction(limit or default), moves, limit_moves=False)


def _scaled_requests(shares: Sequence[_Share], goal: int) -> dict[str, int]:
    moving = [share for share in shares if share.moves]
    movable = sum(share.request for share in moving)
    fixed = sum(share.request for share in shares if not share.moves)
    if not movable:
        return {}
    factor = Fraction(goal - fixed, movable)
    return {share.name: scaled(share.request, factor, up=True) for share in moving}


def _scaled_limits(shares: Sequence[_Share], goal: int, *, up: bool) -> dict[str, int]:
    """A limit moves with its request, and a container without a limit shares the cut, as upstream has it."""
    movable = sum((share.limit for share in shares if share.limit_moves), Fraction(0))
    left = goal - sum((share.limit for share in shares if not share.limit_moves), Fraction(0))
    if not movable or left <= 0:
        return {}
    scaling = [share for share in shares if share.limit_moves or (share.moves and not share.limit)]
    return {share.name: scaled(share.request, left / movable, up=up) for share in scaling}
