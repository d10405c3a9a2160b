"""One batch of series under all variants: read, laid out, replayed, scored and charted by one process.

A batch that is stopped keeps what is finished by then: series with all variants or, as long as there are none,
variants. Charts have what a series used and what each variant would have requested, thinned out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np

from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.sim.backtest.layout import SeriesBlock, describe_unscored, lay_out_blocks
from trellis.sim.backtest.request import BacktestRequest
from trellis.sim.backtest.results import ChartLine, SeriesChart, SeriesFacts
from trellis.sim.backtest.scores import BatchScores, OnPartDone, replay_block, score_block
from trellis.sources.series.files import SeriesPart, read_part
from trellis.sources.series.series import Series
from trellis.sources.series.tables import LoadedSeries

MOST_POINTS: Final = 336
_RESOURCES: Final = ("cpu", "memory")
_DIGITS: Final = 5


def build_charts(block: SeriesBlock, targets: Sequence[FloatColumn], most: int) -> Iterator[tuple[int, SeriesChart]]:
    """Build the charts of the first series of a block, with their places; `targets` has the targets of each variant."""
    for number in range(min(len(block), max(most, 0))):
        steps = np.flatnonzero(~np.isnan(block.usage.values[:, :, [number, len(block) + number]]).all(axis=(1, 2)))
        first, last = int(block.offsets[number]), int(steps[-1]) + 1
        span = -(-(last - first) // MOST_POINTS)
        columns = slice(first, last)
        begins = np.arange(0, last - first, span)
        lines = []
        for resource, name in enumerate(_RESOURCES):
            column = resource * len(block) + number
            used = block.usage.values[columns, :, column]
            if np.isnan(used).all():
                continue
            mean, peak = _average_by_point(used, begins), np.fmax.reduceat(np.fmax.reduce(used, axis=1), begins)
            requested = [
                _round_values(_average_by_point(target[columns, column][:, np.newaxis], begins)) for target in targets
            ]
            lines.append(ChartLine(name, _round_values(mean), _round_values(peak), requested))
        times = block.begins[number] + block.usage.step * begins
        yield block.places[number], SeriesChart(block.names[number], times.tolist(), lines)


def _average_by_point(values: FloatColumn, begins: IntColumn) -> FloatColumn:
    measured = ~np.isnan(values)
    sums = np.add.reduceat(np.where(measured, values, 0.0).sum(axis=1), begins)
    counts = np.add.reduceat(measured.sum(axis=1), begins)
    with np.errstate(invalid="ignore"):
        averages: FloatColumn = sums / counts
        return averages


def _round_values(values: FloatColumn) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]


class BatchStopped(Exception):
    """Raised by a progress callback to stop a batch."""


class SeriesBatch(msgspec.Struct, frozen=True):
    """The parts to read, the series that are loaded already, and how many series get charts."""

    request: BacktestRequest
    parts: tuple[SeriesPart, ...] = ()
    series: tuple[Series, ...] = ()
    charts: int = 0


class BatchResult(msgspec.Struct, frozen=True):
    """The result of a batch: facts of its series, `BatchScores` for each variant, charts, problems and notes.

    A batch that was stopped has fewer variants or fewer series.
    """

    facts: list[SeriesFacts]
    scored: list[BatchScores]
    charts: list[SeriesChart]
    problems: list[str]
    notes: list[str]
    partial: bool = False


def run_batch(batch: SeriesBatch, on_progress: OnPartDone) -> BatchResult:
    """Read, replay and score a batch; `on_progress` gets the share that is done, and may raise `BatchStopped`."""
    try:
        result = LoadedSeries.concatenate([LoadedSeries(list(batch.series), [], []), *_read(batch, on_progress)])
    except BatchStopped:
        return BatchResult([], [], [], [], [], partial=True)
    run = _BatchRun(batch, _with_distinct_names(result.series))
    with suppress(BatchStopped):
        run.replay(on_progress)
    facts, scored, charts = run.collect()
    problems = [str(error) for error in result.problems]
    notes = [*result.notes, *describe_unscored(result.series, batch.request.terms)]
    return BatchResult(facts, scored, charts, problems, notes, partial=len(run.places) < len(result.series))


class _BatchRun:
    """Replays the series of a batch block by block, and each block variant by variant."""

    def __init__(self, batch: SeriesBatch, series: list[Series]) -> None:
        self.places: list[int] = []
        self._batch = batch
        self._series = series
        self._scored = [BatchScores.empty(len(series)) for _ in batch.request.variants]
        self._charts: dict[int, SeriesChart] = {}
        self._begun: list[int] = []
        self._variants = 0

    def replay(self, on_progress: OnPartDone) -> None:
        request = self._batch.request
        done, total = 0.0, max(1, sum(map(len, self._series)) * len(request.variants))
        for block, samples in lay_out_blocks(self._series, request.terms):
            self._begun, targets = block.places, []
            for self._variants, variant in enumerate(request.variants):
                before, weight = done / total, samples / total
                replayed = replay_block(block, variant, request.terms, _scale_progress(on_progress, before, weight))
                score_block(self._scored[self._variants], block, replayed)
                targets.append(replayed.targets)
                done += samples
            self._variants += 1
            self._charts |= dict(build_charts(block, targets, self._batch.charts - len(self._charts)))
            self.places += block.places

    def collect(self) -> tuple[list[SeriesFacts], list[BatchScores], list[SeriesChart]]:
        """The series of which all variants are done, or else the variants that are done of the first block."""
        places = sorted(self.places or self._begun)
        variants = len(self._scored) if self.places else self._variants
        terms = self._batch.request.terms
        facts = [_facts(self._series[place], terms.warm_up, terms.warm_up_share) for place in places]
        scored = [scores.select(places) for scores in self._scored[:variants]]
        return facts if scored else [], scored, [self._charts[place] for place in sorted(self._charts)]


def _scale_progress(on_progress: OnPartDone, before: float, weight: float) -> OnPartDone:
    return lambda share: on_progress(before + share * weight)


def _read(batch: SeriesBatch, on_progress: OnPartDone) -> Iterator[LoadedSeries]:
    for part in batch.parts:
        on_progress(0.0)
        yield read_part(part, batch.request.terms.machine)


def _with_distinct_names(series: Sequence[Series]) -> list[Series]:
    """Give series distinct names: those whose names collide are named with their source."""
    names = distinct_names([one_series.name for one_series in series], [one_series.source for one_series in series])
    return [msgspec.structs.replace(one_series, name=name) for one_series, name in zip(series, names, strict=True)]


def distinct_names(names: Sequence[str], sources: Sequence[str]) -> list[str]:
    """Make names distinct."""
    often = Counter(names)
    counts: Counter[str] = Counter()
    result = []
    for name, source in zip(names, sources, strict=True):
        full = name if often[name] == 1 else f"{name} ({source})"
        counts[full] += 1
        result.append(full if counts[full] == 1 else f"{full} #{counts[full]}")
    return result


def _facts(series: Series, warm_up: float, share: float) -> SeriesFacts:
    begin, end = float(series.times[0]), float(series.times[-1])
    return SeriesFacts(
        name=series.name,
        source=series.source,
        begin=begin,
        end=end,
        scored_from=begin + min(warm_up, share * (end - begin)),
        interval=series.interval,
        samples=len(series),
        missing=series.missing,
    )
