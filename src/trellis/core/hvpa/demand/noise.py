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

from trellis.core.hvpa.demand.recent_totals import MeanDemand, add_sample, read_extreme
from trellis.core.hvpa.ladder import Ladder, Ladders, find_next_count
from trellis.core.hvpa.view import HpaView, HvpaSettings, HvpaView
from trellis.core.recommend.amounts import ResourceAmounts

# The weight of a mean after a whole window has been measured, but for rounding.
_WHOLE_WINDOW_WEIGHT: Final = 1 - math.exp(-0.999)
# Windows for which a count that rose stays, unless the HPA itself asks for less: near an edge it would come and go.
_WINDOWS_BEFORE_FALL: Final = 6
# Windows in which a VPA's total that is a little too high for the count is taken for one of too few samples.
_WINDOWS_OF_EXCESS: Final = 12
# A minute of five is enough to tell a spike from a level, where the count may still rise later.
SHORT_MEAN_WEIGHT: Final = 1 - math.exp(-0.15)
# Checks in a window while the mean moves towards another count.
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
    grew_at: float = 0.0

    @classmethod
    def from_view(cls, view: HvpaView, resource: str, settings: HvpaSettings) -> CurrentCount:
        """Read the current count from a view."""
        decided, meaning = view.memory.decided, view.meaning
        count = view.replicas if decided is None else decided.shape.count
        return cls(
            meaning.ladders,
            resource,
            count if meaning.ladders.is_configured(count) else None,
            meaning.hvpa.down.overlap_percent,
            meaning.hvpa.down.stabilization.total_seconds(),
            settings.low_ratio,
            settings.high_ratio,
            (decided.grew_at if decided is not None else None) or 0.0,
        )

    @property
    def ladder(self) -> Ladder:
        """The ladder of the resource."""
        return self.ladders.by_resource[self.resource]

    def find_count(self, total: int) -> int:
        """The count that a total of this resource leads to."""
        if self.count is None:
            return self.ladder.find_count(total)
        return find_next_count(self.ladders, {self.resource: total}, self.count, self.overlap)


class FilteredDemand(msgspec.Struct, frozen=True):
    """The total of a written count: `explained` by the metrics, and `total` as far as the count follows it now."""

    explained: int
    total: int


class ToleratedExcess(msgspec.Struct, frozen=True):
    """The VPA's totals without tolerated excess, since when it is tolerated, and when that ends."""

    totals: ResourceAmounts
    since: Mapping[str, float]
    requeue_times: tuple[float, ...]


def update_mean(before: MeanDemand | None, amount: int | None, now: float, length: float) -> MeanDemand | None:
    """The mean after this amount is measured. If it is None nothing can be measured, and that time does not count.

    An amount holds until the next one is measured. Its weight fades over the length of the window.
    """
    if before is None or length <= 0:
        window = add_sample((), amount, now, length) if amount is not None else ()
        return MeanDemand(0.0, 0.0, now, window, window) if window else None
    decay = math.exp(-(now - before.time) / length) if before.is_current else 1.0
    held = before.low[-1].amount  # the highest may have wishes among them
    total, weight = before.total * decay + held * (1 - decay), before.weight * decay + 1 - decay
    if amount is None:
        return MeanDemand(total, weight, now, before.high, before.low, is_current=False)
    high, low = add_sample(before.high, amount, now, length), add_sample(before.low, amount, now, length, lowest=True)
    return MeanDemand(total, weight, now, high, low)


def compute_mean(
    mean_state: MeanDemand | None, length: float, *, min_weight: float = _WHOLE_WINDOW_WEIGHT
) -> int | None:
    """The mean demand; None before a whole window was measured. Without a window it is the present amount.

    A lower `min_weight` accepts a mean of a shorter time.

    A level that is gone fades for longer than the window is: the mean is none that the window has not reached.
    """
    if mean_state is None or (length > 0 and mean_state.weight < min_weight):
        return None
    mean = math.ceil(mean_state.total / mean_state.weight) if mean_state.weight else 0
    return max(min(max(mean, read_extreme(mean_state.low)), read_extreme(mean_state.high)), 1)


