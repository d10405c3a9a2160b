"""An Hvpa that is pointed at another target: nothing that was said of the one before it counts for the new one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.builders.manifests import bucket, hvpa
from support.controllers.hvpa import World, path
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.base.errors import Unreachable
from trellis.controllers.hvpa.process import HvpaController
from trellis.controllers.hvpa.state import StaleRecommendations
from trellis.core.hvpa.autoscalers import RelatedAutoscalers
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse

OTHER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
STEADY = {"scaleDown": {"stabilizationWindowSeconds": 0}}


def world_of_two(**spec: Any) -> World:
    """A workload of two replicas with an Hvpa, and another one of one replica."""
    world = World()
    world.add_workload()
    world.add_workload("other", replicas=1, cpu="1")
    world.add_hvpa(**spec)
    return world


def test_what_its_vpa_says_is_not_followed_until_it_is_about_the_new_target() -> None:
    world = world_of_two(vpa={"deploy": True})

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")
        world.edit("hvpas", "web", targetRef=OTHER)
        await world.wait(600.0)
        assert world.spec("verticalpodautoscalers")["targetRef"] == OTHER
        assert (world.replicas("other"), world.size()) == (1, {})
        assert world.conditions()["Active"] == "NoRecommendation"
        world.advise("6", "2G", "12", "4G")
        await world.wait(60.0)
        assert (world.replicas("other"), world.size()["cpu"]) == (2, "6")
        # The same as at the beginning, but said of this one.
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        assert (world.replicas("other"), world.size()["cpu"]) == (3, "8")
        assert world.replicas() == 3

    world.run(play)


def test_totals_of_the_target_before_are_not_those_of_the_new_one() -> None:
    world = world_of_two()
    world.add_vpa("mine")
    spec = {"targetRef": OTHER, "updatePolicy": {"updateMode": "Off"}}
    world.server.put(path("verticalpodautoscalers", "theirs"), {"spec": spec})

    def publish(cpu: str, memory: str) -> None:
        where = path("hvpas", "web")
        document = world.server.objects[where]
        status = {**document.get("status", {}), "totals": {"cpu": cpu, "memory": memory}}
        world.server.put(where, {**document, "status": status})

    async def play(_: HvpaController) -> None:
        publish("24", "4G")
        world.advise("12", "2G", "0", "0", name="mine")
        world.advise("1", "2G", "0", "0", name="theirs")
        for name in ("mine", "theirs"):
            where = path("verticalpodautoscalers", name)
            [part] = world.server.objects[where]["status"]["recommendation"]["containerRecommendations"]
            status = {"recommendation": {"containerRecommendations": [{**part, "totalTarget": {}}]}}
            world.server.put(where, {**world.server.objects[where], "status": status})
        await world.wait(60.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")
        world.edit("hvpas", "web", targetRef=OTHER)
        await world.wait(600.0)
        assert (world.replicas("other"), world.size()["cpu"]) == (1, "1")
        publish("12", "4G")
        await world.wait(60.0)
        assert (world.replicas("other"), world.size()["cpu"]) == (2, "6")

    world.run(play)


@pytest.mark.parametrize("fewer", ["pods of another target", "pods of a target that was made anew"])
def test_what_an_hpa_has_measured_on_other_pods_shrinks_nothing(fewer: str) -> None:
    world = world_of_two(scaleDown={"stabilizationWindow": "0s"})
    metric = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 8}}}
    world.add_hpa("mine", metrics=[METRIC], behavior=STEADY)

    def measure(*metrics: Any) -> None:
        where = path("horizontalpodautoscalers", "mine")
        world.server.put(where, {**world.server.objects[where], "status": {"currentMetrics": list(metrics)}})

    async def play(_: HvpaController) -> None:
        await world.wait(120.0)
        if fewer == "pods of another target":
            measure(metric)
            world.edit("hvpas", "web", targetRef=OTHER)
            name, cores = "other", "1"
        else:
            for where in [path for path in world.server.objects if "/pods/web" in path or path.endswith("ments/web")]:
                world.server.delete(where)
            await world.wait(10.0)
            measure(metric)
            world.add_workload()
            name, cores = "web", "6"
        await world.wait(30.0)
        assert world.status()["hpa"]["total"]["cpu"] in ("1", "12")
        assert world.size().get("cpu", cores) == cores
        measure()
        await world.wait(300.0)
        assert world.size().get("cpu", cores) == cores
        assert world.spec("deployments", name)["replicas"] == (1 if name == "other" else 2)

    world.run(play)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_size_of_the_target_before_goes_however_late_the_status_can_be_written(is_there: bool) -> None:
    world = world_of_two(vpa={"deploy": True})
    if not is_there:
        world.server.delete(path("deployments", "other"))

    def is_lost(request: Request) -> ScriptedResponse | None:
        return Unreachable("lost") if request.method == "PATCH" and request.path.endswith("/status") else None

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        world.fault = is_lost
        world.edit("hvpas", "web", targetRef=OTHER)
        await world.wait(150.0)
        assert world.size()["cpu"] == "8"
        world.fault = lambda _: None
        await world.wait(120.0)
        assert world.size() == {}
        assert world.conditions()["Active"] == ("NoRecommendation" if is_there else "TargetNotFound")
        assert bool(world.status().get("selector")) == is_there

    world.run(play)


def test_a_target_changed_while_the_controller_was_down_is_a_new_target_too() -> None:
    world = world_of_two(vpa={"deploy": True})

    async def first(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        assert (world.replicas(), world.size()["cpu"]) == (3, "8")

    async def second(_: HvpaController) -> None:
        await world.wait(600.0)
        assert (world.replicas("other"), world.size()) == (1, {})
        world.advise("6", "2G", "12", "4G")
        await world.wait(60.0)
        assert (world.replicas("other"), world.size()["cpu"]) == (2, "6")

    world.run(first)
    world.server.end_watches()
    world.edit("hvpas", "web", targetRef=OTHER)
    world.run(second)


def test_a_kind_that_changes_its_selector_is_no_other_target_for_that() -> None:
    world = World()
    world.add_workload(plural="rollouts")
    world.add_hvpa(kind="Rollout", vpa={"deploy": True})

    def change(where: str, **fields: Any) -> None:
        world.server.put(where, {**world.server.objects[where], **fields})

    async def first(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        assert (world.replicas(plural="rollouts"), world.size()["cpu"]) == (3, "8")

    async def second(_: HvpaController) -> None:
        await world.wait(60.0)
        assert world.status()["selector"] == "app=web"
        assert world.size()["cpu"] == "8"

    world.run(first)
    world.server.end_watches()
    change(path("hvpas", "web"), status={**world.status(), "selector": "app=web,hash=1"})
    change(path("verticalpodautoscalers", "web"), status={})
    world.run(second)


# Recommenders that tell which spec their recommendation is for.


def owned_vpa(generation: int, observed: int | None, cpu: str, uid: str = "v1") -> VerticalPodAutoscaler:
    part = {"containerName": "app", "target": {"cpu": cpu}}
    status = {"recommendation": {"containerRecommendations": [part]}, "observedGeneration": observed}
    owner = {"apiVersion": "x", "kind": "Hvpa", "name": "web", "uid": "u1", "controller": True}
    metadata = {"name": "web", "namespace": "shop", "uid": uid, "generation": generation, "ownerReferences": [owner]}
    document = {"metadata": metadata, "spec": {"targetRef": OTHER}, "status": status}
    return msgspec.convert(document, VerticalPodAutoscaler)


def is_heard(before: StaleRecommendations, vpa: VerticalPodAutoscaler) -> bool:
    document = hvpa(bucket((1, 8), ("0", "4"), ("0", "4G")), targetRef=OTHER)
    document["metadata"]["uid"] = "u1"
    _, around = before.hide_stale(msgspec.convert(document, Hvpa), RelatedAutoscalers([], [], [vpa]))
    return around.vpas[0].status is not None


def test_a_recommender_with_an_observed_target_is_trusted_once_it_has_observed_the_new_one() -> None:
    before = StaleRecommendations(None)
    assert not is_heard(before, owned_vpa(2, 1, "12"))
    # A pass that had begun before.
    assert not is_heard(before, owned_vpa(2, 1, "11"))
    # The same amount, of the new target.
    assert is_heard(before, owned_vpa(2, 2, "12"))
    # Another edit is no other target.
    assert is_heard(before, owned_vpa(3, 2, "12"))


@pytest.mark.parametrize("observed", [1, None])
def test_a_vpa_that_was_made_again_for_the_new_target_is_believed(observed: int | None) -> None:
    before = StaleRecommendations(None)
    assert not is_heard(before, owned_vpa(2, 1, "12"))
    assert is_heard(before, owned_vpa(1, observed, "12", uid="v2"))


def test_a_recommender_that_has_been_faster_is_believed_at_once() -> None:
    assert is_heard(StaleRecommendations(None), owned_vpa(2, 2, "12"))


def test_a_recommender_without_an_observed_target_is_trusted_once_its_answer_changes() -> None:
    before = StaleRecommendations(None)
    assert not is_heard(before, owned_vpa(2, None, "12"))
    assert not is_heard(before, owned_vpa(3, None, "12"))
    assert is_heard(before, owned_vpa(3, None, "6"))
    assert is_heard(before, owned_vpa(3, None, "12"))
