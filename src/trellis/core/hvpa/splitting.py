"""What does each container get of a replica? Parts in proportion to the VPA's targets, which sum to the size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trellis.core.hvpa.views import ContainerView
from trellis.core.recommend.capping.limit_ranges import Counts


def split(amount: int, weights: Sequence[int]) -> list[int]:
    """Whole parts in proportion; left-over units go to the largest remainders, and among equals to the first."""
    total = sum(weights)
    if not total:
        weights, total = [1] * len(weights), len(weights)
    parts = [amount * weight // total for weight in weights]
    left = amount - sum(parts)
    by_remainder = sorted(range(len(parts)), key=lambda at: -(amount * weights[at] % total))
    for at in by_remainder[:left]:
        parts[at] += 1
    return parts


def containers_of(size: Counts, totals: Counts, containers: Sequence[ContainerView]) -> Mapping[str, Counts]:
    """What to publish for each container. A resource without a total stays as it was published.

    Without targets the proportion is that of the requests: nobody has said that it is wrong.
    """
    found: dict[str, dict[str, int]] = {each.name: {} for each in containers if each.scaled}
    scaled = [each for each in containers if each.scaled]
    for resource, amount in size.items():
        if resource not in totals:
            for each in scaled:
                if resource in each.published:
                    found[each.name][resource] = each.published[resource]
            continue
        recommended = any(resource in each.target for each in scaled)
        weights = [(each.target if recommended else each.requests).get(resource, 0) for each in scaled]
        for each, part in zip(scaled, split(amount, weights), strict=True):
            found[each.name][resource] = part
    return found
