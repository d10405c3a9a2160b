"""No pod stays boosted whose object is gone, replaced by one without a boost, or of a definition that was removed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.api_server.server import pod_path
from support.controllers.updater import APPS, BOOST, FREEZE, NAMESPACE, START, VPAS, World
from support.controllers.world import discovery
from trellis.controllers.updater.process import UpdaterController
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

BEFORE = '{"requests":{"cpu":"100m","memory":"100Mi"}}'
FACTOR = {"cpu": {"type": "Factor", "factor": 10, "duration": "1h"}}
VPA = f"{VPAS}/web"
WITH_VPAS = discovery(
    {
        "autoscaling.k8s.io/v1": [("verticalpodautoscalers", "VerticalPodAutoscaler")],
        "autoscaling.x-k8s.io/v1alpha1": [("hvpas", "Hvpa")],
    }
)


def boosted(world: World, *, pods: int = 1, ready: bool = True, mode: str = "Off", **more: Any) -> None:
    """Boosted pods whose boost lasts for an hour more, and a VPA that recommends 300m."""
    world.add_deployment("web", pods)
    for number in range(pods):
        world.add_pod("web", f"web-{number}", "1", ready=ready, annotations={BOOST: BEFORE}, began=START)
    world.add_vpa("web", cpu="300m", mode=mode, startupBoost=FACTOR, **more)


def is_marked(world: World, name: str = "web-0") -> bool:
    return BOOST in world.pods()[name]["metadata"]["annotations"]


async def deleted(world: World) -> None:
    """The VPA is there for ten seconds, in which nothing happens, and then is deleted."""
    await asyncio.sleep(10.0)
    assert world.requests() == ["1"] * len(world.pods())
    world.server.delete(VPA)


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("mode", ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace"])
def test_pods_of_a_deleted_vpa_go_back_to_what_they_remember(mode: str, ready: bool) -> None:
    world = World("--updater-interval=1h")
    boosted(world, pods=3, mode=mode, ready=ready)

    async def play(_updater: UpdaterController) -> None:
        await deleted(world)
        await asyncio.sleep(28.0)
        assert world.resizes == []
        await asyncio.sleep(5.0)
        assert world.requests() == ["100m"] * 3
        assert not any(is_marked(world, name) for name in world.pods())
        assert len(world.resizes) == 3
        assert world.evictions == []
        await world.passes(90)
        assert len(world.resizes) == 3

    world.run(play)
    assert {about for about, _ in world.list_events("InPlaceResizedByVPA")} == {"Pod/web-0", "Pod/web-1", "Pod/web-2"}


def test_pods_of_a_deleted_hvpa_go_back_too() -> None:
    world = World()
    world.add_deployment("web", 1)
    world.add_pod("web", "web-0", "1", ready=False, annotations={BOOST: BEFORE}, began=START)
    world.add_hvpa("web", buckets=[], vpa={"deploy": True, "template": {"spec": {"startupBoost": FACTOR}}})

    async def play(_updater: UpdaterController) -> None:
        await world.passes(3)
        assert world.requests() == ["1"]
        world.server.delete(f"/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/hvpas/web")
        await asyncio.sleep(35.0)
        assert world.requests() == ["100m"]
        assert not is_marked(world)

    world.run(play)


@pytest.mark.parametrize(("mode", "cpu"), [("Off", "100m"), ("Initial", "300m"), ("InPlaceOrRecreate", "300m")])
@pytest.mark.parametrize("ready", [True, False])
def test_without_startup_boost_pods_get_what_the_object_gives_them_then(mode: str, cpu: str, ready: bool) -> None:
    world = World("--updater-interval=1h")
    boosted(world, mode=mode, ready=ready)

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(10.0)
        world.add_vpa("web", cpu="300m", mode=mode)
        await asyncio.sleep(28.0)
        assert world.resizes == []
        await asyncio.sleep(5.0)
        assert world.requests() == [cpu]
        assert not is_marked(world)

    world.run(play)


def test_a_vpa_that_is_replaced_costs_no_pod_its_boost() -> None:
    world = World()
    boosted(world, ready=False)

    async def play(_updater: UpdaterController) -> None:
        for _ in range(5):
            await deleted(world)
            await asyncio.sleep(20.0)
            world.add_vpa("web", cpu="300m", mode="Off", startupBoost=FACTOR)
            await asyncio.sleep(60.0)
        assert world.resizes == []
        assert is_marked(world)

    world.run(play)


def test_a_vpa_of_the_same_name_for_another_workload_does_not_keep_the_boost() -> None:
    world = World()
    boosted(world)
    world.add_deployment("api", 1)

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(10.0)
        vpa = world.server.objects[VPA]
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"}
        world.server.put(VPA, {**vpa, "spec": {**vpa["spec"], "targetRef": target}})
        await asyncio.sleep(35.0)
        assert world.requests() == ["100m"]
        assert not is_marked(world)

    world.run(play)


def test_an_updater_that_starts_after_the_deletion_takes_boosts_back() -> None:
    world = World()
    boosted(world)
    world.server.delete(VPA)

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(28.0)
        assert world.resizes == []
        await asyncio.sleep(5.0)
        assert world.requests() == ["100m"]
        assert not is_marked(world)

    world.run(play)


def test_an_updater_that_stops_between_the_two_writes_is_continued_by_the_next() -> None:
    """The resize is done and the annotation is still there: the next process removes it and resizes nothing."""
    world = World()
    world.add_deployment("web", 1)
    world.add_pod("web", "web-0", "100m", annotations={BOOST: BEFORE}, began=START)

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(35.0)
        assert not is_marked(world)
        assert (world.requests(), world.resizes) == (["100m"], [])

    world.run(play)


def test_a_copy_of_a_boosted_pod_that_nothing_controls_goes_back() -> None:
    world = World()
    document = world.add_pod("web", "web-debug", "1", annotations={BOOST: BEFORE}, began=START)
    alone = {**document["metadata"], "ownerReferences": []}
    world.server.put(pod_path("web-debug"), {**document, "metadata": alone})

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(35.0)
        assert world.requests() == ["100m"]

    world.run(play)


@pytest.mark.req("SB-45")
def test_with_the_gate_off_pods_of_a_deleted_vpa_stay_as_they_are() -> None:
    world = World("--feature-gates=CPUStartupBoost=false")
    boosted(world)

    async def play(_updater: UpdaterController) -> None:
        await deleted(world)
        await world.passes(10)
        assert (world.requests(), world.resizes) == (["1"], [])
        assert is_marked(world)

    world.run(play)


@pytest.mark.parametrize("flag", ["--vpa-object-namespace=other", f"--ignored-vpa-object-namespaces={NAMESPACE}"])
def test_pods_of_namespaces_that_belong_to_another_updater_are_left_alone(flag: str) -> None:
    world = World(flag, "--require-fit=true")
    boosted(world)
    world.server.delete(VPA)

    async def play(_updater: UpdaterController) -> None:
        await world.passes(10)
        assert (world.requests(), world.resizes) == (["1"], [])

    world.run(play)


def test_a_freeze_keeps_the_boost_and_its_end_takes_it_back() -> None:
    world = World()
    boosted(world)
    world.server.put(FREEZE, {"data": {"by": "alice"}})

    async def play(_updater: UpdaterController) -> None:
        await deleted(world)
        await world.passes(5)
        assert world.resizes == []
        assert [about for about, _ in world.list_events("Frozen")] == ["VerticalPodAutoscaler/web", "Pod/web-0"]
        world.server.delete(FREEZE)
        await world.passes(1)
        assert world.requests() == ["100m"]

    world.run(play)


def test_a_dry_run_changes_nothing() -> None:
    world = World("--dry-run=true")
    boosted(world)
    world.server.delete(VPA)
    asked: list[bool] = []

    def checked(request: Request) -> ScriptedResponse | None:
        if request.path.endswith("/resize"):
            asked.append(("dryRun", "All") in request.query)
            return error_response(500, "InternalError", "only asked")
        return None

    world.fault = checked

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert asked
        assert all(asked)

    world.run(play)


def test_while_vpas_cannot_be_read_nothing_is_taken_back() -> None:
    """That no VPA has been listed yet does not say that there is none."""
    world = World()
    boosted(world)
    world.server.delete(VPA)
    is_down = True

    def down(request: Request) -> ScriptedResponse | None:
        broken = is_down and "verticalpodautoscalers" in request.path
        return error_response(500, "InternalError", "etcd is down") if broken else None

    world.fault = down

    async def play(_updater: UpdaterController) -> None:
        nonlocal is_down
        await world.passes(5)
        assert world.resizes == []
        is_down = False
        await world.passes(2)
        assert world.requests() == ["100m"]

    world.run(play)


def test_where_hvpas_may_not_be_read_boosts_that_one_may_have_given_stay() -> None:
    world = World()
    boosted(world)
    world.server.delete(VPA)
    world.fault = lambda request: error_response(403, "Forbidden", "no") if "hvpas" in request.path else None

    async def play(_updater: UpdaterController) -> None:
        await world.passes(5)
        assert world.resizes == []

    world.run(play)


def test_pods_of_a_vpa_whose_target_cannot_be_read_now_are_left_alone() -> None:
    world = World()
    boosted(world)
    replica_set = world.server.objects[f"{APPS}/replicasets/web-x"]
    owner = {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "web", "uid": "u", "controller": True}
    metadata = {**replica_set["metadata"], "ownerReferences": [owner]}
    world.server.put(f"{APPS}/replicasets/web-x", {**replica_set, "metadata": metadata})
    vpa = world.server.objects[VPA]
    target = {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "web"}
    world.server.put(VPA, {**vpa, "spec": {**vpa["spec"], "targetRef": target}})
    world.fault = lambda request: error_response(503, "Unavailable", "no") if "rollouts" in request.path else None

    async def play(_updater: UpdaterController) -> None:
        await world.passes(5)
        assert world.resizes == []

    world.run(play)


class Definition:
    """The definition of VPAs: while it is not served, an API server knows neither the kind nor its objects."""

    def __init__(self, world: World) -> None:
        self.is_served = True
        world.fault = self._answer

    def _answer(self, request: Request) -> ScriptedResponse | None:
        if self.is_served:
            is_discovery = request.path in ("/apis", "/apis/autoscaling.k8s.io/v1")
            return json_response(WITH_VPAS[request.path]) if is_discovery else None
        return error_response(404, "NotFound") if "verticalpodautoscalers" in request.path else None


def test_where_the_definition_is_removed_boosts_are_taken_back_and_once_it_is_back_boosts_are_kept() -> None:
    world = World()
    boosted(world)
    vpa = world.server.objects[VPA]
    definition = Definition(world)

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert world.resizes == []
        definition.is_served = False
        world.server.delete(VPA)
        world.server.break_watches()
        await world.passes(3)
        assert world.requests() == ["100m"]
        assert not is_marked(world)
        definition.is_served = True
        world.server.put(VPA, vpa)
        await world.passes(2)
        world.add_pod("web", "web-0", "1", annotations={BOOST: BEFORE}, began=world.now())
        await world.passes(5)
        assert world.requests() == ["1"]

    world.run(play)


def test_an_api_server_that_does_not_serve_vpas_for_a_moment_costs_no_pod_its_boost() -> None:
    """One that has just started knows no custom resources, and says so when it is asked for its kinds."""
    world = World()
    boosted(world, ready=False)
    definition = Definition(world)

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        for _ in range(3):
            definition.is_served = False
            world.server.break_watches()
            await asyncio.sleep(20.0)
            definition.is_served = True
            await world.passes(3)
        assert world.resizes == []
        assert is_marked(world)

    world.run(play)


def test_an_unboost_that_fails_is_tried_again_without_an_eviction() -> None:
    world = World()
    boosted(world)
    refused: list[float] = []

    def no(request: Request) -> ScriptedResponse | None:
        if request.path.endswith("/resize") and len(refused) < 5:
            refused.append(world.now())
            return error_response(500, "InternalError", "broken")
        return None

    world.fault = no

    async def play(_updater: UpdaterController) -> None:
        await deleted(world)
        await world.passes(5)
        assert len(refused) == 5
        assert (world.requests(), world.evictions) == (["100m"], [])
        assert [about for about, _ in world.list_events("PodUpdateRefused")][:1] == ["Pod/web-0"]

    world.run(play)


def test_the_updater_gives_up_pods_that_are_not_ready_by_its_flag() -> None:
    world = World("--boost-give-up-after=30m", "--updater-interval=1h")
    boosted(world, ready=False)

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(30 * 60.0 - 1)
        assert world.resizes == []
        await asyncio.sleep(3.0)
        assert world.requests() == ["100m"]
        assert not is_marked(world)

    world.run(play)


def test_an_event_names_a_pod_that_has_been_boosted_for_ten_minutes_once() -> None:
    world = World("--updater-interval=1h")
    boosted(world, pods=2, ready=False)

    async def play(_updater: UpdaterController) -> None:
        world.set_ready("web-1")
        await asyncio.sleep(599.0)
        assert world.list_events("BoostedForLong") == []
        await asyncio.sleep(2.0)
        events = [
            (about, message) for about, message in world.list_events("BoostedForLong") if about.startswith("Pod/")
        ]
        assert [about for about, _ in events] == ["Pod/web-0"]
        assert "web-0" in events[0][1]
        assert "10 minutes" in events[0][1]
        for name in ("web-0", "web-1"):
            world.server.put(pod_path(name), world.server.objects[pod_path(name)])
        await world.passes(90)
        assert [about for about, _ in world.list_events("BoostedForLong") if about.startswith("Pod/")] == ["Pod/web-0"]
        assert world.resizes == [] or [name for _, name in world.resizes] == ["web-1"]

    world.run(play)
