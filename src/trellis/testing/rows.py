"""Rows for a recommender, built from examples of usage by the production usage model.

    rows = build_rows([UsageExample(cpu=[0.2] * 48, memory=[3e8] * 48)])      # two days, a sample every hour, until NOW

`example_rows` has containers of many kinds. It needs nothing but NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import msgspec
import numpy as np

from trellis.core.cluster.oom_kill_detection import OomKill
from trellis.core.recommend.protocol import Rows
from trellis.core.usage.columns import FloatColumn, RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

# Half past an hour, so that an hour is running.
NOW: Final = 1_760_002_200.0
HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
GIB: Final = 2.0**30

_NAMESPACE, _CONTAINER = "shop", "app"


class UsageExample(msgspec.Struct, frozen=True):
    """The usage of a container: cores and bytes, NaN if not measured, one sample per `interval`.

    The last sample is `ended_ago` seconds old. `requests` are millicores and bytes. The pod has run for `age` seconds;
    NaN if there is no pod now. The container was OOM-killed `killed_ago` seconds ago. `siblings` counts the containers
    of the pod, this one included. Earlier pods started `run_starts_ago` seconds ago; a sample belongs to the pod that
    started last before it.
    """

    cpu: Sequence[float] | FloatColumn = ()
    memory: Sequence[float] | FloatColumn = ()
    interval: float = HOUR
    ended_ago: float = 0.0
    requests: tuple[float, float] = (math.nan, math.nan)
    age: float = DAY
    killed_ago: float = math.nan
    siblings: int = 1
    run_starts_ago: Sequence[float] = ()


def build_rows(
    containers: Sequence[UsageExample], now: float = NOW, *, history: bool = True, runs: bool = False
) -> Rows:
    """A row for each container, in this order, each under its own VPA.

    Without `history` the rows have no hourly history, and without `runs` no usage by run.
    """
    model = UsageModel()
    names = [f"vpa-{number}" for number in range(len(containers))]
    if history:
        model.keep_history([(_NAMESPACE, name) for name in names])
    if runs:
        model.keep_runs([(_NAMESPACE, name) for name in names])
    pods = [_pod(name, used, now) for name, used in zip(names, containers, strict=True)]
    earlier = [pod for name, used in zip(names, containers, strict=True) for pod in _earlier_pods(name, used, now)]
    model.track_pods(_NAMESPACE, [*pods, *earlier], now - DAY)
    model.ingest(Samples.concatenate([_samples(*named, now) for named in zip(names, containers, strict=True)]), now)
    kills = (
        (name, used.killed_ago) for name, used in zip(names, containers, strict=True) if not math.isnan(used.killed_ago)
    )
    model.record_ooms([OomKill(_NAMESPACE, name, name, _CONTAINER, now - ago, math.nan) for name, ago in kills], now)
    alive = [pod for pod, used in zip(pods, containers, strict=True) if not math.isnan(used.age)]
    model.track_pods(_NAMESPACE, alive, now)
    rows = model.find_rows([RowKey(_NAMESPACE, name, _CONTAINER) for name in names])
    siblings = np.array([container.siblings for container in containers], dtype=np.float64)
    return Rows(model.view(rows), siblings)


@cache
def example_rows(*, history: bool, runs: bool = False) -> Rows:
    """Containers of many kinds, at NOW. The rows are cached: do not change them."""
    return build_rows(list(_examples()), history=history, runs=runs)


def _pod(name: str, used: UsageExample, now: float) -> TrackedPod:
    cpu, memory = used.requests
    container = TrackedContainer(_CONTAINER, memory, cpu)
    return TrackedPod(_NAMESPACE, name, name, name, True, (container,), now - used.age)


def _earlier_pods(name: str, used: UsageExample, now: float) -> Iterator[TrackedPod]:
    for number, ago in enumerate(used.run_starts_ago):
        pod = f"{name}-{number}"
        yield TrackedPod(_NAMESPACE, pod, pod, name, True, (TrackedContainer(_CONTAINER),), now - ago)


def _samples(name: str, used: UsageExample, now: float) -> Samples:
    count = max(len(used.cpu), len(used.memory))
    times = now - used.ended_ago - used.interval * np.arange(count - 1, -1, -1, dtype=np.float64)
    return Samples(
        [_NAMESPACE] * count,
        _assign_pods(name, used, times, now),
        [_CONTAINER] * count,
        times,
        *(_fill_missing(values, count) for values in (used.cpu, used.memory)),
    )


def _assign_pods(name: str, used: UsageExample, times: FloatColumn, now: float) -> list[str]:
    """The pod of each sample: the pod that started last before it."""
    starts = [(now - ago, f"{name}-{number}") for number, ago in enumerate(used.run_starts_ago)]
    starts = sorted([*starts, (now - used.age, name)] if starts and not math.isnan(used.age) else starts)
    pods = [starts[0][1] if starts else name, *(pod for _, pod in starts)]
    return [pods[at] for at in np.searchsorted([start for start, _ in starts], times, side="right").tolist()]


def _fill_missing(values: Sequence[float] | FloatColumn, count: int) -> FloatColumn:
    return np.asarray(values, dtype=np.float64) if len(values) else np.full(count, np.nan)


def _examples() -> Iterator[UsageExample]:
    yield from _newcomers()
    yield from _workloads()
    yield from _jobs()
    yield from _extremes()


def _newcomers() -> Iterator[UsageExample]:
    """Containers with little or no history."""
    yield UsageExample()
    yield UsageExample(requests=(100.0, 1e8), age=30.0)
    yield UsageExample([0.1], [1e8], age=60.0)
    yield UsageExample([0.1, 0.2, 0.1], [1e8] * 3, interval=60.0, age=180.0, siblings=3)
    yield UsageExample(cpu=[0.5] * 10)
    yield UsageExample(memory=[5e8] * 10)
    yield UsageExample([0.5] * 10, [5e8] * 10, age=math.nan)


def _workloads() -> Iterator[UsageExample]:
    """Workloads with fifteen days of history, periodic and not."""
    draw = np.random.default_rng(7)
    hours = np.arange(15 * 24, dtype=np.float64)
    noise: FloatColumn = 1 + 0.1 * draw.standard_normal(len(hours)).clip(-3, 3)
    day = np.where((hours % 24 > 8) & (hours % 24 < 18), 1.0, 0.2) * noise
    week = np.where(hours // 24 % 7 < 5, day, 0.1)
    level = np.where(hours < 240, 2.0, 0.5) * noise
    spikes = np.where(draw.random(len(hours)) < 0.02, 4.0, 0.1)
    yield UsageExample(0.5 * noise, [GIB] * len(hours), requests=(1000.0, GIB), age=15 * DAY)
    yield UsageExample(day, GIB * (0.5 + day / 2), requests=(500.0, 2 * GIB), age=2 * DAY)
    yield UsageExample(week, GIB * (0.5 + week / 2), age=15 * DAY, siblings=2)
    yield UsageExample(level, GIB * level, requests=(3000.0, 4 * GIB), age=5 * DAY)
    yield UsageExample(spikes, GIB * (1 + spikes), age=DAY)
    yield UsageExample(0.2 + hours / 1000.0, 1e8 + 1e6 * hours, requests=(200.0, 1e8))
    yield UsageExample(np.where(hours % 50 < 10, np.nan, day), np.where(hours % 60 < 20, np.nan, GIB * day))
    yield UsageExample(day, GIB * day, ended_ago=5 * DAY, age=math.nan)
    yield UsageExample([0.4] * 200, [4e8] * 200, requests=(500.0, 3e8), killed_ago=3 * HOUR)
    yield UsageExample([0.4] * 200, [4e8] * 200, interval=600.0, age=1200.0, killed_ago=10 * HOUR)


def _jobs() -> Iterator[UsageExample]:
    """Recurring jobs: between two runs, during a run, and after the longest run so far."""
    for minutes, age in ((0, math.nan), (0, 0.0), (7, 420.0), (25, 1500.0), (95, 5700.0)):
        run = np.repeat([0.2, 2.0, 0.5], [20, 10, 10])
        running = np.resize(run, minutes)
        used = np.concatenate([run] * 6 + [running])
        starts = [60.0 * (len(running) + len(run) * ago) + 30.0 for ago in range(1, 7)]
        yield UsageExample(used, GIB * (0.5 + used), interval=60.0, age=age, run_starts_ago=starts)
    yield UsageExample(
        np.geomspace(0.1, 5.0, 180), interval=60.0, age=600.0, run_starts_ago=[10_800.0, 9_000.0, 5_400.0, 3_600.0]
    )


def _extremes() -> Iterator[UsageExample]:
    """Containers with usage or requests that are zero, tiny, huge or swing between extremes."""
    yield UsageExample([0.0] * 48, [0.0] * 48)
    yield UsageExample([1e-9] * 48, [1.0] * 48)
    yield UsageExample([90_000.0] * 48, [9e14] * 48, requests=(1e8, 1e15))
    yield UsageExample([0.0, 1000.0] * 24, [0.0, 1e12] * 24, siblings=50)
    yield UsageExample([0.3] * 48, [3e8] * 48, requests=(0.0, 0.0), age=0.0)
