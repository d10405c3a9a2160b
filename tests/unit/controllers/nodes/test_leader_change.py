"""The state that a new leader forgets, and its writes to Buffers that were recreated meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec
import pytest

from support import virtual_time
from support.api_server.server import Document
from support.controllers.nodes import BOOT, BUFFERS, START, World, seconds
from support.worlds.providers.kwok_nodes import failing, group
from trellis.base.reasons import DetailedReason
from trellis.controllers.nodes.process import NodeController
from trellis.controllers.nodes.status import BufferStatusPublisher
from trellis.core.cluster.transforms import transform_buffer
from trellis.core.nodes.scale_up.decisions import BUFFER_PROVISIONED, BufferDecision
from trellis.kube import resources
from trellis.kube.transport.requests import Request
from trellis.kube.watch.informer import WatchInformer
from trellis.kube.write.actions import Action, PatchObject
from trellis.runtime.cached_kinds import MANAGED_BUFFERS
from trellis.testing.scripted_transport import ScriptedResponse

MARK = "trellis.x-k8s.io/leaving"


def read_statuses(actions: Iterable[Action]) -> list[Document]:
    return [msgspec.json.decode(action.patch.body)["status"] for action in actions if isinstance(action, PatchObject)]


async def lose_and_regain_lease(world: World, controller: NodeController) -> None:
    """Another process leads for a while."""
    world.leads = False
    await world.wait(30)
    world.leads = True
    controller.on_started_leading()
    await world.wait(3)


def test_a_new_leader_retries_a_group_that_failed_in_its_earlier_term() -> None:
    world = World(failing("RefuseOrders"))

    async def play(controller: NodeController) -> None:
        world.add_pod("web")
        await world.wait(60)
        assert world.metric("trellis_nodes_failed_orders_total", group="small") == 1
        await lose_and_regain_lease(world, controller)
        assert world.metric("trellis_nodes_failed_orders_total", group="small") == 2

    world.run(play)


def test_a_new_leader_records_events_of_pods_buffers_and_nodes_again() -> None:
    slow = {"node_delete_delay_after_taint": seconds(3600), "unremovable_node_recheck_timeout": seconds(10)}
    quick = {"scale_down_unneeded_time": seconds(20), "scale_down_delay_after_add": seconds(0)}
    world = World(group(maxSize=1), down={**quick, **slow})

    async def play(controller: NodeController) -> None:
        world.add_pod("first")
        await world.wait(BOOT + 10)
        world.delete_pods()
        world.add_pod("huge", cpu="64")
        world.add_pod("ill", cpu="64", resources={"requests": {"cpu": "much"}})
        world.add_buffer(chunks=2, cpu="32")
        await world.wait(60)
        assert MARK in world.taints("small-1")
        world.events.clear()
        await world.wait(60)
        assert not world.events
        await lose_and_regain_lease(world, controller)
        assert world.event_codes("Pod", "huge") == ["NotTriggerScaleUp"]
        assert world.event_codes("Pod", "ill") == ["PodDemandUnreadable"]
        assert world.event_codes("Buffer") == ["NoGroupFits"]
        # Its mark is taken off, as after any other process that led.
        assert world.taints("small-1") == []
        assert world.event_codes("Node", "small-1") == []

    world.run(play)


@pytest.mark.req("BF-37")
@pytest.mark.parametrize("at", ["GET", "PATCH"])
def test_a_buffer_recreated_during_a_write_does_not_get_the_old_status(at: str) -> None:
    world = World()
    replaced: list[Document] = []

    def replace(request: Request) -> ScriptedResponse | None:
        """A new Buffer of the same name exists when the status of the old one is about to be written."""
        is_about_it = request.method == at and request.path.startswith(f"{BUFFERS}/spare")
        if is_about_it and not replaced and world.nodes()["small-1"]["status"].get("conditions"):
            replaced.append(world.server.objects[f"{BUFFERS}/spare"])
            world.server.delete(f"{BUFFERS}/spare")
            world.add_buffer(chunks=30)
        return None

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=1)
        await world.wait(2)
        world.fault = replace
        await world.wait(BOOT + 5)
        assert replaced
        assert world.provisioned()[0] == "False"
        assert "lastFullyProvisioned" not in world.buffer()

    world.run(play)


def test_a_decision_is_not_written_to_a_new_buffer_of_the_same_name() -> None:
    world = World()
    world.add_buffer(chunks=1)
    verdict = BufferDecision(
        ("shop", "spare"), "uid-of-the-one-before", DetailedReason(BUFFER_PROVISIONED), 1, on_ready=1
    )

    async def main() -> None:
        buffers = WatchInformer(world.server.client, resources.BUFFERS, draw=lambda: 0.5)
        task = asyncio.create_task(buffers.run())
        await buffers.wait_until_synced()
        publishing = BufferStatusPublisher(buffers, lambda _namespace: True)
        assert list(publishing.actions([verdict], START)) == []
        own = msgspec.structs.replace(verdict, uid=world.server.objects[f"{BUFFERS}/spare"]["metadata"]["uid"])
        assert len(list(publishing.actions([own], START))) == 1
        task.cancel()

    virtual_time.run(main(), start=START)


@pytest.mark.parametrize(("manager", "writes"), [("trellis-buffers", 1), ("trellis-nodes", 0)])
def test_a_status_that_the_buffer_controller_wrote_last_is_taken_over_although_it_is_right(
    manager: str, writes: int
) -> None:
    world = World()
    world.add_buffer(chunks=1)
    stored = world.server.objects[f"{BUFFERS}/spare"]
    decision = BufferDecision(
        ("shop", "spare"), stored["metadata"]["uid"], DetailedReason(BUFFER_PROVISIONED), 1, on_ready=1
    )

    async def main() -> None:
        buffers = WatchInformer(
            world.server.client, MANAGED_BUFFERS.resource, draw=lambda: 0.5, transform=transform_buffer
        )
        task = asyncio.create_task(buffers.run())
        await buffers.wait_until_synced()
        publisher = BufferStatusPublisher(buffers, lambda _namespace: True)
        (status,) = read_statuses(publisher.actions([decision], START))
        owned: Document = {"f:status": {"f:conditions": {'k:{"type":"Provisioned"}': {"f:status": {}}}}}
        entry = {"manager": manager, "operation": "Apply", "subresource": "status", "fieldsV1": owned}
        metadata = {**stored["metadata"], "managedFields": [entry]}
        world.edit_buffer(metadata=metadata, status={**stored["status"], **status})
        await world.wait(1)
        assert read_statuses(publisher.actions([decision], START)) == [status] * writes
        task.cancel()

    virtual_time.run(main(), start=START)


@pytest.mark.req("BF-15")
def test_the_condition_has_the_generation_that_was_translated() -> None:
    world = World(group(minSize=1))

    def read_condition() -> tuple[str, int]:
        status = world.server.objects[f"{BUFFERS}/spare"]["status"]
        (reported,) = (condition for condition in status["conditions"] if condition["type"] == "Provisioned")
        return reported["status"], reported["observedGeneration"]

    async def play(_: NodeController) -> None:
        world.add_buffer(chunks=1)
        await world.wait(BOOT + 20)
        assert read_condition() == ("True", 1)
        stored = world.server.objects[f"{BUFFERS}/spare"]
        # The spec changes twice, and whoever translates has come to the first of them.
        changed = {**stored["metadata"], "generation": 3}
        world.edit_buffer(metadata=changed, status={**stored["status"], "observedGeneration": 2})
        await world.wait(20)
        assert read_condition() == ("True", 2)

    world.run(play)
