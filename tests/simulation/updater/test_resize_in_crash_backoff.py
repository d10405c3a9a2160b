"""Resizes and crash back-off: kubelet 1.36 does not apply a resize that lands while a container is down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.worlds.resizes import governor
from support.worlds.simulated_cluster import World, container, container_demand, fleet, in_force, workload
from support.worlds.simulated_workloads import SimulatedRun, vpa
from trellis.core.cluster.missed_resizes import MissedResizes
from trellis.core.cluster.write_results import WriteResult
from trellis.core.resize.actions import ResizePod
from trellis.core.resize.plan import plan_updates
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.view import Downtime, PodView, WorkloadView
from trellis.sim.cluster import PodEvent

MIB = 2.0**20
STEPS = 360
SMALL: dict[str, Any] = {"cpu": "100m", "memory": "100Mi", "limits": {"cpu": "200m", "memory": "100Mi"}}
MOST = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "1", "memory": "1Gi"}}]}


def hour(mode: str) -> SimulatedRun:
    """An hour of two pods that need 250Mi and are limited to 100Mi."""
    web = workload("web", 2, container(**SMALL), demand=(container_demand(0.05, 250 * MIB, steps=STEPS),))
    return SimulatedRun(web, vpa(mode, resourcePolicy=MOST), steps=STEPS, step=10.0, every=60.0)


def highest(played: SimulatedRun) -> float:
    return float(np.nanmax(played.target(resource="memory"))) / MIB


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_pods_that_run_out_of_memory_are_resized_when_they_run_and_then_live(mode: str) -> None:
    played = hour(mode)
    assert highest(played) < 350
    assert played.totals.oom_kills < 12
    assert played.pods()[-1] == 2
    assert not any(time > 1200 for time in played.marks("killed"))
    assert (played.totals.evictions > 0) == (mode == "InPlaceOrRecreate")


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_an_updater_that_resizes_into_back_off_drives_the_recommendation_to_its_maximum(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What happened before: it keeps the kubelet model honest, without which the test above would show nothing."""
    monkeypatch.setattr("trellis.core.resize.view.read_downtime", lambda _pod: Downtime())
    for module in ("missed_resizes", "oom_kill_detection"):
        monkeypatch.setattr(f"trellis.core.cluster.{module}.is_missed", lambda _pod, **_known: False)
    played = hour(mode)
    assert highest(played) == 1024
    assert played.totals.oom_kills > 25
    assert played.totals.evictions == 0


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_kills_after_a_missed_resize_do_not_raise_the_recommendation(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An updater that still resizes into back-off: others do, and a container may die just before the write."""
    monkeypatch.setattr("trellis.core.resize.view.read_downtime", lambda _pod: Downtime())
    played = hour(mode)
    assert highest(played) < 350
    assert not any(time > 1800 for time in played.marks("killed"))


def down_and_resized() -> World:
    """A pod whose container waits in its back-off and is given what it needs there."""
    world = World(fleet(workload("web", 1, container(**SMALL), demand=(container_demand(0.05, 250 * MIB),))))
    while world.count(PodEvent.KILLED) < 3:
        world.run(1)
    result, _ = world.resize(world.get_pod(), memory="300Mi", limits={"memory": "300Mi"})
    assert result is WriteResult.APPLIED
    return world


def test_the_model_reports_a_resize_of_a_container_that_is_down_as_done_and_kills_go_on() -> None:
    world = down_and_resized().run(600)
    assert in_force(world.get_pod())["memory"] == "300Mi"
    assert not [condition for condition in world.get_pod().status.conditions if condition.type.startswith("PodResize")]
    assert world.count(PodEvent.KILLED) > 4


@pytest.mark.parametrize("mode", ["InPlaceOrRecreate", "InPlace"])
def test_a_missed_resize_is_written_once_more_when_the_container_runs(mode: str) -> None:
    world, missed, last = down_and_resized(), MissedResizes(), None
    ruling = governor(mode, {"app": {"cpu": "100m", "memory": "300Mi"}}, policy={"minReplicas": 1})
    resizes = []
    for _ in range(3000):
        world.run(0.2)
        pod = world.get_pod()
        missed.put(last, pod)
        last = pod
        uids = frozenset({pod.metadata.uid}) if pod.metadata.uid in missed else frozenset[str]()
        view = WorkloadView(ruling, (PodView.from_pod(pod),), missed_resizes=uids)
        for action in plan_updates(view, world.kernel.now, UpdateSettings(down_patience=1e6)).actions:
            assert isinstance(action, ResizePod)
            resizes.append(world.cluster.resize(action.pod, action.patch))
    # The container may die once more before the kubelet has applied the first of them; the second goes back.
    assert 1 <= len(resizes) <= 2
    assert set(resizes) == {(WriteResult.APPLIED, "")}
    assert in_force(world.get_pod())["memory"] == ["301Mi", "300Mi"][len(resizes) - 1]
    killed = world.count(PodEvent.KILLED)
    assert world.run(3600).count(PodEvent.KILLED) == killed
