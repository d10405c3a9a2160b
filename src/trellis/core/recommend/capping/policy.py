"""Applies policies to the columns of all statuses: `minAllowed`, then `maxAllowed`, of all containers at once.

The cluster's maximum holds for a resource that the container's policy leaves open, and for no other: a policy may well
allow more. Zero is no bound, as upstream has it, and a `maxAllowed` of zero lifts the cluster's maximum. Where the
minimum is above the maximum, which validation refuses, the maximum wins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np

from trellis.api.resolve import EffectiveContainerPolicy
from trellis.base.quantities import Quantity, QuantityFormat
from trellis.base.reasons import Reason
from trellis.core.recommend.amounts import (
    CPU,
    LARGEST_EXACT_AMOUNT,
    MEMORY,
    MILLICORES_PER_CORE,
    RESOURCES,
    format_cpu_column,
    format_memory_column,
)
from trellis.core.usage.columns import FloatColumn

CAPPED_TO_CLUSTER_MAX = Reason(
    "CappedToClusterMaximum",
    "The recommendation was lowered to the recommender's maximum, because the policy sets none.",
)

_WRITTEN_AS = {"cpu": format_cpu_column, "memory": format_memory_column}


class PolicyBounds(msgspec.Struct, frozen=True):
    """A container's policy in numbers, CPU first. A maximum of NaN is unset, an infinite one lifts all maximums.

    `texts` has the texts of those bounds that would be printed otherwise if only their number were known, such as
    `1G` of memory.
    """

    least: tuple[float, float] = (0.0, 0.0)
    most: tuple[float, float] = (math.nan, math.nan)
    texts: Mapping[tuple[str, float], str] = {}


NO_POLICY_BOUNDS: Final = PolicyBounds()


def compile_policy_bounds(policy: EffectiveContainerPolicy) -> PolicyBounds:
    """The numbers of a policy. What is finer than a millicore or a byte is rounded into the allowed range."""
    if not policy.min_allowed and not policy.max_allowed:
        return NO_POLICY_BOUNDS
    least, texts = _read_bounds(policy.min_allowed, absent=0.0, upper=False)
    most, max_texts = _read_bounds(policy.max_allowed, absent=math.nan, upper=True)
    return PolicyBounds((least[CPU], least[MEMORY]), (most[CPU], most[MEMORY]), texts | max_texts)


def raise_to_min_allowed(amounts: FloatColumn, least: FloatColumn) -> None:
    """Raise amounts (..., resource, container) to the minimums of policies; NaN stays NaN."""
    np.maximum(amounts, least, out=amounts)


def lower_to_max_allowed(amounts: FloatColumn, most: FloatColumn) -> None:
    """Lower amounts to the maximums of policies, where they are set."""
    np.minimum(amounts, np.where(np.isnan(most), math.inf, most), out=amounts)


def lower_to_cluster_maximum(amounts: FloatColumn, most: FloatColumn, cluster_most: tuple[float, float]) -> None:
    """Lower amounts to the cluster's maximum, where policies set none; 0 is no maximum."""
    if not any(bound > 0 for bound in cluster_most):
        return
    cluster = np.array([[bound if bound > 0 else math.inf] for bound in cluster_most])
    np.minimum(amounts, np.where(np.isnan(most), cluster, math.inf), out=amounts)


def _read_bounds(
    amounts: Mapping[str, Quantity], *, absent: float, upper: bool
) -> tuple[list[float], dict[tuple[str, float], str]]:
    """One end of a policy as numbers, CPU first, and the spellings that differ from the printed number."""
    numbers: list[float] = []
    texts: dict[tuple[str, float], str] = {}
    for resource in RESOURCES:
        amount = amounts.get(resource)
        if amount is None:
            numbers.append(absent)
            continue
        number, text = read_bound(amount.nanos, amount.format, resource, upper)
        numbers.append(number)
        if text:
            texts[resource, number] = text
    return numbers, texts


# A cluster has few different bounds, and reading one takes as long as ten containers take in a pass.
@lru_cache(maxsize=4096)
def read_bound(nanos: int, form: QuantityFormat, resource: str, upper: bool) -> tuple[float, str]:
    """A bound as a number, and its text where the number alone would be printed otherwise; infinite is none."""
    amount = Quantity(nanos, form)
    exact = amount.exact() * (int(MILLICORES_PER_CORE) if resource == "cpu" else 1)
    number = min(float(max(math.floor(exact) if upper else math.ceil(exact), 0)), LARGEST_EXACT_AMOUNT)
    if upper and number <= 0:
        return math.inf, ""
    text = str(amount)
    needs_text = exact == number and text != _WRITTEN_AS[resource](np.array([number]))[0]
    return number, text if needs_text else ""
