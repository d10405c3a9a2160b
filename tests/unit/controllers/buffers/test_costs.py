"""What a change costs the Buffer controller depends on what it is about, not on how much there is beside it."""

from __future__ import annotations

import pytest

from support.controllers.buffers import World, path
from support.worlds.buffers import app
from trellis.controllers.buffers.process import BufferController
from trellis.testing.isolation import forbid_io

FEW, MANY = 4, 24


def build_world(apps: int) -> World:
    """So many workloads with a Buffer each, all in one namespace."""
    world = World()
    for number in range(apps):
        world.add_workload(f"app-{number}")
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"app-{number}"}
        world.add_buffer(f"app-{number}", targetRef=target, capacity={"replicas": {"exactly": 2}})
    return world


def record_reconciles(controller: BufferController, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the Buffers that are reconciled from now on."""
    result: list[str] = []
    reconcile = controller._reconciler.reconcile

    async def noted(key: tuple[str, str]) -> float | None:
        result.append(key[1])
        return await reconcile(key)

    monkeypatch.setattr(controller._reconciler, "reconcile", noted)
    return result


@pytest.mark.parametrize("apps", [FEW, MANY])
def test_a_change_enqueues_the_objects_it_concerns(apps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = build_world(apps)

    async def play(controller: BufferController) -> None:
        result = record_reconciles(controller, monkeypatch)
        world.add_pod("app-1", {"containers": [app(cpu="2")]})
        await world.wait(1.0)
        world.scale(3, "app-2")
        await world.wait(1.0)
        world.add_vpa("1", "app-3", "app-3")
        await world.wait(1.0)
        # Each once, and once more when the status that was written comes back.
        assert set(result) == {"app-1", "app-2", "app-3"}
        assert len(result) <= 6

    world.run(play)


def test_a_pass_skips_buffers_without_new_input(monkeypatch: pytest.MonkeyPatch) -> None:
    world = build_world(FEW)
    about = {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "rose"}
    world.put(path("rollouts", "rose"), {"spec": {}, "status": {"replicas": 1, "selector": "app=rose"}})
    world.add_pod("rose")
    world.add_buffer("rose", targetRef=about, capacity={"replicas": {"exactly": 1}})

    async def play(controller: BufferController) -> None:
        result = record_reconciles(controller, monkeypatch)
        await world.wait(300.0)
        # Nobody tells of a scale.
        assert set(result) == {"rose"}
        await world.wait(600.0)
        assert set(result) == {"rose", *(f"app-{number}" for number in range(FEW))}
        assert world.writes == FEW + 1

    world.run(play)


@pytest.mark.req("BF-42")
def test_a_reconcile_sends_requests_to_the_api_server_only() -> None:
    world = build_world(FEW)

    async def play(_: BufferController) -> None:
        with forbid_io() as observed:
            world.add_pod("app-1", {"containers": [app(cpu="2")]})
            world.edit("buffers", "app-2", capacity={"replicas": {"exactly": 7}})
            await world.wait(1.0)
        assert observed == []
        assert (world.requests("app-1")["cpu"], world.chunks("app-2")) == ("2", 7)

    world.run(play)
