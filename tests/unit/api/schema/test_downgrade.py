"""What going back to upstream's CRD costs an object."""

from __future__ import annotations

from typing import Any

from support.builders.manifests import boosted, requirements, vpa
from trellis.api.registry import VPA
from trellis.api.schema.downgrade import find_losses

UP = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}


def lost(document: dict[str, Any]) -> list[str]:
    return [f"{problem.reason}: {problem}" for problem in find_losses(VPA, document)]


def test_an_upstream_object_has_no_losses() -> None:
    document = vpa(
        updatePolicy={"updateMode": "InPlace", "evictionRequirements": [UP], "evictAfterOOMSeconds": 600},
        recommenders=[{"name": "default"}],
        startupBoost={"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 10}},
        resourcePolicy={"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "1"}}]},
    )
    assert lost(document) == []


def test_added_fields_are_reported_as_pruned() -> None:
    pruned = "upstream's CRD has no such field: it is lost at the next write"
    assert lost(boosted(type="Factor", factor=2, duration="10s", giveUpAfterSeconds=60)) == [
        f"Pruned: spec.startupBoost.cpu.duration: {pruned}",
        f"Pruned: spec.startupBoost.cpu.giveUpAfterSeconds: {pruned}",
    ]
    assert lost(requirements(UP)) == [f"Pruned: spec.updatePolicy.actuationRequirements: {pruned}"]
    assert lost(vpa(recommenders=[{"name": "x", "parameters": {"a": "1"}}])) == [
        f"Pruned: spec.recommenders[0].parameters: {pruned}"
    ]
    status = {"recommendation": {"containerRecommendations": [{"target": {}, "totalTarget": {"cpu": "1"}}]}}
    assert lost({**vpa(), "status": status}) == [
        f"Pruned: status.recommendation.containerRecommendations[0].totalTarget: {pruned}"
    ]


def test_added_values_are_reported_as_stranded() -> None:
    assert lost(vpa(updatePolicy={"updateMode": "InPlaceOnly"})) == [
        'UnsupportedStoredValue: spec.updatePolicy.updateMode: upstream knows only "Off", "Initial", "Recreate", '
        '"InPlaceOrRecreate", "InPlace", "Auto"'
    ]
    entry = {"resources": ["CPU"], "changeRequirement": "TargetHigherThanOrEqualToRequests"}
    lines = lost(vpa(updatePolicy={"updateMode": "Off", "evictionRequirements": [entry]}))
    assert [line.partition(": upstream")[0] for line in lines] == [
        "UnsupportedStoredValue: spec.updatePolicy.evictionRequirements[0].resources[0]",
        "UnsupportedStoredValue: spec.updatePolicy.evictionRequirements[0].changeRequirement",
    ]


def test_an_object_of_any_shape_is_survived() -> None:
    specs: list[Any] = [None, [], "text", {"updatePolicy": 3}, {"recommenders": {"a": 1}}]
    for spec in specs:
        assert find_losses(VPA, {"spec": spec}) == []
    assert find_losses(VPA, None) == []
