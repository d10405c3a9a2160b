"""An HPA that an Hvpa owns follows the template, also in what the template does not say any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from support.builders.manifests import bucket, hvpa
from support.controllers.hvpa import World, path
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.resolve import resolve_hvpa
from trellis.controllers.hvpa.owned_autoscalers import plan_hpa_upkeep
from trellis.controllers.hvpa.process import HvpaController
from trellis.kube.write.actions import PatchObject
from trellis.testing.scripted_transport import error_response

MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 150}},
}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
# As the API server stores an HPA without metrics, whose behavior has only a window on the way down.
UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
DOWN = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def is_patched(template: dict[str, Any], **stored: Any) -> bool:
    """Whether an owned HPA that is stored like this is written anew for the template."""
    document = hvpa(bucket((1, 8), ("0", "4"), ("0", "4G")), hpa={"template": {"spec": template}})
    document["metadata"]["uid"] = "u1"
    owner = msgspec.convert(document, Hvpa)
    reference = {"apiVersion": owner.api_version, "kind": "Hvpa", "name": owner.metadata.name}
    owned_hpa = {
        "metadata": {
            "name": owner.metadata.name,
            "namespace": owner.metadata.namespace,
            "ownerReferences": [{**reference, "uid": "u1", "controller": True}],
        },
        "spec": {
            "scaleTargetRef": reference,
            "minReplicas": 1,
            "maxReplicas": 16,
            "metrics": [CPU],
            "behavior": {"scaleUp": UP, "scaleDown": DOWN},
            **stored,
        },
    }
    upkeep = plan_hpa_upkeep(owner, resolve_hvpa(owner), [convert_object(owned_hpa, HorizontalPodAutoscaler)])
    return [type(action) for action in upkeep.actions] == [PatchObject]


def test_what_the_api_server_filled_in_is_no_difference() -> None:
    assert not is_patched({})
    assert not is_patched({"metrics": [CPU], "minReplicas": 1, "behavior": {"scaleUp": {"selectPolicy": "Max"}}})


def test_metrics_that_the_template_has_no_more_are_taken_out() -> None:
    assert not is_patched({"metrics": [MEMORY]}, metrics=[MEMORY])
    assert is_patched({}, metrics=[MEMORY])


@pytest.mark.parametrize(
    "rules",
    [
        {"selectPolicy": "Disabled"},
        {"stabilizationWindowSeconds": 30},
        {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]},
        {"tolerance": "0.2"},
    ],
)
@pytest.mark.parametrize(("way", "usual"), [("scaleUp", UP), ("scaleDown", DOWN)])
def test_behavior_that_the_template_has_no_more_is_taken_out(
    way: str, usual: dict[str, Any], rules: dict[str, Any]
) -> None:
    stored = {"scaleUp": UP, "scaleDown": DOWN, way: {**usual, **rules}}
    assert not is_patched({"behavior": {way: rules}}, behavior=stored)
    assert is_patched({}, behavior=stored)


def test_a_minimum_of_nothing_is_not_one() -> None:
    assert is_patched({"minReplicas": 0})


def writes_to(world: World, plural: str) -> list[str]:
    """How an object was written so far, in order."""
    requests = [request for request in world.server.requests if f"/{plural}" in request.path]
    return [request.method for request in requests if request.method in ("POST", "PATCH", "DELETE")]


def has_other_ways(world: World, plural: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Have the server make another spec of what is written."""
    usual = world.server.put

    def put(where: str, document: dict[str, Any]) -> dict[str, Any]:
        if f"/{plural}/" in where:
            document = {**document, "spec": change(document["spec"])}
        return usual(where, document)

    world.server.put = put  # type: ignore[method-assign, assignment]


def test_however_much_the_server_says_against_a_template_it_fits_into_the_status() -> None:
    world = World()
    world.add_workload()
    world.add_hvpa(hpa={"deploy": True}, vpa={"deploy": True})
    world.fault = lambda request: (
        error_response(422, "Invalid", "metrics: no. " * 10_000)
        if request.method == "POST" and "horizontal" in request.path
        else None
    )

    async def play(_: HvpaController) -> None:
        world.advise("12", "2G", "24", "4G")
        await world.wait(60.0)
        assert world.size()["cpu"] == "8"
        longest = 32_768
        assert {len(condition["message"]) for condition in world.status()["conditions"]} & {longest}
        assert all(len(condition["message"]) <= longest for condition in world.status()["conditions"])

    world.run(play)


