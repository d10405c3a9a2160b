"""What does a policy allow? For the columns of a status: `minAllowed`, then `maxAllowed`, of all containers at once.

The cluster's maximum holds for a resource that the container's policy leaves open, and for no other: a policy may well
allow more. Zero is no bound, as upstream has it, and a `maxAllowed` of zero lifts the cluster's maximum. Where the
minimum is above the maximum, which validation refuses, the maximum wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

import msgspec
import numpy as np

from trellis.api.resolve import ContainerMeaning
from trellis.base.quantity import Quantity
from trellis.core.recommend.amounts import CPU, LARGEST_READ, MEMORY, MILLICORES, RESOURCES
from trellis.core.recommend.quantity_column import cpu_texts, memory_texts
from trellis.core.usage.columns import FloatColumn

_WRITTEN_AS = {"cpu": cpu_texts, "memory": memory_texts}


class Caps(msgspec.Struct, frozen=True):
    """One container's policy in numbers, CPU first. A maximum of NaN is left open, an infinite one is none.

    `spelled` has the texts of those bounds that would be printed otherwise if only their number were known, such as
    `1G` of memory.
    """

    least: tuple[float, float] = (0.0, 0.0)
    most: tuple[float, float] = (math.nan, math.nan)
    spelled: Mapping[tuple[str, float], str] = {}


def compile_caps(meaning: ContainerMeaning) -> Caps:
    """The numbers of a policy. What is finer than a millicore or a byte is rounded into the allowed range."""
    if not meaning.min_allowed and not meaning.max_allowed:
        return Caps()
    least = [_bound(meaning.min_allowed, resource, 0.0, math.ceil) for resource in RESOURCES]
    most = [_bound(meaning.max_allowed, resource, math.nan, math.floor) for resource in RESOURCES]
    most = [math.inf if bound <= 0 else bound for bound in most]
    spelled = dict(_spelled(meaning.min_allowed, least)) | dict(_spelled(meaning.max_allowed, most))
    return Caps((least[CPU], least[MEMORY]), (most[CPU], most[MEMORY]), spelled)


def cap(amounts: FloatColumn, least: FloatColumn, most: FloatColumn, cluster_most: tuple[float, float]) -> FloatColumn:
    """Amounts (..., resource, container) within their policies; NaN stays NaN."""
    cluster = np.array([[bound if bound > 0 else math.inf] for bound in cluster_most])
    return np.minimum(np.maximum(amounts, least), np.where(np.isnan(most), cluster, most))


def _bound(amounts: Mapping[str, Quantity], resource: str, absent: float, to_whole: Callable[[Fraction], int]) -> float:
    amount = amounts.get(resource)
    return absent if amount is None else min(float(max(to_whole(_counted(amount, resource)), 0)), LARGEST_READ)


def _spelled(amounts: Mapping[str, Quantity], bounds: list[float]) -> Iterator[tuple[tuple[str, float], str]]:
    for resource, bound in zip(RESOURCES, bounds, strict=True):
        amount = amounts.get(resource)
        if amount is None or not math.isfinite(bound) or _counted(amount, resource) != bound:
            continue
        text = str(amount)
        if text != _WRITTEN_AS[resource](np.array([bound]))[0]:
            yield (resource, bound), text


def _counted(amount: Quantity, resource: str) -> Fraction:
    return amount.exact() * (int(MILLICORES) if resource == "cpu" else 1)
