"""Draw the pictures of the guide to choosing a recommender: `python -m bench.pictures.recommenders docs/images`.

Each is a replay of a made-up workload through the recommenders as they are shipped: an hour at a time, from the past
alone, with what the replay says of it in the legend. The frontier is that of the quality measurement, on its generated
series.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from bench.pictures.frontier import draw as frontier
from bench.pictures.job_runs import build_runs_chart
from bench.pictures.sizing import Chart, Line, draw
from bench.pictures.usage import GIB, POINTS, pictured, pictured_long
from bench.quality.scores import list_replayable_recommenders, load_series, measure_quality
from trellis.core.recommend.evaluation.replay import (
    RecommenderRule,
    ReplayClock,
    ReplayResult,
    ReplaySettings,
    combine_usage,
    replay_rule,
)
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.core.usage.columns import BoolColumn, FloatColumn

BEGIN = 1_790_035_200.0  # a midnight, and a Monday
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_AS_ONE = 2  # points are drawn together, by their highest


class Picture(msgspec.Struct, frozen=True):
    """A workload and who sizes it beside the default; the last `days` are shown."""

    usage: str
    title: str
    other: str
    memory: bool = False
    days: int = 7


PICTURES: Mapping[str, Picture] = {
    "recommender-steady": Picture("steady", "Steady CPU", "adaptive"),
    "recommender-weekly": Picture("weekly", "Busy on working days", "seasonal"),
    "recommender-spiky": Picture("spiky", "Bursts at any time", "window"),
    "recommender-deployed": Picture("deployed", "A deployment halves usage", "adaptive"),
    "recommender-long-cycle": Picture("long-cycle", "Memory that peaks every ten days", "seasonal", True, 42),
    "recommender-leak": Picture("leak", "Memory that grows until a restart", "seasonal", True, 14),
}
RUNS, FRONTIER = "recommender-phases", "recommender-frontier"
NAMES = (*PICTURES, RUNS, FRONTIER)
_SLICES = ("all", "daily or weekly")


def build_charts(names: Sequence[str]) -> dict[str, Chart]:
    """Those of `PICTURES` that are wanted."""
    result: dict[str, Chart] = {}
    for usage in (pictured(), pictured_long()):
        result |= _draw_charts(usage, [name for name in names if PICTURES[name].usage in usage])
    return {name: result[name] for name in names}


def _draw_charts(usage: Mapping[str, tuple[FloatColumn, FloatColumn]], pictures: Sequence[str]) -> dict[str, Chart]:
    """Those of workloads that are as long as one another, which are replayed together."""
    if not pictures:
        return {}
    usages = sorted({PICTURES[name].usage for name in pictures})
    used = {name: usage[name] for name in usages}
    recommenders = sorted({"default", *(PICTURES[name].other for name in pictures)})
    replayed = {name: _replayed(name, used) for name in recommenders}
    return {name: _chart(PICTURES[name], used, replayed) for name in pictures}


def _replayed(recommender: str, used: Mapping[str, tuple[FloatColumn, FloatColumn]]) -> ReplayResult:
    cpu, memory = (
        np.stack([columns[resource].reshape(-1, POINTS) for columns in used.values()], axis=-1) for resource in (0, 1)
    )
    clock = ReplayClock(BEGIN)
    killed = np.arange(2 * len(used)) >= len(used)
    rule = RecommenderRule(create_built_in_recommenders()[recommender], list(used), clock)
    return replay_rule(combine_usage(cpu, memory, clock), rule, ReplaySettings(killed=killed))


def _chart(
    picture: Picture, used: Mapping[str, tuple[FloatColumn, FloatColumn]], replayed: Mapping[str, ReplayResult]
) -> Chart:
    at = list(used).index(picture.usage) + (len(used) if picture.memory else 0)
    shown = slice(-picture.days * 24, None)
    scale = GIB if picture.memory else 1.0
    usage = used[picture.usage][picture.memory].reshape(-1, POINTS)[shown] / scale
    lines = []
    for name in ("default", picture.other):
        result = replayed[name]
        targets, changes, kills = result.targets[shown, at] / scale, result.changes[shown, at], result.kills[shown, at]
        summary = (
            f"{_format_count(kills.sum(), 'kill')}, {_format_count(changes.sum(), 'change')}"
            if picture.memory
            else None
        )
        lines.append(_build_line(name, usage, targets, kills, summary))
    every = max(1, picture.days // len(_WEEKDAYS))
    hidden_days = len(used[picture.usage][0]) // (24 * POINTS) - picture.days
    marks = [
        (day / picture.days, _WEEKDAYS[day] if every == 1 else f"day {hidden_days + day + 1}")
        for day in range(0, picture.days, every)
    ]
    highest = usage.reshape(-1, _AS_ONE).max(axis=1)
    return Chart(picture.title, "GiB" if picture.memory else "cores", highest, lines, marks)


def _build_line(name: str, usage: FloatColumn, targets: FloatColumn, kills: FloatColumn, summary: str | None) -> Line:
    """From usage (hours, points) and what happened in each hour."""
    over = usage > targets[:, np.newaxis]
    short: BoolColumn = np.any(over.reshape(-1, _AS_ONE), axis=1)
    summary = summary or f"short {over.mean():.1%} of the time"
    points = POINTS // _AS_ONE
    return Line(
        name,
        f"{targets.mean() / usage.mean():.2f} \u00d7 usage, {summary}",
        np.repeat(targets, points),
        short,
        np.flatnonzero(kills) * points + points // 2,
    )


def _format_count(count: float, noun: str) -> str:
    return f"{count:.0f} {noun}" + ("" if count == 1 else "s")


def build_drawings(names: Sequence[str]) -> dict[str, str]:
    """SVG by name."""
    build_drawings = {
        name: draw(chart) for name, chart in build_charts([name for name in names if name in PICTURES]).items()
    }
    if RUNS in names:
        build_drawings[RUNS] = draw(build_runs_chart())
    if FRONTIER in names:
        curves = measure_quality(load_series(None), list_replayable_recommenders()).curves
        build_drawings[FRONTIER] = frontier({title: curves[title] for title in _SLICES})
    return build_drawings


def main(arguments: Sequence[str]) -> int:
    """Draw all of them, or those that are named."""
    parser = argparse.ArgumentParser(prog="bench.pictures.recommenders", description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="where to write them")
    parser.add_argument("--only", choices=NAMES, action="append", help="one picture; may be repeated")
    options = parser.parse_args(arguments)
    for name, svg in build_drawings(options.only or NAMES).items():
        (options.folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        print(f"wrote {options.folder / name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
