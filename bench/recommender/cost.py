"""Measures the recommenders that remember more than histograms: passes over 10,000 containers each.

`python -m bench recommender_cost`. Each recommender runs in a process of its own, pinned to a core, and is asked as it
is in a cluster: for the first time, again a minute later, and when another hour is over. What depends on the hour is
worked out once an hour, so that a pass within the hour is what nearly all are. Of jobs all are in the middle of a run,
which is the most that there can be to do. Of several passes the fastest counts, by the time of the processor: the
machine is shared with whatever else runs on it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol

import msgspec
import numpy as np

from bench.measurement import CannotMeasure, Row, in_ms, run, within
from bench.recommender.hours_of_history import BEGIN, Containers
from bench.recommender.in_memory import pin_to_one_core, resident_megabytes
from bench.recommender.job_runs import Jobs
from trellis.core.recommend.amounts import CPU
from trellis.core.recommend.evaluation.recommender_choice import ChoiceSettings, choose_candidates
from trellis.core.recommend.forecast.candidates import FORECAST_CANDIDATES
from trellis.core.recommend.protocol import Recommender, Rows
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.core.recommend.validation import needs_runs

ROWS = 10_000
SECONDS = 2.0
SECONDS_TO_CHOOSE = 0.010  # for one row
LATER_PASSES, TURNS = 5, 3
_MINUTES_LEFT = 60 - LATER_PASSES
_CHOSEN_AT_ONCE, _CHOSEN = 32, 256

ONE_THREAD = ("OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")


class Many(Protocol):
    """Containers of which a recommender can be asked while time goes by."""

    now: float

    def pass_by(self, minutes: float) -> None: ...

    def rows(self) -> Rows: ...


class Passes(msgspec.Struct, frozen=True):
    """Seconds of the first pass, of a later one, and of the first of another hour; and what the process came to."""

    first: float
    later: float
    turn: float
    megabytes: float


def measure() -> list[Row]:
    """Every recommender that remembers hours or runs, and what one choice of `adaptive` takes."""
    rows: list[Row] = []
    for name, recommender in create_built_in_recommenders().items():
        if recommender.needs_history or needs_runs(recommender):
            taken = msgspec.json.decode(_child(name), type=Passes)
            rows += _of_runs(name, taken) if needs_runs(recommender) else _of_hours(name, taken)
    seconds = float(_child("choices"))
    return [*rows, within("adaptive: to choose for one container, once a day", seconds, SECONDS_TO_CHOOSE)]


def _of_hours(name: str, taken: Passes) -> list[Row]:
    title = f"{name}, {ROWS:,} containers: a pass when an hour is over"
    # What adaptive does beside it, to choose, has a bar of its own.
    return [
        Row(title, in_ms(taken.turn)) if name == "adaptive" else within(title, taken.turn, SECONDS),
        Row("  a pass within the hour", in_ms(taken.later)),
        Row("  the first pass of all", in_ms(taken.first)),
        Row("  resident, histories included", f"{taken.megabytes:,.0f} MB"),
    ]


def _of_runs(name: str, taken: Passes) -> list[Row]:
    return [
        within(f"{name}, {ROWS:,} jobs, all of them running: a pass", taken.later, SECONDS),
        Row("  the first pass of all", in_ms(taken.first)),
        Row("  resident, runs included", f"{taken.megabytes:,.0f} MB"),
    ]


def _child(what: str) -> str:
    return run("env", *ONE_THREAD, sys.executable, "-m", "bench.recommender.cost", what)


def _take_passes(recommender: Recommender) -> Passes:
    many: Many = Jobs(ROWS) if needs_runs(recommender) else Containers(ROWS)
    values = {parameter.name: parameter.default for parameter in recommender.parameters}

    def take(minutes: int) -> float:
        many.pass_by(minutes)
        rows = many.rows()
        return _seconds(lambda: recommender.estimate(rows, values, many.now))

    first = take(1)
    later, turns = [], []
    for _ in range(TURNS):
        later += [take(1) for _ in range(LATER_PASSES)]
        turns.append(take(_MINUTES_LEFT))
    return Passes(first, min(later), min(turns), resident_megabytes(peak=True))


def _take_choices() -> float:
    """Seconds for one row, reading its hours included."""
    rows = Containers(_CHOSEN).rows()

    def take() -> None:
        for begin in range(0, _CHOSEN, _CHOSEN_AT_ONCE):
            part = np.arange(begin, begin + _CHOSEN_AT_ONCE)
            choose_candidates(rows.hours(BEGIN, part)[:, CPU], FORECAST_CANDIDATES, ChoiceSettings())

    return min(_seconds(take) for _ in range(3)) / _CHOSEN


def _seconds(do: Callable[[], object]) -> float:
    began = time.process_time()
    do()
    return time.process_time() - began


def main(what: str) -> int:
    """What a child process is asked for: the name of a recommender, or `choices`."""
    pin_to_one_core()
    known = create_built_in_recommenders()
    if what == "choices":
        print(_take_choices())
    elif what in known:
        print(msgspec.json.encode(_take_passes(known[what])).decode())
    else:
        raise CannotMeasure(f"there is no recommender {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
