"""What do stored statuses recommend? Read for many at once, because a start reads all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trellis.api.vpa import ContainerRecommendation, VerticalPodAutoscalerStatus
from trellis.core.recommend.amounts import CPU, LARGEST_READ, MEMORY, PUBLISHED_AS, RESOURCES
from trellis.core.recommend.quantity_column import read_cpu, read_memory
from trellis.core.usage.columns import FloatColumn


def recommendations_in(status: VerticalPodAutoscalerStatus | None) -> Sequence[ContainerRecommendation]:
    """The entries of a status, if it has any."""
    if status is None or status.recommendation is None:
        return ()
    return status.recommendation.container_recommendations or ()


def read_amounts(recommendations: Sequence[ContainerRecommendation]) -> FloatColumn:
    """Every amount, (what, resource, entry); NaN where there is none, or nothing that can be read."""
    amounts = np.full((len(PUBLISHED_AS), len(RESOURCES), len(recommendations)), np.nan)
    parts = [
        (each.target, each.lower_bound, each.upper_bound, each.uncapped_target, each.total_target)
        for each in recommendations
    ]
    for what, column in enumerate(zip(*parts, strict=True)):
        if any(column):
            amounts[what, CPU] = read_cpu([_text(each, "cpu") for each in column])
            amounts[what, MEMORY] = read_memory([_text(each, "memory") for each in column])
    np.minimum(amounts, LARGEST_READ, out=amounts)
    return amounts


def _text(amounts: Mapping[str, str | int] | None, resource: str) -> str | None:
    text = amounts.get(resource) if amounts else None
    return text if text is None or isinstance(text, str) else str(text)
