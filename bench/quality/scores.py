"""Scores the recommenders: each is replayed over weeks of usage, against the default in the same run.

`python -m bench.quality.scores --traces DIR` reads published traces; without them series are generated. A decision
every hour from past samples only, through the usage model and the recommenders as they are shipped; the first week, or
40 % of a shorter series, is for learning. Prints a table, and draws footprint over risk for every margin.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from bench.measurement import CannotMeasure, Row
from bench.pictures.frontier import draw
from bench.quality.generated_usage import generated_traces
from bench.quality.series import BEGIN, QualitySeries, lay_out
from bench.quality.tables import against_default, cpu_table, memory_table
from bench.quality.usage_traces import load_traces
from trellis.core.recommend.evaluation.margin_curves import (
    MARGIN_FACTORS,
    SHIPPED_MARGIN,
    MarginCurve,
    build_margin_curve,
)
from trellis.core.recommend.evaluation.replay import (
    RecommenderRule,
    ReplayClock,
    ReplayResult,
    ReplaySettings,
    replay_rule,
)
from trellis.core.recommend.evaluation.scores import SizingScores, compute_scores, score_margins
from trellis.core.recommend.protocol import Recommender
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.core.recommend.validation import needs_runs
from trellis.core.usage.columns import BoolColumn, FloatColumn

# Where a run of all measurements looks for traces.
TRACES = "TRELLIS_TRACES"


class Quality(msgspec.Struct, frozen=True):
    """What was measured: CPU curves by slice, and for memory the scores of each recommender."""

    curves: dict[str, list[MarginCurve]]
    memory: dict[str, SizingScores]
    worth: np.ndarray[tuple[int], np.dtype[np.float64]]


def measure() -> list[Row]:
    directory = os.environ.get(TRACES)
    quality = measure_quality(load_series(Path(directory) if directory else None), list_replayable_recommenders())
    return _rows(quality, has_bars=directory is not None)


def list_replayable_recommenders() -> dict[str, Recommender]:
    """What comes with Trellis, but for those that need runs: the series have none."""
    return {
        name: recommender for name, recommender in create_built_in_recommenders().items() if not needs_runs(recommender)
    }


def load_series(directory: Path | None) -> QualitySeries:
    """What to replay."""
    return lay_out(load_traces(directory) if directory else generated_traces())


def measure_quality(
    series: QualitySeries, recommenders: Mapping[str, Recommender], *, verbose: bool = False
) -> Quality:
    """Replay every recommender; the first is what the others are held against."""
    cpu: dict[str, SizingScores] = {}
    memory: dict[str, SizingScores] = {}
    for name, recommender in recommenders.items():
        started = time.perf_counter()
        cpu[name], memory[name] = _scores(series, recommender)
        if verbose:
            print(f"{name}: replayed in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    base = next(iter(cpu.values()))
    worth = series.worth * _comparable([scores.footprint[SHIPPED_MARGIN] for scores in cpu.values()])
    curves = {
        title: [build_margin_curve(name, scores, base, worth * mask) for name, scores in cpu.items()]
        for title, mask in series.slices.items()
        if (worth * mask).any()
    }
    sized = _comparable([scores.footprint for scores in memory.values()])
    return Quality(curves, memory, series.worth * series.with_memory * sized)


def _comparable(footprints: Sequence[FloatColumn]) -> BoolColumn:
    """Series of which every recommender has a footprint: some use nothing at all, or nothing in what is scored."""
    comparable: BoolColumn = np.logical_and.reduce(
        [np.isfinite(footprint) & (footprint > 0) for footprint in footprints]
    )
    return comparable


def _scores(series: QualitySeries, recommender: Recommender) -> tuple[SizingScores, SizingScores]:
    """Of CPU at every factor, and of memory as it is."""
    count = series.count
    killed = np.arange(2 * count) >= count
    replayed = replay_rule(
        series.usage, RecommenderRule(recommender, series.names, ReplayClock(BEGIN)), ReplaySettings(killed=killed)
    )
    cpu, memory = (
        ReplayResult(replayed.targets[:, part], replayed.changes[:, part], replayed.kills[:, part])
        for part in (slice(count), slice(count, None))
    )
    return (
        score_margins(series.part(0), cpu, MARGIN_FACTORS, series.scored),
        compute_scores(series.part(1), memory, series.scored),
    )


def _rows(quality: Quality, *, has_bars: bool) -> list[Row]:
    """Only what was published can judge: generated series are as simple or as hard as they were made."""
    rows = [*build_cpu_rows(quality.curves), *build_memory_rows(quality.memory, quality.worth)]
    return rows if has_bars else [Row(f"{row.title} (generated)", row.value) for row in rows]


def main(arguments: Sequence[str]) -> int:
    """The exit code is 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="bench.quality.scores", description=__doc__, allow_abbrev=False)
    parser.add_argument("--traces", type=Path, help="a directory with sets of traces; without it series are generated")
    parser.add_argument("--svg", type=Path, default=Path("quality.svg"), help="where to draw the frontier")
    parser.add_argument("--only", default="", help="recommenders beside the default, separated by commas")
    options = parser.parse_args(arguments)
    recommenders = list_replayable_recommenders()
    names = [name for name in options.only.split(",") if name] or [name for name in recommenders if name != "default"]
    try:
        series = load_series(options.traces)
    except CannotMeasure as error:
        print(error, file=sys.stderr)
        return 2
    quality = measure_quality(series, {name: recommenders[name] for name in ("default", *names)}, verbose=True)
    for title, curves in quality.curves.items():
        print(f"\nCPU, {title}\n{cpu_table(curves)}")
    print(f"\nMemory\n{memory_table(quality.memory, quality.worth)}")
    options.svg.write_text(draw(quality.curves), encoding="utf-8")
    rows = _rows(quality, has_bars=options.traces is not None)
    from bench.__main__ import table  # noqa: PLC0415 - which lists this module among its measurements

    print(f"\nBars\n{table(rows)}\n\ndrawn to {options.svg}")
    return 1 if any(row.met is False for row in rows) else 0


