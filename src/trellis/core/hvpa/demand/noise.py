"""Demand as an HPA measures it, averaged, so that noise alone does not move the count.

An HPA rounds up to whole pods and stays silent within its tolerance. So one noisy sample asks for a pod more than the
demand needs, and the HPA never asks for it to go again: 24 cores on 3 x 8 with a sample of 11 % more are 4 pods, 32
cores, and at 4 x 6.45 the HPA is content for ever. Four rules bring the count back to that of the mean demand:

- A count that the HPA writes only because it rounds up is taken as the fraction that its metrics say.
- A count whose total exceeds what the present count holds by no more than the HPA's tolerance gets all that the present
  count holds; the count rises once the mean exceeds it too.
- While the HPA is silent, the total in force becomes the mean if that is another count, downwards only if the
  whole scale-down window was within the tolerance of it: a dip is not noise.
- A VPA's total that exceeds what the count holds by no more than the tolerance gets all that the count holds for some
  windows, as long as the mean is within it: percentiles of few samples are too high, and the overlap would keep the
  count that they ask for.

A total that a count holds within the tolerance is one at which the HPA itself would be silent, so nothing starves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

import msgspec

from trellis.core.hvpa.demand.windows import MeanDemand, add_sample, window_extreme
from trellis.core.hvpa.ladder import Ladder, Ladders, next_count
from trellis.core.hvpa.view import HpaView, HvpaSettings, HvpaView
from trellis.core.recommend.amounts import ResourceAmounts

# The weight of a mean after a whole window has been measured, but for rounding.
_WHOLE_WINDOW_WEIGHT: Final = 1 - math.exp(-0.999)
# A count that rose stays for so many windows, unless the HPA itself asks for less: near an edge it would come and go.
_WINDOWS_BEFORE_FALL: Final = 6
# For so many windows a VPA's total that is a little too high for the count is taken for one of too few samples.
_WINDOWS_OF_EXCESS: Final = 12
# A minute of five is enough to tell a spike from a level, where the count may still rise later.
SHORT_MEAN_WEIGHT: Final = 1 - math.exp(-0.15)
# While the mean moves towards another count it is looked at so many times in a window.
_CHECKS_PER_WINDOW: Final = 10


class CurrentCount(msgspec.Struct, frozen=True):
    """The count to stay at, as one resource has it: the one decided, None if no bucket has that.

    `length` is that of the scale-down window. Between `below` and `above` its target an HPA is silent. `grew` is when
    the count last rose.
    """

    ladders: Ladders
    resource: str
    count: int | None
    overlap: int
    length: float
    below: Fraction
    above: Fraction
    grew: float = 0.0

    @classmethod
    def of(cls, view: HvpaView, resource: str, settings: HvpaSettings) -> CurrentCount:
        """Read the current count from a view."""
        decided, meaning = view.memory.decided, view.meaning
        count = view.replicas if decided is None else decided.shape.count
        return cls(
            meaning.ladders,
            resource,
            count if meaning.ladders.configured(count) else None,
            meaning.hvpa.down.overlap_percent,
            meaning.hvpa.down.stabilization.total_seconds(),
            settings.low_ratio,
            settings.high_ratio,
            (decided.grew if decided is not None else None) or 0.0,
        )

    @property
    def ladder(self) -> Ladder:
        """The ladder of the resource."""
        return self.ladders.by_resource[self.resource]

    def count_for(self, total: int) -> int:
        """The count that a total of this resource leads to."""
        if self.count is None:
            return self.ladder.count_for(total)
        return next_count(self.ladders, {self.resource: total}, self.count, self.overlap)


class FilteredDemand(msgspec.Struct, frozen=True):
    """The total of a wish: `asked` as the metrics explain it, `total` as far as the count is to follow it now."""

    asked: int
    total: int


class ToleratedExcess(msgspec.Struct, frozen=True):
    """The VPA's totals without what is tolerated, since when that is, and when it ends."""

    totals: ResourceAmounts
    since: Mapping[str, float]
    looks: tuple[float, ...]


def update_mean(before: MeanDemand | None, amount: int | None, now: float, length: float) -> MeanDemand | None:
    """The mean after this amount is measured. If it is None nothing can be measured, and that time does not count.

    An amount holds until the next one is measured. Its weight fades over the length of the window.
    """
    if before is None or length <= 0:
        window = add_sample((), amount, now, length) if amount is not None else ()
        return MeanDemand(0.0, 0.0, now, window, window) if window else None
    fades = math.exp(-(now - before.time) / length) if before.present else 1.0
    held = before.low[-1].amount  # the highest may have wishes among them
    total, weight = before.total * fades + held * (1 - fades), before.weight * fades + 1 - fades
    if amount is None:
        return MeanDemand(total, weight, now, before.high, before.low, present=False)
    high, low = add_sample(before.high, amount, now, length), add_sample(before.low, amount, now, length, lowest=True)
    return MeanDemand(total, weight, now, high, low)


