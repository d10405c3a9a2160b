"""Runs are recorded for VPAs whose recommender needs them, and survive the process in checkpoints."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from support.controllers.recommender import NAMESPACE, START, VPAS, World
from trellis.base.times import format_time
from trellis.core.recommend.state.tables import SHADOW_RECOMMENDERS
from trellis.core.usage.checkpoints.compressed_history import decode_runs


def start_pod(world: World, app: str, name: str, at: float) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
    world.add_pod(app, name)
    pod = dict(world.server.objects[path])
    world.server.put(
        path, {**pod, "status": {**pod["status"], "startTime": format_time(datetime.fromtimestamp(at, UTC))}}
    )
    world.usage[name] = {"app": {"cpu": "500m", "memory": "300Mi"}}


def world_of_jobs() -> World:
    world = World("--recommender-name=default,phases")
    for app, recommender in (("train", "phases"), ("web", "default")):
        world.add_deployment(app)
        start_pod(world, app, f"{app}-0", START)
        world.add_vpa(app, recommenders=[{"name": recommender}])
    return world


def test_runs_are_in_the_checkpoints_of_vpas_served_by_phases_only() -> None:
    world = world_of_jobs()

    async def play() -> None:
        await world.passes(5)
        (run,) = decode_runs(world.checkpoint("train-app")["status"]["runs"])
        assert run.begin == START
        assert run.values[0, 1, 2] == pytest.approx(0.5, rel=0.006)
        assert not world.checkpoint("web-app")["status"].get("runs")

    world.run(play)


def test_a_job_without_runs_gets_the_estimate_of_default() -> None:
    world = world_of_jobs()

    async def play() -> None:
        await world.passes(2)
        assert world.target("train") == world.target("web") != {}

    world.run(play)


def test_a_shadow_that_needs_runs_has_them() -> None:
    world = world_of_jobs()
    shadowed = world.vpa("web")
    metadata = {**shadowed["metadata"], "annotations": {SHADOW_RECOMMENDERS: "phases"}}
    world.server.put(f"{VPAS}/web", {**shadowed, "metadata": metadata})

    async def play() -> None:
        await world.passes(5)
        assert world.checkpoint("web-app")["status"]["runs"]

    world.run(play)
