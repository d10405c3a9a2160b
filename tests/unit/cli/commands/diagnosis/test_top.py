"""`trellis top`: workloads by waste and by risk."""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from support.api_server.server import ModelServer
from trellis.base.errors import Unauthorized
from trellis.cli.commands.diagnosis import top
from trellis.cli.main import trellis
from trellis.diagnosis.waste import SortKey
from trellis.kube.client import Client
from trellis.testing.scripted_transport import error_response

Run = Callable[..., Result]
MIB = 2**20


class Fleet:
    """Deployments with pods, usage and VPAs."""

    def __init__(self) -> None:
        self.server = ModelServer()
        self.server.objects["/version"] = {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
        for namespace in ("shop", "office"):
            self.server.put(f"/api/v1/namespaces/{namespace}", {})

    def add(
        self,
        name: str,
        *,
        request: tuple[str, str],
        usage: tuple[str, str] | None,
        limit: str = "",
        target: tuple[str, str] | None = None,
        namespace: str = "shop",
        pods: int = 2,
        **status: Any,
    ) -> None:
        owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-5d4f8b7c9", "controller": True}]
        parent = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "controller": True}]
        resources: dict[str, Any] = {"requests": dict(zip(("cpu", "memory"), request, strict=True))}
        resources |= {"limits": {"memory": limit}} if limit else {}
        spec = {"containers": [{"name": "app", "resources": resources}], "nodeName": "node-1"}
        labels = {"app": name}
        put, apps = self.server.put, f"/apis/apps/v1/namespaces/{namespace}"
        put(f"{apps}/deployments/{name}", {"metadata": {"labels": labels}, "spec": {"replicas": pods}})
        put(f"{apps}/replicasets/{name}-5d4f8b7c9", {"metadata": {"ownerReferences": parent}})
        for number in range(pods):
            pod = f"{name}-5d4f8b7c9-{number}abcd"
            metadata = {"ownerReferences": owner, "labels": labels}
            document = {"metadata": metadata, "spec": spec, "status": {"phase": "Running", **status}}
            put(f"/api/v1/namespaces/{namespace}/pods/{pod}", document)
            if usage is not None:
                used = [{"name": "app", "usage": dict(zip(("cpu", "memory"), usage, strict=True))}]
                path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/{pod}"
                put(path, {"timestamp": "2026-07-14T03:33:00Z", "containers": used})
        if target is not None:
            self._add_vpa(namespace, name, target)

    def _add_vpa(self, namespace: str, name: str, target: tuple[str, str]) -> None:
        amounts = dict(zip(("cpu", "memory"), target, strict=True))
        recommendation = {"containerRecommendations": [{"containerName": "app", "target": amounts}]}
        self.server.put(
            f"/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalers/{name}",
            {
                "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
                "status": {"recommendation": recommendation},
            },
        )


@pytest.fixture
def fleet() -> Fleet:
    """One workload that wastes, one at risk, one without usage."""
    fleet = Fleet()
    fleet.add("idle", request=("2", "4Gi"), usage=("100m", "200Mi"), target=("500m", "1Gi"))
    fleet.add("tight", request=("100m", "100Mi"), usage=("90m", "95Mi"), limit="100Mi")
    fleet.add("new", request=("100m", "100Mi"), usage=None, namespace="office")
    return fleet


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, fleet: Fleet) -> Run:
    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[tuple[Client, str]]:
        yield fleet.server.client, "shop"

    monkeypatch.setattr(top, "open_chosen_client", connected)
    return lambda *arguments: CliRunner().invoke(trellis, ["top", *arguments])


def rows(result: Result) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(result.stdout)["workloads"]}


def names(result: Result) -> list[str]:
    return list(rows(result))


def test_the_most_wasteful_workload_comes_first_with_usage_requests_and_recommendation(run: Run) -> None:
    result = run()
    lines = [line.split() for line in result.stdout.splitlines()]
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines[0][:4] == ["NAMESPACE", "WORKLOAD", "PODS", "CPU"]
    assert lines[1][:9] == ["shop", "deploy/idle", "2", "200m", "4000m", "1000m", "400Mi", "8192Mi", "2048Mi"]
    assert lines[-1][:2] == ["total", "(3)"]


def test_waste_is_what_is_requested_above_the_need_in_money(run: Run) -> None:
    idle = rows(run("--prices", "0.01,0.001", "-o", "json"))["idle"]
    # 3 cores and 6 GiB above the recommendation, for 730 hours.
    assert idle["wastePerMonth"] == pytest.approx((3 * 0.01 + 6 * 0.001) * 730)
    assert idle["costPerMonth"] == pytest.approx((4 * 0.01 + 8 * 0.001) * 730)


def test_without_a_vpa_the_need_is_the_usage_now(run: Run, fleet: Fleet) -> None:
    fleet.add("bare", request=("1", "1Gi"), usage=("100m", "1Gi"), pods=1)
    bare = rows(run("--prices", "0.01,0", "-o", "json"))["bare"]
    assert bare["wastePerMonth"] == pytest.approx(0.9 * 0.01 * 730)
    assert bare["cpuRecommendedMillicores"] is None


def test_usage_above_the_recommendation_is_the_need(run: Run, fleet: Fleet) -> None:
    fleet.add("busy", request=("1", "1Gi"), usage=("900m", "1Gi"), target=("100m", "1Gi"), pods=1)
    assert rows(run("--prices", "0.01,0", "-o", "json"))["busy"]["wastePerMonth"] == pytest.approx(0)


