"""The `Provisioned` condition: written by `trellis nodes` where it runs, otherwise by the Buffer controller."""

from __future__ import annotations

import pytest

from support.api_server.server import pod_path
from support.controllers.buffers import NODES_LEASE, World
from support.worlds.buffers import app
from trellis.controllers.buffers.process import BufferController
from trellis.testing.scripted_transport import error_response

# A lease that has been free for so long has no candidate.
SETTLED = 8.0
TWO_CORES = {"pods": {"replicaNum": 2, "podSpec": {"containers": [app(cpu="1", memory="1Gi")]}}}


def elsewhere() -> World:
    """A cluster whose nodes another autoscaler manages."""
    world = World()
    world.nodes_run = False
    world.add_buffer(capacity=TWO_CORES)
    return world


def a_pod_on(world: World, node: str, cpu: str = "1") -> str:
    return world.add_pod("other", {"nodeName": node, "containers": [app(cpu=cpu, memory="1Gi")]})


def message(world: World) -> str:
    return world.message("Provisioned")


@pytest.mark.req("BF-11")
@pytest.mark.req("BF-37")
def test_without_a_node_autoscaler_a_buffer_is_provisioned_while_its_chunks_fit_on_ready_nodes() -> None:
    world = elsewhere()

    async def play(_: BufferController) -> None:
        await world.wait(SETTLED)
        assert world.chunks() == 2
        assert world.condition("Provisioned") == ("False", "BufferNotProvisioned")
        assert message(world) == (
            "0 of 2 chunks have a place on ready nodes; 2 have none: Some chunks fit on no ready node"
        )
        assert "lastFullyProvisioned" not in world.status()
        world.add_node("a", "2")
        await world.wait(2.0)
        assert world.condition("Provisioned") == ("True", "BufferProvisioned")
        full = world.status()["lastFullyProvisioned"]
        pod = a_pod_on(world, "a")
        await world.wait(30.0)
        assert world.condition("Provisioned") == ("False", "BufferNotProvisioned")
        assert world.status()["lastFullyProvisioned"] >= full
        assert (
            world.metric_value("trellis_buffers_provisioned_chunks"),
            world.metric_value("trellis_buffers_hits_total"),
        ) == (
            1,
            1,
        )
        assert world.metric_value("trellis_buffers_price_per_hour") > 0
        world.server.delete(pod_path(pod))
        await world.wait(15.0)
        assert world.condition("Provisioned")[0] == "True"
        assert world.owners() == {
            "trellis-buffers": {
                *("LimitedByQuotas", "ReadyForProvisioning", "Provisioned", "lastFullyProvisioned"),
                *("podBasedBufferSpec", "selector", "observedGeneration"),
            }
        }

    world.run(play)
    assert b'"observed"' in world.recording.lines, "what was observed has been decided again from the recording"


def test_nothing_is_written_while_only_the_provisioned_time_changes() -> None:
    world = elsewhere()
    world.add_node("a", "4")

    async def play(_: BufferController) -> None:
        await world.wait(SETTLED)
        await world.wait(5.0)
        before = world.writes
        await world.wait(600.0)
        assert world.writes - before <= 2

    world.run(play)


def test_a_new_translation_keeps_the_provisioned_condition() -> None:
    world = elsewhere()
    world.add_node("a", "4")

    async def play(_: BufferController) -> None:
        await world.wait(SETTLED)
        await world.wait(3.0)
        assert world.condition("Provisioned")[0] == "True"
        world.edit("buffers", "web", capacity={"pods": {**TWO_CORES["pods"], "replicaNum": 5}})
        await world.wait(3.0)
        assert world.condition("Provisioned") == ("False", "BufferNotProvisioned")
        assert message(world).startswith("4 of 5 chunks")

    world.run(play)


def test_where_trellis_nodes_runs_the_controller_writes_no_provisioned_condition() -> None:
    world = elsewhere()
    world.nodes_run = True

    async def play(_: BufferController) -> None:
        await world.wait(SETTLED)
        world.add_node("a", "4")
        await world.wait(30.0)
        assert [condition["type"] for condition in world.status()["conditions"]] == [
            "LimitedByQuotas",
            "ReadyForProvisioning",
        ]
        paths = {request.path for request in world.server.requests}
        assert "/apis/storage.k8s.io/v1/storageclasses" not in paths, "nothing is kept in memory for it"

    world.run(play)


def test_the_controller_takes_over_when_the_lease_expires_and_releases_the_fields_of_trellis_nodes() -> None:
    world = elsewhere()
    world.nodes_run = True

    async def play(_: BufferController) -> None:
        await world.wait(SETTLED)
        world.provisioned()
        await world.wait(10.0)
        assert world.condition("Provisioned") == ("True", "AllThere")
        world.server.put(NODES_LEASE, {"spec": {"holderIdentity": "nodes-1", "leaseDurationSeconds": 15}})
        world.nodes_run = False
        await world.wait(10.0)
        assert world.condition("Provisioned") == ("True", "AllThere"), "its lease has not run out yet"
        await world.wait(18.0)
        assert world.condition("Provisioned") == ("False", "BufferNotProvisioned")
        assert world.status()["lastFullyProvisioned"] == "2026-11-18T12:00:00Z"
        assert [*world.owners()] == ["trellis-buffers"]

    world.run(play)


def test_trellis_nodes_takes_over_without_a_gap_or_conflict() -> None:
    world = elsewhere()
    world.add_node("a", "4")

    async def play(_: BufferController) -> None:
        await world.wait(SETTLED)
        await world.wait(3.0)
        assert world.condition("Provisioned") == ("True", "BufferProvisioned")
        world.nodes_run = True
        await world.wait(10.0)
        assert world.condition("Provisioned") == ("True", "BufferProvisioned"), "until trellis nodes says something"
        world.provisioned(when="2027-01-01T00:00:00Z")
        await world.wait(5.0)
        assert world.condition("Provisioned") == ("True", "AllThere")
        assert world.owners()["trellis-nodes"] == {"Provisioned", "lastFullyProvisioned"}
        assert world.owners()["trellis-buffers"].isdisjoint({"Provisioned", "lastFullyProvisioned"})
        before = world.writes
        await world.wait(600.0)
        assert (world.writes, world.condition("Provisioned")) == (before, ("True", "AllThere"))

    world.run(play)


def test_a_forbidden_lease_counts_as_held() -> None:
    world = elsewhere()
    world.fault = lambda request: error_response(403, "Forbidden") if request.path == NODES_LEASE else None

    async def play(_: BufferController) -> None:
        await world.wait(SETTLED)
        await world.wait(60.0)
        assert [condition["type"] for condition in world.status()["conditions"]] == [
            "LimitedByQuotas",
            "ReadyForProvisioning",
        ]

    world.run(play)


def test_outside_its_schedule_a_buffer_needs_no_capacity() -> None:
    world = elsewhere()

    async def play(_: BufferController) -> None:
        await world.wait(SETTLED)
        world.edit("buffers", "web", schedule={"windows": [{"start": "0 0 1 1 *", "duration": "1h"}]})
        await world.wait(3.0)
        assert world.condition("Provisioned") == ("True", "BufferNeedsNothing")

    world.run(play)
