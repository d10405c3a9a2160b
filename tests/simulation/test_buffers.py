"""Buffers in the whole simulator: translated and provisioned by the core, used by a scheduler that ignores them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.packing_counts import counted_packing
from support.worlds.simulated_cluster import container, container_demand, shape, workload
from support.worlds.simulated_nodes import (
    BOOT,
    SimulatedNodesRun,
    a_buffer,
    idle_workload,
    job,
    on_nodes,
    pod_capacity,
    pool,
)
from support.worlds.simulated_workloads import hpa
from trellis.core.usage.columns import FloatColumn
from trellis.sim.cluster import PodEvent
from trellis.sim.fleet import NodeShape, StartProfile, Variant
from trellis.sim.run import run_variant

MINIMUM: dict[str, Any] = {"recreationStrategy": "KeepMinimum"}
WEB: dict[str, Any] = {"podSelector": {"matchLabels": {"app": "web"}}}


def idle(**fields: Any) -> Any:
    """A workload without pods: a fleet has one at least."""
    return idle_workload("idle", 0, **fields)


@pytest.mark.req("BF-01")
def test_nodes_are_added_for_chunks_as_for_pods() -> None:
    lived = SimulatedNodesRun(on_nodes(idle(), pools=(pool(),)), a_buffer(pod_capacity(5))).run_until(BOOT + 20)
    assert (lived.groups(), lived.pods) == ({"pool": 2}, {})
    assert lived.run_until(3000).groups() == {"pool": 2}
    assert lived.figures.ordered == 2
    assert lived.figures.buffers[0].full > 0.9


@pytest.mark.req("BF-05")
def test_any_pod_that_fits_may_use_the_headroom() -> None:
    others = job("other", [900.0], 60.0, pods=3)
    buffer = a_buffer({"replicas": {"exactly": 3}}, target=("Deployment", "web"))
    lived = SimulatedNodesRun(on_nodes(idle_workload(), others, pools=(pool(),)), buffer).run_until(1200)
    assert lived.longest_wait(since=800) == 0.0
    assert lived.figures.buffers[0].hits == 3


def loaded(before: float, after: float, replicas: int, steps: int = 90) -> Any:
    """A Deployment of pods of 100m whose load changes after half an hour."""
    cpu: FloatColumn = np.where(np.arange(steps) < 30, before, after)
    demand = (container_demand(cpu, 1e6, steps=steps, shared=True),)
    return workload("web", replicas, container(cpu="100m", memory="64Mi"), demand=demand, start=StartProfile(1.0))


@pytest.mark.req("BF-23")
def test_the_size_follows_a_target_that_is_scaled() -> None:
    buffer = a_buffer({"replicas": {"percent": {"percent": 10}}}, target=("Deployment", "web"))
    web = loaded(40 * 0.07, 60 * 0.07, replicas=40)
    scaler = hpa(70, minReplicas=1, maxReplicas=100)
    lived = SimulatedNodesRun(on_nodes(web, pools=(pool(cpu="16"),), steps=90), buffer, scaler).run_until(1700)
    assert (len(lived.placed()), lived.chunks) == (40, 4)
    lived.run_until(3000)
    assert (len(lived.placed()), lived.chunks) == (60, 6)


@pytest.mark.req("BF-30")
def test_a_selector_narrows_a_class_of_nodes() -> None:
    label = {"cloud.google.com/compute-class": "mine"}
    pools = (
        pool("a", price=0.1, labels={**label, "zone": "a"}),
        pool("b", labels={**label, "zone": "b"}),
        pool("other", price=0.1, labels={"zone": "b"}),
    )
    capacity = {"nodeClass": {"totalCpu": "6", "totalMem": "6Gi", "nodeSelector": {"zone": "b"}}}
    buffer = a_buffer(capacity, target=("CustomComputeClass", "mine"))
    lived = SimulatedNodesRun(on_nodes(idle(), pools=pools), buffer).run_until(1200)
    assert set(lived.groups()) == {"b"}
    assert lived.figures.buffers[0].full > 0.5


def test_a_class_of_tainted_nodes_gets_its_headroom_from_zero_nodes() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    mine = {"cloud.google.com/compute-class": "mine"}
    pools = (pool("plain", price=0.1), pool("special", labels=mine, taints=[taint]))
    capacity = {"nodeClass": {"totalCpu": "4", "totalMem": "4Gi"}}
    buffer = a_buffer(capacity, target=("CustomComputeClass", "mine"))
    lived = SimulatedNodesRun(on_nodes(idle(), pools=pools), buffer).run_until(1200)
    assert set(lived.groups()) == {"special"}
    assert lived.figures.buffers[0].full > 0.5


def test_a_class_of_small_nodes_gets_its_headroom_from_zero_nodes() -> None:
    small = pool("small", "1", "2Gi", labels={"cloud.google.com/compute-class": "mine"})
    capacity = {"nodeClass": {"totalCpu": "4", "totalMem": "4Gi"}}
    buffer = a_buffer(capacity, target=("CustomComputeClass", "mine"))
    lived = SimulatedNodesRun(on_nodes(idle(), pools=(small,)), buffer).run_until(1200)
    assert lived.groups() == {"small": 4}
    assert lived.figures.buffers[0].full > 0.5


@pytest.mark.req("BF-31")
def test_given_pods_bring_their_selectors_and_tolerations() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    pools = (pool("plain", price=0.1), pool("special", labels={"kind": "special"}, taints=[taint]))
    spec: dict[str, Any] = {"nodeSelector": {"kind": "special"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    lived = SimulatedNodesRun(on_nodes(idle(), pools=pools), a_buffer(pod_capacity(5, **spec))).run_until(600)
    assert (lived.groups(), lived.chunks) == ({"special": 2}, 5)


@pytest.mark.req("BF-34")
def test_headroom_is_kept_empty_beside_running_pods() -> None:
    tasks = job("task", [900.0], 1500.0)
    lived = SimulatedNodesRun(on_nodes(tasks, pools=(pool(cpu="3"),)), a_buffer(pod_capacity(3))).run_until(890)
    assert lived.groups() == {"pool": 1}
    lived.run_until(900 + BOOT + 20)
    assert (lived.groups(), lived.longest_wait()) == ({"pool": 2}, 0.0)
    assert lived.run_until(3300).groups() == {"pool": 1}, "when the pod has ended, one node is enough again"


@pytest.mark.req("BF-35")
def test_a_filled_keep_minimum_buffer_adds_no_node() -> None:
    tasks = job("task", [900.0], 900.0, pods=3)
    lived = SimulatedNodesRun(on_nodes(tasks, pools=(pool(cpu="3"),)), a_buffer(pod_capacity(3), **MINIMUM)).run_until(
        890
    )
    assert lived.groups() == {"pool": 1}
    lived.run_until(1500)
    assert (lived.groups(), lived.longest_wait(), len(lived.placed())) == ({"pool": 1}, 0.0, 3)
    assert lived.run_until(3300).groups() == {"pool": 1}
    assert lived.figures.ordered == 1


@pytest.mark.req("BF-36")
def test_nodes_of_two_pools_together_meet_a_keep_minimum_buffer() -> None:
    pools = (pool("a", "2", max_size=1), pool("b", "2", max_size=1))
    lived = SimulatedNodesRun(on_nodes(idle(), pools=pools), a_buffer(pod_capacity(4), **MINIMUM)).run_until(600)
    assert lived.groups() == {"a": 1, "b": 1}
    assert lived.figures.buffers[0].full > 0.5


@pytest.mark.req("BF-39")
def test_a_pod_is_bound_at_once_without_evicting_a_balloon_pod() -> None:
    tasks = job("task", [900.0], 60.0, pods=2)
    balloon = idle_workload("balloon", 4, spec={"priority": -5})
    run = SimulatedNodesRun(on_nodes(tasks, pools=(pool(),)), a_buffer(pod_capacity(4))).run_until(1000)
    pushed = SimulatedNodesRun(on_nodes(tasks, balloon, pools=(pool(),))).run_until(1000)
    assert [time - 900 for time in run.times(PodEvent.PLACED, "task")] == [0.0, 0.0]
    assert run.figures.preempted == 0
    assert [time - 900 for time in pushed.times(PodEvent.PLACED, "task")] == pytest.approx([0.8, 0.8], abs=0.001)
    assert pushed.figures.preempted == 2


@pytest.mark.req("BF-41")
def test_ten_thousand_chunks_of_a_hundred_shapes_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = counted_packing(monkeypatch)

    def lived_with(chunks: int) -> SimulatedNodesRun:
        shapes = [a_buffer(pod_capacity(chunks, f"{1000 + number}m"), f"spare-{number}") for number in range(100)]
        fleet = on_nodes(idle(), pools=(pool(cpu="64", memory="256Gi", max_size=300),), steps=10)
        return SimulatedNodesRun(fleet, *shapes).run_until(BOOT + 60)

    lived_with(1)
    of_a_hundred = packed()
    lived = lived_with(100)
    # A hundred times the chunks cost what the nodes for them cost, and nothing for each of them.
    assert packed() <= of_a_hundred + 2 * lived.groups()["pool"]
    assert lived.chunks == 10_000
    assert lived.groups()["pool"] == pytest.approx(10_495 / 64, rel=0.05), "nodes are nearly full"
    assert lived.pods == {}


@pytest.mark.req("BF-43")
@pytest.mark.parametrize("chunks", [1, 2000])
def test_a_buffer_delays_no_pod_and_fills_no_node(chunks: int) -> None:
    nodes: tuple[NodeShape, ...] = (shape("8", "32Gi", count=2),)
    tasks = job("task", [float(second) for second in range(0, 3000, 300)], 100.0, pods=3)
    fleet = on_nodes(idle_workload(replicas=4), tasks, pools=(pool(max_size=5),), nodes=nodes, steps=60)
    without = run_variant(fleet, Variant("without"))
    with_buffer = run_variant(fleet, Variant("with", objects=(a_buffer(pod_capacity(chunks)),)))
    assert with_buffer.fleet == without.fleet
    assert with_buffer.chart.used_cpu == without.chart.used_cpu
    assert with_buffer.fleet.waited.most == 0.0


@pytest.mark.req("BF-47")
def test_pods_of_an_hpa_find_headroom_and_the_buffer_is_refilled_behind_them() -> None:
    buffer = a_buffer({"replicas": {"percent": {"percent": 30, "minCount": 1}}}, target=("Deployment", "web"))
    web = loaded(40 * 0.07, 52 * 0.07, replicas=40)
    scaler = hpa(70, minReplicas=1, maxReplicas=100)
    without, with_buffer = (
        SimulatedNodesRun(on_nodes(web, pools=(pool(cpu="1"),), steps=90), scaler, *objects).run_until(3600)
        for objects in ((), (buffer,))
    )
    assert len(without.placed()) == len(with_buffer.placed()) == 52
    assert without.longest_wait(since=1500) > 60
    assert with_buffer.longest_wait(since=1500) == 0.0
    assert with_buffer.chunks == 16
    assert sum(with_buffer.groups().values()) == pytest.approx((52 + 16) / 10, abs=1)


@pytest.mark.req("BF-49")
def test_tasks_start_at_once_while_they_fit_the_headroom_of_a_class() -> None:
    label = {"cloud.google.com/compute-class": "ci"}
    begins = [float(second) for second in range(1200, 12_000, 1800)]
    tasks = job("task", begins, 300.0, pods=4, spec={"nodeSelector": label})
    pools = (pool(labels=label),)
    chunk = {"perChunkResources": {"cpu": "1", "memory": "1Gi"}}
    buffer = a_buffer({"nodeClass": {"totalCpu": "4", "totalMem": "4Gi", **chunk}}, target=("CustomComputeClass", "ci"))
    without, with_buffer = (
        SimulatedNodesRun(on_nodes(tasks, pools=pools, steps=220), *objects).run_until(13_000)
        for objects in ((), (buffer,))
    )
    assert without.longest_wait() >= BOOT
    assert with_buffer.longest_wait() == 0.0
    assert with_buffer.figures.removed > 3, "the cluster shrinks again after every task"


@pytest.mark.req("BF-50")
def test_outside_its_windows_a_buffer_has_no_chunks() -> None:
    # The beginning is a Friday, 08:00 in UTC.
    windows: dict[str, Any] = {"schedule": {"windows": [{"start": "30 8 * * 1-5", "duration": "1h"}]}}
    lived = SimulatedNodesRun(on_nodes(idle(), pools=(pool(),), steps=300), a_buffer(pod_capacity(8), **windows))
    assert (lived.run_until(1700).groups(), lived.chunks) == ({}, 0)
    assert (lived.run_until(1800 + BOOT + 30).groups(), lived.chunks) == ({"pool": 2}, 8)
    assert (lived.run_until(5300).groups(), lived.chunks) == ({"pool": 2}, 8)
    assert (lived.run_until(6300).groups(), lived.chunks) == ({}, 0)


@pytest.mark.req("BF-52")
def test_a_dedicated_minimum_keeps_the_chunks_that_matching_pods_do_not_fill() -> None:
    fleet = on_nodes(idle_workload(replicas=4), pools=(pool(cpu="1"),), steps=60)
    lived = SimulatedNodesRun(fleet, a_buffer(pod_capacity(10), **MINIMUM, **WEB)).run_until(900)
    assert (lived.chunks, lived.groups()) == (6, {"pool": 10})


@pytest.mark.req("BF-53")
def test_a_dedicated_minimum_is_filled_only_by_matching_pods_down_to_zero() -> None:
    dedicated = a_buffer(pod_capacity(10), **MINIMUM, **WEB)
    others = SimulatedNodesRun(
        on_nodes(idle_workload("other", 4), pools=(pool(cpu="1"),), steps=60), dedicated
    ).run_until(900)
    assert (others.chunks, others.groups()) == (10, {"pool": 14})
    fleet = SimulatedNodesRun(
        on_nodes(idle_workload(replicas=12), pools=(pool(cpu="1"),), steps=60), dedicated
    ).run_until(900)
    assert (fleet.chunks, fleet.groups(), fleet.pending()) == (0, {"pool": 12}, [])


def test_chunks_have_the_size_of_a_vpa() -> None:
    sized = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "Recreate", "minReplicas": 1},
            "resourcePolicy": {
                "containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "3"}, "maxAllowed": {"cpu": "3"}}]
            },
        },
    }
    buffer = a_buffer({"replicas": {"exactly": 3}}, target=("Deployment", "web"))
    lived = SimulatedNodesRun(on_nodes(idle_workload(replicas=2), pools=(pool(),), steps=120), sized, buffer).run_until(
        5000
    )
    assert lived.groups() == {"pool": 5}, "one pod or chunk of three cores to a node"


def test_a_buffer_of_a_job_has_the_shape_of_its_template_between_runs() -> None:
    buffer = a_buffer({"replicas": {"exactly": 2}}, target=("Job", "task"))
    lived = SimulatedNodesRun(on_nodes(job("task", [5000.0], 60.0, cpu="3"), pools=(pool(),)), buffer).run_until(600)
    assert (lived.chunks, lived.groups()) == (2, {"pool": 2})
