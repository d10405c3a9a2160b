"""What is drawn of a series? What it used and what each variant would have requested, thinned out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.sim.backtest.layout import Block
from trellis.sim.backtest.results import ChartLine, SeriesChart

MOST_POINTS: Final = 336
_RESOURCES: Final = ("cpu", "memory")
_DIGITS: Final = 5


def charted(block: Block, targets: Sequence[FloatColumn], most: int) -> Iterator[tuple[int, SeriesChart]]:
    """Charts of the first series of a block, with their places; `targets` are those of each variant."""
    for number in range(min(len(block), max(most, 0))):
        steps = np.flatnonzero(~np.isnan(block.usage.values[:, :, [number, len(block) + number]]).all(axis=(1, 2)))
        first, last = int(block.offsets[number]), int(steps[-1]) + 1
        span = -(-(last - first) // MOST_POINTS)
        here = slice(first, last)
        begins = np.arange(0, last - first, span)
        lines = []
        for resource, name in enumerate(_RESOURCES):
            column = resource * len(block) + number
            used = block.usage.values[here, :, column]
            if np.isnan(used).all():
                continue
            mean, peak = _means(used, begins), np.fmax.reduceat(np.fmax.reduce(used, axis=1), begins)
            requested = [_rounded(_means(each[here, column][:, np.newaxis], begins)) for each in targets]
            lines.append(ChartLine(name, _rounded(mean), _rounded(peak), requested))
        times = block.begins[number] + block.usage.step * begins
        yield block.places[number], SeriesChart(block.names[number], times.tolist(), lines)


def _means(values: FloatColumn, begins: IntColumn) -> FloatColumn:
    known = ~np.isnan(values)
    sums = np.add.reduceat(np.where(known, values, 0.0).sum(axis=1), begins)
    counts = np.add.reduceat(known.sum(axis=1), begins)
    with np.errstate(invalid="ignore"):
        found: FloatColumn = sums / counts
        return found


def _rounded(values: FloatColumn) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
