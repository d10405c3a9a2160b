"""What the node autoscaler does in a cluster that lives, on a virtual clock."""

from __future__ import annotations

import pytest

from support.controllers.nodes import BOOT, World, last_fully_provisioned, seconds
from support.worlds.providers.kwok_nodes import group
from trellis.controllers.nodes.process import NodeController

QUICK = {
    "scale_down_unneeded_time": seconds(60),
    "scale_down_delay_after_add": seconds(30),
    "unremovable_node_recheck_timeout": seconds(10),
}


def test_pods_without_a_node_get_one_and_are_reported() -> None:
    world = World()

    async def play(_: NodeController) -> None:
        world.add_pods(6)
        await world.wait(5)
        assert len(world.nodes()) == 2
        assert world.pending()
        await world.wait(BOOT + 10)
        assert not world.pending()
        await world.wait(120)
        assert len(world.nodes()) == 2

    world.run(play)
    assert world.event_codes("Pod") == ["TriggeredScaleUp"] * 6
    assert world.metric("trellis_nodes_ordered_total", group="small") == 2


@pytest.mark.req("BF-08")
def test_nodes_are_ordered_for_the_chunks_in_a_buffers_status_until_it_is_provisioned() -> None:
    world = World()

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=5)
        await world.wait(5)
        assert len(world.nodes()) == 2
        assert world.provisioned()[0] == "False"
        assert "lastFullyProvisioned" not in world.buffer()
        await world.wait(BOOT + 5)
        assert world.provisioned() == ("True", "BufferProvisioned")
        assert abs(last_fully_provisioned(world.buffer()) - world.now()) < 10
        assert {condition["type"] for condition in world.buffer()["conditions"]} == {
            "ReadyForProvisioning",
            "Provisioned",
        }
        assert not [name for name in world.placed() if name]

    world.run(play)
    assert world.event_codes("Buffer", "spare") == ["BufferNodesOrdered", "BufferAwaitsNodes", "BufferProvisioned"]
    assert world.metric("trellis_nodes_buffer_chunks", buffer_name="spare") == 5
    assert world.metric("trellis_nodes_buffer_provisioned_chunks", buffer_name="spare") == 5
    assert world.metric("trellis_nodes_buffer_price_per_hour", buffer_name="spare") > 0


def test_pods_use_the_headroom_of_a_buffer_at_once_and_it_is_refilled() -> None:
    world = World()

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=4)
        await world.wait(BOOT + 10)
        world.add_pods(3)
        await world.wait(3)
        assert not world.pending()
        await world.wait(BOOT + 10)
        assert len(world.nodes()) == 2
        assert world.provisioned() == ("True", "BufferProvisioned")

    world.run(play)
    assert world.metric("trellis_nodes_buffer_hits_total", buffer_name="spare") == 3
    assert world.metric("trellis_nodes_buffer_misses_total", buffer_name="spare") == 0


def test_unneeded_nodes_are_tainted_drained_and_deleted() -> None:
    world = World(group(minSize=1), down=QUICK)

    async def play(_: NodeController) -> None:
        world.add_pods(12)
        await world.wait(BOOT + 10)
        assert len(world.nodes()) == 3
        world.delete_pods()
        world.add_pod()
        await world.wait(40)
        assert len(world.nodes()) == 3
        await world.wait(120)
        assert len(world.nodes()) == 1
        assert not world.pending()
        [remaining] = world.nodes()
        assert world.taints(remaining) == []

    world.run(play)
    assert world.metric("trellis_nodes_released_total", group="small") == 2
    assert "NodeReleased" in world.event_codes("Node")


def test_pods_on_an_underused_node_are_moved() -> None:
    world = World(down=QUICK)

    async def play(_: NodeController) -> None:
        world.add_pods(8)
        await world.wait(BOOT + 10)
        assert len(world.nodes()) == 2
        for name in list(world.placed())[:3] + list(world.placed())[-3:]:
            world.server.delete(f"/api/v1/namespaces/shop/pods/{name}")
        await world.wait(180)
        assert len(world.nodes()) == 1
        assert len(world.placed()) == 2
        assert len(world.evicted) == 1

    world.run(play)
    assert world.metric("trellis_nodes_evictions_total") == 1


