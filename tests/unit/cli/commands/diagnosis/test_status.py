"""`trellis status`: one screen, and exit statuses for scripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from support.installations.installed_cluster import HOME, InstalledCluster
from trellis.base.errors import Unreachable
from trellis.cli.commands.diagnosis import status
from trellis.cli.main import trellis
from trellis.kube.client import Client
from trellis.testing.scripted_transport import error_response

Run = Callable[..., Result]
DROP_IN = ("recommender", "admission", "updater")


@pytest.fixture
def found() -> InstalledCluster:
    """A healthy cluster with the three components of a VPA."""
    cluster = InstalledCluster(*DROP_IN)
    cluster.add_webhook()
    cluster.add_object("verticalpodautoscalers", "web", mode="InPlaceOrRecreate", RecommendationProvided="True")
    return cluster


def runner(monkeypatch: pytest.MonkeyPatch, cluster: InstalledCluster) -> Run:
    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[tuple[Client, str]]:
        yield cluster.server.client, "shop"

    monkeypatch.setattr(status, "open_chosen_client", connected)
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *arguments: CliRunner().invoke(trellis, ["status", *arguments])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, found: InstalledCluster) -> Run:
    return runner(monkeypatch, found)


def document(result: Result) -> Any:
    return json.loads(result.stdout)


def reasons(result: Result) -> list[str]:
    return [finding["reason"] for finding in document(result)["findings"]]


def test_a_healthy_cluster_fits_on_one_screen_and_exits_with_0(run: Run) -> None:
    result = run()
    lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("healthy")
    assert [line.split()[:2] for line in lines[3:6]] == [[component, "1/1"] for component in DROP_IN]
    assert "VPAs         1: 1 recommended" in lines
    assert "Needs attention" not in result.stdout


def test_json_and_yaml_have_the_same(run: Run) -> None:
    as_json, as_yaml = document(run("-o", "json")), yaml.safe_load(run("-o", "yaml").stdout)
    assert as_yaml.keys() == as_json.keys()
    assert as_yaml["objects"] == as_json["objects"]
    assert (as_json["kind"], as_json["exitStatus"], as_json["installed"]) == ("TrellisStatus", 0, True)
    updater = next(item for item in as_json["components"] if item["component"] == "updater")
    assert updater["deployments"] == [f"{HOME}/vpa-updater"]
    assert updater["leaders"][0].startswith("vpa-updater-")
    assert updater["lastPassSeconds"] == 0.31
    assert updater["lagSeconds"] == 0.0
    assert 19 < updater["lastPassAgeSeconds"] < 60


def test_nothing_installed_says_how_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    result = runner(monkeypatch, InstalledCluster())()
    assert result.exit_code == 1
    assert result.stdout.startswith("not installed")
    assert "-> trellis install" in result.stdout


def test_upstreams_components_are_shown_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = InstalledCluster()
    for component in ("recommender", "updater"):
        cluster.add_component(component, image=f"registry.k8s.io/autoscaling/vpa-{component}:1.7.0", words=())
        cluster.pages[cluster.pod_of(component)] = "vpa_recommender_vpa_objects_count 3\n"
    run = runner(monkeypatch, cluster)
    result = run("-o", "json")
    found = {item["component"]: item for item in document(result)["components"]}
    assert (found["updater"]["provider"], found["updater"]["versions"]) == ("upstream's", ["1.7.0"])
    assert result.exit_code == 0
    assert "upstream's: recommender, updater" in run().stdout.splitlines()


def test_components_that_change_nothing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = InstalledCluster("recommender")
    cluster.add_component("updater", words=("trellis", "updater", "--leader-elect", "--read-only=true"))
    cluster.add_object("verticalpodautoscalers", "web", mode="Recreate", RecommendationProvided="True")
    run = runner(monkeypatch, cluster)
    result = run()
    assert (result.exit_code, "read-only: updater" in result.stdout.splitlines()) == (0, True)
    found = {item["component"]: item["readOnly"] for item in document(run("-o", "json"))["components"]}
    assert (found["updater"], found["recommender"]) == (True, False)


def test_components_of_one_process_are_shown_each(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = InstalledCluster()
    cluster.add_component("controllers", words=("trellis", "run", "--components=-admission"))
    cluster.pages[cluster.pod_of("controllers")] = ""
    found = {item["component"]: item for item in document(runner(monkeypatch, cluster)("-o", "json"))["components"]}
    assert [name for name, item in found.items() if item["running"]] == [
        "recommender",
        "updater",
        "hvpa",
        "buffers",
        "nodes",
    ]


def test_components_of_a_configuration_file_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = InstalledCluster()
    volume = {"name": "config", "configMap": {"name": "trellis-config"}}
    cluster.add_component("controllers", words=("trellis", "run", "--config=/etc/config.yaml"), volumes=[volume])
    cluster.pages[cluster.pod_of("controllers")] = ""
    text = "apiVersion: config.trellis.x-k8s.io/v1alpha1\nkind: TrellisConfiguration\ncomponents: [recommender, hvpa]\n"
    cluster.server.put(f"/api/v1/namespaces/{HOME}/configmaps/trellis-config", {"data": {"config.yaml": text}})
    found = document(runner(monkeypatch, cluster)("-o", "json"))["components"]
    assert [item["component"] for item in found if item["running"]] == ["recommender", "hvpa"]


def test_a_wrong_image_is_said_with_the_command_that_corrects_it(found: InstalledCluster, run: Run) -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    found.add_component("updater", ready=False, statuses=[{"name": "updater", "image": "trellis:O", "state": waiting}])
    result = run()
    assert result.exit_code == 1
    assert result.stdout.startswith("1 problem")
    assert "image trellis:O cannot be pulled" in result.stdout
    assert "kubectl set image -n kube-system" in result.stdout


def test_a_crash_shows_the_last_error_of_the_log(found: InstalledCluster, run: Run) -> None:
    ended = {"terminated": {"exitCode": 2, "reason": "Error"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    crashed = {"name": "updater", "restartCount": 7, "state": waiting, "lastState": ended}
    found.add_component("updater", ready=False, statuses=[crashed])
    found.logs[found.pod_of("updater")] = 'starting\ntrellis: "1x": --in-recommendation-bounds: is no duration\nbye\n'
    messages = [finding["message"] for finding in document(run("-o", "json"))["findings"]]
    assert (
        messages[0] == 'ends with exit status 2; 7 restarts: trellis: "1x": --in-recommendation-bounds: is no duration'
    )


def test_missing_rights_of_a_component_are_read_from_its_metrics(found: InstalledCluster, run: Run) -> None:
    refused = 'trellis_writes_total{resource="pods/eviction",action="EvictPod",result="Forbidden"} 3.0\n'
    found.pages[found.pod_of("updater")] += refused + 'trellis_unseen_resources{resource="nodes"} 1.0\n'
    assert reasons(run("-o", "json")) == ["WritesForbidden", "KindsUnreadable"]


def test_a_pass_that_is_overdue_needs_attention(found: InstalledCluster, run: Run) -> None:
    found.pages[found.pod_of("recommender")] = found.build_page("recommender", age=900.0)
    assert reasons(run("-o", "json")) == ["PassOverdue"]


def test_a_missing_metrics_api_needs_attention(found: InstalledCluster, run: Run) -> None:
    found.server.delete("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io")
    result = run()
    assert result.exit_code == 1
    assert "metrics-server" in result.stdout


def test_a_metrics_api_that_is_down_needs_attention(found: InstalledCluster, run: Run) -> None:
    found.add_metrics_api(available=False)
    found.server.delete("/apis/metrics.k8s.io/v1beta1/nodes/node-1")
    assert reasons(run("-o", "json")) == ["MetricsApiDown"]


def test_a_freeze_names_its_author(found: InstalledCluster, run: Run) -> None:
    data = {"by": "alice", "why": "incident 17"}
    found.server.put(f"/api/v1/namespaces/{HOME}/configmaps/trellis-freeze", {"data": data})
    result = document(run("-o", "json"))
    assert (result["frozen"], result["freeze"]) == (True, "cluster frozen by alice (incident 17)")
    found.server.put("/api/v1/namespaces/shop", {"metadata": {"annotations": {"trellis.x-k8s.io/freeze": "bob"}}})
    result = document(run("-o", "json"))
    assert result["freeze"].endswith("frozen: shop by bob")
    assert result["freezes"] == {
        "cluster": {"by": "alice", "why": "incident 17"},
        "namespaces": [{"namespace": "shop", "by": "bob"}],
        "objects": 0,
    }


def test_a_switch_elsewhere_is_found_by_the_flag_of_the_updater(found: InstalledCluster, run: Run) -> None:
    found.add_component("updater", words=("trellis", "updater", "--leader-elect", "--freeze-config-map=ops/stop"))
    found.server.put("/api/v1/namespaces/ops/configmaps/stop", {"data": {"by": "carol"}})
    assert document(run("-o", "json"))["freeze"] == "cluster frozen by carol"


def test_a_webhook_without_endpoints_needs_attention(found: InstalledCluster, run: Run) -> None:
    found.add_webhook(endpoints=0, policy="Fail")
    result = run("-o", "json")
    webhook = document(result)["webhook"]
    assert (webhook["registered"], webhook["readyEndpoints"], webhook["failurePolicy"]) == (True, 0, "Fail")
    assert reasons(result) == ["WebhookWithoutBackend"]
    assert "no pod can be created" in document(result)["findings"][0]["message"]


def test_metrics_that_may_not_be_read_are_marked_and_the_right_is_named(found: InstalledCluster, run: Run) -> None:
    found.forbidden.append("/proxy/")
    result = run()
    assert result.exit_code == 0
    assert result.stdout.startswith("healthy")
    assert "metrics of pods in kube-system: may not be read (get pods/proxy)" in result.stdout
    assert next(line for line in result.stdout.splitlines() if line.startswith("updater")).split()[-3:] == ["?"] * 3


def test_metrics_behind_a_network_that_refuses_are_no_question_of_rights(found: InstalledCluster, run: Run) -> None:
    found.forbidden.append("/pods/vpa-updater-5d4f8b7c9-x2x9z:")
    original = found.server.before

    def refuse(request: Any) -> Any:
        answer = original(request)
        if "/pods/vpa-updater-5d4f8b7c9-x2x9z:" in request.path:
            return error_response(403, "Forbidden", "denied by the gateway")
        return answer

    found.server.before = refuse
    (unknown,) = document(run("-o", "json"))["unknown"]
    assert unknown["why"] == "no answer through the API server: denied by the gateway"
    assert unknown["action"] is None


def test_without_the_right_to_list_deployments_nothing_can_be_told(found: InstalledCluster, run: Run) -> None:
    found.forbidden += ["/deployments", "/leases"]
    result = run()
    assert result.exit_code == 2
    assert result.stdout.startswith("cannot tell")
    assert "list deployments.apps" in result.stdout


def test_rights_in_two_namespaces_are_enough_for_an_answer(found: InstalledCluster, run: Run) -> None:
    whole_cluster = ("/apis/apps/v1/deployments", "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers")
    original = found.server.before

    def refuse(request: Any) -> Any:
        if request.path in whole_cluster:
            plural = request.path.rpartition("/")[2]
            return error_response(403, "Forbidden", f'cannot list resource "{plural}" in API group "x"')
        return original(request)

    found.server.before = refuse
    result = document(run("-o", "json"))
    assert (result["exitStatus"], result["installed"]) == (0, True)
    assert [fact["subject"] for fact in result["unknown"]] == [
        "Deployments in all namespaces",
        "VPAs in all namespaces",
    ]
    assert result["objects"][0]["total"] == 1


def test_leases_that_may_not_be_read_leave_the_rest(found: InstalledCluster, run: Run) -> None:
    found.forbidden.append("/leases")
    result = document(run("-o", "json"))
    assert (result["exitStatus"], result["findings"]) == (0, [])
    assert [fact["subject"] for fact in result["unknown"]] == ["Leases in kube-system"]


def test_nothing_found_where_only_kube_system_may_be_read_is_no_answer(found: InstalledCluster, run: Run) -> None:
    for path in [path for path in found.server.objects if "/deployments/" in path or "/leases/" in path]:
        found.server.delete(path)
    original = found.server.before
    found.server.before = lambda request: (
        error_response(403, "Forbidden", 'cannot list resource "deployments" in API group "apps"')
        if request.path == "/apis/apps/v1/deployments"
        else original(request)
    )
    assert run().stdout.startswith("cannot tell")
    found.server.delete("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io")
    result = run()
    assert (result.exit_code, result.stdout.split()[:2]) == (1, ["1", "problem"])


def test_an_api_server_that_does_not_answer_exits_with_2(found: InstalledCluster, run: Run) -> None:
    found.server.before = lambda _request: Unreachable("https://10.0.0.1:6443: connection refused")
    result = run()
    assert result.exit_code == 2
    assert result.stdout.startswith("cannot tell: the API server does not answer")
    assert "connection refused" in result.stdout
    assert document(run("-o", "json"))["exitStatus"] == 2


def test_credentials_that_have_expired_are_not_taken_for_a_server_that_is_down(
    found: InstalledCluster, run: Run
) -> None:
    found.server.before = lambda _request: error_response(401, "Unauthorized", "Unauthorized")
    result = run()
    assert result.exit_code == 2
    assert result.stdout.startswith("cannot tell: your credentials are not accepted")
    assert "log in again" in result.stdout
    (unknown,) = document(run("-o", "json"))["unknown"]
    assert "log in again" in unknown["action"]
    found.server.before = lambda _request: error_response(503, "ServiceUnavailable", "shutting down")
    assert run().stdout.startswith("cannot tell: the API server answers with an error")


def test_objects_in_a_bad_condition_name_the_command_that_explains_them(found: InstalledCluster, run: Run) -> None:
    found.add_object(
        "verticalpodautoscalers", "api", mode="Off", RecommendationProvided="True", ConfigUnsupported="True"
    )
    found.add_object("buffers", "spare", ReadyForProvisioning="True", Provisioned="False")
    result = run()
    assert "VPAs         2: 1 recommended, 1 unsupported" in result.stdout.splitlines()
    assert "-> trellis explain vpa/api -n shop" in result.stdout
    assert "ComponentMissing" in reasons(run("-o", "json"))


def test_a_probe_sends_a_pod_as_a_dry_run_and_creates_none(found: InstalledCluster, run: Run) -> None:
    original = found.server.before

    def answer(request: Any) -> Any:
        if request.method == "POST" and request.path.endswith("/namespaces/shop/pods"):
            assert dict(request.query)["dryRun"] == "All"
            return error_response(500, "InternalError", 'failed calling webhook "vpa.k8s.io": connection refused')
        return original(request)

    found.server.before = answer
    assert reasons(run("--probe", "-o", "json")) == ["WebhookRefuses"]
    assert reasons(run("-o", "json")) == []


def test_a_narrow_terminal_gets_narrow_lines(
    found: InstalledCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, run().stdout.splitlines())) <= 50
    found.add_webhook(endpoints=0)
    assert max(map(len, run().stdout.splitlines())) <= 50


def test_watching_appends_views_where_there_is_no_terminal(
    found: InstalledCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = 0

    async def sleep(_seconds: float) -> None:
        nonlocal views
        views += 1
        if views == 2:
            raise asyncio.CancelledError

    monkeypatch.setattr("trellis.cli.commands.diagnosis.watching.asyncio.sleep", sleep)
    result = run("--watch", "--interval", "1")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines() if "Kubernetes" in line] == ["healthy", "healthy"]
    assert "\033" not in result.stdout


def test_watching_into_a_file_is_refused(run: Run, tmp_path: Path) -> None:
    result = run("--watch", "--output-file", str(tmp_path / "status.txt"))
    assert (result.exit_code, "--watch prints" in result.stderr) == (2, True)