def mean_demand(mean_state: MeanDemand | None, length: float, *, least: float = _WHOLE_WINDOW_WEIGHT) -> int | None:
    """The mean demand; None before a whole window was measured. Without a window it is the present amount.

    With another `least` a mean of so much weight is enough.

    A level that is gone fades for longer than the window is: the mean is none that the window has not reached.
    """
    if mean_state is None or (length > 0 and mean_state.weight < least):
        return None
    mean = math.ceil(mean_state.total / mean_state.weight) if mean_state.weight else 0
    return max(min(max(mean, window_extreme(mean_state.low)), window_extreme(mean_state.high)), 1)


def filter_hpa_count(
    current: CurrentCount, view: HvpaView, request: int, wish: int, *, mean: int | None
) -> FilteredDemand:
    """What a wish asks for in total, without what is only rounding or noise."""
    total, ladder = max(request * wish, 1), current.ladder
    fraction = _fraction(view, request, wish)
    if fraction is None or current.count is None or ladder.count_for(total) <= current.count:
        return FilteredDemand(total, total)
    explained = fraction if ladder.count_for(fraction) < ladder.count_for(total) else total
    holds = ladder.holds(current.count)
    tolerated = holds < fraction <= current.above * holds
    return FilteredDemand(explained, holds if tolerated and mean is not None and mean <= holds else explained)


def steady_total(current: CurrentCount, hpa: HpaView, in_force: int, mean_state: MeanDemand | None) -> int | None:
    """The mean, if the total in force asks for another count than it does; None if the total in force stands."""
    mean = mean_demand(mean_state, current.length)
    if mean_state is None or mean is None or current.count is None:
        return None
    least, most = window_extreme(mean_state.low), window_extreme(mean_state.high)
    by_mean, by_force = current.count_for(mean), current.count_for(in_force)
    rises = by_mean > current.count >= by_force and current.count < hpa.max_replicas
    noise = most <= current.above * mean and least >= current.below * mean
    stayed = mean_state.time >= current.grew + _WINDOWS_BEFORE_FALL * current.length
    falls = by_mean < current.count <= by_force and noise and stayed
    return mean if rises or falls else None


def next_mean_check(current: CurrentCount, in_force: int, mean_state: MeanDemand | None, now: float) -> float | None:
    """When to look whether the mean has become another count, while nothing else changes."""
    if mean_state is None or current.count is None or current.length <= 0:
        return None
    moves = current.count_for(mean_state.low[-1].amount) != current.count_for(in_force)
    return now + current.length / _CHECKS_PER_WINDOW if moves else None


def tolerate_excess(
    view: HvpaView, by_vpa: ResourceAmounts, means: Mapping[str, MeanDemand], now: float, settings: HvpaSettings
) -> ToleratedExcess:
    """The VPA's totals as far as the count is to follow them now, by the mean demand that the HPA's metrics show."""
    totals, since, looks = dict(by_vpa), {}, []
    for name in sorted(by_vpa.keys() & means.keys()):
        current = CurrentCount.of(view, name, settings)
        mean = mean_demand(means[name], current.length, least=SHORT_MEAN_WEIGHT)
        if current.count is None or mean is None:
            continue
        holds = current.ladder.holds(current.count)
        if not mean <= holds < by_vpa[name] <= current.above * holds:
            continue
        since[name] = view.memory.excess.get(name, now)
        ends = since[name] + _WINDOWS_OF_EXCESS * current.length
        if now < ends:
            totals[name] = holds
            looks.append(ends)
    return ToleratedExcess(totals, since, tuple(looks))


def demand_by_metrics(hpa: HpaView, requests: ResourceAmounts, pods: int) -> ResourceAmounts:
    """What each resource needs for its own metrics to be at their targets, whatever pods request."""
    return {name: math.ceil(requests[name] * pods * ratio) for name, ratio in hpa.own.items() if requests.get(name)}


def _fraction(view: HvpaView, request: int, count: int) -> int | None:
    """The total before it was rounded up to whole pods; None if the metrics do not explain the wish.

    They may be older than it, or know nothing of requests.
    """
    ratio = view.hpa.ratio if view.hpa is not None and view.hpa.own else None
    if ratio is None or view.pods * ratio <= count - 1:
        return None
    return max(min(math.ceil(request * view.pods * ratio), request * count), 1)
