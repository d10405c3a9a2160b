"""Scales on the model cluster: who comes, who goes, and who takes the load meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worlds.simulated_cluster import World, container, container_demand, fleet, is_ready, ref, shape, workload
from trellis.api.kube.scaling import Scale
from trellis.api.kube.workloads import Deployment, ReplicaSet, StatefulSet
from trellis.core.cluster.write_results import WriteResult
from trellis.sim.cluster import PodEvent
from trellis.sim.cluster.api_server import ScaleRegistry
from trellis.sim.fleet import StartProfile

SHARED = {"demand": (container_demand(cpu=0.6, memory=0.0, shared=True),)}


def scaled(world: World, replicas: int, name: str = "web", kind: str = "Deployment") -> World:
    assert world.cluster.set_scale("shop", kind, name, replicas) is WriteResult.APPLIED
    return world


def names(world: World, name: str = "web") -> set[str]:
    return {pod.metadata.name for pod in world.list_pods(name)}


def test_a_scale_has_the_requested_replicas_and_the_selector_of_the_pods() -> None:
    world = World(fleet(workload("web", 2))).run(20)
    scale = world.cluster.scale("shop", "Deployment", "web")
    assert scale is not None
    assert scale.metadata == world.workloads["Deployment", "web"].metadata
    assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (2, 2, "app=web")
    scaled(world, 3)
    now = world.cluster.scale("shop", "Deployment", "web")
    assert now is not None
    assert (now.spec.replicas, now.status.replicas) == (3, 2)
    assert now.metadata.resource_version != scale.metadata.resource_version


@pytest.mark.parametrize(("kind", "made"), [("Deployment", Deployment), ("StatefulSet", StatefulSet)])
def test_a_workload_gets_the_last_requested_replicas(kind: str, made: type[Deployment | StatefulSet]) -> None:
    world = World(fleet(workload("web", 1, kind=kind), nodes=(shape(count=3),))).run(20)
    scaled(world, 4, kind=kind).run(60)
    assert len(world.list_pods()) == 4
    assert all(map(is_ready, world.list_pods()))
    scaled(world, 2, kind=kind).run(60)
    assert len(world.pods) == 2
    shown = world.workloads[kind, "web"]
    assert isinstance(shown, made)
    assert shown.spec.replicas == 2
    assert world.cluster.counters.scalings.tolist() == [2]
    assert world.cluster.rows.size == 2


def test_requesting_the_present_replicas_changes_nothing() -> None:
    world = World(fleet(workload("web", 2))).run(20)
    before = world.workloads["Deployment", "web"]
    scaled(world, 2).run(20)
    assert world.workloads["Deployment", "web"] is before
    assert world.cluster.counters.scalings.tolist() == [0]


def test_a_write_for_an_older_version_is_a_conflict() -> None:
    world = World(fleet(workload("web", 2))).run(20)
    version = world.workloads["Deployment", "web"].metadata.resource_version
    assert world.cluster.set_scale("shop", "Deployment", "web", 3, version=version) is WriteResult.APPLIED
    assert world.cluster.set_scale("shop", "Deployment", "web", 4, version=version) is WriteResult.CONFLICT
    assert len(world.run(20).list_pods()) == 3


def test_a_missing_workload_and_a_job_have_no_scale() -> None:
    world = World(fleet(workload("batch", 1, kind="Job"))).run(20)
    for kind, name in (("Job", "batch"), ("Deployment", "batch"), ("Deployment", "nobody")):
        assert world.cluster.scale("shop", kind, name) is None
        assert world.cluster.set_scale("shop", kind, name, 1) is WriteResult.GONE


def test_a_negative_count_is_refused() -> None:
    world = World(fleet(workload("web", 2))).run(20)
    assert world.cluster.set_scale("shop", "Deployment", "web", -1) is WriteResult.INVALID


def test_unready_pods_are_removed_first_and_then_the_newest() -> None:
    world = World(fleet(workload("web", 1, start=StartProfile(seconds=30.0)), nodes=(shape("64"),))).run(60)
    (oldest,) = names(world)
    middle = names(scaled(world, 2).run(60)) - {oldest}
    unready = names(scaled(world, 3).run(5)) - {oldest} - middle
    assert names(scaled(world, 2).run(0)) & unready == set()
    assert names(scaled(world.run(60), 1).run(0)) == {oldest}


def test_pending_pods_are_removed_first() -> None:
    world = World(fleet(workload("web", 1, container(cpu="3")))).run(60)
    placed = names(world)
    scaled(world, 2).run(60)
    assert names(scaled(world, 1).run(0)) == placed
    assert world.cluster.pending == 0


def test_pods_that_crowd_a_node_go_before_those_that_are_alone() -> None:
    nodes = (shape(count=1, name="small", cpu="2"), shape(count=1, name="large", cpu="4"))
    world = World(fleet(workload("web", 3, container(cpu="1500m")), nodes=nodes)).run(60)
    assert sorted(pod.spec.node_name for pod in world.list_pods()) == ["large-1", "large-1", "small-1"]
    scaled(world, 2).run(60)
    assert sorted(pod.spec.node_name for pod in world.list_pods()) == ["large-1", "small-1"]


def test_the_last_of_a_stateful_set_goes_first_and_the_next_when_it_is_gone() -> None:
    world = World(fleet(workload("db", 4, kind="StatefulSet"), nodes=(shape("64"),))).run(120)
    scaled(world, 1, "db", "StatefulSet").run(0.5)
    assert names(world, "db") == {"db-0", "db-1", "db-2"}
    assert set(world.run(0.5).pods) == {"db-0", "db-1", "db-2"}
    assert set(world.run(60).pods) == {"db-0"}


def test_a_stateful_set_is_not_made_smaller_while_one_that_stays_is_not_ready() -> None:
    slow = workload("db", 3, kind="StatefulSet", start=StartProfile(seconds=30.0))
    world = World(fleet(slow, nodes=(shape("64"),))).run(120)
    world.cluster.evict(ref(world.pods["db-0"]))
    scaled(world, 1, "db", "StatefulSet").run(20)
    assert "db-2" in world.pods
    assert set(world.run(120).pods) == {"db-0"}


def test_with_none_wanted_all_go_and_with_one_it_comes_back() -> None:
    world = World(fleet(workload("web", 3))).run(30)
    assert scaled(world, 0).run(30).pods == {}
    assert len(scaled(world, 1).run(30).list_pods()) == 1


def test_a_rollout_continues_with_replicas_requested_meanwhile() -> None:
    world = World(fleet(workload("web", 4, rollouts=(1_800_000_060.0,)), nodes=(shape("64"),))).run(62)
    scaled(world, 6).run(300)
    assert len(world.list_pods()) == 6
    (left,) = (workload for (kind, _), workload in world.workloads.items() if kind == "ReplicaSet")
    assert isinstance(left, ReplicaSet)
    assert left.spec.replicas == 6


def test_a_disruption_budget_counts_from_the_requested_replicas() -> None:
    world = World(fleet(workload("web", 4, max_unavailable=1))).run(30)
    scaled(world, 2).run(30)
    first, second = world.list_pods()
    assert world.cluster.evict(ref(first)) is WriteResult.APPLIED
    assert world.cluster.evict(ref(second)) is WriteResult.REFUSED


def test_a_shared_load_is_spread_over_ready_pods() -> None:
    world = World(fleet(workload("web", 1, **SHARED), nodes=(shape("64"),), step=10.0)).run(35)
    assert world.usages[-1].used_cpu.tolist() == [0.6]
    scaled(world, 3).run(4)
    world.run(20)
    assert world.usages[-1].used_cpu.tolist() == pytest.approx([0.2, 0.2, 0.2])
    scaled(world, 2).run(20)
    assert world.usages[-1].used_cpu.tolist() == pytest.approx([0.3, 0.3])
    assert world.usages[-1].unserved.tolist() == [0.0]


def test_a_shared_load_without_ready_pods_is_not_served() -> None:
    own = workload("own", 1, demand=(container_demand(cpu=0.5),))
    world = World(fleet(workload("web", 2, **SHARED), own, step=10.0)).run(45)
    assert world.usages[-1].unserved.tolist() == [0.0, 0.0]
    scaled(world, 0).run(20)
    assert world.usages[-1].unserved.tolist() == [0.6, 0.0]
    assert world.usages[-1].workload.tolist() == [1]


@given(
    st.sampled_from(["Deployment", "StatefulSet"]),
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0.0, 1.0, 4.0, 30.0])), min_size=1, max_size=8),
)
def test_only_the_last_requested_replicas_count_in_the_end(kind: str, asked: list[tuple[int, float]]) -> None:
    world = World(fleet(workload("web", 2, kind=kind), nodes=(shape("64"),), steps=1)).run(5)
    for replicas, seconds in asked:
        scaled(world, replicas, kind=kind).run(seconds)
        scale = world.cluster.scale("shop", kind, "web")
        assert scale is not None
        assert scale.status.replicas == len(world.list_pods())
    world.run(300)
    assert len(world.pods) == asked[-1][0] == world.cluster.rows.size
    assert all(map(is_ready, world.pods.values()))
    assert world.cluster.nodes.occupancy.free("cpu")[0] == 64_000 - 500 * asked[-1][0]


def test_rows_of_deleted_pods_are_reused() -> None:
    world = World(fleet(workload("web", 1), nodes=(shape("64"),), step=10.0, steps=100)).run(20)
    for replicas in np.tile([8, 1], 6).tolist():
        scaled(world, replicas).run(20)
    assert world.cluster.rows.numbers_end <= 9
    assert world.count(PodEvent.MADE) == 1 + 6 * 7


def test_scales_are_answered_by_the_handler_registered_for_the_kind() -> None:
    world = World(fleet(workload("web", 1))).run(20)
    scales = ScaleRegistry(world.cluster)
    assert scales.get("shop", "Hvpa", "web") is None
    assert scales.put("shop", "Hvpa", "web", 2) is WriteResult.GONE

    class Forwarding:
        def scale(self, namespace: str, _kind: str, name: str) -> Scale | None:
            return scales.get(namespace, "Deployment", name)

        def set_scale(self, namespace: str, _kind: str, name: str, replicas: int, *, version: str = "") -> WriteResult:
            return scales.put(namespace, "Deployment", name, replicas, version=version)

    scales.register("Hvpa", Forwarding())
    assert scales.get("shop", "Hvpa", "web") == world.cluster.scale("shop", "Deployment", "web")
    assert scales.put("shop", "Hvpa", "web", 2) is WriteResult.APPLIED
    assert len(world.run(20).list_pods()) == 2