def filter_hpa_count(
    current: CurrentCount, view: HvpaView, request: int, written_replicas: int, *, mean: int | None
) -> FilteredDemand:
    """The total of a written count, without rounding and noise."""
    total, ladder = max(request * written_replicas, 1), current.ladder
    fraction = _compute_unrounded_total(view, request, written_replicas)
    if fraction is None or current.count is None or ladder.find_count(total) <= current.count:
        return FilteredDemand(total, total)
    explained = fraction if ladder.find_count(fraction) < ladder.find_count(total) else total
    capacity = ladder.capacity_at(current.count)
    is_tolerated = capacity < fraction <= current.above * capacity
    return FilteredDemand(explained, capacity if is_tolerated and mean is not None and mean <= capacity else explained)


def find_steady_total(current: CurrentCount, hpa: HpaView, in_force: int, mean_state: MeanDemand | None) -> int | None:
    """The mean, if the total in force asks for another count than it does; None if the total in force stands."""
    mean = compute_mean(mean_state, current.length)
    if mean_state is None or mean is None or current.count is None:
        return None
    lowest, highest = read_extreme(mean_state.low), read_extreme(mean_state.high)
    count_by_mean, count_in_force = current.find_count(mean), current.find_count(in_force)
    rises = count_by_mean > current.count >= count_in_force and current.count < hpa.max_replicas
    noise = highest <= current.above * mean and lowest >= current.below * mean
    stayed = mean_state.time >= current.grew_at + _WINDOWS_BEFORE_FALL * current.length
    falls = count_by_mean < current.count <= count_in_force and noise and stayed
    return mean if rises or falls else None


def find_next_mean_check(
    current: CurrentCount, in_force: int, mean_state: MeanDemand | None, now: float
) -> float | None:
    """When to look whether the mean has become another count, while nothing else changes."""
    if mean_state is None or current.count is None or current.length <= 0:
        return None
    is_moving = current.find_count(mean_state.low[-1].amount) != current.find_count(in_force)
    return now + current.length / _CHECKS_PER_WINDOW if is_moving else None


def tolerate_excess(
    view: HvpaView, vpa_totals: ResourceAmounts, means: Mapping[str, MeanDemand], now: float, settings: HvpaSettings
) -> ToleratedExcess:
    """The VPA's totals as far as the count is to follow them now, by the mean demand that the HPA's metrics show."""
    totals, since, requeue_times = dict(vpa_totals), {}, []
    for name in sorted(vpa_totals.keys() & means.keys()):
        current = CurrentCount.from_view(view, name, settings)
        mean = compute_mean(means[name], current.length, min_weight=SHORT_MEAN_WEIGHT)
        if current.count is None or mean is None:
            continue
        capacity = current.ladder.capacity_at(current.count)
        if not mean <= capacity < vpa_totals[name] <= current.above * capacity:
            continue
        since[name] = view.memory.excess_since.get(name, now)
        ends = since[name] + _WINDOWS_OF_EXCESS * current.length
        if now < ends:
            totals[name] = capacity
            requeue_times.append(ends)
    return ToleratedExcess(totals, since, tuple(requeue_times))


def compute_demand_by_metrics(hpa: HpaView, requests: ResourceAmounts, pods: int) -> ResourceAmounts:
    """What each resource needs for its own metrics to be at their targets, whatever pods request."""
    return {name: math.ceil(requests[name] * pods * ratio) for name, ratio in hpa.ratios.items() if requests.get(name)}


def _compute_unrounded_total(view: HvpaView, request: int, count: int) -> int | None:
    """The total before it was rounded up to whole pods; None if the metrics do not explain the wish.

    They may be older than it, or know nothing of requests.
    """
    ratio = view.hpa.ratio if view.hpa is not None and view.hpa.ratios else None
    if ratio is None or view.pods * ratio <= count - 1:
        return None
    return max(min(math.ceil(request * view.pods * ratio), request * count), 1)
