"""Pods that run and CPU that is wanting, where counts change."""

from __future__ import annotations

import numpy as np
import pytest

from support.worlds.simulated_cluster import World, container, container_demand, fleet, workload
from trellis.core.usage.columns import FloatColumn
from trellis.sim.fleet import StartProfile
from trellis.sim.scores.accounting import ReplicaAccounting


def counted(world: World, minutes: int, pods: float) -> ReplicaAccounting:
    """The last so many minutes of a world with one workload of so many pods."""
    counting = ReplicaAccounting([0])
    containers: FloatColumn = np.array([pods])
    for _ in range(minutes):
        world.run(60.0)
        counting.add(world.usages[-1], world.cluster.rows, containers)
    return counting


def test_demand_above_limits_is_overload_in_core_hours() -> None:
    limited = container(cpu="500m", limits={"cpu": "1", "memory": "1Gi"})
    world = World(fleet(workload("web", 2, limited, demand=(container_demand(1.5),)))).run(60.0)
    result = counted(world, 30, 2.0).total_fleet(3)
    assert (result.replicas, result.scalings) == (2.0, 3)
    assert result.overload == pytest.approx(2 * 0.5 * 0.5, rel=0.01)


def test_load_without_ready_pods_is_overload_and_a_start_is_not() -> None:
    shared = container_demand(2.0, shared=True)
    slow = StartProfile(seconds=60.0, work=6000.0, cores=2.0)
    tight = container(cpu="500m", limits={"cpu": "1", "memory": "1Gi"})
    world = World(fleet(workload("web", 1, tight, demand=(shared,), start=slow))).run(60.0)
    assert counted(world, 30, 1.0).total_workload(0, 0).overload == pytest.approx(2.0 * 0.5)


def test_empty_accounting_gives_zeros() -> None:
    result = ReplicaAccounting([0, 2]).total_fleet(0)
    assert (result.replicas, result.scalings, result.overload) == (0.0, 0, 0.0)
