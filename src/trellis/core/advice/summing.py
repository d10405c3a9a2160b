"""What do many workloads come to? Requests as they are and as they should be, what is saved and what is missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from trellis.base.prices import Prices, weights
from trellis.core.advice.advised import ContainerAdvice, Totals, WorkloadAdvice
from trellis.core.advice.judging import Change
from trellis.core.advice.surveyed import Amount

Read = Callable[[Change], float]


def summed(workloads: Sequence[WorkloadAdvice], prices: Prices) -> Totals:
    """The totals of some workloads, each times its pods."""
    counted = [(container, each.pods) for each in workloads for container in each.containers]
    before = _sum(counted, lambda change: change.asked_before)
    after = _sum(counted, lambda change: change.asked)
    saved = _sum(counted, lambda change: max(-change.difference, 0.0))
    short = _sum(counted, lambda change: max(change.difference, 0.0))
    by = weights(prices)
    weight = _monthly(before, by)
    return Totals(
        workloads=len(workloads),
        containers=len(counted),
        pods=sum(each.pods for each in workloads),
        before=before,
        after=after,
        saved=saved,
        short=short,
        money_before=_monthly(before, prices),
        money_after=_monthly(after, prices),
        money_saved=_monthly(saved, prices),
        money_short=_monthly(short, prices),
        saved_share=_monthly(saved, by) / weight if weight else 0.0,
        reasons=dict(sorted(Counter(container.reason.code for container, _ in counted).items())),
    )


def _sum(counted: Sequence[tuple[ContainerAdvice, int]], read: Read) -> Amount:
    return Amount(
        math.fsum(read(container.cpu) * pods for container, pods in counted),
        math.fsum(read(container.memory) * pods for container, pods in counted),
    )


def _monthly(amount: Amount, prices: Prices) -> float:
    return prices.monthly(amount.cpu / 1000.0, amount.memory)
