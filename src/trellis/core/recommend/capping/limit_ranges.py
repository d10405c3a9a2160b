"""The LimitRanges of a namespace, combined: the strictest of all of them, per resource.

Of several, the lowest maximum and ratio and the highest minimum count, and the last default. Amounts are millicores and
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

import msgspec

from trellis.api.kube.policies import LimitRange, LimitRangeItem
from trellis.api.resolve.stored_values import read_stored_amount
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts, parse_amounts

_NONE: ResourceAmounts = {}
_NO_RATIOS: Mapping[str, Fraction] = {}


class ResourceRange(msgspec.Struct, frozen=True):
    """The bounds for one container, or for one pod: what is absent, or 0, binds nothing.

    `ratio` is how many times its request a limit may be.
    """

    least: ResourceAmounts = _NONE
    most: ResourceAmounts = _NONE
    default_limit: ResourceAmounts = _NONE
    ratio: Mapping[str, Fraction] = _NO_RATIOS


class NamespaceLimits(msgspec.Struct, frozen=True):
    """The combined LimitRanges of a namespace."""

    container: ResourceRange = ResourceRange()
    pod: ResourceRange = ResourceRange()


def read_limit_ranges(ranges: Iterable[LimitRange]) -> NamespaceLimits:
    """The bounds of a namespace for containers and pods; items of other types, such as claims, are ignored."""
    items = [item for limit_range in ranges for item in limit_range.spec.limits]
    by_type: dict[str, ResourceRange] = {}
    for type_ in ("Container", "Pod"):
        type_items = [item for item in items if item.type == type_]
        defaults = [parse_amounts(item.default) for item in type_items if item.default]
        by_type[type_] = ResourceRange(
            least=_combine((parse_amounts(item.min) for item in type_items), max),
            most=_combine((parse_amounts(item.max) for item in type_items), min),
            default_limit=defaults[-1] if defaults else _NONE,
            ratio=_find_lowest_ratios(type_items),
        )
    return NamespaceLimits(by_type["Container"], by_type["Pod"])


def _find_lowest_ratios(items: Iterable[LimitRangeItem]) -> dict[str, Fraction]:
    chosen: dict[str, Fraction] = {}
    for item in items:
        for resource in RESOURCES:
            ratio = read_stored_amount(item.max_limit_request_ratio.get(resource))
            if ratio is not None and ratio.nanos > 0:
                chosen[resource] = min(chosen.get(resource, ratio.exact()), ratio.exact())
    return chosen


def _combine(all_amounts: Iterable[ResourceAmounts], choose: Callable[[int, int], int]) -> dict[str, int]:
    chosen: dict[str, int] = {}
    for amounts in all_amounts:
        for resource, count in amounts.items():
            chosen[resource] = choose(chosen.get(resource, count), count)
    return chosen
