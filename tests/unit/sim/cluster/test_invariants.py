"""Invariants of every history of the model cluster."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.worlds.simulated_cluster import (
    BEGIN,
    GIB,
    World,
    container,
    container_demand,
    fault,
    fleet,
    history,
    ref,
    shape,
    workload,
)
from trellis.core.fit import read_running_demand
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.recommend.amounts import parse_amounts
from trellis.sim.cluster import ContainerStage
from trellis.sim.fleet import Fleet, StartProfile

MINUTE = 60.0


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """A small fleet with a little of everything."""
    kinds = draw(st.lists(st.sampled_from(["Deployment", "StatefulSet", "Job"]), min_size=1, max_size=4))
    steps, workloads = 15, []
    for number, kind in enumerate(kinds):
        memory = np.array(draw(st.lists(st.floats(0.1, 3.0), min_size=steps, max_size=steps))) * GIB
        limits = draw(st.sampled_from([None, {"memory": "2Gi"}, {"cpu": "500m", "memory": "2Gi"}]))
        demand = container_demand(
            draw(st.floats(0.0, 2.0)), memory, steps=steps, spread=0.2, shared=draw(st.booleans())
        )
        app = container(cpu=draw(st.sampled_from(["100m", "500m"])), limits=limits)
        workloads.append(
            workload(
                f"w{number}",
                draw(st.integers(0, 4)),
                app,
                kind=kind,
                demand=(demand,),
                start=StartProfile(5.0, draw(st.sampled_from([0.0, 20.0])), 2.0),
                rollouts=(BEGIN + 200,) if draw(st.booleans()) else (),
                runs=((BEGIN + 30, 120.0), (BEGIN + 300, 90.0)) if kind == "Job" else (),
                max_unavailable=draw(st.sampled_from([None, 1])),
            )
        )
    off = draw(st.sampled_from([0, 150, 500]))
    faults = (fault("node-down", 100, off, "node-1"),) if off else ()
    return fleet(
        *workloads, nodes=(shape("2", "6Gi", count=2),), faults=faults, steps=steps, seed=draw(st.integers(0, 3))
    )


Acts = list[tuple[int, str, int, str]]
acts = st.lists(
    st.tuples(
        st.integers(1, 90),
        st.sampled_from(["evict", "cpu", "memory"]),
        st.integers(0, 20),
        st.sampled_from(["100m", "300m", "1", "3"]),
    ),
    max_size=12,
)


def lived(fleet: Fleet, doings: Acts) -> World:
    world = World(fleet)
    check(world)
    for seconds, what, which, amount in doings:
        world.run(seconds)
        pods = list(world.pods.values())
        if pods:
            pod = pods[which % len(pods)]
            if what == "evict":
                world.cluster.evict(ref(pod))
            elif what == "cpu":
                world.resize(pod, cpu=amount)
            else:
                world.resize(pod, memory={"100m": "256Mi", "300m": "1Gi", "1": "1900Mi", "3": "8Gi"}[amount])
        check(world)
    world.run(20 * MINUTE)
    check(world)
    return world


def check(world: World) -> None:
    """No node has set aside more than it offers, and all accounts of the same thing agree."""
    cluster, nodes, rows = world.cluster, world.cluster.nodes, world.cluster.rows
    assert {pod.metadata.name: pod for pod in cluster.pods()} == world.pods
    for resource in (CPU, MEMORY):
        assert (nodes.allocated[resource] <= nodes.table.offered(resource)).all()
        aside = np.zeros(len(nodes), dtype=np.int64)
        held = np.zeros(len(nodes), dtype=np.int64)
        for number, bound in nodes.pods.items():
            for model_pod in bound.values():
                aside[number] += model_pod.allocated[resource]
                held[number] += dict(read_running_demand(model_pod.pod).amounts).get(resource, 0)
        assert aside.tolist() == nodes.allocated[resource].tolist()
        assert held.tolist() == nodes.occupancy.amounts[nodes.table.row(resource)].tolist()
    placed = [pod for pod in world.pods.values() if pod.spec.node_name and pod.status.phase in ("Pending", "Running")]
    assert rows.size == sum(len(pod.spec.containers) for pod in placed)
    for model_pod in (model_pod for bound in nodes.pods.values() for model_pod in bound.values()):
        for model_container, status in zip(model_pod.containers, model_pod.pod.status.container_statuses, strict=False):
            assert status.resources is not None
            assert rows.cpu_request[model_container.row] * 1000 == parse_amounts(status.resources.requests)["cpu"]
            assert (status.state.running is None) <= (rows.stage[model_container.row] == ContainerStage.DOWN)


@settings(max_examples=25)
@given(fleets(), acts)
def test_nodes_are_never_overcommitted_and_pods_are_never_lost(fleet: Fleet, doings: Acts) -> None:
    world = lived(fleet, doings)
    times = [time for time, *_ in world.log]
    assert times == sorted(times)
    for number, simulated in enumerate(fleet.workloads):
        made = int(world.cluster.counters.pods_made[number])
        there = world.list_pods(simulated.name)
        if simulated.kind == "Deployment":
            # A rollout for which there is no room stands still, with a quarter more or fewer.
            spare = -(-simulated.replicas // 4) if simulated.rollouts else 0
            assert simulated.replicas - (spare and simulated.replicas // 4) <= len(there) <= simulated.replicas + spare
        if simulated.kind == "StatefulSet":
            # It makes one after the other, and waits for those that are not Ready.
            assert {pod.metadata.name for pod in there} <= {
                f"{simulated.name}-{ordinal}" for ordinal in range(simulated.replicas)
            }
            assert there or not simulated.replicas
        if simulated.kind == "Job":
            assert made >= 2 * simulated.replicas
    assert len(world.pods) == len({pod.metadata.uid for pod in world.pods.values()})


@settings(max_examples=10)
@given(fleets(), acts)
def test_the_same_seed_has_the_same_history(fleet: Fleet, doings: Acts) -> None:
    assert history(lived(fleet, doings)) == history(lived(fleet, doings))


@settings(max_examples=10)
@given(fleets(), acts)
def test_usage_stays_within_limits_and_nodes(fleet: Fleet, doings: Acts) -> None:
    world = lived(fleet, doings)
    for usage in world.usages:
        assert (usage.used_cpu <= usage.demanded_cpu + 1e-9).all()
        assert (usage.used_memory <= usage.demanded_memory).all()
        assert usage.throttled.tolist() == (usage.used_cpu < usage.demanded_cpu * (1 - 1e-9)).tolist()
        assert usage.used_cpu.sum() <= 4.0 + 1e-6
