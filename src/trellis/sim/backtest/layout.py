"""Lays out series on one clock, in steps of equally many points, so that many are replayed at once.

A series keeps its time of the day and of the week, in UTC; which week it is does not matter. Series that were sampled
as often as each other lie in one block. Samples of one point are averaged, and of memory the highest counts. Nothing is
finer than a minute, because that is how often a recommender runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.base.durations import describe_span
from trellis.core.recommend.evaluation.replay import DAY, ReplayedUsage
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.sim.backtest.request import BacktestTerms
from trellis.sources.series.series import Series

_MONDAY: Final = 1_790_035_200.0
_WEEK: Final = 7 * DAY
_FINEST: Final = 60.0
# The numbers that are laid out at once: with what is computed from them, 0.7 GB.
_SAMPLES_AT_ONCE: Final = 24_000_000
# The series of a block: enough to share the cost of a step, and few enough that twice the time takes twice as long.
_SERIES_AT_ONCE: Final = 512


class SeriesBlock(msgspec.Struct, frozen=True):
    """A block of series, by their `places` among all. `usage` has the CPU of all series, then their memory.

    A series begins with the step in `offsets`, at the time in `begins`; `scored`, (steps, series), leaves the warm-up
    out.
    """

    places: list[int]
    names: list[str]
    usage: ReplayedUsage
    scored: BoolColumn
    begins: FloatColumn
    offsets: IntColumn
    warm: IntColumn

    def __len__(self) -> int:
        return len(self.names)

    def part(self, resource: int) -> ReplayedUsage:
        """The usage of CPU (0) or memory (1) alone."""
        columns = slice(resource * len(self), (resource + 1) * len(self))
        return msgspec.structs.replace(self.usage, values=self.usage.values[:, :, columns])


def count_points(series: Series, step: float) -> int:
    """Count the points into which a step of a series is divided."""
    return max(1, math.ceil(step / max(series.interval, _FINEST) - 1e-6))


def lay_out_blocks(series: Sequence[Series], terms: BacktestTerms) -> Iterator[tuple[SeriesBlock, int]]:
    """Lay out all series in blocks of bounded size, each with its number of samples."""
    step = terms.step
    order = sorted(range(len(series)), key=lambda place: (count_points(series[place], step), place))
    begin = 0
    while begin < len(order):
        points = count_points(series[order[begin]], step)
        end, size = begin, 0.0
        while end < len(order) and count_points(series[order[end]], step) == points:
            size += series[order[end]].span / step * points
            if end > begin and (size > _SAMPLES_AT_ONCE or end - begin == _SERIES_AT_ONCE):
                break
            end += 1
        places = order[begin:end]
        chosen = [series[place] for place in places]
        yield lay_out_block(chosen, places, points, terms), sum(map(len, chosen))
        begin = end


def lay_out_block(series: Sequence[Series], places: Sequence[int], points: int, terms: BacktestTerms) -> SeriesBlock:
    """Lay out series that all have the same number of points a step."""
    step = terms.step
    begins = np.array([one_series.times[0] // step * step for one_series in series])
    phases = np.mod(begins - _MONDAY, _WEEK)
    origin = phases.min() // step * step
    offsets = ((phases - origin) // step).astype(np.int64)
    lengths = np.array(
        [int((one_series.times[-1] - begin) // step) + 1 for one_series, begin in zip(series, begins, strict=True)],
        dtype=np.int64,
    )
    warm = np.array([_warm_up(one_series, terms) for one_series in series], dtype=np.int64)
    steps = int((offsets + lengths).max())
    values = np.full((steps, points, 2 * len(series)), np.nan)
    scored = np.zeros((steps, len(series)), dtype=np.bool_)
    for number, (one_series, begin) in enumerate(zip(series, begins, strict=True)):
        first, size = int(offsets[number]), int(lengths[number])
        at = np.minimum(((one_series.times - begin) / (step / points)).astype(np.int64), size * points - 1)
        columns = slice(first, first + size)
        values[columns, :, number] = _average_by_place(at, one_series.cpu, size * points).reshape(size, points)
        values[columns, :, len(series) + number] = _maximum_by_place(at, one_series.memory, size * points).reshape(
            size, points
        )
        scored[first + int(warm[number]) : first + size, number] = True
    usage = ReplayedUsage(values, _MONDAY + float(origin), step)
    return SeriesBlock(list(places), [one_series.name for one_series in series], usage, scored, begins, offsets, warm)


def describe_unscored(series: Sequence[Series], terms: BacktestTerms) -> Iterator[str]:
    """Report each series of which nothing is scored."""
    for one_series in series:
        begin = one_series.times[0] // terms.step * terms.step
        if int((one_series.times[-1] - begin) // terms.step) < _warm_up(one_series, terms):
            step = describe_span(terms.step)
            yield f"{one_series.name}: not scored, because it is shorter than one step of {step}"


def _warm_up(series: Series, terms: BacktestTerms) -> int:
    """The warm-up in steps; the first step is never scored, because nothing is decided before it."""
    length = float(series.times[-1] - series.times[0])
    return max(1, math.ceil(min(terms.warm_up, terms.warm_up_share * length) / terms.step))


def _average_by_place(at: IntColumn, values: FloatColumn, size: int) -> FloatColumn:
    if _are_distinct(at):
        return _place_values(at, values, size)
    measured = ~np.isnan(values)
    counts = np.bincount(at[measured], minlength=size)
    with np.errstate(invalid="ignore"):
        return np.bincount(at[measured], values[measured], size) / counts


def _maximum_by_place(at: IntColumn, values: FloatColumn, size: int) -> FloatColumn:
    if _are_distinct(at):
        return _place_values(at, values, size)
    result = np.full(size, np.nan)
    np.fmax.at(result, at, values)
    return result


def _are_distinct(at: IntColumn) -> bool:
    return bool((at[1:] > at[:-1]).all())


def _place_values(at: IntColumn, values: FloatColumn, size: int) -> FloatColumn:
    result = np.full(size, np.nan)
    result[at] = values
    return result