def test_what_another_server_fills_in_is_written_once_and_what_the_template_drops_goes_all_the_same() -> None:
    world = World()
    hpas = "horizontalpodautoscalers"
    has_other_ways(world, hpas, lambda spec: {"metrics": [MEMORY], "tolerance": "1", "minReplicas": 2, **spec})
    world.add_workload()
    world.add_hvpa(hpa={"deploy": True})

    async def play(_: HvpaController) -> None:
        await world.wait(3600.0)
        assert writes_to(world, hpas) == ["POST"]
        for replicas in (3, 4, 2):
            # Each wish is another generation of the Hvpa.
            world.request_replicas(replicas)
            await world.wait(60.0)
        assert writes_to(world, hpas) == ["POST"]
        world.edit("hvpas", "web", hpa={"template": {"spec": {"metrics": [CPU]}}})
        await world.wait(600.0)
        assert world.spec(hpas)["metrics"] == [CPU]
        world.edit("hvpas", "web", hpa={"deploy": True})
        await world.wait(600.0)
        assert world.spec(hpas)["metrics"] == [MEMORY]
        assert writes_to(world, hpas) == ["POST", "PATCH", "PATCH"]
        world.edit(hpas, "web", maxReplicas=3)
        await world.wait(600.0)
        assert world.spec(hpas)["maxReplicas"] == 16
        assert writes_to(world, hpas) == ["POST", "PATCH", "PATCH", "PATCH"]

    async def again(_: HvpaController) -> None:
        await world.wait(600.0)
        # Who begins anew asks once what this server makes of it.
        assert writes_to(world, hpas) == ["POST", "PATCH", "PATCH", "PATCH", "PATCH"]

    world.run(play)
    world.server.end_watches()
    world.run(again)


def test_an_hpa_that_could_not_be_made_for_a_moment_is_made_soon() -> None:
    world = World()
    hpas = "horizontalpodautoscalers"
    world.add_workload()
    world.add_hvpa(hpa={"deploy": True})
    world.fault = lambda request: (
        error_response(500, "InternalError", "not now") if request.method == "POST" and hpas in request.path else None
    )

    async def play(_: HvpaController) -> None:
        await world.wait(8.0)
        assert world.find(hpas) is None
        assert 1 <= len(writes_to(world, hpas)) <= 3
        world.fault = lambda _: None
        await world.wait(6.0)
        assert world.find(hpas) is not None

    world.run(play)


def test_a_field_that_an_older_definition_of_a_vpa_does_not_know_is_written_once() -> None:
    world = World()
    vpas = "verticalpodautoscalers"
    has_other_ways(world, vpas, lambda spec: {key: value for key, value in spec.items() if key != "startupBoost"})
    world.add_workload()
    boost = {"cpu": {"type": "Factor", "factor": 3}}
    world.add_hvpa(vpa={"template": {"spec": {"startupBoost": boost}}})

    async def play(_: HvpaController) -> None:
        await world.wait(3600.0)
        assert writes_to(world, vpas) == ["POST"]

    world.run(play)


def test_only_its_own_hpa_being_deleted_is_waited_for() -> None:
    world = World()
    hpas = "horizontalpodautoscalers"
    world.add_workload()
    world.add_hvpa(hpa={"deploy": True})

    async def play(_: HvpaController) -> None:
        await world.wait(10.0)
        where = path(hpas, "web")
        document = world.server.objects[where]
        world.server.put(
            where, {**document, "metadata": {**document["metadata"], "deletionTimestamp": world.time_text()}}
        )
        await world.wait(120.0)
        assert "NameTaken" not in world.conditions()
        assert writes_to(world, hpas) == ["POST"]
        world.server.delete(where)
        await world.wait(10.0)
        assert writes_to(world, hpas) == ["POST", "POST"]
        assert world.count_events("NameTaken") == 0

    world.run(play)


@pytest.mark.parametrize(
    "template", [{"behavior": "fast"}, {"behavior": {"scaleDown": [1]}}, {"behavior": {"scaleDown": "no"}}]
)
def test_a_behavior_that_is_none_is_for_the_api_server_to_refuse_and_a_condition(template: dict[str, Any]) -> None:
    world = World()
    world.add_workload()
    asked: list[Any] = []

    def fault(request: Any) -> Any:
        if request.method != "PATCH" or "horizontal" not in request.path:
            return None
        asked.append(request)
        return error_response(422, "Invalid", "cannot unmarshal")

    world.add_hvpa(hpa={"template": {"spec": {"maxReplicas": 8}}})

    async def play(_: HvpaController) -> None:
        await world.wait(10.0)
        before = world.spec("horizontalpodautoscalers")
        world.fault = fault
        world.edit("hvpas", "web", hpa={"template": {"spec": template}})
        await world.wait(10.0)
        [refusal] = [
            condition for condition in world.status()["conditions"] if condition["type"] == "OwnedAutoscalerRefused"
        ]
        assert "cannot unmarshal" in refusal["message"]
        assert world.spec("horizontalpodautoscalers") == before
        assert len(asked) == 1

    world.run(play)
