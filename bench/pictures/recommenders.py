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

from bench.pictures.frontier import drawn as frontier
from bench.pictures.job_runs import picture_of_runs
from bench.pictures.sizing import Chart, Line, drawn
from bench.pictures.usage import GIB, POINTS, pictured, pictured_long
from bench.quality.scores import measured, replayable, series_from
from trellis.core.recommend.evaluation.replay import (
    RecommenderRule,
    ReplayClock,
    ReplayResult,
    ReplaySettings,
    combine_usage,
    replay_rule,
)
from trellis.core.recommend.registry import built_in_recommenders
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


def charts(wanted: Sequence[str]) -> dict[str, Chart]:
    """Those of `PICTURES` that are wanted."""
    result: dict[str, Chart] = {}
    for usage in (pictured(), pictured_long()):
        result |= _charts_of(usage, [name for name in wanted if PICTURES[name].usage in usage])
    return {name: result[name] for name in wanted}


def _charts_of(usage: Mapping[str, tuple[FloatColumn, FloatColumn]], wanted: Sequence[str]) -> dict[str, Chart]:
    """Those of workloads that are as long as one another, which are replayed together."""
    if not wanted:
        return {}
    names = sorted({PICTURES[name].usage for name in wanted})
    used = {name: usage[name] for name in names}
    recommenders = sorted({"default", *(PICTURES[name].other for name in wanted)})
    replayed = {name: _replayed(name, used) for name in recommenders}
    return {name: _chart(PICTURES[name], used, replayed) for name in wanted}


def _replayed(recommender: str, used: Mapping[str, tuple[FloatColumn, FloatColumn]]) -> ReplayResult:
    cpu, memory = (
        np.stack([each[resource].reshape(-1, POINTS) for each in used.values()], axis=-1) for resource in (0, 1)
    )
    clock = ReplayClock(BEGIN)
    killed = np.arange(2 * len(used)) >= len(used)
    rule = RecommenderRule(built_in_recommenders()[recommender], list(used), clock)
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
        done = replayed[name]
        targets, changes, kills = done.targets[shown, at] / scale, done.changes[shown, at], done.kills[shown, at]
        result = f"{_many(kills.sum(), 'kill')}, {_many(changes.sum(), 'change')}" if picture.memory else None
        lines.append(_line(name, usage, targets, kills, result))
    every = max(1, picture.days // len(_WEEKDAYS))
    unseen = len(used[picture.usage][0]) // (24 * POINTS) - picture.days
    marks = [
        (day / picture.days, _WEEKDAYS[day] if every == 1 else f"day {unseen + day + 1}")
        for day in range(0, picture.days, every)
    ]
    highest = usage.reshape(-1, _AS_ONE).max(axis=1)
    return Chart(picture.title, "GiB" if picture.memory else "cores", highest, lines, marks)


def _line(name: str, usage: FloatColumn, targets: FloatColumn, kills: FloatColumn, told: str | None) -> Line:
    """From usage (hours, points) and what happened in each hour."""
    over = usage > targets[:, np.newaxis]
    short: BoolColumn = np.any(over.reshape(-1, _AS_ONE), axis=1)
    told = told or f"short {over.mean():.1%} of the time"
    points = POINTS // _AS_ONE
    return Line(
        name,
        f"{targets.mean() / usage.mean():.2f} \u00d7 usage, {told}",
        np.repeat(targets, points),
        short,
        np.flatnonzero(kills) * points + points // 2,
    )


def _many(count: float, what: str) -> str:
    return f"{count:.0f} {what}" + ("" if count == 1 else "s")


def drawings(wanted: Sequence[str]) -> dict[str, str]:
    """SVG by name."""
    drawings = {name: drawn(chart) for name, chart in charts([name for name in wanted if name in PICTURES]).items()}
    if RUNS in wanted:
        drawings[RUNS] = drawn(picture_of_runs())
    if FRONTIER in wanted:
        curves = measured(series_from(None), replayable()).curves
        drawings[FRONTIER] = frontier({title: curves[title] for title in _SLICES})
    return drawings


def main(arguments: Sequence[str]) -> int:
    """Draw all of them, or those that are named."""
    parser = argparse.ArgumentParser(prog="bench.pictures.recommenders", description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="where to write them")
    parser.add_argument("--only", choices=NAMES, action="append", help="one picture; may be repeated")
    given = parser.parse_args(arguments)
    for name, svg in drawings(given.only or NAMES).items():
        (given.folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        print(f"wrote {given.folder / name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