def test_a_workload_without_usage_or_recommendation_has_no_waste(run: Run) -> None:
    new = rows(run("-o", "json"))["new"]
    assert (new["cpuMillicores"], new["wastePerMonth"], new["risk"]) == (None, None, "")


def test_risk_is_named_by_the_reasons_of_recommend(run: Run, fleet: Fleet) -> None:
    fleet.add("short", request=("100m", "100Mi"), usage=("500m", "50Mi"))
    killed = {
        "name": "app",
        "restartCount": 1,
        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-07-14T03:00:00Z"}},
    }
    fleet.add(
        "killed", request=("1", "100Mi"), usage=("1m", "10Mi"), target=("1m", "300Mi"), containerStatuses=[killed]
    )
    found = rows(run("-o", "json"))
    assert {name: row["risk"] for name, row in found.items()} == {
        "idle": "",
        "tight": "MemoryAtRisk",
        "short": "UnderRequested",
        "killed": "MemoryAtRisk",
        "new": "",
    }
    assert found["tight"]["memoryLimitShare"] == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("key", "first"),
    [("waste", "idle"), ("risk", "tight"), ("cpu", "idle"), ("memory", "idle"), ("cost", "idle")],
)
def test_workloads_are_sorted_by_the_column_that_is_asked_for(run: Run, key: str, first: str) -> None:
    assert names(run("--sort-by", key, "-o", "json"))[0] == first


def test_usage_decides_the_order_of_its_columns(run: Run, fleet: Fleet) -> None:
    fleet.add("hot", request=("1m", "1Mi"), usage=("3", "10Mi"))
    assert names(run("--sort-by", "cpu", "-o", "json"))[0] == "hot"
    assert names(run("--sort-by", "memory", "-o", "json"))[0] == "idle"


def test_the_choices_are_those_of_the_ranking() -> None:
    assert list(top.SORT_KEYS) == [key.value for key in SortKey]


def test_namespaces_labels_and_names_select(run: Run) -> None:
    assert names(run("-n", "office", "-o", "json")) == ["new"]
    assert names(run("-l", "app=tight", "-o", "json")) == ["tight"]
    assert names(run("deploy/idle", "-o", "json")) == names(run("idle", "-o", "json")) == ["idle"]
    assert set(names(run("-A", "-o", "json"))) == {"idle", "tight", "new"}


def test_a_name_that_is_none_is_refused(run: Run) -> None:
    result = run("deployment/absent")
    assert (result.exit_code, "there is no workload deployment/absent" in result.stderr) == (2, True)
    assert "no kind of workload" in run("service/web").stderr


def test_csv_and_plain_lines_are_for_programs(run: Run) -> None:
    (first, *_) = csv.DictReader(run("-o", "csv").stdout.splitlines())
    assert (first["name"], first["cpuMillicores"], first["memoryBytes"]) == ("idle", "200", f"{400 * MIB}")
    lines = run("--no-headers", "--top", "1").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["shop", "deploy/idle"]]


def test_credentials_that_are_not_accepted_end_the_command(run: Run, fleet: Fleet) -> None:
    fleet.server.before = lambda _request: error_response(401, "Unauthorized", "Unauthorized")
    result = run()
    assert isinstance(result.exception, Unauthorized)
    assert (result.stdout, result.stderr) == ("", "")


def test_what_may_not_be_read_is_one_line_for_a_namespace(run: Run, fleet: Fleet) -> None:
    fleet.server.before = lambda request: (
        error_response(403, "Forbidden", "no")
        if request.path.startswith(("/apis/", "/api/v1/namespaces/shop"))
        else None
    )
    result = run("-n", "shop")
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert len(lines) <= 3
    assert "trellis: no usage: you may not list pods.metrics.k8s.io" in lines


def test_the_document_is_the_same_as_yaml(run: Run) -> None:
    assert yaml.safe_load(run("-o", "yaml").stdout) == json.loads(run("-o", "json").stdout)


def test_on_a_terminal_too_narrow_for_any_columns_figures_stand_below_each_workload(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top, "get_wrap_width", lambda: 40)
    lines = run().stdout.splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[0].count("/") == 2
    assert lines[1].startswith("  PODS: ")


def test_without_the_metrics_api_requests_and_recommendations_are_left(run: Run, fleet: Fleet) -> None:
    fleet.server.before = lambda request: (
        error_response(404, "NotFound", "the server could not find the requested resource")
        if "/metrics.k8s.io/" in request.path
        else None
    )
    result = run("-o", "json")
    assert result.exit_code == 2
    assert "the metrics API does not answer" in result.stderr
    assert "trellis doctor" in result.stderr
    idle = rows(result)["idle"]
    assert (idle["cpuMillicores"], idle["cpuRequestMillicores"]) == (None, 4000.0)
    assert idle["wastePerMonth"] > 0


def test_a_metrics_api_without_usage_yet_leaves_requests(run: Run, fleet: Fleet) -> None:
    for path in [path for path in fleet.server.objects if "/metrics.k8s.io/" in path]:
        fleet.server.delete(path)
    result = run("--sort-by", "risk")
    assert (result.exit_code, result.stderr, result.exception) == (0, "", None)
    assert "deploy/idle" in result.stdout
    for path in [path for path in fleet.server.objects if "verticalpodautoscalers" in path]:
        fleet.server.delete(path)
    totals = json.loads(run("-o", "json").stdout)["totals"]
    assert (totals["cpuMillicores"], totals["wastePerMonth"]) == (None, None)
    assert totals["costPerMonth"] > 0
