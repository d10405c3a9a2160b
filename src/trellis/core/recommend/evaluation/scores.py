"""Scores of a replayed rule: what it requested, time above request, overrun volume, changes and kills.

None of these means anything alone: a rule that requests nothing has no slack, and one that requests everything never
has too little.

`score_margins` scores a rule at many margins in one pass over the usage. A sample is above a target times a factor
where it is above the target by more than that factor. So every sample is put between two factors, once, and sums over
what lies above a factor are that factor's: fifty cost as much as three would one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from trellis.core.recommend.evaluation.replay import DAY, ReplayedUsage, ReplayResult
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

_SAMPLES_AT_ONCE = 1 << 21  # numbers: a few steps of many series or many steps of a few


class SizingScores(msgspec.Struct, frozen=True):
    """Scores by series, (..., series); NaN for a series of which no step was scored.

    `footprint` is the mean target in units of the mean usage. `time_over` is the share of time in which more was used
    than the target, and `overrun` is how much more, as a share of all that was used. `changes` and `kills` are per day.
    """

    footprint: FloatColumn
    time_over: FloatColumn
    overrun: FloatColumn
    changes: FloatColumn
    kills: FloatColumn
    days: FloatColumn


class ScoreSums(msgspec.Struct, frozen=True):
    """The same, still to be divided: sums of some steps, each with the axes (..., series)."""

    time: FloatColumn
    used: FloatColumn
    steps: FloatColumn
    target: FloatColumn
    time_over: FloatColumn
    overrun: FloatColumn
    changes: FloatColumn
    kills: FloatColumn

    def compute_scores(self, step: float) -> SizingScores:
        """The scores; `step` is the length of a step in seconds."""
        days = self.steps * step / DAY
        with np.errstate(invalid="ignore", divide="ignore"):
            return SizingScores(
                self.target / self.used,
                self.time_over / self.time,
                self.overrun / self.used,
                self.changes / days,
                self.kills / days,
                days,
            )


def compute_scores(usage: ReplayedUsage, replayed: ReplayResult, scored: BoolColumn | None = None) -> SizingScores:
    """Hold targets against usage; `scored` (steps, series) leaves out steps, as those of a warm-up."""
    total: dict[str, FloatColumn] = {}
    for part in sum_steps(usage, replayed, scored):
        for name in ScoreSums.__struct_fields__:
            total[name] = total.get(name, np.zeros(1)) + getattr(part, name).sum(axis=0)
    return ScoreSums(**total).compute_scores(usage.step)


def sum_steps(usage: ReplayedUsage, replayed: ReplayResult, scored: BoolColumn | None = None) -> Iterator[ScoreSums]:
    """The sums of each step, in parts of some steps each: with an axis of steps before the others."""
    variants = replayed.targets.shape[1:-1]
    steps_per_part = max(1, _SAMPLES_AT_ONCE // max(1, usage.values[0].size * int(np.prod(variants))))
    for begin in range(0, usage.steps, steps_per_part):
        part = slice(begin, begin + steps_per_part)
        shares = usage.compute_shares(part)
        if scored is not None:
            shares *= scored[part, np.newaxis]
        yield _sum_part(usage.values[part], shares, replayed, part)


def _sum_part(values: FloatColumn, shares: FloatColumn, replayed: ReplayResult, part: slice) -> ScoreSums:
    target = replayed.targets[part]
    expanded_shape = (len(values), values.shape[1], *(1,) * (target.ndim - 2), values.shape[2])
    time = shares.sum(axis=1)
    step_time = time.reshape(len(time), *expanded_shape[2:])
    is_known = step_time > 0
    with np.errstate(invalid="ignore"):
        excess = np.maximum(values.reshape(expanded_shape) - target[:, np.newaxis], 0.0)  # NaN where one of them is
    excess = np.nan_to_num(excess)
    point_shares = shares.reshape(expanded_shape)
    return ScoreSums(
        time=time,
        used=(shares * np.nan_to_num(values)).sum(axis=1),
        steps=(time > 0).astype(np.float64),
        target=np.nan_to_num(target) * step_time,
        time_over=((excess > 0) * point_shares).sum(axis=1),
        overrun=(excess * point_shares).sum(axis=1),
        changes=replayed.changes[part] * is_known,
        kills=replayed.kills[part] * is_known,
    )


_MARGIN_SAMPLES_AT_ONCE = 1 << 19  # numbers: what is made of them stays in the caches


def score_margins(
    usage: ReplayedUsage, replayed: ReplayResult, factors: FloatColumn, scored: BoolColumn | None = None
) -> SizingScores:
    """The scores of `replayed.with_margins(factors)`; the factors ascend, and no container was killed."""
    series = usage.values.shape[2]
    time, used, steps, target = (np.zeros(series) for _ in range(4))
    changes, kills = np.zeros(series), np.zeros(series)
    sums_by_factor = np.zeros((3, series * (len(factors) + 1)))  # time, what was used, and the target then
    steps_per_part = max(1, _MARGIN_SAMPLES_AT_ONCE // max(1, usage.values[0].size))
    for begin in range(0, usage.steps, steps_per_part):
        part = slice(begin, begin + steps_per_part)
        shares = usage.compute_shares(part)
        if scored is not None:
            shares *= scored[part, np.newaxis]
        step_time = shares.sum(axis=1)
        targets = replayed.targets[part]
        time += step_time.sum(axis=0)
        used += (shares * np.nan_to_num(usage.values[part])).sum(axis=(0, 1))
        steps += (step_time > 0).sum(axis=0)
        target += (np.nan_to_num(targets) * step_time).sum(axis=0)
        changes += (replayed.changes[part] & (step_time > 0)).sum(axis=0)
        kills += (replayed.kills[part] * (step_time > 0)).sum(axis=0)
        sums_by_factor += _sum_above_factors(usage.values[part], targets, shares, factors)
    # From the sums between factors to those above each.
    above = sums_by_factor.reshape(3, series, -1)[:, :, ::-1].cumsum(axis=2)[:, :, -2::-1].transpose(0, 2, 1)
    scales = factors[:, np.newaxis]
    return ScoreSums(
        time=time,
        used=used,
        steps=steps,
        target=target * scales,
        time_over=above[0],
        overrun=np.maximum(above[1] - scales * above[2], 0.0),
        changes=np.broadcast_to(changes, (len(factors), series)),
        kills=np.broadcast_to(kills, (len(factors), series)),
    ).compute_scores(usage.step)


def _sum_above_factors(
    values: FloatColumn, targets: FloatColumn, shares: FloatColumn, factors: FloatColumn
) -> FloatColumn:
    """Time, usage and target of samples above the least factor, summed by series and by how many factors are below."""
    size = values.shape[2] * (len(factors) + 1)
    with np.errstate(invalid="ignore"):
        step, point, series = np.nonzero((values > factors[0] * targets[:, np.newaxis]) & (shares > 0))
    value, target, sample_shares = values[step, point, series], targets[step, series], shares[step, point, series]
    with np.errstate(divide="ignore"):
        places = _locate_factors(factors, value / target)
    cells = series * (len(factors) + 1) + places
    return np.stack(
        [
            np.bincount(cells, weights, size)
            for weights in (sample_shares, sample_shares * value, sample_shares * target)
        ]
    )


def _locate_factors(factors: FloatColumn, ratios: FloatColumn) -> IntColumn:
    """The number of factors below each ratio; at least the first is.

    By the logarithm, which is ten times faster than a search and may be one off.
    """
    rate = np.log(factors[-1] / factors[0]) / (len(factors) - 1)
    guess = np.ceil(np.log(ratios / factors[0]) / rate)
    places: IntColumn = np.clip(guess, 1, len(factors)).astype(np.int64)
    places -= (places > 1) & (factors[places - 1] >= ratios)
    places += (places < len(factors)) & (factors[np.minimum(places, len(factors) - 1)] < ratios)
    return places