def test_a_pod_that_would_be_boosted_is_moved_only_if_the_boost_fits() -> None:
    world = World(down=QUICK)
    world.add_boost("web", factor=4)

    async def play(_: NodeController) -> None:
        world.add_pods(5)
        await world.wait(BOOT + 10)
        assert len(world.nodes()) == 2
        for name in list(world.placed())[:3]:
            world.server.delete(f"/api/v1/namespaces/shop/pods/{name}")
        # It has one core, would start with four, and the other node has three left.
        await world.wait(180)
        assert len(world.nodes()) == 2
        assert world.metric("trellis_nodes_nodes", reason="NoPlaceForPods") > 0
        world.server.delete("/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web")
        await world.wait(180)
        assert len(world.nodes()) == 1

    world.run(play)


def test_a_node_is_kept_for_the_growth_that_a_vpa_recommends_until_the_vpa_is_deleted() -> None:
    world = World(down=QUICK)

    async def play(_: NodeController) -> None:
        world.add_pods(5)
        await world.wait(BOOT + 10)
        assert len(world.nodes()) == 2
        for name in list(world.placed())[:2]:
            world.server.delete(f"/api/v1/namespaces/shop/pods/{name}")
        # Three pods of one core each fit on one node of four. With half a core more they do not.
        world.add_vpa("web", "1500m")
        await world.wait(180)
        assert len(world.nodes()) == 2
        assert world.metric("trellis_nodes_nodes", reason="NoHeadroomForRecommendations") > 0
        world.server.delete("/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web")
        await world.wait(180)
        assert len(world.nodes()) == 1

    world.run(play)


def test_a_deferred_resize_orders_one_node_which_stays_until_the_resize_is_done() -> None:
    world = World(down=QUICK)

    async def play(_: NodeController) -> None:
        world.add_vpa("web", "3")
        world.add_pods(4)
        await world.wait(BOOT + 10)
        assert len(world.nodes()) == 1
        (name, *_others) = world.placed()
        world.resize(name, "3", "Deferred")
        await world.wait(BOOT + 300)
        assert len(world.nodes()) == 2
        assert world.event_codes("Pod", name).count("ResizeAwaitsNode") == 1
        world.server.delete(f"/api/v1/namespaces/shop/pods/{name}")
        world.server.delete("/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/web")
        await world.wait(300)
        assert len(world.nodes()) == 1

    world.run(play)


def test_a_resize_without_an_eviction_orders_no_node_and_gets_an_event() -> None:
    world = World(down=QUICK)

    async def play(_: NodeController) -> None:
        world.add_vpa("web", "3", "InPlace")
        world.add_pods(4)
        await world.wait(BOOT + 10)
        (name, *_others) = world.placed()
        world.resize(name, "3", "Deferred")
        await world.wait(300)
        assert len(world.nodes()) == 1
        assert world.event_codes("Pod", name).count("ResizeWithoutEviction") == 1

    world.run(play)


def test_a_buffer_keeps_its_nodes_until_its_chunks_are_removed() -> None:
    world = World(down=QUICK)

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=8)
        await world.wait(BOOT + 200)
        assert len(world.nodes()) == 2
        world.resize_buffer(4)
        await world.wait(120)
        assert len(world.nodes()) == 1
        assert world.provisioned() == ("True", "BufferProvisioned")

    world.run(play)


def test_a_pod_that_fits_nowhere_gets_one_event_with_the_reason() -> None:
    world = World()

    async def play(_: NodeController) -> None:
        world.add_pod("huge", cpu="64")
        await world.wait(60)
        assert not world.nodes()

    world.run(play)
    assert world.event_codes("Pod", "huge") == ["NotTriggerScaleUp"]
    [message] = [event[3] for event in world.events if event[1] == "huge"]
    assert "cpu" in message
    assert "small" in message
    assert world.metric("trellis_nodes_pending_pods", reason="NoGroupFits") == 1


