"""`trellis doctor`: a line for each check, before and after an installation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.installations.installed_cluster import HOME, InstalledCluster
from trellis.base.errors import Unreachable
from trellis.cli.commands.diagnosis import doctor
from trellis.cli.main import trellis
from trellis.kube.client import Client
from trellis.kube.transport.responses import Response

Run = Callable[..., Result]


def runner(monkeypatch: pytest.MonkeyPatch, cluster: InstalledCluster) -> Run:
    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[tuple[Client, str]]:
        yield cluster.server.client, "shop"

    monkeypatch.setattr(doctor, "open_chosen_client", connected)
    return lambda *arguments: CliRunner().invoke(trellis, ["doctor", *arguments])


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> tuple[InstalledCluster, Run]:
    """A cluster with nothing of ours."""
    cluster = InstalledCluster()
    for path in [path for path in cluster.server.objects if "customresourcedefinitions" in path]:
        cluster.server.delete(path)
    return cluster, runner(monkeypatch, cluster)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> tuple[InstalledCluster, Run]:
    """A cluster with an installation that works."""
    cluster = InstalledCluster("recommender", "admission", "updater")
    cluster.add_webhook()
    cluster.add_component("admission", priorityClassName="system-cluster-critical")
    cluster.server.put("/apis/scheduling.k8s.io/v1/priorityclasses/system-cluster-critical", {})
    return cluster, runner(monkeypatch, cluster)


def levels(result: Result) -> dict[str, str]:
    return {check["check"]: check["level"] for check in json.loads(result.stdout)["checks"]}


def reasons(result: Result) -> list[str]:
    return [finding["reason"] for check in json.loads(result.stdout)["checks"] for finding in check["findings"]]


def test_an_empty_cluster_is_ready_for_an_installation(empty: tuple[InstalledCluster, Run]) -> None:
    _, run = empty
    result = run("-o", "json")
    found = levels(result)
    assert (result.exit_code, reasons(result)) == (0, [])
    assert set(found) >= {
        "Kubernetes",
        "CRDs",
        "metrics API",
        "other webhooks",
        "namespace trellis-system",
        "your rights",
    }
    assert {name for name, level in found.items() if level != "ok"} == {"feature gates", "clocks"}
    assert "none installed yet" in run().stdout
    assert "created with the installation" in run().stdout
    assert reasons(run("-n", "absent", "-o", "json")) == ["NamespaceMissing"]


def test_an_installation_that_works_has_no_finding(installed: tuple[InstalledCluster, Run]) -> None:
    _, run = installed
    result = run("-o", "json")
    assert (result.exit_code, reasons(result)) == (0, [])
    assert levels(result)["accounts"] == "ok"
    assert "3 accounts checked, no right is missing" in run().stdout


def test_a_missing_metrics_api_is_a_problem_before_an_installation(empty: tuple[InstalledCluster, Run]) -> None:
    cluster, run = empty
    cluster.server.delete("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io")
    result = run()
    assert result.exit_code == 1
    assert "v1beta1.metrics.k8s.io: is not registered" in " ".join(result.stdout.split())


def test_warnings_fail_only_where_that_is_asked_for(installed: tuple[InstalledCluster, Run]) -> None:
    cluster, run = installed
    cluster.add_component("admission")  # without a priority class
    assert reasons(run("-o", "json")) == ["NoPriority"]
    assert (run().exit_code, run("--fail-on", "warning").exit_code) == (0, 1)


def test_missing_rights_of_accounts_are_named(installed: tuple[InstalledCluster, Run]) -> None:
    cluster, run = installed
    cluster.denied |= {"create pods/eviction", "list nodes"}
    result = run("-o", "json")
    assert result.exit_code == 1
    assert reasons(result).count("RightsMissing") == 1
    assert "RightsReduced" in reasons(result)


def test_a_user_who_may_not_install_is_warned(empty: tuple[InstalledCluster, Run]) -> None:
    cluster, run = empty
    cluster.denied.add("create clusterroles")
    assert reasons(run("-o", "json")) == ["MayNotInstall"]


def test_upstreams_components_beside_ours_are_a_problem(installed: tuple[InstalledCluster, Run]) -> None:
    cluster, run = installed
    container = {"name": "updater", "image": "registry.k8s.io/autoscaling/vpa-updater:1.7.0"}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "old"}},
        "template": {"spec": {"containers": [container]}},
    }
    path = f"/apis/apps/v1/namespaces/{HOME}/deployments/old-updater"
    cluster.server.put(path, {"spec": spec, "status": {"readyReplicas": 1}})
    result = run()
    assert result.exit_code == 1
    assert "kubectl scale -n kube-system deployment/old-updater --replicas=0" in " ".join(result.stdout.split())


def test_an_outdated_crd_is_named_with_its_missing_fields(installed: tuple[InstalledCluster, Run]) -> None:
    cluster, run = installed
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/hvpas.autoscaling.x-k8s.io"
    schema = cluster.server.objects[path]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["status"]["properties"]["blocked"]
    assert "status.blocked" in " ".join(run().stdout.split())
    cluster.server.delete(path)
    assert "DefinitionMissing" in reasons(run("-o", "json"))


def test_a_dead_webhook_of_another_program_is_a_problem(empty: tuple[InstalledCluster, Run]) -> None:
    cluster, run = empty
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    config = {"service": {"namespace": "policy", "name": "gate"}}
    hook = {"name": "gate.example.com", "clientConfig": config, "failurePolicy": "Fail", "rules": [rule]}
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/gate"
    cluster.server.put(path, {"webhooks": [hook]})
    assert reasons(run("-o", "json")) == ["WebhookBlocksPods"]
    hook["rules"] = [{**rule, "resources": ["configmaps"]}]
    cluster.server.put(path, {"webhooks": [hook]})
    assert reasons(run("-o", "json")) == []


def test_a_prometheus_that_does_not_answer_is_a_warning(installed: tuple[InstalledCluster, Run]) -> None:
    cluster, run = installed
    words = ("trellis", "recommender", "--leader-elect", "--prometheus-address=http://prom.monitoring.svc:9090")
    cluster.add_component("recommender", words=words)
    assert reasons(run("-o", "json")) == ["PrometheusDown"]
    path = "/api/v1/namespaces/monitoring/services/prom:9090/proxy/api/v1/query"
    cluster.server.objects[path] = {"status": "success"}
    assert reasons(run("-o", "json")) == []


def test_clocks_and_gates_are_read_from_the_api_server(empty: tuple[InstalledCluster, Run]) -> None:
    cluster, run = empty
    original = cluster.server.before

    def answer(request: Any) -> Any:
        if request.path == "/version":
            body = json.dumps(cluster.server.objects["/version"]).encode()
            return Response(200, {"content-type": "application/json", "date": "Tue, 01 Jan 2030 00:00:00 GMT"}, body)
        if request.path == "/metrics":
            text = b'kubernetes_feature_enabled{name="InPlacePodVerticalScaling",stage=""} 0\n'
            return Response(200, {"content-type": "text/plain"}, text)
        return original(request)

    cluster.server.before = answer
    assert reasons(run("-o", "json")) == ["FeatureGateOff", "ClocksDiffer"]


def test_without_rights_everything_is_unknown_and_said(empty: tuple[InstalledCluster, Run]) -> None:
    cluster, run = empty
    cluster.forbidden += ["/apis/", "/namespaces"]
    result = run("-o", "json")
    assert result.exit_code == 2
    assert {"CRDs", "metrics API", "other webhooks"} <= {
        name for name, level in levels(result).items() if level == "unknown"
    }


def test_an_api_server_that_does_not_answer_exits_with_2(empty: tuple[InstalledCluster, Run]) -> None:
    cluster, run = empty
    cluster.server.before = lambda _request: Unreachable("connection refused")
    result = run()
    assert (result.exit_code, "the API server does not answer" in result.stdout) == (2, True)
    document = json.loads(run("-o", "json").stdout)
    assert (document["kind"], document["exitStatus"]) == ("TrellisDiagnosis", 2)
    assert "connection refused" in run("-o", "markdown").stdout


def test_markdown_lists_the_worst_first(installed: tuple[InstalledCluster, Run]) -> None:
    cluster, run = installed
    cluster.add_webhook(endpoints=0)
    lines = run("-o", "markdown").stdout.splitlines()
    assert lines[0].startswith("## trellis doctor, Kubernetes v1.36.3")
    assert next(line for line in lines if line.startswith("- ")).startswith("- **problem** webhook:")
    assert "  - `kubectl get pods,endpointslices -n kube-system; the Service must select the pods`" in lines


@pytest.mark.parametrize("columns", [50, 80, 140])
def test_lines_fit_the_terminal(
    installed: tuple[InstalledCluster, Run], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    cluster, run = installed
    cluster.add_webhook(endpoints=0)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, run().stdout.splitlines())) <= min(columns, 120)
