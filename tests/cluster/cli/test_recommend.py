"""`trellis recommend` with a real API server and a real Prometheus: advice on what runs, and manifests it accepts."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from support.cluster.rights import get_advisor_kubeconfig
from testbed.cluster import Cluster
from testbed.prometheus import Prometheus
from testbed.workloads import container, deployment
from trellis.cli.main import trellis

HOUR = 3600
DAYS = 3
MERGE = "application/strategic-merge-patch+json"
DRY = "fieldManager=tests&fieldValidation=Strict&dryRun=All"
# What each container uses all the time: cores and MiB.
USED = {"app": (0.05, 400), "proxy": (0.3, 20)}


def openmetrics(namespace: str, pods: list[str]) -> Iterator[str]:
    now = int(time.time())
    times = range(now - DAYS * 24 * HOUR, now + 1, 100)
    for family, kind in (("container_cpu_usage_seconds", "counter"), ("container_memory_working_set_bytes", "gauge")):
        yield f"# TYPE {family} {kind}\n"
        for pod in pods:
            for name, (cores, used) in USED.items():
                labels = f'{{namespace="{namespace}",pod="{pod}",container="{name}",image="x"}}'
                for at in times:
                    if kind == "counter":
                        yield f"{family}_total{labels} {1e6 + cores * (at - times[0])} {at}\n"
                    else:
                        yield f"{family}{labels} {used * 2**20} {at}\n"


def hpa() -> dict[str, Any]:
    utilization = {"type": "Utilization", "averageUtilization": 60}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 2,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}],
        },
    }


@pytest.fixture
def web(cluster: Cluster, namespace: str, prometheus: Callable[..., Prometheus]) -> Prometheus:
    """Two pods with too much CPU, too little memory and a limit that will kill them, and what Prometheus knows."""
    limited = {"requests": {"cpu": "1", "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "256Mi"}}
    app, proxy = container("app"), container("proxy", cpu="100m", memory="64Mi")
    app["resources"] = limited
    cluster.api.create(deployment("web", app, proxy, replicas=2), namespace)
    cluster.api.create(hpa(), namespace)
    pods = cluster.wait_for_ready_pods(namespace, "web", 2)
    return prometheus("".join(openmetrics(namespace, [pod["metadata"]["name"] for pod in pods])))


@pytest.fixture
def run(cluster: Cluster, namespace: str) -> Callable[..., Result]:
    """Run `trellis recommend` under the account that Trellis ships for it; a kind that is missing is in the report."""
    kubeconfig = get_advisor_kubeconfig(cluster)

    def invoke(*arguments: str) -> Result:
        own = ["recommend", "--quiet", "-n", namespace, "--kubeconfig", str(kubeconfig)]
        return CliRunner().invoke(trellis, [*own, *arguments], catch_exceptions=False)

    return invoke


def test_running_workloads_are_advised_by_their_usage(web: Prometheus, run: Callable[..., Result]) -> None:
    result = run("--prometheus-url", web.url, "-o", "json", "--set", "pod-recommendation-min-memory-mb=10")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["missing"] == []
    (workload,) = document["workloads"]
    assert (workload["kind"], workload["name"], workload["pods"]) == ("Deployment", "web", 2)
    app, proxy = workload["containers"]
    assert app["cpu"]["reason"] == "OverRequested"
    assert app["memory"]["reason"] == "MemoryAtRisk"
    assert app["memory"]["limit"]["to"] == app["memory"]["request"]["to"]
    assert app["cpu"]["limit"] == {"from": "2", "to": None}
    assert proxy["cpu"]["reason"] == "UnderRequested"
    assert app["days"] > 2.9
    (point,) = workload["scalePoints"]
    assert point["usage"]["from"] == "660m"
    assert point["keptByUtilization"] > 60
    assert 0 < document["effort"]["queries"] < 60


def test_buckets_are_suggested_up_to_the_largest_node(
    web: Prometheus, run: Callable[..., Result], namespace: str
) -> None:
    result = run("--prometheus-url", web.url, "--suggest-buckets", "-n", f"{namespace[:-1]}*", "-o", "json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["missing"] == []
    assert [workload["name"] for workload in document["workloads"]] == ["web"]


def test_patches_are_accepted_by_the_api_server_and_change_nothing_else(
    cluster: Cluster, namespace: str, web: Prometheus, run: Callable[..., Result], tmp_path: Path
) -> None:
    result = run("--prometheus-url", web.url, "--emit", "patches", str(tmp_path / "patches"))
    assert result.exit_code == 0, result.output
    (file,) = (tmp_path / "patches").rglob("*.yaml")
    patch = yaml.safe_load(file.read_text())
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    before = cluster.api.get(path)["spec"]["template"]["spec"]
    after = cluster.api.patch(f"{path}?{DRY}", patch, MERGE)["spec"]["template"]["spec"]
    app = after["containers"][0]["resources"]
    assert "cpu" not in app["limits"]
    assert app["limits"]["memory"] == app["requests"]["memory"]
    for spec in (before, after):
        for entry in spec["containers"]:
            del entry["resources"]
    assert after == before


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl to run kustomize")
def test_a_kustomization_accepts_the_component(
    cluster: Cluster, namespace: str, web: Prometheus, run: Callable[..., Result], tmp_path: Path
) -> None:
    result = run("--prometheus-url", web.url, "--emit", "kustomize", str(tmp_path / "sizes"))
    assert result.exit_code == 0, result.output
    stored = cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")
    own = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": stored["spec"]}
    own["metadata"] = {"name": "web", "namespace": namespace}
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "web.yaml").write_text(yaml.safe_dump(own))
    kustomization = {"resources": ["web.yaml"], "components": ["../sizes"]}
    (tmp_path / "base" / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    command = ["kubectl", "kustomize", str(tmp_path / "base")]
    built = yaml.safe_load(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    app, proxy = built["spec"]["template"]["spec"]["containers"]
    assert app["image"] == own["spec"]["template"]["spec"]["containers"][0]["image"]
    assert app["resources"]["limits"] == {"memory": app["resources"]["requests"]["memory"]}
    assert proxy["resources"]["requests"]["cpu"] != "100m"


def test_emitted_vpas_are_accepted_by_the_api_server(
    cluster: Cluster, namespace: str, web: Prometheus, run: Callable[..., Result], tmp_path: Path
) -> None:
    bounds = ["--min-cpu=20m", "--max-memory=2Gi", "--recommender=seasonal", "--set=horizon=2h"]
    result = run("--prometheus-url", web.url, "--emit", "vpa", str(tmp_path / "vpas"), *bounds)
    assert result.exit_code == 0, result.output
    (file,) = (tmp_path / "vpas").rglob("*.yaml")
    stored = cluster.api.apply(yaml.safe_load(file.read_text()), dry_run=True)
    assert stored["spec"]["updatePolicy"]["updateMode"] == "Off"
    assert stored["spec"]["recommenders"] == [{"name": "seasonal", "parameters": {"horizon": "2h"}}]
    assert stored["metadata"]["namespace"] == namespace


def test_vpas_of_a_cluster_are_advice_too(cluster: Cluster, namespace: str, run: Callable[..., Result]) -> None:
    cluster.api.create(deployment("web", container("app", cpu="500m", memory="256Mi")), namespace)
    cluster.api.create(deployment("other", container("app")), namespace)
    vpa = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "sizer"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }
    stored = cluster.api.create(vpa, namespace)
    target = {"containerName": "app", "target": {"cpu": "120m", "memory": "300Mi"}}
    status = {"status": {"recommendation": {"containerRecommendations": [target]}}}
    cluster.api.patch(f"{cluster.api.get_path(stored)}/status", status)
    cluster.wait_for_ready_pods(namespace, "web")
    document = json.loads(run("--vpas", "-o", "json").stdout)
    (workload,) = document["workloads"]
    (app,) = workload["containers"]
    assert app["cpu"]["request"] == {"from": "500m", "to": "120m"}
    assert app["memory"]["request"] == {"from": "256Mi", "to": "300Mi"}


def test_a_cluster_without_a_prometheus_is_reported_in_one_line(cluster: Cluster, namespace: str) -> None:
    command = ["recommend", "--quiet", "-n", namespace, "--kubeconfig", str(get_advisor_kubeconfig(cluster))]
    result = CliRunner().invoke(trellis, command)
    assert result.exit_code == 1
    assert "give its address with --prometheus-url" in str(result.exception)


def test_a_missing_namespace_is_reported_with_the_nearest_existing_one(cluster: Cluster, namespace: str) -> None:
    meant = f"{namespace[:-1]}x"
    command = ["recommend", "--vpas", "-n", meant, "--kubeconfig", str(get_advisor_kubeconfig(cluster))]
    result = CliRunner().invoke(trellis, command, catch_exceptions=False)
    assert result.exit_code == 2
    assert f'{meant}: does not exist (did you mean "{namespace}"?)' in " ".join(result.stderr.split())
    assert not result.stdout


def test_requests_that_are_too_high_fail_a_pipeline(web: Prometheus, run: Callable[..., Result]) -> None:
    result = run("--prometheus-url", web.url, "--fail-on-savings", "20%", "-o", "markdown")
    assert result.exit_code == 1
    assert "% of the cost of all requests can be saved; 20 % is allowed" in result.stderr
    assert "risk of OOM kill" in result.stdout
