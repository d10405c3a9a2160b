"""Rows to ask a recommender about, built from what containers used by way of the production usage model.

    rows = rows_of([Used(cpu=[0.2] * 48, memory=[3e8] * 48)])      # two days, a sample every hour, until NOW

`example_rows` has containers of many kinds. It needs nothing but NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import msgspec
import numpy as np

from trellis.core.cluster.oom_kills import OomKill
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


class Used(msgspec.Struct, frozen=True):
    """What a container used: cores and bytes, NaN if not measured, `every` so many seconds until `silence` ago.

    `requests` are millicores and bytes. Its pod has run for `age` seconds; NaN if there is no pod now. `killed` is how
    many seconds ago it ran out of memory. `siblings` is how many containers its pod has, itself included. `runs` is how
    many seconds ago earlier pods of it started, each of which used what was used until the next one did.
    """

    cpu: Sequence[float] | FloatColumn = ()
    memory: Sequence[float] | FloatColumn = ()
    every: float = HOUR
    silence: float = 0.0
    requests: tuple[float, float] = (math.nan, math.nan)
    age: float = DAY
    killed: float = math.nan
    siblings: int = 1
    runs: Sequence[float] = ()


def rows_of(containers: Sequence[Used], now: float = NOW, *, history: bool = True, runs: bool = False) -> Rows:
    """A row for each container, in this order, each under a VPA of its own.

    Without `history` no hours are kept of them, and without `runs` no runs.
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
    kills = ((name, used.killed) for name, used in zip(names, containers, strict=True) if not math.isnan(used.killed))
    model.record_ooms([OomKill(_NAMESPACE, name, name, _CONTAINER, now - ago, math.nan) for name, ago in kills], now)
    alive = [pod for pod, used in zip(pods, containers, strict=True) if not math.isnan(used.age)]
    model.track_pods(_NAMESPACE, alive, now)
    rows = model.find_rows([RowKey(_NAMESPACE, name, _CONTAINER) for name in names])
    siblings = np.array([container.siblings for container in containers], dtype=np.float64)
    return Rows(model.view(rows), siblings)


@cache
def example_rows(*, history: bool, runs: bool = False) -> Rows:
    """Containers of every sort, at NOW. All ask about the same ones: do not change them."""
    return rows_of(list(_examples()), history=history, runs=runs)


def _pod(name: str, used: Used, now: float) -> TrackedPod:
    cpu, memory = used.requests
    container = TrackedContainer(_CONTAINER, memory, cpu)
    return TrackedPod(_NAMESPACE, name, name, name, True, (container,), now - used.age)


def _earlier_pods(name: str, used: Used, now: float) -> Iterator[TrackedPod]:
    for number, ago in enumerate(used.runs):
        pod = f"{name}-{number}"
        yield TrackedPod(_NAMESPACE, pod, pod, name, True, (TrackedContainer(_CONTAINER),), now - ago)


def _samples(name: str, used: Used, now: float) -> Samples:
    count = max(len(used.cpu), len(used.memory))
    times = now - used.silence - used.every * np.arange(count - 1, -1, -1, dtype=np.float64)
    return Samples(
        [_NAMESPACE] * count,
        _pods_of(name, used, times, now),
        [_CONTAINER] * count,
        times,
        *(_filled(values, count) for values in (used.cpu, used.memory)),
    )


def _pods_of(name: str, used: Used, times: FloatColumn, now: float) -> list[str]:
    """The pod of each sample: the one that started last before it."""
    starts = [(now - ago, f"{name}-{number}") for number, ago in enumerate(used.runs)]
    starts = sorted([*starts, (now - used.age, name)] if starts and not math.isnan(used.age) else starts)
    pods = [starts[0][1] if starts else name, *(pod for _, pod in starts)]
    return [pods[at] for at in np.searchsorted([start for start, _ in starts], times, side="right").tolist()]


