"""What containers use on the model cluster: demand and its shares, throttling, kills, nodes that are full."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worlds.simulated_cluster import (
    BEGIN,
    GIB,
    World,
    container,
    container_demand,
    fleet,
    is_ready,
    ref,
    shape,
    workload,
)
from trellis.core.cluster.oom_kill_detection import read_eviction
from trellis.core.resize.view import PodView
from trellis.sim.cluster import PodEvent
from trellis.sim.cluster.demand import share_cpu
from trellis.sim.fleet import StartProfile

MINUTE = 60.0


def test_usage_follows_demand_step_by_step() -> None:
    cpu = np.linspace(0.1, 0.5, 60)
    world = World(fleet(workload("web", 2, demand=(container_demand(cpu, 1e8),)))).run(10 * MINUTE)
    usage = world.usages[7]
    assert (usage.number, usage.time, usage.seconds) == (7, BEGIN + 420, 60.0)
    assert usage.used_cpu.tolist() == [cpu[7]] * 2
    assert usage.used_memory.tolist() == [1e8] * 2
    assert not usage.throttled.any()
    namespaces, pods, containers = world.cluster.rows.names(usage.rows)
    assert (namespaces, sorted(pods), containers) == (["shop"] * 2, sorted(world.pods), ["app"] * 2)


def test_a_gap_in_demand_is_no_demand() -> None:
    world = World(fleet(workload(demand=(container_demand([0.1, 0.1, np.nan, 0.1], 1e8, steps=4),)))).run(4 * MINUTE)
    assert [usage.used_cpu.tolist() for usage in world.usages[1:]] == [[0.1], [0.0], [0.1], [0.1]]


def test_ready_pods_share_the_load_of_their_workload() -> None:
    demand = container_demand(3.0, 3 * GIB, shared=True, base_cpu=0.1, base_memory=1e8)
    world = World(fleet(workload("web", 3, demand=(demand,)), nodes=(shape(cpu="16"),))).run(2 * MINUTE)
    assert world.usages[1].used_cpu.tolist() == pytest.approx([1.1] * 3)
    assert world.usages[1].used_memory.tolist() == pytest.approx([GIB + 1e8] * 3)
    world.cluster.evict(ref(world.list_pods()[0]))
    # What has been told to go gets no load any more; its successor is not Ready yet.
    assert sorted(world.cluster.step(2).used_cpu.tolist()) == pytest.approx([0.1, 1.6, 1.6])


def test_pods_of_a_workload_differ_and_their_shared_load_stays_the_same() -> None:
    alone = container_demand(1.0, 1e8, spread=0.5)
    shared = container_demand(4.0, 1e8, shared=True, spread=0.5)
    simulated = fleet(
        workload("alone", 4, demand=(alone,)), workload("web", 4, demand=(shared,)), nodes=(shape(cpu="32"),)
    )
    usage = World(simulated).run(MINUTE).usages[1]
    mine, shares = usage.used_cpu[usage.workload == 0], usage.used_cpu[usage.workload == 1]
    assert len(set(mine.tolist())) == 4
    assert ((mine >= 0.5) & (mine <= 1.5)).all()
    assert len(set(shares.tolist())) == 4
    assert shares.sum() == pytest.approx(4.0)


def test_a_replacement_pod_has_the_demand_of_the_evicted_pod() -> None:
    world = World(fleet(workload("web", 4, demand=(container_demand(1.0, 1e8, spread=0.5),)), nodes=(shape(cpu="32"),)))
    world.run(MINUTE)
    for pod in world.list_pods()[1:3]:
        world.cluster.evict(ref(pod))
    world.run(MINUTE)
    assert sorted(world.usages[1].used_cpu.tolist()) == sorted(world.usages[2].used_cpu.tolist())


def test_the_demand_of_a_run_goes_by_the_age_of_its_container() -> None:
    demand = container_demand([1.0, 2.0, 3.0], 1e8, steps=3, by_age=True)
    runs = ((BEGIN + 30, 600.0), (BEGIN + 90, 600.0))
    world = World(fleet(workload("etl", 1, kind="Job", runs=runs, demand=(demand,)), nodes=(shape(cpu="16"),)))
    world.run(5 * MINUTE)
    used = [sorted(usage.used_cpu.tolist()) for usage in world.usages[1:6]]
    assert used == [[1.0], [1.0, 2.0], [2.0, 3.0], [3.0, 3.0], [3.0, 3.0]]


def test_cpu_is_held_back_by_the_limit() -> None:
    app = container(limits={"cpu": "500m"})
    usage = World(fleet(workload("web", 1, app, demand=(container_demand(0.8),)))).run(MINUTE).usages[1]
    assert (usage.demanded_cpu[0], usage.used_cpu[0], usage.throttled[0]) == (0.8, 0.5, True)


def test_a_full_node_is_shared_by_requests() -> None:
    pods = [
        workload(name, 1, container(cpu=cpu), demand=(container_demand(wanted),))
        for name, cpu, wanted in (("small", "500m", 4.0), ("big", "1500m", 4.0), ("modest", "1", 0.5))
    ]
    usage = World(fleet(*pods)).run(MINUTE).usages[1]
    assert usage.used_cpu.tolist() == pytest.approx([3.5 / 4, 3.5 * 3 / 4, 0.5])
    assert usage.throttled.tolist() == [True, True, False]


amounts = st.floats(0.0, 10.0)
demands = st.lists(st.tuples(amounts, amounts, st.integers(0, 2)), min_size=1, max_size=30)


@given(demands, st.lists(amounts, min_size=3, max_size=3))
def test_a_node_gives_no_more_than_it_has_and_no_pod_more_than_it_wants(
    containers: list[tuple[float, float, int]], capacity: list[float]
) -> None:
    wanted, requested, node = (np.array(amounts) for amounts in zip(*containers, strict=True))
    cores = np.array(capacity)
    load = np.bincount(node, wanted, minlength=3)
    given_ = share_cpu(wanted, requested, node, cores, load > cores)
    assert (given_ <= wanted * (1 + 1e-9)).all()
    assert (given_ >= 0).all()
    total = np.bincount(node, given_, minlength=3)
    assert total == pytest.approx(np.minimum(load, cores))
    # Where somebody goes short, those with a larger request do not get less than it, unless they want less.
    for one in range(len(wanted)):
        for other in range(len(wanted)):
            if node[one] == node[other] and requested[one] >= requested[other]:
                assert given_[one] >= min(given_[other], wanted[one]) - 1e-6


def test_a_container_above_its_memory_limit_is_killed_and_restarted() -> None:
    memory = np.full(60, 0.5 * GIB)
    memory[20:] = 1.5 * GIB
    app = container(limits={"memory": "1Gi"})
    world = World(fleet(workload("web", 1, app, demand=(container_demand(0.1, memory),)))).run(19 * MINUTE)
    assert not world.log[3:]
    world.run(MINUTE + 0.5)
    pod = world.get_pod()
    status = pod.status.container_statuses[0]
    assert status.state.terminated is not None
    assert (status.state.terminated.reason, status.state.terminated.exit_code) == ("OOMKilled", 137)
    assert not is_ready(pod)
    assert world.usages[20].used_memory.tolist() == [GIB]
    world.run(2)
    status = world.get_pod().status.container_statuses[0]
    assert status.state.running is not None
    assert status.last_state.terminated is not None
    assert status.restart_count == 1
    [kill] = PodView.from_pod(world.get_pod()).oom_kills["app"]
    assert kill.run_seconds == 1199.0


def test_pauses_between_restarts_double_up_to_five_minutes_and_are_forgotten() -> None:
    memory = np.full(120, 2.0 * GIB)
    memory[60:100] = 0.5 * GIB
    app = container(limits={"memory": "1Gi"})
    web = workload("web", 1, app, demand=(container_demand(0.1, memory, steps=120),), start=StartProfile(0.0))
    world = World(fleet(web, steps=120)).run(60 * MINUTE - 1)
    kills = world.times(PodEvent.KILLED)
    pauses = np.diff(kills[:9])
    assert pauses[0] == 1.0
    # A kubelet restarts the container some seconds after the end of its back-off.
    delays = pauses[1:] - [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert ((delays >= 2.0) & (delays <= 7.0)).all(), delays
    assert world.cluster.counters.oom_kills.tolist() == [len(kills)]
    assert world.cluster.counters.restarts.tolist() == [world.count(PodEvent.RESTARTED)]
    world.run(60 * MINUTE)
    late = [time for time in world.times(PodEvent.KILLED) if time >= 6000]
    assert np.diff(late[:3]).tolist() == [1.0, pytest.approx(14.5, abs=2.5)]


def test_a_container_killed_for_weeks_is_still_restarted_every_five_minutes() -> None:
    app = container(limits={"memory": "1Gi"})
    web = workload("web", 1, app, demand=(container_demand(0.1, 2.0 * GIB, steps=100),), start=StartProfile(0.0))
    world = World(fleet(web, steps=100, step=3600.0)).run(100 * 60 * MINUTE - 1)
    kills = world.times(PodEvent.KILLED)
    assert len(kills) > 1100
    pauses = np.diff(kills[8:])
    assert ((pauses >= 302.0) & (pauses <= 307.0)).all()


def test_a_leak_grows_until_the_container_is_killed_and_begins_anew() -> None:
    app = container(limits={"memory": "1Gi"})
    demand = container_demand(0.1, 0.5 * GIB, leak=0.5 * GIB / 900.0)
    world = World(fleet(workload("web", 1, app, demand=(demand,)))).run(59 * MINUTE)
    assert world.times(PodEvent.KILLED) == [960.0, 1920.0, 2880.0]
    assert len(world.list_pods()) == 1


def test_a_pod_that_must_not_be_restarted_is_made_anew_after_a_kill() -> None:
    runs = ((BEGIN, 300.0),)
    app = container(limits={"memory": "1Gi"})
    demand = container_demand(0.1, np.linspace(0.5, 1.5, 4) * GIB, steps=4, by_age=True)
    etl = workload("etl", 1, app, kind="Job", runs=runs, demand=(demand,), spec={"restartPolicy": "Never"})
    world = World(fleet(etl)).run(190)
    assert world.count(PodEvent.KILLED) == 1
    assert world.count(PodEvent.MADE) == 2
    assert len(world.list_pods("etl")) == 1


def test_a_full_node_evicts_the_pod_that_is_furthest_above_its_request() -> None:
    pods = [
        workload(name, 1, container(memory=asked), demand=(container_demand(0.1, used * GIB),))
        for name, asked, used in (("tidy", "4Gi", 4.0), ("greedy", "1Gi", 4.0), ("sloppy", "2Gi", 3.0))
    ]
    world = World(fleet(*pods, nodes=(shape(memory="10Gi"),))).run(MINUTE + 0.5)
    assert [name.partition("-")[0] for _, name, what, _ in world.log if what is PodEvent.PRESSED_OUT] == ["greedy"]
    assert world.cluster.counters.pressed_out.tolist() == [0, 1, 0]
    (event,) = world.events
    (kill,) = read_eviction(event)
    assert (kill.container, kill.memory, kill.time) == ("app", 4 * GIB, BEGIN + 60)
    # It is made again, and evicted again: it was placed by what it requests.
    world.run(2 * MINUTE)
    assert world.cluster.counters.pressed_out[1] >= 2


def test_a_container_without_demand_uses_nothing() -> None:
    usage = World(fleet(workload("web", 1, container(), container("idle")))).run(MINUTE).usages[1]
    assert usage.used_cpu.tolist() == [0.1, 0.0]


def test_a_start_uses_the_cpu_of_its_work() -> None:
    world = World(fleet(workload("web", 1, start=StartProfile(10.0, 170.0, 2.0)))).run(2 * MINUTE)
    assert [usage.used_cpu.tolist() for usage in world.usages] == [[], [2.0], [0.1]]
