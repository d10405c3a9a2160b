"""An HPA that an Hvpa owns follows the template, also in what the template does not say any more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hvpa_controller_world import World
from manifests import bucket, hvpa
from trellis.api.hvpa import Hvpa
from trellis.api.kube.decode import convert_object
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.resolve import resolve_hvpa
from trellis.controllers.hvpa.controller import HvpaController
from trellis.controllers.hvpa.owned import hpa_upkeep
from trellis.kube.actions import PatchObject
from trellis.kube.scripted import refusal

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
    found = {
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
    upkeep = hpa_upkeep(owner, resolve_hvpa(owner), [convert_object(found, HorizontalPodAutoscaler)])
    return [type(each) for each in upkeep.actions] == [PatchObject]


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
        return refusal(422, "Invalid", "cannot unmarshal")

    world.add_hvpa(hpa={"template": {"spec": {"maxReplicas": 8}}})

    async def play(_: HvpaController) -> None:
        await world.wait(10.0)
        before = world.spec("horizontalpodautoscalers")
        world.fault = fault
        world.edit("hvpas", "web", hpa={"template": {"spec": template}})
        await world.wait(10.0)
        [found] = [each for each in world.status()["conditions"] if each["type"] == "SourceRefused"]
        assert "cannot unmarshal" in found["message"]
        assert world.spec("horizontalpodautoscalers") == before
        assert len(asked) == 1

    world.run(play)