def test_the_condition_is_removed_when_a_buffer_gets_another_type() -> None:
    world = World()

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=1)
        await world.wait(BOOT + 5)
        assert world.provisioned()[0] == "True"
        world.edit_buffer(spec={"type": "example.com/other"})
        await world.wait(2)
        assert world.provisioned() == ("", "")
        assert world.buffer()["podBasedBufferSpec"]["replicaNum"] == 1

    world.run(play)


def test_an_idle_cluster_costs_no_write() -> None:
    world = World()
    world.add_node("fixed")
    world.add_buffer(chunks=2)

    async def play(_: NodeController) -> None:
        await world.wait(30)
        before = len(world.writes())
        await world.wait(200)
        assert world.writes()[before:] == []

    world.run(play)


def test_a_process_that_does_not_lead_writes_nothing_and_takes_over_at_once() -> None:
    world = World()
    world.leads = False

    async def play(controller: NodeController) -> None:
        world.add_pods(3)
        await world.wait(60)
        assert not world.writes()
        world.leads = True
        controller.on_started_leading()
        await world.wait(2)
        assert len(world.nodes()) == 1

    world.run(play)


def test_a_read_only_process_decides_and_writes_nothing() -> None:
    world = World()
    world.read_only = True

    async def play(_: NodeController) -> None:
        world.add_pods(3)
        world.add_buffer()
        await world.wait(60)
        assert not world.writes()
        assert world.metric("trellis_nodes_pending_pods", reason="NodeOrdered") == 3

    world.run(play)


def test_buffers_of_uncovered_namespaces_are_not_written() -> None:
    world = World(scope={"ignored_vpa_object_namespaces": ("shop",)})

    async def play(_: NodeController) -> None:
        world.add_buffer()
        await world.wait(30)
        assert not world.nodes()
        assert world.provisioned() == ("", "")

    world.run(play)


def test_a_group_is_filled_to_its_enforced_minimum_size_and_stays_there() -> None:
    world = World(group(minSize=2), up={"enforce_node_group_min_size": True}, down=QUICK)

    async def play(_: NodeController) -> None:
        await world.wait(BOOT + 5)
        assert len(world.nodes()) == 2
        world.server.delete("/api/v1/nodes/small-1")
        await world.wait(BOOT + 15)
        assert len(world.nodes()) == 2
        await world.wait(300)
        assert len(world.nodes()) == 2

    world.run(play)
    assert world.metric("trellis_nodes_ordered_total", group="small", reason="OrderedForMinimum") == 3


def test_notes_about_a_group_are_logged_when_they_begin(caplog: pytest.LogCaptureFixture) -> None:
    world = World(group(minSize=2), up={"enforce_node_group_min_size": True, "max_nodes_total": 1})

    async def play(_: NodeController) -> None:
        await world.wait(60)

    world.run(play)
    assert len(world.nodes()) == 1
    reason = [record for record in caplog.records if record.getMessage() == "a node group differs from its template"]
    assert len(reason) == 1


def test_a_pod_that_loses_its_nomination_gets_a_node_at_once() -> None:
    world = World(loop={"scan_interval": seconds(600)})
    world.add_node("full", cpu="1")
    world.add_pod("running")

    async def play(_: NodeController) -> None:
        await world.wait(5)
        world.is_cluster_active = False
        world.add_pod("important")
        path = "/api/v1/namespaces/shop/pods/important"
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"phase": "Pending", "conditions": [refused]}
        world.server.put(path, {**world.server.objects[path], "status": {**status, "nominatedNodeName": "full"}})
        await world.wait(30)
        assert list(world.nodes()) == ["full"]
        world.server.put(path, {**world.server.objects[path], "status": status})
        await world.wait(3)
        assert len(world.nodes()) == 2

    world.run(play)


def test_pods_below_the_priority_cutoff_get_no_node() -> None:
    world = World(up={"expendable_pods_priority_cutoff": 100})

    async def play(_: NodeController) -> None:
        world.add_pod("low", priority=99)
        await world.wait(15)
        assert not world.nodes()
        world.add_pod("high", priority=100)
        await world.wait(5)
        assert len(world.nodes()) == 1

    world.run(play)
