"""DaemonSets on the model cluster: one pod for each node that their template allows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.worlds.simulated_cluster import (
    World,
    container,
    container_demand,
    fault,
    fleet,
    is_ready,
    ref,
    shape,
    workload,
)
from support.worlds.simulated_nodes import BOOT, QUICK, pool
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node, Taint
from trellis.api.kube.workloads import DaemonSet
from trellis.core.nodes.state.pods import is_daemon_or_mirror_pod
from trellis.sim.cluster import PodEvent
from trellis.sim.fleet import Fleet, SimulatedWorkload, Variant
from trellis.sim.run import simulate

MINUTE = 60.0


def agent(name: str = "agent", cpu: str = "100m", **more: Any) -> SimulatedWorkload:
    return workload(name, 1, container(cpu=cpu, memory="64Mi"), kind="DaemonSet", **more)


def where(world: World, name: str = "agent") -> list[str]:
    return sorted(pod.spec.node_name for pod in world.list_pods(name))


def daemon_set(world: World) -> DaemonSet:
    document = world.workloads["DaemonSet", "agent"]
    assert isinstance(document, DaemonSet)
    return document


def test_each_node_has_one_pod_of_a_daemon_set() -> None:
    world = World(fleet(agent(), nodes=(shape(count=3),))).run(20)
    assert where(world) == ["node-1", "node-2", "node-3"]
    assert all(map(is_ready, world.list_pods("agent")))
    assert all(map(is_daemon_or_mirror_pod, world.list_pods("agent")))
    assert daemon_set(world).status.desired_number_scheduled == 3


def test_node_selectors_affinity_and_taints_narrow_where_pods_of_a_daemon_set_are() -> None:
    fast = shape(name="fast", metadata={"labels": {"disk": "ssd", "zone": "a"}})
    far = shape(name="far", metadata={"labels": {"disk": "ssd", "zone": "b"}})
    labelled = shape(
        name="kept",
        metadata={"labels": {"disk": "ssd", "zone": "a"}},
        spec={"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]},
    )
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone]}}}
    spec = {"nodeSelector": {"disk": "ssd"}, "affinity": affinity}
    tolerant = {**spec, "tolerations": [{"key": "team", "operator": "Exists"}]}
    nodes = (shape(), fast, far, labelled)
    world = World(fleet(agent(spec=spec), agent("guard", spec=tolerant), nodes=nodes)).run(20)
    assert where(world) == ["fast-1"]
    assert where(world, "guard") == ["fast-1", "kept-1"]


def test_pods_of_a_daemon_set_have_their_place_before_others() -> None:
    big = workload("web", 4, container(cpu="2", memory="64Mi"))
    world = World(fleet(big, agent(cpu="500m"), nodes=(shape(cpu="4", count=2),))).run(20)
    assert where(world) == ["node-1", "node-2"]
    assert sum(bool(pod.spec.node_name) for pod in world.list_pods("web")) == 2


def test_a_pod_of_a_daemon_set_that_is_evicted_comes_again_on_its_node() -> None:
    world = World(fleet(agent(), nodes=(shape(count=2),))).run(20)
    victim = next(pod for pod in world.list_pods("agent") if pod.spec.node_name == "node-2")
    world.cluster.evict(ref(victim))
    world.run(20)
    assert where(world) == ["node-1", "node-2"]
    assert victim.metadata.name not in world.pods


def test_a_pod_without_headroom_on_its_node_waits_there() -> None:
    world = World(fleet(agent(cpu="2"), nodes=(shape(), shape(cpu="1", name="small")))).run(20)
    assert where(world) == ["", "node-1"]


class Joined(World):
    """A world whose nodes may also go."""

    def on_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            del self.nodes[old.metadata.name]
        else:
            super().on_node(old, new)


TEMPLATE = convert_object({"status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}}, Node)


def test_a_node_that_joins_has_its_pod_and_takes_it_along() -> None:
    world = Joined(fleet(agent(), nodes=(shape(),))).run(20)
    world.cluster.machines.boot(TEMPLATE, "late", 0.0, 30.0, lambda: None)
    world.run(20)
    assert where(world) == ["node-1"]
    world.run(20)
    assert where(world) == ["late", "node-1"]
    assert daemon_set(world).status.desired_number_scheduled == 2
    world.cluster.machines.remove("late")
    world.run(10)
    assert where(world) == ["node-1"]
    assert daemon_set(world).status.desired_number_scheduled == 1
    # It belongs to its node: nothing was lost.
    assert world.count(PodEvent.LOST) == 0


def test_a_taint_that_comes_later_drives_no_pod_of_a_daemon_set_away() -> None:
    world = World(fleet(agent(), nodes=(shape(count=2),))).run(20)
    world.cluster.machines.taint("node-1", (Taint("gone", "", "NoSchedule"),))
    world.run(20)
    assert where(world) == ["node-1", "node-2"]


def test_an_outage_of_a_node_leaves_the_pod_of_a_daemon_set_there() -> None:
    down = fault("node-down", 2 * MINUTE, 20 * MINUTE, about="node-1")
    world = World(fleet(agent(), nodes=(shape(count=2),), faults=(down,))).run(15 * MINUTE)
    before = {pod.metadata.uid for pod in world.list_pods("agent")}
    assert where(world) == ["node-1", "node-2"]
    assert sum(map(is_ready, world.list_pods("agent"))) == 1
    world.run(15 * MINUTE)
    assert {pod.metadata.uid for pod in world.list_pods("agent")} == before
    assert all(map(is_ready, world.list_pods("agent")))


def test_a_new_version_replaces_one_pod_at_a_time() -> None:
    world = World(fleet(agent(rollouts=(1_800_000_000.0 + 60,)), nodes=(shape(count=3),))).run(59)
    before = {pod.metadata.uid for pod in world.list_pods("agent")}
    fewest = 3
    for _ in range(120):
        world.run(1)
        fewest = min(fewest, sum(map(is_ready, world.list_pods("agent"))))
    assert fewest == 2
    assert where(world) == ["node-1", "node-2", "node-3"]
    assert before.isdisjoint(pod.metadata.uid for pod in world.list_pods("agent"))


def _pooled(*workloads: SimulatedWorkload, count: int = 0, steps: int = 60) -> Fleet:
    pooled = fleet(*workloads, nodes=(), steps=steps)
    variant = Variant("only", settings=QUICK)
    return msgspec.structs.replace(pooled, pools=(pool(count=count),), variants=(variant,))


@pytest.mark.parametrize(("with_agent", "nodes"), [(False, 2), (True, 4)])
def test_nodes_are_ordered_for_what_daemon_sets_leave_of_them(with_agent: bool, nodes: int) -> None:
    web = workload("web", 4, container(cpu="2", memory="64Mi"), demand=(container_demand(0.01, 1e6),))
    fleet = _pooled(web, *([agent(cpu="1", demand=(container_demand(0.01, 1e6),))] if with_agent else []))
    (result,) = simulate(fleet).variants
    assert max(result.chart.nodes) == nodes  # type: ignore[arg-type]
    waits = next(workload for workload in result.workloads if workload.name == "web").totals.waited
    assert waits.most < BOOT + MINUTE


def test_a_node_with_pods_of_daemon_sets_alone_is_given_back() -> None:
    web = workload("web", 1, container(cpu="1", memory="64Mi"), demand=(container_demand(0.01, 1e6),))
    (result,) = simulate(_pooled(web, agent(demand=(container_demand(0.01, 1e6),)), count=3)).variants
    assert result.chart.nodes[-1] == 1  # type: ignore[index]
    of_agent = next(workload for workload in result.workloads if workload.name == "agent")
    assert of_agent.chart is not None
    assert of_agent.chart.pods[-1] == 1
    assert not any(mark.what == PodEvent.LOST for mark in of_agent.chart.marks)
