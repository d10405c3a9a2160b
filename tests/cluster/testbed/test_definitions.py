"""A real API server accepts our definitions and examples, and refuses what the rules forbid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.cluster import Cluster
from testbed.errors import Refused

ROOT = Path(__file__).resolve().parents[3]
DEFINITIONS = sorted((ROOT / "deploy" / "crds").glob("*.yaml"))
# Read by the simulator, by a process, and from a ConfigMap: no API server knows them as kinds.
FILES_ONLY = {"configuration", "simulate", "nodes"}
EXAMPLES = sorted(file for file in (ROOT / "examples").glob("*/*.yaml") if file.parent.name not in FILES_ONLY)

Json = dict[str, Any]


def test_there_are_definitions_and_examples_to_try() -> None:
    assert len(DEFINITIONS) == 4
    assert len(EXAMPLES) > 10


@pytest.mark.parametrize("file", DEFINITIONS, ids=lambda file: file.stem)
def test_a_definition_is_accepted_and_served(cluster: Cluster, file: Path) -> None:
    cluster.install_definitions([file])
    name = yaml.safe_load(file.read_text())["metadata"]["name"]
    status = cluster.api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")["status"]
    conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert conditions["NamesAccepted"] == "True"
    assert conditions["Established"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_an_example_can_be_applied(cluster: Cluster, namespace: str, file: Path) -> None:
    for document in yaml.safe_load_all(file.read_text()):
        document["metadata"].pop("namespace", None)  # the test's own takes its place
        applied = cluster.api.apply(document, namespace)
        assert _has(applied["spec"], document["spec"])


def test_a_boost_by_a_factor_without_the_factor_is_refused(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(Refused, match="factor is required when type is Factor and forbidden otherwise") as refusal:
        cluster.api.create(_autoscaler({"startupBoost": {"cpu": {"type": "Factor"}}}), namespace)
    assert refusal.value.status == 422
    details = refusal.value.body["details"]
    assert isinstance(details, dict)
    assert [cause["field"] for cause in details["causes"]] == ["spec.startupBoost.cpu"]


def test_the_same_boost_with_the_factor_is_accepted(cluster: Cluster, namespace: str) -> None:
    made = cluster.api.create(_autoscaler({"startupBoost": {"cpu": {"type": "Factor", "factor": 3}}}), namespace)
    assert made["spec"]["startupBoost"]["cpu"]["factor"] == 3


def test_an_unknown_field_is_refused_by_a_strict_apply(cluster: Cluster, namespace: str) -> None:
    with pytest.raises(Refused, match="startupBost"):
        cluster.api.apply(_autoscaler({"startupBost": {}}), namespace)


def _autoscaler(more: Json) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}}
    return {**kind, "spec": {"targetRef": target, **more}}


def _has(stored: Any, asked: Any) -> bool:
    """Whether everything that was asked for is stored: nothing was pruned. Defaults may have been added."""
    if isinstance(asked, dict):
        return isinstance(stored, dict) and all(_has(stored.get(key), value) for key, value in asked.items())
    if isinstance(asked, list):
        pairs = zip(stored, asked, strict=True) if isinstance(stored, list) else ()
        return bool(asked == [] or pairs) and all(_has(left, right) for left, right in pairs)
    return bool(stored == asked)
