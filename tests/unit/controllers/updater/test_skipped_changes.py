"""What stops the updater, what it never stops for, and when it looks: boosts, freezes, HPAs, nodes that are full."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.api_server.server import pod_path
from support.controllers.updater import BOOST, FREEZE, NAMESPACE, START, World
from trellis.controllers.updater.process import UpdaterController
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response

BEFORE = '{"requests":{"cpu":"100m","memory":"100Mi"}}'


def boosted(world: World, *, mode: str = "Recreate", duration: str = "0s", pods: int = 1, **more: Any) -> None:
    boost = {"cpu": {"type": "Factor", "factor": 10, "duration": duration}}
    world.add_deployment("web", pods)
    for number in range(pods):
        world.add_pod("web", f"web-{number}", "1", ready=False, annotations={BOOST: BEFORE}, began=START)
    world.add_vpa("web", cpu="100m", mode=mode, startupBoost=boost, **more)


@pytest.mark.req("SB-27", "SB-29", "SB-30", "SB-31", "SB-33", "SB-34")
@pytest.mark.parametrize("mode", ["Off", "Initial", "Auto", "Recreate", "InPlaceOrRecreate", "InPlace"])
def test_a_boost_ends_within_two_seconds_of_ready_whatever_interval_budgets_and_policy_say(mode: str) -> None:
    world = World("--updater-interval=1h", "--evictions-per-hour=0")
    higher = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
    boosted(world, mode=mode, updatePolicy={"minReplicas": 3, "actuationRequirements": [higher]})

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(10.0)
        world.recommend("web", "250m")
        await asyncio.sleep(10.0)
        uid = world.pods()["web-0"]["metadata"]["uid"]
        assert world.resizes == []
        world.set_ready("web-0")
        await asyncio.sleep(0.1)
        assert [name for _, name in world.resizes] == ["web-0"]
        await asyncio.sleep(2.0)
        # Mode Off gives the pod what it asked for itself.
        assert world.requests() == ["100m" if mode == "Off" else "250m"]
        assert BOOST not in world.pods()["web-0"]["metadata"]["annotations"]
        assert world.pods()["web-0"]["metadata"]["uid"] == uid
        assert world.evictions == []

    world.run(play)


@pytest.mark.req("SB-02")
@pytest.mark.parametrize("mode", ["Off", "Recreate", "InPlaceOrRecreate", "InPlace"])
def test_a_vpa_that_gets_a_boost_later_boosts_no_running_pod(mode: str) -> None:
    world = World()
    world.add_workload(mode=mode, cpu="100m")

    async def play(_updater: UpdaterController) -> None:
        await world.passes(1)
        world.add_vpa("web", cpu="100m", mode=mode, startupBoost={"cpu": {"type": "Factor", "factor": 10}})
        await world.passes(2)
        world.set_ready("web-0", ready=False)
        await world.passes(2)
        world.set_ready("web-0")
        await world.passes(2)
        assert (world.resizes, world.evictions) == ([], [])
        assert world.requests() == ["100m", "100m"]
        assert [pod["metadata"]["annotations"] for pod in world.pods().values()] == [{}, {}]

    world.run(play)


@pytest.mark.req("SB-29", "SB-49")
def test_a_boost_with_a_duration_ends_when_it_has_passed_since_ready() -> None:
    world = World("--updater-interval=1h")
    boosted(world, duration="60s")

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(20.0)
        world.set_ready("web-0")
        await asyncio.sleep(59.0)
        assert world.resizes == []
        await asyncio.sleep(2.0)
        [(at, _)] = world.resizes
        assert 60.0 <= at - START - 20.0 <= 61.0

    world.run(play)


@pytest.mark.req("SB-40")
def test_an_unboost_that_fails_is_tried_again_and_never_becomes_an_eviction() -> None:
    world = World()
    boosted(world, mode="InPlaceOrRecreate", pods=2)
    refused: list[float] = []

    def no(request: Request) -> ScriptedResponse | None:
        if request.path.endswith("/resize"):
            refused.append(world.now())
            return error_response(500, "InternalError", "broken")
        return None

    world.fault = no

    async def play(_updater: UpdaterController) -> None:
        world.set_ready("web-0")
        world.set_ready("web-1")
        await world.passes(10)
        assert world.evictions == []
        assert 10 <= len(refused) <= 40
        world.fault = lambda _request: None
        await world.passes(6)
        assert world.requests() == ["100m", "100m"]

    world.run(play)


@pytest.mark.req("SB-45")
def test_with_the_gate_off_no_pod_is_unboosted() -> None:
    world = World("--feature-gates=CPUStartupBoost=false")
    boosted(world, mode="Off")

    async def play(_updater: UpdaterController) -> None:
        world.set_ready("web-0")
        await world.passes(2)
        assert world.resizes == []
        assert world.requests() == ["1"]

    world.run(play)


def test_a_boost_that_ends_goes_before_evictions_that_wait() -> None:
    """One write at a time, of which each takes a second: the boost does not wait for a hundred of them."""
    world = World("--concurrent-writes=1", "--updater-interval=1h")
    boosted(world)
    for number in range(60):
        world.add_workload(f"app-{number}", cpu="100m")

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(5.0)
        for number in range(60):
            world.recommend(f"app-{number}", "500m")
        world.set_ready("web-0")
        await asyncio.sleep(1.0)
        order = [
            request.path.rpartition("/")[2]
            for request in world.server.requests
            if request.path.endswith(("/eviction", "/resize"))
        ]
        assert "resize" in order[:40]

    world.run(play)


@pytest.mark.parametrize("where", ["cluster", "namespace", "object"])
def test_a_freeze_stops_all_changes_at_once_and_names_its_author(where: str) -> None:
    world = World()
    note = {"trellis.x-k8s.io/freeze": "alice"}
    world.add_workload(annotations=note if where == "object" else {})
    boosted_pod = world.add_pod("web", "boosted", "1", annotations={BOOST: BEFORE}, began=START)
    assert boosted_pod
    if where == "cluster":
        world.server.put(FREEZE, {"data": {"by": "alice", "why": "incident 17"}})
    if where == "namespace":
        world.server.put(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"annotations": note}})

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert (world.evictions, world.resizes) == ([], [])
        [(_, message)] = world.list_events("Frozen")
        assert "alice" in message

    world.run(play)


def test_a_thaw_is_noticed_at_once_and_so_is_a_freeze() -> None:
    world = World("--updater-interval=1h")
    world.server.put(FREEZE, {"data": {}})
    world.add_workload()

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(5.0)
        assert world.evictions == []
        world.server.delete(FREEZE)
        await asyncio.sleep(0.5)
        assert len(world.evictions) == 1
        world.server.put(FREEZE, {"data": {}})
        await asyncio.sleep(30.0)
        assert len(world.evictions) == 1

    world.run(play)


def test_an_hpa_on_the_same_resource_is_warned_of_once() -> None:
    world = World()
    world.add_workload()
    world.add_hpa("web")

    async def play(_updater: UpdaterController) -> None:
        await world.passes(3)
        assert len(world.list_events("HpaConflict")) == 1
        assert world.requests() == ["500m", "500m"]
        assert world.metric_value('trellis_updater_warned_pods{reason="HpaConflict"}') == 2

    world.run(play)


def test_on_hold_an_hpas_resource_is_left_alone_until_the_hpa_is_gone() -> None:
    world = World("--hpa-conflict=hold")
    world.add_workload()
    world.add_hpa("web")

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert world.evictions == []
        world.server.delete(f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/web")
        await asyncio.sleep(1.0)
        assert len(world.evictions) == 1

    world.run(play)


@pytest.mark.parametrize("required", [True, False])
def test_a_successor_that_fits_nowhere_is_a_warning_or_no_eviction_at_all(required: bool) -> None:
    world = World(f"--require-fit={str(required).lower()}")
    world.add_workload(cpu="100")

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert world.list_events("WouldNotFit") != []
        assert bool(world.evictions) is not required

    world.run(play)


def test_a_node_that_comes_lets_a_pod_move_that_had_no_headroom() -> None:
    world = World("--require-fit=true")
    world.add_workload(cpu="100")

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert world.evictions == []
        node = world.server.objects["/api/v1/nodes/node-1"]
        large = {**node["status"], "allocatable": {"cpu": "512", "memory": "256Gi", "pods": "500"}}
        world.server.put("/api/v1/nodes/node-2", {"status": large})
        await world.passes(1.1)
        assert len(world.evictions) >= 1

    world.run(play)


@pytest.mark.req("AR-13", "AR-17")
def test_requirements_hold_pods_back_and_a_change_of_them_is_obeyed_at_once() -> None:
    world = World("--updater-interval=1h")
    down = [{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]
    world.add_workload(updatePolicy={"actuationRequirements": down})

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(30.0)
        assert world.evictions == []
        assert world.list_events("RequirementsForbidEviction") != []
        world.add_vpa("web")
        await asyncio.sleep(1.0)
        assert len(world.evictions) == 1

    world.run(play)


def test_an_action_that_waits_is_dropped_when_a_neighbour_goes_first() -> None:
    """The plan counted on both pods; one is deleted by somebody else while the eviction of the other waits."""
    world = World("--concurrent-writes=1", "--updater-interval=1h")
    world.add_workload(cpu="100m")
    world.add_workload("slow", cpu="100m")

    async def play(updater: UpdaterController) -> None:
        await asyncio.sleep(5.0)
        blocked: list[Request] = []

        def dies(request: Request) -> ScriptedResponse | None:
            if request.path.endswith("/eviction") and not blocked:
                blocked.append(request)
                app = "web" if "/slow-" in request.path else "slow"
                world.server.delete(pod_path(f"{app}-0"))
                world.server.delete(pod_path(f"{app}-1"))
            return None

        world.fault = dies
        world.recommend("slow", "500m")
        world.recommend("web", "500m")
        await asyncio.sleep(0.5)
        assert blocked
        assert len(world.evictions) == 1

    world.run(play)
