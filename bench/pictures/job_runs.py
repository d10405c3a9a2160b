"""Draws how a recurring job is sized: phases of equal runs, and the recommenders that predict them.

A job that loads, computes, sorts and writes, five times a day and never quite alike. Its pods are followed and
sampled as in a cluster, and resized in place when a target moves.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bench.pictures.sizing import Chart, Line
from trellis.core.recommend.amounts import CPU, MILLICORES_PER_CORE
from trellis.core.recommend.protocol import Recommender, Rows
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.core.usage.columns import FloatColumn, RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

BEGIN = 1_790_035_200.0  # a midnight
RUNS, SHOWN = 12, 3
EVERY = 288  # minutes from the start of a run to that of the next
MINUTE = 60.0
_MIB = 2.0**20
_MINUTES_A_PASS = 5
_THRESHOLD = 0.05
_NAMESPACE, _VPA, _CONTAINER = "batch", "report", "app"


def build_runs_chart(count: int = RUNS) -> Chart:
    """The last of so many runs, sized by `default` and by `phases`."""
    runs = [_run(number) for number in range(count)]
    usage = np.concatenate([np.pad(run, (0, EVERY - len(run))) for run in runs])
    shown = slice(-SHOWN * EVERY, None)
    known = create_built_in_recommenders()
    lines = [_line(name, _targets(known[name], runs)[shown], usage[shown]) for name in ("default", "phases")]
    marks = [(number / SHOWN, f"run {count - SHOWN + number + 1}") for number in range(SHOWN)]
    return Chart("A job that runs again and again", "cores", usage[shown], lines, marks)


def _run(number: int) -> FloatColumn:
    """Cores, minute by minute: loading, computing, a short time of sorting, writing."""
    draw = np.random.default_rng(number)
    phases = ((0.4, 40), (1.1, 120), (3.0, 13), (0.6, 30))
    lengths = [minutes + int(draw.integers(-3, 4)) for _, minutes in phases]
    return np.repeat([cores for cores, _ in phases], lengths) * draw.lognormal(0.0, 0.05, sum(lengths))


def _line(name: str, targets: FloatColumn, usage: FloatColumn) -> Line:
    runs = usage > 0
    over = runs & (usage > targets)
    footprint, short = targets[runs].mean() / usage[runs].mean(), over.sum() / runs.sum()
    result = f"{footprint:.2f} \u00d7 usage, short {short:.1%} of the time"
    return Line(name, result, np.where(runs, targets, 0.0), over, np.zeros(0, dtype=np.int64))


def _targets(recommender: Recommender, runs: list[FloatColumn]) -> FloatColumn:
    """What each minute was sized by; nothing while no pod runs."""
    model = UsageModel()
    model.keep_runs([(_NAMESPACE, _VPA)])
    return np.concatenate(
        [np.pad(list(_of_run(recommender, model, *run)), (0, EVERY - len(run[1]))) for run in enumerate(runs)]
    )


def _of_run(recommender: Recommender, model: UsageModel, number: int, used: FloatColumn) -> Iterator[float]:
    start = BEGIN + number * EVERY * MINUTE
    name = f"{_VPA}-{number}"
    pod = TrackedPod(_NAMESPACE, name, name, _VPA, True, (TrackedContainer(_CONTAINER),), start)
    model.track_pods(_NAMESPACE, [pod], start)
    target = np.nan
    for minute, cores in enumerate(used.tolist()):
        now = start + minute * MINUTE
        if minute % _MINUTES_A_PASS == 0:
            wanted = _asked(recommender, model, now)
            target = target if abs(wanted - target) <= _THRESHOLD * target else wanted
        yield target
        sample = (np.array([now]), np.array([cores]), np.array([300 * _MIB]))
        model.ingest(Samples([_NAMESPACE], [name], [_CONTAINER], *sample), now + MINUTE)
    model.track_pods(_NAMESPACE, [], start + len(used) * MINUTE)


def _asked(recommender: Recommender, model: UsageModel, now: float) -> float:
    """The target in cores."""
    view = model.view(model.find_rows([RowKey(_NAMESPACE, _VPA, _CONTAINER)]))
    values = {parameter.name: parameter.default for parameter in recommender.parameters}
    estimate = recommender.estimate(Rows(view, np.ones(len(view))), values, now)
    return float(estimate.target[CPU, 0]) / MILLICORES_PER_CORE
