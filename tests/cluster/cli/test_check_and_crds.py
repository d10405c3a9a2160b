"""`trellis check --cluster` and `trellis crds --downgrade-check` against a real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from testbed.cluster import Cluster
from trellis.cli.main import trellis

VPAS = "/apis/autoscaling.k8s.io/v1/namespaces/{}/verticalpodautoscalers"


@pytest.fixture
def run(cluster: Cluster) -> Any:
    def invoke(*arguments: str) -> Result:
        command = [*arguments, "--kubeconfig", str(cluster.kubeconfig)]
        return CliRunner().invoke(trellis, command, catch_exceptions=False)

    return invoke


def vpa(namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, **spec},
    }


def written(folder: Path, document: dict[str, Any]) -> str:
    path = folder / "vpa.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_a_valid_object_passes_and_is_not_stored(cluster: Cluster, namespace: str, run: Any, tmp_path: Path) -> None:
    result = run("check", "--cluster", written(tmp_path, vpa(namespace)))
    assert result.exit_code == 0, result.output
    assert cluster.api.get(VPAS.format(namespace))["items"] == []


def test_an_object_that_asks_for_a_generated_name_passes_too(
    cluster: Cluster, namespace: str, run: Any, tmp_path: Path
) -> None:
    document = vpa(namespace)
    document["metadata"] = {"generateName": "web-", "namespace": namespace}
    result = run("check", "--cluster", written(tmp_path, document))
    assert result.exit_code == 0, result.output
    assert cluster.api.get(VPAS.format(namespace))["items"] == []


def test_problems_that_only_the_server_finds_are_reported(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    nobody = str(cluster.kubeconfig_for("default", namespace))
    path = written(tmp_path, vpa(namespace))
    result = CliRunner().invoke(trellis, ["check", "--cluster", path, "--kubeconfig", nobody])
    assert result.exit_code == 1
    assert "the API server says: " in result.output
    assert 'cannot patch resource "verticalpodautoscalers"' in result.output
    assert "[RefusedByServer]" in result.output


def test_a_namespace_that_does_not_exist_is_reported(run: Any, tmp_path: Path) -> None:
    result = run("check", "--cluster", written(tmp_path, vpa("nowhere")))
    assert result.exit_code == 1
    assert 'namespaces "nowhere" not found' in result.output
    assert ":5:3: error: metadata.namespace" in result.output


def test_an_object_that_we_refuse_is_not_sent(namespace: str, run: Any, tmp_path: Path) -> None:
    result = run("check", "--cluster", written(tmp_path, vpa(namespace, surprise=1)))
    assert result.exit_code == 1
    assert "RefusedByServer" not in result.output


def test_the_downgrade_check_lists_what_upstream_would_lose(cluster: Cluster, namespace: str, run: Any) -> None:
    requirement = {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"}
    document = vpa(namespace, updatePolicy={"updateMode": "InPlaceOnly", "actuationRequirements": [requirement]})
    cluster.api.create(document)
    result = run("crds", "--downgrade-check")
    ours = [line for line in result.output.splitlines() if f"{namespace}/web" in line]
    assert result.exit_code == 1
    assert [line.rpartition(" ")[2] for line in ours] == ["[Pruned]", "[UnsupportedStoredValue]"]
    document = json.loads(run("crds", "--downgrade-check", "-n", namespace, "-o", "json").output)
    assert [(loss["path"], loss["reason"]) for loss in document["losses"]] == [
        ("spec.updatePolicy.actuationRequirements", "Pruned"),
        ("spec.updatePolicy.updateMode", "UnsupportedStoredValue"),
    ]
