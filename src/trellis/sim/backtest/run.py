"""How would recommenders have sized, had they been asked all the time? Each replayed over series of usage.

At every step each of them decides from the past alone, as it would in a cluster; what it decides is held against what
was used then. Series are shared out in batches, and the batches among processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from trellis.sim.backtest.batch import Batch, BatchResult, distinct_names
from trellis.sim.backtest.processes import Failed, run_batches
from trellis.sim.backtest.request import Request
from trellis.sim.backtest.results import BacktestResult, Frontier, SeriesChart
from trellis.sim.backtest.totals import Columns, curves, series_scores, variant_scores
from trellis.sources.series.reading import Part, read_part
from trellis.sources.series.series import Series
from trellis.sources.series.tables import Found

# Samples of a batch: what it takes in memory is bounded, and what each step costs is shared by many series.
_LARGEST: Final = 24_000_000
_CHARTS: Final = 60


class Progress(msgspec.Struct, frozen=True):
    """How far it is: samples times variants, as far as files say how many there are."""

    done: float
    total: float


def backtest(
    request: Request,
    parts: Sequence[Part],
    series: Sequence[Series] = (),
    *,
    processes: int = 1,
    progress: Callable[[Progress], None] = lambda _progress: None,
    stop: Callable[[], bool] = lambda: False,
) -> BacktestResult:
    """Replay all variants over what the parts hold and over series that are there already."""
    found = Found(list(series), [], [])
    if len(parts) < processes:
        # Who reads a file reads all of it: series of few files can only be shared out when they have been read.
        found = Found.joined([*(read_part(part, request.terms.machine) for part in parts), found])
        parts = ()
    batches = _batches(request, parts, found.series, processes)
    sizes = [_size(batch) for batch in batches]
    done = [0.0] * len(batches)

    def told(number: int, share: float) -> None:
        done[number] = share
        part = sum(size * each for size, each in zip(sizes, done, strict=True))
        progress(Progress(part, float(sum(sizes))))

    ended: dict[int, BatchResult] = {}
    failures: list[str] = []
    for number, outcome in run_batches(batches, processes, told, stop):
        if isinstance(outcome, Failed):
            failures.append(f"{_about(batches[number])} could not be replayed: {outcome.why}")
        else:
            ended[number] = outcome
        if isinstance(outcome, Failed) or not outcome.partial:
            told(number, 1.0)
    result = _result(request, [ended[number] for number in sorted(ended)])
    return msgspec.structs.replace(
        result,
        left_out=[*map(str, found.problems), *result.left_out, *sorted(failures)],
        notes=[*found.notes, *result.notes],
        partial=result.partial or len(ended) + len(failures) < len(batches),
    )


def _result(request: Request, found: Sequence[BatchResult]) -> BacktestResult:
    terms = request.terms
    # What was stopped has fewer variants; only those that are there for all series can be compared.
    variants = max((len(batch.scored) for batch in found), default=0)
    batches = [batch for batch in found if batch.facts and len(batch.scored) == variants]
    request = msgspec.structs.replace(request, variants=request.variants[:variants])
    facts = [each for batch in batches for each in batch.facts]
    names = distinct_names([each.name for each in facts], [each.source for each in facts])
    columns = Columns.joined(batches, variants) if facts else None
    return BacktestResult(
        facts=[msgspec.structs.replace(each, name=name) for each, name in zip(facts, names, strict=True)],
        series=series_scores(columns, names, request) if columns else [],
        variants=variant_scores(columns, request) if columns else [],
        curves=curves(columns, request) if columns else [],
        sweeps=[
            Frontier(each.recommender, each.parameter, list(each.values), list(each.variants))
            for each in request.sweeps
            if set(each.variants) <= {asked.name for asked in request.variants}
        ],
        charts=list(_charts(batches, names)),
        step=terms.step,
        warm_up=max((each.scored_from - each.begin for each in facts), default=terms.warm_up),
        threshold=terms.threshold,
        left_out=[text for batch in found for text in batch.problems],
        notes=[text for batch in found for text in batch.notes],
        partial=any(batch.partial for batch in found),
    )


def _charts(batches: Sequence[BatchResult], names: Sequence[str]) -> Iterator[SeriesChart]:
    """All of them, under the names that series have now."""
    new = iter(names)
    for batch in batches:
        renamed = {each.name: next(new) for each in batch.facts}
        for chart in batch.charts:
            yield msgspec.structs.replace(chart, series=renamed[chart.series])


def _batches(request: Request, parts: Sequence[Part], series: Sequence[Series], processes: int) -> list[Batch]:
    """What to share out: enough batches for all processes, none too large, and neighbours together."""
    total = sum(part.rows for part in parts) + sum(map(len, series))
    each = max(1, min(_LARGEST, -(-total // max(processes, 1))))
    batches: list[Batch] = []
    chosen: list[Part | Series] = []
    size = 0
    items: list[Part | Series] = [*parts, *series]
    for item in items:
        rows = item.rows if isinstance(item, Part) else len(item)
        if chosen and size + rows / 2 > each:
            batches.append(_batch(request, chosen))
            chosen, size = [], 0
        chosen.append(item)
        size += rows
    if chosen:
        batches.append(_batch(request, chosen))
    charts = -(-_CHARTS // max(1, len(batches)))
    return [msgspec.structs.replace(batch, charts=charts) for batch in batches]


def _batch(request: Request, chosen: Sequence[Part | Series]) -> Batch:
    return Batch(
        request,
        tuple(each for each in chosen if isinstance(each, Part)),
        tuple(each for each in chosen if isinstance(each, Series)),
    )


def _size(batch: Batch) -> float:
    rows = sum(part.rows for part in batch.parts) + sum(map(len, batch.series))
    return float(rows * len(batch.request.variants))


def _about(batch: Batch) -> str:
    names = [part.path for part in batch.parts] + [each.name for each in batch.series]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
