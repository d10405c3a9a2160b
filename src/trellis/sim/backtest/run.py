"""Runs a backtest: replays every variant over series of usage, in batches, by several processes.

At every step each recommender decides from the past alone, as it would in a cluster; what it decides is compared with
what was used then. Each batch has a process, and a limited number run at a time. A batch that fails is reported,
and the others go on. A backtest that is stopped returns what is done by then.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Final

import msgspec

from trellis.base.errors import TrellisError
from trellis.sim.backtest.batch import BatchResult, BatchStopped, SeriesBatch, distinct_names, run_batch
from trellis.sim.backtest.request import BacktestRequest
from trellis.sim.backtest.results import BacktestResult, SeriesChart, SweepFrontier
from trellis.sim.backtest.totals import ScoreColumns, build_curves, build_series_scores, build_variant_scores
from trellis.sim.child_processes import start_ignoring_interrupts
from trellis.sources.series.files import SeriesPart, read_part
from trellis.sources.series.series import Series
from trellis.sources.series.tables import LoadedSeries

# How often a caller is asked whether to stop, in seconds.
_POLL_SECONDS: Final = 0.1


class FailedBatch(msgspec.Struct, frozen=True):
    """A batch that failed, and the reason."""

    reason: str


BatchOutcome = BatchResult | FailedBatch
OnBatchProgress = Callable[[int, float], None]


def run_batches(
    batches: Sequence[SeriesBatch], processes: int, on_progress: OnBatchProgress, stop: Callable[[], bool]
) -> Iterator[tuple[int, BatchOutcome]]:
    """Run batches and yield the result of each, by number; `on_progress` is called with the share that is done."""
    if min(processes, len(batches)) > 1:
        yield from _run_in_processes(batches, processes, on_progress, stop)
        return
    for number, batch in enumerate(batches):
        if stop():
            return

        def report(share: float, number: int = number) -> None:
            if stop():
                raise BatchStopped
            on_progress(number, share)

        yield number, _run_caught(batch, report)


def _run_caught(batch: SeriesBatch, on_progress: Callable[[float], None]) -> BatchOutcome:
    try:
        return run_batch(batch, on_progress)
    except TrellisError as error:
        return FailedBatch(str(error))
    except MemoryError:
        return FailedBatch("there is too little memory; use fewer --processes")
    except Exception as error:  # noqa: BLE001 - a recommender of others may raise anything, and costs no other batch
        return FailedBatch(f"{type(error).__name__}: {error}")


def _run_in_processes(
    batches: Sequence[SeriesBatch], processes: int, on_progress: OnBatchProgress, stop: Callable[[], bool]
) -> Iterator[tuple[int, BatchOutcome]]:
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(range(len(batches))))
    working: dict[Any, tuple[int, Any]] = {}
    stopping = False
    try:
        while working or (waiting and not stopping):
            if not stopping and stop():
                stopping = True
                for connection in working:
                    connection.send(None)
            while waiting and len(working) < processes and not stopping:
                number = waiting.pop()
                parent_end, child_end = context.Pipe()
                process = context.Process(target=_work, args=(child_end,), name=f"batch {number}", daemon=True)
                start_ignoring_interrupts(process)
                child_end.close()
                parent_end.send(batches[number])
                working[parent_end] = (number, process)
            for connection in wait(list(working), _POLL_SECONDS):
                number, process = working[connection]
                result = _receive(connection, process)
                if isinstance(result, float):
                    on_progress(number, result)
                    continue
                del working[connection]
                process.join()
                yield number, result
    finally:
        for _, process in working.values():
            process.terminate()
            process.join()


def _receive(connection: Any, process: Any) -> float | BatchOutcome:
    try:
        receive: float | BatchOutcome = connection.recv()
    except (EOFError, OSError):
        process.join()
        reason = f"its process ended with exit code {process.exitcode}"
        return FailedBatch(
            f"{reason}: there may be too little memory; use fewer --processes" if process.exitcode == -9 else reason
        )
    return receive


def _work(connection: Connection) -> None:
    """Run batches in a child process."""
    batch: SeriesBatch = connection.recv()

    def report(share: float) -> None:
        if connection.poll():
            raise BatchStopped
        connection.send(share)

    connection.send(_run_caught(batch, report))


# Samples of a batch: bounds its memory, and shares the cost of a step among many series.
_LARGEST: Final = 24_000_000
_CHARTS: Final = 60


class BacktestProgress(msgspec.Struct, frozen=True):
    """The progress: samples times variants, as far as the files say how many samples they have."""

    done: float
    total: float


def backtest(
    request: BacktestRequest,
    parts: Sequence[SeriesPart],
    series: Sequence[Series] = (),
    *,
    processes: int = 1,
    progress: Callable[[BacktestProgress], None] = lambda _progress: None,
    stop: Callable[[], bool] = lambda: False,
) -> BacktestResult:
    """Replay all variants over the series of the parts and over series that are loaded already."""
    loaded_series = LoadedSeries(list(series), [], [])
    if len(parts) < processes:
        # A file is read as a whole, so series of few files can only be shared out once they are read.
        loaded_series = LoadedSeries.concatenate(
            [*(read_part(part, request.terms.machine) for part in parts), loaded_series]
        )
        parts = ()
    batches = _batches(request, parts, loaded_series.series, processes)
    sizes = [_size(batch) for batch in batches]
    done = [0.0] * len(batches)

    def on_progress(number: int, share: float) -> None:
        done[number] = share
        part = sum(size * share for size, share in zip(sizes, done, strict=True))
        progress(BacktestProgress(part, float(sum(sizes))))

    finished: dict[int, BatchResult] = {}
    failures: list[str] = []
    for number, outcome in run_batches(batches, processes, on_progress, stop):
        if isinstance(outcome, FailedBatch):
            failures.append(f"{_describe(batches[number])} could not be replayed: {outcome.reason}")
        else:
            finished[number] = outcome
        if isinstance(outcome, FailedBatch) or not outcome.partial:
            on_progress(number, 1.0)
    result = _result(request, [finished[number] for number in sorted(finished)])
    return msgspec.structs.replace(
        result,
        left_out=[*map(str, loaded_series.problems), *result.left_out, *sorted(failures)],
        notes=[*loaded_series.notes, *result.notes],
        partial=result.partial or len(finished) + len(failures) < len(batches),
    )


def _result(request: BacktestRequest, outcomes: Sequence[BatchResult]) -> BacktestResult:
    terms = request.terms
    # A batch that was stopped has fewer variants; only those that all series have can be compared.
    variants = max((len(batch.scored) for batch in outcomes), default=0)
    batches = [batch for batch in outcomes if batch.facts and len(batch.scored) == variants]
    request = msgspec.structs.replace(request, variants=request.variants[:variants])
    facts = [fact for batch in batches for fact in batch.facts]
    names = distinct_names([fact.name for fact in facts], [fact.source for fact in facts])
    columns = ScoreColumns.join(batches, variants) if facts else None
    return BacktestResult(
        facts=[msgspec.structs.replace(fact, name=name) for fact, name in zip(facts, names, strict=True)],
        series=build_series_scores(columns, names, request) if columns else [],
        variants=build_variant_scores(columns, request) if columns else [],
        curves=build_curves(columns, request) if columns else [],
        sweeps=[
            SweepFrontier(sweep.recommender, sweep.parameter, list(sweep.values), list(sweep.variants))
            for sweep in request.sweeps
            if set(sweep.variants) <= {variant.name for variant in request.variants}
        ],
        charts=list(_charts(batches, names)),
        step=terms.step,
        warm_up=max((fact.scored_from - fact.begin for fact in facts), default=terms.warm_up),
        threshold=terms.threshold,
        left_out=[text for batch in outcomes for text in batch.problems],
        notes=[text for batch in outcomes for text in batch.notes],
        partial=any(batch.partial for batch in outcomes),
    )


def _charts(batches: Sequence[BatchResult], names: Sequence[str]) -> Iterator[SeriesChart]:
    """The charts of all batches, under the distinct names of their series."""
    new = iter(names)
    for batch in batches:
        renamed = {fact.name: next(new) for fact in batch.facts}
        for chart in batch.charts:
            yield msgspec.structs.replace(chart, series=renamed[chart.series])


def _batches(
    request: BacktestRequest, parts: Sequence[SeriesPart], series: Sequence[Series], processes: int
) -> list[SeriesBatch]:
    """Share out the series: enough batches for all processes, none too large, neighbours together."""
    total = sum(part.rows for part in parts) + sum(map(len, series))
    batch_size = max(1, min(_LARGEST, -(-total // max(processes, 1))))
    batches: list[SeriesBatch] = []
    chosen: list[SeriesPart | Series] = []
    size = 0
    items: list[SeriesPart | Series] = [*parts, *series]
    for item in items:
        rows = item.rows if isinstance(item, SeriesPart) else len(item)
        if chosen and size + rows / 2 > batch_size:
            batches.append(_batch(request, chosen))
            chosen, size = [], 0
        chosen.append(item)
        size += rows
    if chosen:
        batches.append(_batch(request, chosen))
    charts = -(-_CHARTS // max(1, len(batches)))
    return [msgspec.structs.replace(batch, charts=charts) for batch in batches]


def _batch(request: BacktestRequest, chosen: Sequence[SeriesPart | Series]) -> SeriesBatch:
    return SeriesBatch(
        request,
        tuple(item for item in chosen if isinstance(item, SeriesPart)),
        tuple(item for item in chosen if isinstance(item, Series)),
    )


def _size(batch: SeriesBatch) -> float:
    rows = sum(part.rows for part in batch.parts) + sum(map(len, batch.series))
    return float(rows * len(batch.request.variants))


def _describe(batch: SeriesBatch) -> str:
    names = [part.path for part in batch.parts] + [one_series.name for one_series in batch.series]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
