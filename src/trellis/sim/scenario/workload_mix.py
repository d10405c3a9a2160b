"""Draws the workloads of a mix from the seed, and writes them as a scenario would have them.

Sizes are log-normal: many small ones and few large ones. Requests are what people write: a round number some way above
the usage of busy hours, and sometimes below it. Each archetype turns a drawn size into usage, rollouts and runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from trellis.api.scenario.usage import (
    ContainerUsage,
    DailyShape,
    PodBase,
    ResourceUsage,
    SpikyShape,
    TrendShape,
    UsagePhase,
    WeeklyShape,
)
from trellis.api.scenario.workloads import (
    DisruptionBudget,
    DrawnFactor,
    DrawnSize,
    FleetMix,
    JobRuns,
    MixShares,
    Rollouts,
    ScenarioContainer,
    ScenarioWorkload,
    Startup,
)
from trellis.base.durations import format_span
from trellis.sim.scenario.usage import parse_amount, seeded_generator
from trellis.sim.scenario.workloads import DEFAULT_NAMESPACE

Draw: TypeAlias = np.random.Generator

_MIB: Final = 2**20
_HOUR: Final = 3_600.0
_DAY: Final = 86_400.0
_STATEFUL: Final = 0.15
# Round numbers, as people write them.
_ROUND_CPU: Final = (10, 20, 50, 100, 150, 200, 250, 300, 400, 500, 750, 1000, 1500, 2000, 2500, 3000, 4000)
_ROUND_MEMORY: Final = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)


class DrawnPodSize(msgspec.Struct, frozen=True):
    """The drawn size: cores and bytes of one pod on average, and how far its requests are above busy hours."""

    cpu: float
    memory: float
    replicas: int
    over_cpu: float
    over_memory: float
    limited: bool


class DrawnUsage(msgspec.Struct, frozen=True):
    """The usage of an archetype for a size; `busy_cpu` and `busy_memory` are what one pod uses in busy hours.

    `limited` sets limits, whatever was drawn.
    """

    usage: ContainerUsage
    busy_cpu: float
    busy_memory: float
    fields: Mapping[str, Any] = {}
    limited: bool = False


class Archetype(msgspec.Struct, frozen=True):
    """One archetype: the prefix of names, and the function that draws its usage."""

    name: str
    make: Callable[[DrawnPodSize, Draw], DrawnUsage]


def write_workload(sort: str, name: str, namespace: str, size: DrawnPodSize, draw: Draw) -> ScenarioWorkload:
    """Write a workload with its requests."""
    drawn = ARCHETYPES[sort].make(size, draw)
    requests: dict[str, str | int] = {
        "cpu": f"{_round_up(_ROUND_CPU, drawn.busy_cpu * size.over_cpu * 1000)}m",
        "memory": f"{_round_up(_ROUND_MEMORY, drawn.busy_memory * size.over_memory / _MIB)}Mi",
    }
    container = ScenarioContainer(
        name="app", requests=requests, limits=_limits(drawn, size, requests), usage=drawn.usage
    )
    budget = DisruptionBudget(max_unavailable=1) if size.replicas > 1 else None
    fields: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "kind": "StatefulSet" if draw.uniform() < _STATEFUL else "Deployment",
        "replicas": size.replicas,
        "containers": [container],
        "disruption_budget": budget,
        "label": ARCHETYPES[sort].name,
        **drawn.fields,
    }
    return ScenarioWorkload(**fields)


def _limits(drawn: DrawnUsage, size: DrawnPodSize, requests: Mapping[str, str | int]) -> dict[str, str | int] | None:
    """Twice the CPU and half as much memory again; never too little memory for the program to run at all."""
    if not (size.limited or drawn.limited):
        return None
    cpu, memory = int(str(requests["cpu"]).removesuffix("m")), int(str(requests["memory"]).removesuffix("Mi"))
    needed = 1.2 * drawn.busy_memory / _MIB
    return {"cpu": f"{max(2 * cpu, 100)}m", "memory": f"{max(round(1.5 * memory), _round_up(_ROUND_MEMORY, needed))}Mi"}


def _steady(size: DrawnPodSize, draw: Draw) -> DrawnUsage:
    cpu = ResourceUsage(steady=_cores(size.cpu), noise=_between(draw, 0.08, 0.2))
    return DrawnUsage(ContainerUsage(cpu=cpu, memory=_held(size.memory)), 1.15 * size.cpu, size.memory)


def _daily(size: DrawnPodSize, draw: Draw) -> DrawnUsage:
    swing = draw.uniform(0.4, 0.9)
    wave = DailyShape(
        low=_cores((1 - swing) * size.cpu * size.replicas),
        high=_cores((1 + swing) * size.cpu * size.replicas),
        peak_hour=round(draw.normal(14.0, 2.0), 1) % 24,
    )
    cpu = ResourceUsage(daily=wave, noise=_between(draw, 0.06, 0.15))
    return DrawnUsage(_served(cpu, size), 0.9 * (1 + swing) * size.cpu, 1.05 * size.memory)


def _weekly(size: DrawnPodSize, draw: Draw) -> DrawnUsage:
    begin = float(draw.integers(6, 10))
    hours = WeeklyShape(
        low=_cores(draw.uniform(0.1, 0.3) * size.cpu * size.replicas),
        high=_cores(2.0 * size.cpu * size.replicas),
        begin_hour=begin,
        end_hour=begin + float(draw.integers(8, 12)),
    )
    cpu = ResourceUsage(weekly=hours, noise=_between(draw, 0.06, 0.15))
    return DrawnUsage(_served(cpu, size), 2.0 * size.cpu, 1.05 * size.memory)


def _spiky(size: DrawnPodSize, draw: Draw) -> DrawnUsage:
    height = draw.uniform(2.0, 5.0) * size.cpu
    bursts = SpikyShape(
        height=_cores(height),
        per_day=round(draw.uniform(2.0, 8.0), 1),
        length=format_span(round(draw.uniform(15, 50)) * 60.0),
    )
    cpu = ResourceUsage(steady=_cores(0.4 * size.cpu), spiky=bursts, noise=_between(draw, 0.08, 0.2))
    # People size by the quiet hours, and add something for the bursts.
    busy = 0.4 * size.cpu + 0.6 * height
    return DrawnUsage(ContainerUsage(cpu=cpu, memory=_held(size.memory)), busy, size.memory)


def _trend(size: DrawnPodSize, draw: Draw) -> DrawnUsage:
    ends = (0.6, 1.7) if draw.uniform() < 0.7 else (1.3, 0.5)
    cpu = ResourceUsage(trend=TrendShape(begin=_cores(ends[0] * size.cpu), end=_cores(ends[1] * size.cpu)), noise=0.1)
    begin, end = (size.memory * (0.7 + 0.3 * end) for end in ends)
    memory = ResourceUsage(trend=TrendShape(begin=_bytes(begin), end=_bytes(end)))
    return DrawnUsage(ContainerUsage(cpu=cpu, memory=memory), size.cpu, max(begin, end))


def _leak(size: DrawnPodSize, draw: Draw) -> DrawnUsage:
    """Memory that doubles in a few days, with rollouts more seldom than that; so it has a limit."""
    per_hour = size.memory / (24 * draw.uniform(1.5, 4.0))
    memory = ResourceUsage(steady=_bytes(0.6 * size.memory), leak=_bytes(per_hour))
    usage = ContainerUsage(cpu=ResourceUsage(steady=_cores(size.cpu), noise=0.1), memory=memory)
    every = format_span(_DAY * float(draw.integers(4, 8)))
    more = {"rollouts": Rollouts(every=every)}
    return DrawnUsage(usage, 1.15 * size.cpu, 1.1 * size.memory, more, limited=True)


def _batch(size: DrawnPodSize, draw: Draw) -> DrawnUsage:
    """Reads, computes, writes: each phase has its own demand."""
    length = 300.0 * float(draw.integers(8, 30))
    parts = [300.0 * max(1, round(length * share / 300.0)) for share in (0.25, 0.5, 0.25)]
    high = draw.uniform(2.0, 4.0) * size.cpu
    cpu = [0.3 * size.cpu, high, 0.5 * size.cpu]
    memory = [0.5 * size.memory, size.memory, draw.uniform(1.3, 1.8) * size.memory]
    usage = ContainerUsage(
        cpu=ResourceUsage(phases=_phases(parts, [_cores(each) for each in cpu])),
        memory=ResourceUsage(phases=_phases(parts, [_bytes(each) for each in memory])),
    )
    runs = JobRuns(
        every=format_span(_HOUR * float(draw.choice([4, 6, 8, 12]))),
        length=format_span(sum(parts)),
        first=format_span(300.0 * float(draw.integers(0, 36))),
        jitter=0.1,
    )
    more = {"kind": "Job", "replicas": min(size.replicas, 3), "runs": runs, "disruption_budget": None}
    return DrawnUsage(usage, high, max(memory), more)


def _deploys(size: DrawnPodSize, draw: Draw) -> DrawnUsage:
    drawn = _daily(size, draw)
    rollouts = Rollouts(every=format_span(_HOUR * float(draw.integers(30, 90))), shift=0.3)
    return msgspec.structs.replace(drawn, fields={"rollouts": rollouts})


def _slow_start(size: DrawnPodSize, draw: Draw) -> DrawnUsage:
    drawn = _daily(size, draw)
    startup = Startup(
        time=format_span(float(draw.integers(5, 20))),
        work=float(draw.integers(60, 240)),
        cores=str(int(draw.integers(2, 5))),
    )
    rollouts = Rollouts(every=format_span(_HOUR * float(draw.integers(20, 50))))
    return msgspec.structs.replace(drawn, fields={"startup": startup, "rollouts": rollouts})


ARCHETYPES: Final[Mapping[str, Archetype]] = {
    "steady": Archetype("steady", _steady),
    "daily": Archetype("daily", _daily),
    "weekly": Archetype("weekly", _weekly),
    "spiky": Archetype("spiky", _spiky),
    "trend": Archetype("trend", _trend),
    "leak": Archetype("leak", _leak),
    "batch": Archetype("batch", _batch),
    "deploys": Archetype("deploys", _deploys),
    "slow_start": Archetype("slow-start", _slow_start),
}


def _served(cpu: ResourceUsage, size: DrawnPodSize) -> ContainerUsage:
    """Load shared among the pods, on top of what each has for itself."""
    memory = ResourceUsage(steady=_bytes(0.15 * size.memory * size.replicas))
    return ContainerUsage(cpu=cpu, memory=memory, shared=True, base=PodBase(memory=_bytes(0.85 * size.memory)))


def _held(memory: float) -> ResourceUsage:
    return ResourceUsage(steady=_bytes(memory))


def _phases(lengths: list[float], levels: list[str]) -> list[UsagePhase]:
    return [UsagePhase(length=format_span(length), level=level) for length, level in zip(lengths, levels, strict=True)]


def _round_up(choices: tuple[int, ...], amount: float) -> int:
    """The next round number above, or the largest."""
    return next((choice for choice in choices if choice >= amount), choices[-1])


def _between(draw: Draw, low: float, high: float) -> float:
    return round(draw.uniform(low, high), 3)


def _cores(cores: float) -> str:
    return f"{max(1, round(cores * 1000))}m"


def _bytes(count: float) -> str:
    return f"{max(1, round(count / 1024))}Ki"


_SHARES: Final = MixShares(steady=12, daily=14, weekly=9, spiky=6, trend=4, leak=3, batch=4, deploys=5, slow_start=3)
_CPU: Final = DrawnSize(median="150m", spread=1.0)
_MEMORY: Final = DrawnSize(median="300Mi", spread=0.8)
_REPLICAS: Final = DrawnFactor(median=2.5, spread=0.6)
_OVER_CPU: Final = DrawnFactor(median=2.2, spread=0.5)
_OVER_MEMORY: Final = DrawnFactor(median=1.6, spread=0.45)
# Sizes that fit an ordinary node, whatever is drawn.
_CPU_RANGE: Final = (0.01, 0.9)
_MEMORY_RANGE: Final = (48.0 * 2**20, 6.0 * 2**30)
_OVER_RANGE: Final = (0.5, 6.0)


def draw_workloads(mix: FleetMix, seed: int) -> Iterator[ScenarioWorkload]:
    """Draw all workloads, each by its own name: another count leaves those that stay as they were."""
    namespaces = mix.namespaces or [DEFAULT_NAMESPACE]
    made: dict[str, int] = {}
    for number, sort in enumerate(draw_archetypes(mix)):
        made[sort] = made.get(sort, 0) + 1
        name = f"{ARCHETYPES[sort].name}-{made[sort]:02d}"
        draw = seeded_generator(seed, "fleet", name)
        size = _size(mix, draw)
        yield write_workload(sort, name, namespaces[number % len(namespaces)], size, draw)


def draw_archetypes(mix: FleetMix) -> list[str]:
    """The archetype of each workload: shares as exact as the count allows, and well mixed."""
    shares = mix.shares or _SHARES
    weights = np.asarray([getattr(shares, name) or 0 for name in MixShares.__struct_fields__], dtype=np.float64)
    weights /= weights.sum()
    names = MixShares.__struct_fields__
    archetypes: list[str] = []
    drawn = np.zeros(len(names))
    for number in range(1, (mix.count or 0) + 1):
        # The archetype that is furthest behind its share is next.
        chosen = int(np.argmax(weights * number - drawn))
        drawn[chosen] += 1
        archetypes.append(names[chosen])
    return archetypes


def _size(mix: FleetMix, draw: Draw) -> DrawnPodSize:
    over = mix.over_requests
    over_cpu = (over.cpu if over is not None else None) or _OVER_CPU
    over_memory = (over.memory if over is not None else None) or _OVER_MEMORY
    return DrawnPodSize(
        cpu=_amount(mix.cpu or _CPU, _CPU, _CPU_RANGE, draw),
        memory=_amount(mix.memory or _MEMORY, _MEMORY, _MEMORY_RANGE, draw),
        replicas=round(_factor(mix.replicas or _REPLICAS, _REPLICAS, (1.0, float(mix.most_replicas or 12)), draw)),
        over_cpu=_factor(over_cpu, _OVER_CPU, _OVER_RANGE, draw),
        over_memory=_factor(over_memory, _OVER_MEMORY, _OVER_RANGE, draw),
        limited=bool(draw.uniform() < (0.5 if mix.limited is None else mix.limited)),
    )


def _amount(drawn: DrawnSize, usual: DrawnSize, within: tuple[float, float], draw: Draw) -> float:
    return _lognormal(parse_amount(drawn.median), drawn.spread, usual.spread, within, draw)


def _factor(drawn: DrawnFactor, usual: DrawnFactor, within: tuple[float, float], draw: Draw) -> float:
    return _lognormal(drawn.median or 0.0, drawn.spread, usual.spread, within, draw)


def _lognormal(
    median: float, spread: float | None, usual: float | None, within: tuple[float, float], draw: Draw
) -> float:
    drawn = median * float(draw.lognormal(0.0, (usual or 0.0) if spread is None else spread))
    return min(max(drawn, within[0]), within[1])
