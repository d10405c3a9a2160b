"""What comes of some series under all variants? Read, laid out, replayed and scored: what one process does at a time.

Who stops it keeps what is finished by then: series with all variants or, as long as there are none, variants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from trellis.sim.backtest.charts import charted
from trellis.sim.backtest.layout import blocks_of, unscored
from trellis.sim.backtest.request import Request
from trellis.sim.backtest.results import SeriesChart, SeriesFacts
from trellis.sim.backtest.scoring import Scored, Tell, put_scores, replay_block
from trellis.sources.series.reading import Part, read_part
from trellis.sources.series.series import Series
from trellis.sources.series.tables import Found


class Stopped(Exception):
    """Raised by who is told how far it is, to end it there."""


class Batch(msgspec.Struct, frozen=True):
    """What to read or to take as it is, and for how many series to make charts."""

    request: Request
    parts: tuple[Part, ...] = ()
    series: tuple[Series, ...] = ()
    charts: int = 0


class BatchResult(msgspec.Struct, frozen=True):
    """What came of a batch: facts of its series, one `Scored` for each variant, charts, problems and notes.

    Where it was stopped, there are fewer variants or fewer series.
    """

    facts: list[SeriesFacts]
    scored: list[Scored]
    charts: list[SeriesChart]
    problems: list[str]
    notes: list[str]
    partial: bool = False


def run_batch(batch: Batch, tell: Tell) -> BatchResult:
    """Everything about a batch; `tell` is told which part of it is done, and may raise `Stopped`."""
    try:
        found = Found.joined([Found(list(batch.series), [], []), *_read(batch, tell)])
    except Stopped:
        return BatchResult([], [], [], [], [], partial=True)
    run = _Run(batch, _distinct(found.series))
    with suppress(Stopped):
        run.replay(tell)
    facts, scored, charts = run.finished()
    problems = [str(error) for error in found.problems]
    notes = [*found.notes, *unscored(found.series, batch.request.terms)]
    return BatchResult(facts, scored, charts, problems, notes, partial=len(run.places) < len(found.series))


class _Run:
    """The series of a batch, block by block, and in each block variant by variant."""

    def __init__(self, batch: Batch, series: list[Series]) -> None:
        self.places: list[int] = []
        self._batch = batch
        self._series = series
        self._scored = [Scored.nothing(len(series)) for _ in batch.request.variants]
        self._charts: dict[int, SeriesChart] = {}
        self._begun: list[int] = []
        self._variants = 0

    def replay(self, tell: Tell) -> None:
        """Everything."""
        request = self._batch.request
        done, total = 0.0, max(1, sum(map(len, self._series)) * len(request.variants))
        for block, samples in blocks_of(self._series, request.terms):
            self._begun, targets = block.places, []
            for self._variants, asked in enumerate(request.variants):
                before, weight = done / total, samples / total
                replayed = replay_block(block, asked, request.terms, _part(tell, before, weight))
                put_scores(self._scored[self._variants], block, replayed)
                targets.append(replayed.targets)
                done += samples
            self._variants += 1
            self._charts |= dict(charted(block, targets, self._batch.charts - len(self._charts)))
            self.places += block.places

    def finished(self) -> tuple[list[SeriesFacts], list[Scored], list[SeriesChart]]:
        """What there is: series of which all variants are done, or else the variants that are done of the first."""
        places = sorted(self.places or self._begun)
        variants = len(self._scored) if self.places else self._variants
        terms = self._batch.request.terms
        facts = [_facts(self._series[place], terms.warm_up, terms.warm_up_share) for place in places]
        scored = [each.at(places) for each in self._scored[:variants]]
        return facts if scored else [], scored, [self._charts[place] for place in sorted(self._charts)]


def _part(tell: Tell, before: float, weight: float) -> Tell:
    return lambda share: tell(before + share * weight)


def _read(batch: Batch, tell: Tell) -> Iterator[Found]:
    for part in batch.parts:
        tell(0.0)
        yield read_part(part, batch.request.terms.machine)


def _distinct(series: Sequence[Series]) -> list[Series]:
    """The same series under names of which none is there twice: those that were say where they come from."""
    names = distinct_names([each.name for each in series], [each.source for each in series])
    return [msgspec.structs.replace(each, name=name) for each, name in zip(series, names, strict=True)]


def distinct_names(names: Sequence[str], sources: Sequence[str]) -> list[str]:
    """Names of which none is there twice."""
    often = Counter(names)
    seen: Counter[str] = Counter()
    found = []
    for name, source in zip(names, sources, strict=True):
        full = name if often[name] == 1 else f"{name} ({source})"
        seen[full] += 1
        found.append(full if seen[full] == 1 else f"{full} #{seen[full]}")
    return found


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
