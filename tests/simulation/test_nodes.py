"""Nodes in the whole simulator: ordered for pending pods, removed when unneeded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.worlds.simulated_cluster import fault, fleet, shape
from support.worlds.simulated_nodes import (
    BOOT,
    QUICK,
    SimulatedNodesRun,
    a_buffer,
    idle_workload,
    job,
    on_nodes,
    pod_capacity,
    pool,
)
from support.worlds.simulated_workloads import vpa
from trellis.api.kube.pods import Pod
from trellis.sim.cluster import PodEvent
from trellis.sim.faults import NODE_DOWN
from trellis.sim.fleet import Fleet, Variant
from trellis.sim.run import run_variant, simulate


def apart(name: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_pods_without_headroom_get_nodes_after_their_boot_time() -> None:
    lived = SimulatedNodesRun(on_nodes(idle_workload(replicas=6), pools=(pool(),))).run_until(60)
    assert (lived.groups(), len(lived.pending())) == ({}, 6)
    lived.run_until(BOOT + 5)
    assert (lived.groups(), lived.pending()) == ({"pool": 2}, [])
    assert BOOT <= lived.longest_wait() <= BOOT + 1


def test_unneeded_nodes_are_released_down_to_the_minimum() -> None:
    tasks = job("task", [0.0], 300.0, pods=12)
    lived = SimulatedNodesRun(on_nodes(tasks, pools=(pool(min_size=1, count=1),), steps=60)).run_until(400)
    assert lived.groups() == {"pool": 3}
    lived.run_until(1200)
    assert lived.groups() == {"pool": 1}
    assert lived.figures.ordered == lived.figures.removed == 2


def test_pods_are_moved_from_an_underused_node() -> None:
    tasks = job("task", [0.0], 300.0, pods=5)
    lived = SimulatedNodesRun(on_nodes(tasks, idle_workload(replicas=2), pools=(pool(),), steps=60)).run_until(200)
    assert lived.groups() == {"pool": 2}
    lived.run_until(1800)
    assert lived.groups() == {"pool": 1}
    assert len(lived.placed("web")) == 2
    assert lived.figures.moved == len(lived.times(PodEvent.MOVED, "web")) <= 1
    assert [node.spec.taints for node in lived.nodes.values()] == [()]


def test_a_budget_that_allows_nothing_keeps_the_node() -> None:
    held = idle_workload(replicas=2, max_unavailable=0, spec=apart("web"))
    small = idle_workload("base", 1, cpu="3")
    lived = SimulatedNodesRun(on_nodes(held, small, pools=(pool(),), steps=60)).run_until(1800)
    assert lived.groups() == {"pool": 2}
    assert lived.figures.moved == 0


def test_a_group_never_exceeds_its_maximum_size() -> None:
    lived = SimulatedNodesRun(on_nodes(idle_workload(replicas=40), pools=(pool(max_size=3),), steps=60)).run_until(1800)
    assert lived.groups() == {"pool": 3}
    assert len(lived.pending()) == 28


def test_pods_with_anti_affinity_get_a_node_each() -> None:
    lived = SimulatedNodesRun(
        on_nodes(idle_workload(replicas=3, cpu="100m", spec=apart("web")), pools=(pool(),))
    ).run_until(300)
    assert len(set(lived.placed("web").values())) == 3
    assert lived.groups() == {"pool": 3}


def test_a_group_is_chosen_whose_nodes_a_pod_tolerates() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    pools = (pool("cheap", price=0.1, taints=[taint]), pool("plain"))
    lived = SimulatedNodesRun(on_nodes(idle_workload(replicas=1), pools=pools)).run_until(300)
    assert lived.groups() == {"plain": 1}


@pytest.mark.parametrize(("expander", "group"), [("price", "large"), ("least-waste", "small")])
def test_an_expander_chooses_between_groups(expander: str, group: str) -> None:
    pools = (pool("small", "2", price=2.0), pool("large", "16", price=1.0))
    lived = SimulatedNodesRun(on_nodes(idle_workload(cpu="1500m"), pools=pools), expander=expander).run_until(300)
    assert lived.groups() == {group: 1}


def test_fixed_nodes_are_filled_first_and_never_released() -> None:
    fixed = (shape("4", "16Gi"),)
    lived = SimulatedNodesRun(on_nodes(idle_workload(replicas=3), pools=(pool(),), nodes=fixed, steps=60)).run_until(
        1800
    )
    assert lived.groups() == {"": 1}


def test_pods_of_a_failed_node_get_another_one() -> None:
    result = on_nodes(
        idle_workload(replicas=3), pools=(pool(),), steps=60, faults=(fault(NODE_DOWN, 300.0, 4000.0, "pool-1"),)
    )
    lived = SimulatedNodesRun(result).run_until(1500)
    assert lived.pending() == []
    assert "pool-2" in set(lived.placed("web").values())


def test_preempting_pods_are_placed_once_their_victims_have_ended() -> None:
    balloon = idle_workload("balloon", 4, spec={"priority": -5})
    tasks = job("task", [600.0], 60.0, pods=2)
    lived = SimulatedNodesRun(on_nodes(balloon, tasks, pools=(pool(count=1),), steps=60)).run_until(599)
    assert len(lived.placed("balloon")) == 4
    lived.run_until(600 + BOOT + 5)
    assert len(lived.times(PodEvent.PREEMPTED, "balloon")) == lived.figures.preempted == 2
    assert [time - 600 for time in lived.times(PodEvent.PLACED, "task")] == pytest.approx([0.8, 0.8], abs=0.001)
    assert len(lived.placed("balloon")) == 4, "they get a node of their own, behind the others"


def test_preemption_evicts_no_more_pods_than_needed() -> None:
    balloon = idle_workload("balloon", 3, spec={"priority": -5})
    tasks = job("task", [600.0], 600.0, pods=1, cpu="1500m")
    lived = SimulatedNodesRun(on_nodes(balloon, tasks, pools=(pool(count=1, max_size=1),), steps=60)).run_until(900)
    assert len(lived.times(PodEvent.PREEMPTED, "balloon")) == 1
    assert len(lived.pending()) == 1


def played(**fields: Any) -> Fleet:
    tasks = job("task", [float(second) for second in range(300, 3000, 450)], 200.0, pods=5)
    return on_nodes(
        idle_workload(replicas=5), tasks, pools=(pool(count=1), pool("large", "8", price=1.7)), steps=60, **fields
    )


def variants() -> tuple[Variant, ...]:
    buffer = a_buffer(pod_capacity(3))
    return (Variant("none", settings=QUICK), Variant("kept", objects=(buffer,), settings=QUICK))


def test_the_same_seed_gives_the_same_bytes_in_one_process_or_several() -> None:
    result = msgspec.structs.replace(played(), variants=variants())
    first, repeated, apart_ = simulate(result), simulate(result), simulate(result, processes=2)
    assert msgspec.json.encode(first) == msgspec.json.encode(repeated) == msgspec.json.encode(apart_)


def test_node_hours_are_paid_from_the_order_on_and_waits_are_reported() -> None:
    none, with_buffer = (run_variant(played(), variant) for variant in variants())
    assert none.nodes is not msgspec.UNSET
    assert none.chart.nodes is not msgspec.UNSET
    assert len(none.chart.nodes) == 60
    assert none.node_hours >= sum(none.chart.nodes) / 60
    assert none.fleet.waited.pods == none.fleet.pods_made
    assert with_buffer.fleet.waited.mean < none.fleet.waited.mean
    assert with_buffer.node_money > none.node_money
    assert none.workloads[1].totals.waited.most == none.fleet.waited.most > 0


def test_a_fleet_without_groups_reports_nothing_of_nodes() -> None:
    result = run_variant(fleet(idle_workload(), nodes=(shape("4", "16Gi"),)), Variant("only"))
    assert result.nodes is result.chart.nodes is result.chart.chunks is result.fleet.waits is msgspec.UNSET
    assert b"waits" not in msgspec.json.encode(result)


def test_a_workload_that_a_variant_removes_has_no_pods_there() -> None:
    result = on_nodes(idle_workload(), idle_workload("balloon", 4), pools=(pool(),), steps=20)
    without = run_variant(result, Variant("without", without=frozenset({1})))
    with_all = run_variant(result, Variant("with"))
    assert [workload.totals.pods_made for workload in without.workloads] == [1, 0]
    assert [workload.totals.pods_made for workload in with_all.workloads] == [1, 4]


def sized() -> dict[str, Any]:
    return vpa("InPlaceOrRecreate", updatePolicy={"minReplicas": 1})


@st.composite
def lives(draw: st.DrawFn) -> tuple[Fleet, tuple[dict[str, Any], ...]]:
    """Two groups, a Deployment, short tasks, perhaps balloons, Buffers, a VPA, and a node that fails."""
    begins = sorted(draw(st.lists(st.integers(0, 2400), max_size=6, unique=True)))
    spec = draw(st.sampled_from([{}, apart("web")]))
    budget = draw(st.sampled_from([None, 0, 1]))
    workloads = [
        idle_workload(replicas=draw(st.integers(0, 8)), cpu=draw(st.sampled_from(["300m", "1", "2"])), spec=spec,
              max_unavailable=budget),
        job("task", [float(begin) for begin in begins], 200.0, pods=draw(st.integers(1, 9)), cpu="700m"),
    ]  # fmt: skip
    if draw(st.booleans()):
        workloads.append(idle_workload("balloon", draw(st.integers(1, 5)), spec={"priority": -5}))
    pools = (
        pool("a", count=draw(st.integers(0, 2)), max_size=draw(st.integers(2, 6))),
        pool("b", "2", "8Gi", count=1, min_size=1, max_size=4, boot_seconds=30.0, price=0.4),
    )
    objects = draw(
        st.lists(
            st.sampled_from(
                [
                    sized(),
                    a_buffer(pod_capacity(3), "empty"),
                    a_buffer(pod_capacity(6), "least", recreationStrategy="KeepMinimum"),
                    a_buffer({"replicas": {"percent": {"percent": 30}}}, "share", ("Deployment", "web")),
                ]
            ),
            unique_by=lambda document: (document["kind"], document["metadata"]["name"]),
        )
    )
    faults = draw(st.sampled_from([(), (fault(NODE_DOWN, 700.0, 900.0, "b-1"),)]))
    return on_nodes(*workloads, pools=pools, steps=70, faults=faults), tuple(objects)


@given(lives())
@settings(max_examples=15, deadline=None)
def test_groups_stay_within_bounds_and_no_pod_is_lost(case: tuple[Fleet, Any]) -> None:
    fleet_, objects = case
    lived = SimulatedNodesRun(fleet_, *objects)
    for minute in range(1, 70):
        lived.run_until(60.0 * minute)
        groups, nodes = lived.groups(), lived.cluster.nodes
        assert groups.get("a", 0) <= fleet_.pools[0].max_size
        assert 1 <= groups.get("b", 0) <= 4
        assert set(lived.placed().values()) <= set(lived.nodes), "no pod is on a node that has gone"
        assert (nodes.occupancy.free("cpu")[nodes.table.exists] >= 0).all()
        assert (nodes.allocated["cpu"][~nodes.table.exists] == 0).all()
    expected = fleet_.workloads[0].replicas
    web = [pod for pod in lived.pods.values() if pod.metadata.labels.get("app") == "web"]
    assert len([pod for pod in web if pod.metadata.deletion_timestamp is None]) == expected


class DeletionsRun(SimulatedNodesRun):
    """A run with the names of the pods that were terminating before they were gone."""

    def __init__(self, simulated: Fleet, **settings: str) -> None:
        self.terminated: set[str] = set()
        super().__init__(simulated, **settings)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        super().on_pod(old, new)
        if new is not None and new.metadata.deletion_timestamp is not None:
            self.terminated.add(new.metadata.name)


@pytest.mark.parametrize("evicts", [True, False])
def test_daemon_set_pods_of_a_drained_node_are_evicted_where_settings_say_so_and_do_not_count_as_moved(
    evicts: bool,
) -> None:
    agent = idle_workload("agent", 1, cpu="100m", kind="DaemonSet")
    tasks = job("task", [0.0], 300.0, pods=5)
    fleet_ = on_nodes(tasks, idle_workload(replicas=2), agent, pools=(pool(),), steps=60)
    setting = {"daemonset-eviction-for-occupied-nodes": str(evicts).lower()}
    lived = DeletionsRun(fleet_, **setting)
    lived.run_until(1800)
    assert lived.groups() == {"pool": 1}
    assert sum(name.startswith("agent") for name in lived.terminated) == evicts
    assert lived.times(PodEvent.MOVED, "agent") == []
    assert lived.figures.moved == len(lived.times(PodEvent.MOVED, "web")) == 1
    assert len(lived.placed("agent")) == 1
