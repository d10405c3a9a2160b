"""Soft taints are written once, and not by a process that is read-only or does not lead."""

from __future__ import annotations

import pytest

from support.api_server.server import pod_path
from support.controllers.nodes import BOOT, NAMESPACE, NODES, World, seconds
from trellis.api.kinds.kwok_node_group import GROUP_LABEL
from trellis.controllers.nodes.process import NodeController

SOFT = "trellis.x-k8s.io/unneeded"


def taint_writes(world: World) -> list[tuple[str, str]]:
    return [(method, path) for method, path in world.writes() if path.startswith(NODES) and method == "PATCH"]


def a_world_with_an_idle_node(**flags: int) -> World:
    world = World(down=dict(flags))
    world.add_node("small-1")
    node = world.nodes()["small-1"]
    labels = {**node["metadata"]["labels"], GROUP_LABEL: "small"}
    world.server.put(f"{NODES}/small-1", {**node, "metadata": {**node["metadata"], "labels": labels}})
    return world


def test_an_unneeded_node_is_tainted_once_and_the_taint_is_removed_when_a_pod_needs_it() -> None:
    world = a_world_with_an_idle_node()

    async def play(_: NodeController) -> None:
        await world.wait(25)
        assert taint_writes(world) == []
        await world.wait(300)
        assert world.taints("small-1") == [SOFT]
        assert taint_writes(world) == [("PATCH", f"{NODES}/small-1")]
        world.add_pods(3)
        await world.wait(15)
        assert not world.pending()
        assert list(world.nodes()) == ["small-1"], "the taint keeps no pod away, and no node is ordered"
        assert world.taints("small-1") == []
        assert len(taint_writes(world)) == 2

    world.run(play)


def test_a_read_only_process_writes_no_soft_taint() -> None:
    world = a_world_with_an_idle_node()
    world.read_only = True

    async def play(_: NodeController) -> None:
        await world.wait(120)
        assert not world.writes()
        assert world.metric("trellis_nodes_nodes", outcome="Unneeded") == 1

    world.run(play)


def test_a_process_that_does_not_lead_writes_no_soft_taint() -> None:
    world = a_world_with_an_idle_node()
    world.leads = False

    async def play(controller: NodeController) -> None:
        await world.wait(120)
        assert not world.writes()
        world.leads = True
        controller.on_started_leading()
        await world.wait(45)
        assert world.taints("small-1") == [SOFT]

    world.run(play)


@pytest.mark.parametrize("flags", [{"max_bulk_soft_taint_count": 0}, {"scale_down_enabled": False}], ids=str)
def test_a_process_without_soft_taints_removes_those_of_an_earlier_one(flags: dict[str, int]) -> None:
    world = a_world_with_an_idle_node(**flags)
    node = world.nodes()["small-1"]
    taints = [{"key": "other", "effect": "NoSchedule"}, {"key": SOFT, "value": "1", "effect": "PreferNoSchedule"}]
    world.server.put(f"{NODES}/small-1", {**node, "spec": {"taints": taints}})

    async def play(_: NodeController) -> None:
        await world.wait(60)
        assert world.taints("small-1") == ["other"]
        assert len(taint_writes(world)) == 1

    world.run(play)


def test_a_node_with_a_startup_taint_is_waited_for_and_none_is_ordered() -> None:
    key = "node.cilium.io/agent-not-ready"
    world = World(up={"startup_taint": (key,)}, down={"scale_down_delay_after_add": seconds(0)})

    async def play(_: NodeController) -> None:
        world.add_pod()
        await world.wait(5)
        assert list(world.nodes()) == ["small-1"]
        node = world.nodes()["small-1"]
        taints = [*node["spec"]["taints"], {"key": key, "effect": "NoSchedule"}]
        world.server.put(f"{NODES}/small-1", {**node, "spec": {**node["spec"], "taints": taints}})
        await world.wait(BOOT + 120)
        assert world.taints("small-1") == [key]
        assert list(world.nodes()) == ["small-1"]
        assert world.metric("trellis_nodes_nodes", reason="NodeStarting") == 1
        node = world.nodes()["small-1"]
        world.server.put(f"{NODES}/small-1", {**node, "spec": {**node["spec"], "taints": []}})
        await world.wait(30)
        assert not world.pending()
        assert list(world.nodes()) == ["small-1"]

    world.run(play)


def test_daemon_set_pods_are_evicted_before_a_drained_node_is_released() -> None:
    quick = {"scale_down_unneeded_time": seconds(40), "unremovable_node_recheck_timeout": seconds(5)}
    world = World(down={**quick, "scale_down_delay_after_add": seconds(0)})

    async def play(_: NodeController) -> None:
        world.add_node("base", cpu="2")
        world.add_pod("full", cpu="2", nodeName="base")
        world.add_pod("web", cpu="1")
        await world.wait(BOOT + 15)
        assert world.placed()["web"] == "small-1"
        owner = {"kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": True}
        world.add_pod("agent", cpu="100m", nodeName="small-1")
        path = pod_path("agent", NAMESPACE)
        agent = world.server.objects[path]
        world.server.put(path, {**agent, "metadata": {**agent["metadata"], "ownerReferences": [owner]}})
        world.server.delete(pod_path("full", NAMESPACE))
        await world.wait(120)
        assert world.evicted == ["web", "agent"]
        assert list(world.nodes()) == ["base"]

    world.run(play)
