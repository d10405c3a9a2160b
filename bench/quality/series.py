"""Lays out traces on one clock, in hours of minutes, so that all of them are replayed at once.

A series is scaled to use one core on average: the published ones are fractions of machines of unknown size, and neither
the least a pod gets nor the width of the first bucket of a histogram should decide. Memory keeps its size, because the
rule for kills has a number of bytes in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from bench.quality.usage_traces import Column, Trace
from trellis.core.recommend.evaluation.replay import DAY, HOUR, ReplayedUsage
from trellis.core.usage.columns import BoolColumn, FloatColumn

BEGIN = 1_790_035_200.0  # a midnight, and a Monday
POINTS = 60  # in an hour: samples of one minute are averaged, their memory is the highest
_WARM_UP = 7 * DAY
_WARM_UP_SHARE = 0.4  # of a series, at most


class QualitySeries(msgspec.Struct, frozen=True):
    """All series. `usage` has the CPU of each and after that the memory of each; `scored` says which steps count.

    `worth` makes replicas of one job count as one series.
    """

    names: list[str]
    usage: ReplayedUsage
    scored: BoolColumn
    worth: FloatColumn
    slices: dict[str, BoolColumn]
    with_memory: BoolColumn

    @property
    def count(self) -> int:
        return len(self.names)

    def part(self, resource: int) -> ReplayedUsage:
        """The usage of CPU (0) or memory (1) alone."""
        columns = slice(resource * self.count, (resource + 1) * self.count)
        return msgspec.structs.replace(self.usage, values=self.usage.values[:, :, columns])


def lay_out(traces: Sequence[Trace]) -> QualitySeries:
    """All traces, from the hour on in which each begins."""
    begins = [trace.times[0] // HOUR * HOUR for trace in traces]
    hours = max(int((trace.times[-1] - begin) // HOUR) + 1 for trace, begin in zip(traces, begins, strict=True))
    values = np.full((2, len(traces), hours * POINTS), np.nan)
    scored = np.zeros((hours, len(traces)), dtype=np.bool_)
    for number, (trace, begin) in enumerate(zip(traces, begins, strict=True)):
        minutes = ((trace.times - begin) // (HOUR / POINTS)).astype(np.int64)
        if np.nansum(trace.cpu) > 0:
            values[0, number] = _averages(minutes, trace.cpu / np.nanmean(trace.cpu), hours * POINTS)
        if len(trace.memory):
            values[1, number] = _highest(minutes, trace.memory, hours * POINTS)
        length = trace.times[-1] - trace.times[0]
        warm = int(np.ceil(min(_WARM_UP, _WARM_UP_SHARE * length) / HOUR))
        scored[warm:, number] = True
    replicas = Counter(trace.group for trace in traces)
    return QualitySeries(
        names=[trace.name for trace in traces],
        usage=ReplayedUsage(np.moveaxis(values.reshape(2 * len(traces), hours, POINTS), 0, -1).copy(), BEGIN),
        scored=scored,
        worth=np.array([1.0 / replicas[trace.group] for trace in traces]),
        slices={
            "all": np.ones(len(traces), dtype=np.bool_),
            "daily or weekly": np.array([trace.cyclic for trace in traces]),
            "random": np.array([trace.random for trace in traces]),
        },
        with_memory=np.array([len(trace.memory) > 0 for trace in traces]),
    )


def _averages(places: np.ndarray[tuple[int], np.dtype[np.int64]], values: Column, size: int) -> Column:
    measured = ~np.isnan(values)
    sums = np.bincount(places[measured], values[measured], size)
    counts = np.bincount(places[measured], minlength=size)
    with np.errstate(invalid="ignore"):
        return sums / counts


def _highest(places: np.ndarray[tuple[int], np.dtype[np.int64]], values: Column, size: int) -> Column:
    result = np.full(size, np.nan)
    np.fmax.at(result, places, values)
    return result