def _filled(values: Sequence[float] | FloatColumn, count: int) -> FloatColumn:
    return np.asarray(values, dtype=np.float64) if len(values) else np.full(count, np.nan)


def _examples() -> Iterator[Used]:
    yield from _newcomers()
    yield from _workloads()
    yield from _jobs()
    yield from _extremes()


def _newcomers() -> Iterator[Used]:
    """Containers with little or no history."""
    yield Used()
    yield Used(requests=(100.0, 1e8), age=30.0)
    yield Used([0.1], [1e8], age=60.0)
    yield Used([0.1, 0.2, 0.1], [1e8] * 3, every=60.0, age=180.0, siblings=3)
    yield Used(cpu=[0.5] * 10)
    yield Used(memory=[5e8] * 10)
    yield Used([0.5] * 10, [5e8] * 10, age=math.nan)


def _workloads() -> Iterator[Used]:
    """Fifteen days of them, with and without a rhythm."""
    draw = np.random.default_rng(7)
    hours = np.arange(15 * 24, dtype=np.float64)
    noise: FloatColumn = 1 + 0.1 * draw.standard_normal(len(hours)).clip(-3, 3)
    day = np.where((hours % 24 > 8) & (hours % 24 < 18), 1.0, 0.2) * noise
    week = np.where(hours // 24 % 7 < 5, day, 0.1)
    level = np.where(hours < 240, 2.0, 0.5) * noise
    spikes = np.where(draw.random(len(hours)) < 0.02, 4.0, 0.1)
    yield Used(0.5 * noise, [GIB] * len(hours), requests=(1000.0, GIB), age=15 * DAY)
    yield Used(day, GIB * (0.5 + day / 2), requests=(500.0, 2 * GIB), age=2 * DAY)
    yield Used(week, GIB * (0.5 + week / 2), age=15 * DAY, siblings=2)
    yield Used(level, GIB * level, requests=(3000.0, 4 * GIB), age=5 * DAY)
    yield Used(spikes, GIB * (1 + spikes), age=DAY)
    yield Used(0.2 + hours / 1000.0, 1e8 + 1e6 * hours, requests=(200.0, 1e8))
    yield Used(np.where(hours % 50 < 10, np.nan, day), np.where(hours % 60 < 20, np.nan, GIB * day))
    yield Used(day, GIB * day, silence=5 * DAY, age=math.nan)
    yield Used([0.4] * 200, [4e8] * 200, requests=(500.0, 3e8), killed=3 * HOUR)
    yield Used([0.4] * 200, [4e8] * 200, every=600.0, age=1200.0, killed=10 * HOUR)


def _jobs() -> Iterator[Used]:
    """What runs again and again: between two runs, in the middle of one, and later than any run ever was."""
    for minutes, age in ((0, math.nan), (0, 0.0), (7, 420.0), (25, 1500.0), (95, 5700.0)):
        run = np.repeat([0.2, 2.0, 0.5], [20, 10, 10])
        running = np.resize(run, minutes)
        used = np.concatenate([run] * 6 + [running])
        starts = [60.0 * (len(running) + len(run) * ago) + 30.0 for ago in range(1, 7)]
        yield Used(used, GIB * (0.5 + used), every=60.0, age=age, runs=starts)
    yield Used(np.geomspace(0.1, 5.0, 180), every=60.0, age=600.0, runs=[10_800.0, 9_000.0, 5_400.0, 3_600.0])


def _extremes() -> Iterator[Used]:
    """Containers with usage or requests that are zero, tiny, huge or swing between extremes."""
    yield Used([0.0] * 48, [0.0] * 48)
    yield Used([1e-9] * 48, [1.0] * 48)
    yield Used([90_000.0] * 48, [9e14] * 48, requests=(1e8, 1e15))
    yield Used([0.0, 1000.0] * 24, [0.0, 1e12] * 24, siblings=50)
    yield Used([0.3] * 48, [3e8] * 48, requests=(0.0, 0.0), age=0.0)
