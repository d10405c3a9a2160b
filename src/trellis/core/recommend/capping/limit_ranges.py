"""What do the LimitRanges of a namespace demand? The strictest of all of them, per resource.

Of several, the lowest maximum and ratio and the highest minimum count, and the last default. Counts are millicores and
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from trellis.api.kube.policies import LimitRange, LimitRangeItem
from trellis.api.resolve.stored import stored_amount
from trellis.core.recommend.amounts import RESOURCES

Counts: TypeAlias = Mapping[str, int]

# So many digits are no more than any amount may be.
_PLAIN: Final = 12

_NONE: Counts = {}
_NO_RATIOS: Mapping[str, Fraction] = {}


class Range(msgspec.Struct, frozen=True):
    """The bounds for one container, or for one pod: what is absent, or 0, binds nothing.

    `ratio` is how many times its request a limit may be.
    """

    least: Counts = _NONE
    most: Counts = _NONE
    default_limit: Counts = _NONE
    ratio: Mapping[str, Fraction] = _NO_RATIOS


class NamespaceLimits(msgspec.Struct, frozen=True):
    """All that LimitRanges say about a namespace's pods."""

    container: Range = Range()
    pod: Range = Range()


def read_limit_ranges(ranges: Iterable[LimitRange]) -> NamespaceLimits:
    """The bounds of a namespace; other types of items, such as claims, are nobody's business here."""
    items = [item for each in ranges for item in each.spec.limits]
    found: dict[str, Range] = {}
    for type_ in ("Container", "Pod"):
        ours = [item for item in items if item.type == type_]
        defaults = [counts(item.default) for item in ours if item.default]
        found[type_] = Range(
            least=_chosen((counts(item.min) for item in ours), max),
            most=_chosen((counts(item.max) for item in ours), min),
            default_limit=defaults[-1] if defaults else _NONE,
            ratio=_ratios(ours),
        )
    return NamespaceLimits(found["Container"], found["Pod"])


def counts(written: Mapping[str, str | int] | Mapping[str, str]) -> dict[str, int]:
    """Quantities as counts; those that cannot be read, and all but CPU and memory, are left out."""
    found = {}
    for resource in RESOURCES:
        count = _count(resource, written.get(resource))
        if count is not None:
            found[resource] = count
    return found


# The amounts are few, as their texts are, and a new pod waits until all of its own are read.
@lru_cache(maxsize=4096, typed=True)
def _count(resource: str, written: str | int | None) -> int | None:
    if written is None:
        return None
    text = written if isinstance(written, str) else str(written)
    # As recommendations are written, of which there are many: `25m`, and plain bytes.
    is_milli = resource == "cpu" and text.endswith("m")
    digits = text[:-1] if is_milli else text
    if len(digits) <= _PLAIN and digits.isascii() and digits.isdigit():
        return int(digits) * (1000 if resource == "cpu" and not is_milli else 1)
    amount = stored_amount(text)
    if amount is None:
        return None
    return amount.milli if resource == "cpu" else amount.units


@lru_cache(maxsize=4096, typed=True)
def is_rounded(resource: str, text: str | None) -> bool:
    """Whether the count of a quantity is more than what is written: `1500m` of memory is a byte and a half."""
    amount, count = stored_amount(text), _count(resource, text)
    return (
        amount is not None and count is not None and amount.exact() < Fraction(count, 1000 if resource == "cpu" else 1)
    )


def _ratios(items: Iterable[LimitRangeItem]) -> dict[str, Fraction]:
    chosen: dict[str, Fraction] = {}
    for item in items:
        for resource in RESOURCES:
            ratio = stored_amount(item.max_limit_request_ratio.get(resource))
            if ratio is not None and ratio.nanos > 0:
                chosen[resource] = min(chosen.get(resource, ratio.exact()), ratio.exact())
    return chosen


def _chosen(each: Iterable[Counts], choose: Callable[[int, int], int]) -> dict[str, int]:
    chosen: dict[str, int] = {}
    for found in each:
        for resource, count in found.items():
            chosen[resource] = choose(chosen.get(resource, count), count)
    return chosen
