"""Draws the workloads of a mix from the seed, and writes them as a scenario would have them.

Sizes are log-normal: many small ones and few large ones. Requests are what people write: a round number some way above
the usage of busy hours, and sometimes below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np

from trellis.api.scenario.workloads import DrawnFactor, DrawnSize, FleetMix, MixShares, ScenarioWorkload
from trellis.sim.scenario.usage import parse_amount, seeded_generator
from trellis.sim.scenario.workload_archetypes import ARCHETYPES, DrawnPodSize, write_workload
from trellis.sim.scenario.workloads import DEFAULT_NAMESPACE

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

Draw: TypeAlias = np.random.Generator


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
