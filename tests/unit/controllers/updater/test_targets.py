"""Whose pods are changed, and by whom: kinds that nobody watches, Hvpas beside VPAs, objects that come and go."""

from __future__ import annotations

import asyncio
from typing import Any

from support.api_server.server import pod_path
from support.controllers.updater import APPS, NAMESPACE, VPAS, World
from trellis.controllers.updater.process import UpdaterController
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

SCALE = f"/apis/example.com/v1/namespaces/{NAMESPACE}/rollouts/web/scale"


def rollout(world: World) -> None:
    """Pods of ReplicaSets that a kind controls which is known by its scale alone."""
    world.add_workload("web", mode="InPlace")
    replica_set = world.server.objects[f"{APPS}/replicasets/web-x"]
    owner = replica_set["metadata"]["ownerReferences"][0] | {"apiVersion": "example.com/v1", "kind": "Rollout"}
    world.server.put(f"{APPS}/replicasets/web-x", {**replica_set, "metadata": {"ownerReferences": [owner]}})
    vpa = world.server.objects[f"{VPAS}/web"]
    target = {"apiVersion": "example.com/v1", "kind": "Rollout", "name": "web"}
    world.server.put(f"{VPAS}/web", {**vpa, "spec": vpa["spec"] | {"targetRef": target}})


def scaled(selector: str) -> Any:
    def scale(request: Request) -> ScriptedResponse | None:
        if request.path != SCALE:
            return None
        return (
            json_response({"metadata": {"name": "web"}, "status": {"selector": selector}})
            if selector
            else error_response(404, "No")
        )

    return scale


def test_a_target_of_another_kind_is_found_by_its_scale() -> None:
    world = World()
    rollout(world)
    world.fault = scaled("app=web")

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(10.0)
        assert world.requests() == ["500m", "500m"]

    world.run(play)


def test_a_scale_that_comes_later_is_noticed() -> None:
    world = World()
    rollout(world)
    world.fault = scaled("")

    async def play(_updater: UpdaterController) -> None:
        await world.passes(1)
        assert world.requests() == ["100m", "100m"]
        world.fault = scaled("app=web")
        await world.passes(3)
        assert world.requests() == ["500m", "500m"]

    world.run(play)


def test_an_hvpa_sizes_its_pods_until_a_vpa_acts_on_them() -> None:
    world = World()
    world.add_deployment("web")
    world.add_pod("web", "web-0")
    world.add_pod("web", "web-1")
    buckets = [
        {"replicas": {"min": 1, "max": 4}, "cpu": {"min": "0", "max": "4"}, "memory": {"min": "0", "max": "4Gi"}}
    ]
    world.add_hvpa("web", "300m", buckets=buckets)

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(10.0)
        assert world.requests() == ["300m", "300m"]
        world.add_vpa("web", cpu="700m", mode="InPlace")
        await asyncio.sleep(10.0)
        assert world.requests() == ["700m", "700m"]

    world.run(play)


def test_of_two_objects_on_one_workload_the_older_governs_and_then_the_other() -> None:
    world = World()
    world.add_workload(mode="InPlace", cpu="300m")
    vpa = world.server.objects[f"{VPAS}/web"]
    late = {"metadata": {"creationTimestamp": "2027-01-15T00:00:00Z"}, "spec": vpa["spec"]}
    other = world.server.put(f"{VPAS}/other", late)
    world.server.put(f"{VPAS}/other", {**other, "status": vpa["status"]})
    world.recommend("other", "900m")

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(10.0)
        assert world.requests() == ["300m", "300m"]
        world.server.delete(f"{VPAS}/web")
        await asyncio.sleep(10.0)
        assert world.requests() == ["900m", "900m"]

    world.run(play)


def test_pods_that_come_before_their_controller_are_governed_once_it_is_observed() -> None:
    world = World("--updater-interval=1h")
    world.add_workload(mode="InPlace")
    replica_set = world.server.objects[f"{APPS}/replicasets/web-x"]
    world.server.delete(f"{APPS}/replicasets/web-x")

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(5.0)
        assert world.requests() == ["100m", "100m"]
        world.server.put(f"{APPS}/replicasets/web-x", replica_set)
        await asyncio.sleep(5.0)
        assert world.requests() == ["500m", "500m"]

    world.run(play)


def test_one_object_that_makes_no_sense_stops_no_other() -> None:
    world = World()
    world.add_workload("web", mode="InPlace")
    world.add_workload("api", mode="InPlace")
    vpa = world.server.objects[f"{VPAS}/web"]
    world.server.put(
        f"{VPAS}/web", {**vpa, "status": {"recommendation": {"containerRecommendations": [{"target": 7}]}}}
    )
    pod = world.server.objects[pod_path("web-0")]
    world.server.put(pod_path("web-0"), {**pod, "spec": {"containers": "none"}})

    async def play(_updater: UpdaterController) -> None:
        await asyncio.sleep(10.0)
        assert world.requests("api") == ["500m", "500m"]
        assert world.resizes
        assert {name for _, name in world.resizes} == {"api-0", "api-1"}

    world.run(play)


def test_namespaces_that_are_ignored_are_left_alone() -> None:
    world = World(f"--ignored-vpa-object-namespaces={NAMESPACE}")
    world.add_workload()

    async def play(_updater: UpdaterController) -> None:
        await world.passes(2)
        assert (world.evictions, world.resizes) == ([], [])

    world.run(play)
