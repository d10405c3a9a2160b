"""The stories of the Hvpa proposal, each from its own manifest, played by the whole simulator from start to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from support.worlds.simulated_cluster import Document, container, container_demand, shape, workload
from support.worlds.simulated_workloads import SimulatedRun
from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import StartProfile
from trellis.sim.scenario.usage_shapes import noise

EXAMPLES = Path(__file__).parents[3] / "examples" / "hvpa"
GIGA = 1e9
HOUR = 60
NODES = (shape("256", "512Gi", count=2),)
MARGIN, BIN = 1.15, 1.05


def manifest(story: str) -> Document:
    """As it is written, in the namespace of the workload."""
    result: Document = yaml.safe_load((EXAMPLES / f"{story}.yaml").read_text(encoding="utf-8"))
    return {**result, "metadata": {**result["metadata"], "namespace": "shop"}}


def levels(*parts: tuple[int, float]) -> FloatColumn:
    """So many minutes at so much, one after the other."""
    return np.concatenate([np.full(minutes, amount) for minutes, amount in parts])


class StoryRun:
    """A story from its first minute to its last."""

    def __init__(self, story: str, cpu: FloatColumn, memory: Any, *, size: tuple[str, str]) -> None:
        scaled = manifest(story)
        demand = (container_demand(cpu, memory, steps=len(cpu), shared=True),)
        name = scaled["spec"]["targetRef"]["name"]
        simulated = workload(name, 1, container(cpu=size[0], memory=size[1]), demand=demand, start=StartProfile(20.0))
        self.played = SimulatedRun(simulated, scaled, steps=len(cpu), step=60.0, every=60.0, nodes=NODES)
        # A chart has so many points: each is the mean of some minutes.
        self._minutes = len(cpu) / len(self.played.pods())

    def at(self, minute: int) -> tuple[float, float, float]:
        """Count, cores and gigabytes of each."""
        point = int((minute - 1) / self._minutes)
        sizes = [self.played.requested(resource=name)[point] for name in ("cpu", "memory")]
        return float(self.played.pods()[point]), round(float(sizes[0]), 3), round(float(sizes[1]) / GIGA, 3)

    def counts(self, begin: int, end: int) -> set[float]:
        """All counts from one minute to another."""
        return {float(pod) for pod in self.played.pods()[int(begin / self._minutes) : int(end / self._minutes)]}


@pytest.mark.req("HV-09", "HV-13", "HV-33", "HV-38")
def test_story_1() -> None:
    """2.5, 12, 24 cores and more than eight replicas hold: each as the proposal divides it, also for a noisy night."""
    night = 19.2 * noise(8 * HOUR, 0.05, np.random.default_rng(1))
    cpu = np.concatenate([levels((HOUR, 2.0), (HOUR, 9.6), (HOUR, 19.2)), night, levels((HOUR, 170.0))])
    result = StoryRun("story-1", cpu, 2 * GIGA, size=("2500m", "2G"))
    assert result.at(HOUR)[:2] == (1.0, 2.5)
    assert result.at(2 * HOUR)[:2] == (2.0, 6.0)
    assert result.at(3 * HOUR)[:2] == (3.0, 8.0)
    assert result.counts(2 * HOUR + 10, 11 * HOUR) == {3.0}
    assert result.at(12 * HOUR)[:2] == (8.0, 24.0)
    assert result.played.totals.oom_kills == 0


@pytest.mark.req("HV-18", "HV-19")
def test_story_2() -> None:
    """One replica grows alone to its core and 2G; then count and size grow, until eight have 9 cores and 20G each."""
    parts = (2 * HOUR, 2 * HOUR, 3 * HOUR)
    cpu = levels(*zip(parts, (0.7, 7.8, 100.0), strict=True))
    memory = levels(*zip(parts, (1.5 * GIGA, 6 * GIGA, 200 * GIGA), strict=True))
    result = StoryRun("story-2", cpu, memory, size=("300m", "1G"))
    count, cores, size = result.at(2 * HOUR)
    assert count == 1.0
    assert 0.7 * MARGIN <= cores <= 0.7 * MARGIN * BIN
    assert 1.5 * MARGIN <= size <= 1.5 * MARGIN * BIN
    assert result.counts(10, 2 * HOUR) == {1.0}
    count, cores, _ = result.at(4 * HOUR)
    assert count == 3.0
    assert 7.8 * MARGIN <= count * cores <= 7.8 * MARGIN * BIN
    assert result.at(7 * HOUR) == (8.0, 9.0, 20.0)