_CYCLIC = "daily or weekly"
_KILLS, _MEMORY_FOOTPRINT = 0.4, 1.12


def build_cpu_rows(curves: Mapping[str, Sequence[MarginCurve]]) -> list[Row]:
    """The bars of CPU, for the recommenders that were replayed: what each must reach against the default."""
    by_name = {(title, curve.name): curve for title, listed in curves.items() for curve in listed}
    rows: list[Row] = []
    if cyclic := by_name.get((_CYCLIC, "seasonal")):
        rows += _seasonal(cyclic)
    if overall := by_name.get(("all", "adaptive")):
        rows += _adaptive(overall)
    if random := by_name.get(("random", "adaptive")):
        rows += _random(random)
    return rows


def build_memory_rows(memory: Mapping[str, SizingScores], worth: FloatColumn) -> list[Row]:
    """The bars of memory."""
    if "adaptive" not in memory or not (worth > 0).any():
        return []
    footprint, kills = against_default(memory["adaptive"], memory["default"], worth)
    return [
        _at_most("adaptive, memory: footprint", footprint, _MEMORY_FOOTPRINT),
        _at_most("adaptive, memory: out-of-memory kills", kills, _KILLS),
    ]


def _seasonal(curve: MarginCurve) -> Iterator[Row]:
    title = f"seasonal, {_CYCLIC}"
    equal, large, shipped = curve.at_time_over, curve.at_footprint, curve.shipped
    yield _at_most(f"{title}, at default's time over: footprint", equal.footprint, 0.85)
    yield _at_most(f"{title}, at default's time over: volume", equal.overrun, 1.0)
    yield _at_most(f"{title}, at default's footprint: time over", large.time_over, 1 / 3)
    yield _at_most(f"{title}, at default's footprint: volume", large.overrun, 0.4)
    yield _at_most(f"{title}, as shipped: footprint", shipped.footprint, 0.93)
    yield _at_most(f"{title}, as shipped: time over", shipped.time_over, 0.6)
    yield _at_most(f"{title}, as shipped: volume", shipped.overrun, 0.6)
    yield _at_most(f"{title}, as shipped: changes per day", curve.changes, 12)


def _adaptive(curve: MarginCurve) -> Iterator[Row]:
    shipped = curve.shipped
    yield _at_most("adaptive, all, as shipped: footprint", shipped.footprint, 0.97)
    yield _at_most("adaptive, all, as shipped: time over", shipped.time_over, 0.8)
    yield _at_most("adaptive, all, as shipped: volume", shipped.overrun, 0.9)
    yield _at_most("adaptive, all, as shipped: changes per day", curve.changes, 8)
    yield _at_most("adaptive, all, at default's time over and volume: footprint", curve.at_risk.footprint, 0.93)
    yield _at_most("adaptive, all, series that are worse in both", curve.worse, 0.05)


def _random(curve: MarginCurve) -> Iterator[Row]:
    yield _at_most("adaptive, random, as shipped: footprint", curve.shipped.footprint, 1.0)
    yield _at_most("adaptive, random, as shipped: time over", curve.shipped.time_over, 0.9)


def _at_most(title: str, measured: float, bar: float) -> Row:
    return Row(title, f"{measured:.3f}", bar=f"<= {bar:.3g}", met=measured <= bar)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
