"""`trellis dump` on a real API server, by an account that may read little."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.cluster.buffers import buffer
from support.cluster.hvpas import hvpa
from support.cluster.vpas import USAGE, USAGE_SECONDS, vpa
from testbed import workloads
from testbed.cluster import Cluster
from testbed.waiting import until
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import READY
from trellis.cli.main import trellis
from trellis.core.cluster.owners import TargetRef, build_controller_ref
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import BY_NAMESPACE
from trellis.runtime.recorder import read_recording

PASSWORD = "hunter2"  # noqa: S105 - that is the point of it


@pytest.fixture
def shop(cluster: Cluster, namespace: str) -> str:
    """A Deployment with a password in its environment, its VPA, and usage that metrics.k8s.io knows."""
    deployment = workloads.deployment("web", replicas=2, annotations=USAGE)
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "PASSWORD", "value": PASSWORD}]
    container["args"] = [f"--password={PASSWORD}"]
    deployment["metadata"]["annotations"] = {"note": PASSWORD}
    cluster.api.create(deployment, namespace)
    cluster.api.create(vpa("web", updatePolicy={"updateMode": "Off"}), namespace)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": PASSWORD}}
    cluster.api.create(secret, namespace)
    cluster.wait_for_ready_pods(namespace, "web", 2)
    return namespace


@pytest.fixture
def elsewhere(cluster: Cluster) -> Iterator[str]:
    """A namespace that nobody may look into."""
    name = cluster.create_namespace("hidden")
    yield name
    cluster.delete_namespace(name)


def dump(kubeconfig: Path, path: Path, *arguments: str) -> tuple[Result, ClusterState]:
    command = ["dump", "--quiet", "-o", str(path), "--kubeconfig", str(kubeconfig), *arguments]
    result = CliRunner().invoke(trellis, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result, ClusterState.from_dump(read_recording(path))


def restricted(cluster: Cluster, namespace: str) -> Path:
    """An account that may list namespaces, and read pods and workloads in one of them."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "looker"}}
    cluster.api.create(account, namespace)
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "looker", "namespace": namespace}

    def grant(kind: str, rules: list[dict[str, Any]], within: str) -> None:
        name = f"looker-{namespace}"
        role = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}, "rules": rules}
        reference = {"apiGroup": group, "kind": kind, "name": name}
        binding = {"apiVersion": f"{group}/v1", "kind": f"{kind}Binding", "metadata": {"name": name}}
        cluster.api.create(role, within)
        cluster.api.create({**binding, "roleRef": reference, "subjects": [subject]}, within)

    read = ["get", "list"]
    grant("ClusterRole", [{"apiGroups": [""], "resources": ["namespaces"], "verbs": read}], "")
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": read}
    grant("Role", [pods, {"apiGroups": ["apps"], "resources": ["*"], "verbs": read}], namespace)
    return cluster.kubeconfig_for("looker", namespace)


def test_a_dump_has_the_objects_and_no_secrets(cluster: Cluster, shop: str, tmp_path: Path) -> None:
    def measured() -> ClusterState | None:
        _, state = dump(cluster.kubeconfig, tmp_path / "dump.jsonl", "-n", shop)
        return state if len(state.usage) == 2 else None

    result = until("usage of both pods", measured, seconds=USAGE_SECONDS)
    assert result.about.server.startswith("v1.")
    assert result.about.resizes_pods
    pods = result.pods.by_index(BY_NAMESPACE, shop)
    assert len(pods) == 2
    owner = build_controller_ref(shop, pods[0].metadata.controller)
    assert owner is not None
    assert result.owners.follow(owner).topmost == TargetRef(shop, "apps/v1", "Deployment", "web")
    assert [vpa.metadata.name for vpa in result.vpas] == ["web"]
    assert len(result.nodes) >= 1
    assert PASSWORD not in (tmp_path / "dump.jsonl").read_text()


def test_what_an_account_may_not_see_is_named(cluster: Cluster, shop: str, elsewhere: str, tmp_path: Path) -> None:
    account = restricted(cluster, shop)

    def granted() -> tuple[Result, ClusterState] | None:
        result, collected = dump(account, tmp_path / "dump.jsonl", "-n", shop, "-n", elsewhere)
        return (result, collected) if len(collected.pods) == 2 else None

    result, state = until("the rights of the account", granted)
    assert {pod.metadata.namespace for pod in state.pods} == {shop}
    assert state.workloads["Deployment"].get(shop, "web") is not None
    hidden = {(missing.what, missing.where): missing.why for missing in state.missing}
    assert hidden["Pod", elsewhere] == "may not be read"
    assert hidden["Node", ""] == "may not be read"
    assert hidden["VerticalPodAutoscaler", ""] == "may not be read"
    assert any(line.startswith(f"  {elsewhere}: ") and "Pod" in line for line in result.stderr.splitlines())


def test_an_account_without_cluster_wide_rights_gets_its_namespaces(
    cluster: Cluster, shop: str, tmp_path: Path
) -> None:
    account = restricted(cluster, shop)

    def granted() -> ClusterState | None:
        _, state = dump(account, tmp_path / "dump.jsonl")
        return state if len(state.pods) == 2 and len(state.about.namespaces) > 1 else None

    result = until("the rights of the account", granted)
    assert shop in result.about.namespaces
    assert ("Pod", "kube-system") in {(missing.what, missing.where) for missing in result.missing}


def test_a_dump_without_names_can_be_simulated(cluster: Cluster, shop: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl.gz"
    _, state = dump(cluster.kubeconfig, path, "-n", shop, "--anonymous")
    text = b"".join(read_recording(path)).decode()
    assert shop not in text
    assert len(state.pods) == 2
    output = tmp_path / "result.json"
    command = ["simulate", "--dump", str(path), "--quiet", "--only", "fixed", "--json", str(output)]
    result = CliRunner().invoke(trellis, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert json.loads(output.read_text())["variants"][0]["name"] == "fixed"


def test_what_a_cluster_runs_is_played_from_its_dump(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    names = _put_one_of_each(cluster, namespace)
    cluster.wait_for_ready_pods(namespace, "web", 2)
    cluster.wait_for_ready_pods(namespace, "shop", 1)

    def whole() -> ClusterState | None:
        _, collected = dump(cluster.kubeconfig, tmp_path / "dump.jsonl", "-n", namespace)
        agents = [pod for pod in collected.pods if pod.metadata.labels.get("app") == "agent"]
        return collected if agents else None

    state = until("the pods of the DaemonSet", whole)
    assert [hvpa.metadata.name for hvpa in state.hvpas] == ["shop"]
    assert [cron_job.spec.concurrency_policy for cron_job in state.workloads["CronJob"]] == ["Forbid"]  # type: ignore[attr-defined]
    page, output = tmp_path / "report.html", tmp_path / "report.json"
    command = ["simulate", "--dump", str(tmp_path / "dump.jsonl"), "--quiet", "--processes", "1"]
    result = CliRunner().invoke(trellis, [*command, "--html", str(page), "--json", str(output)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    document = json.loads(output.read_text())
    fixed, current = document["variants"]
    kinds = {workload["name"]: workload["kind"] for workload in fixed["workloads"]}
    assert {name: kinds[name] for name in names} == names
    pods = {workload["name"]: workload["totals"]["scaling"]["replicas"] for workload in fixed["workloads"]}
    # Usage is half of what is requested, which an HPA at 25 % wants four pods for; the CronJob runs now and then.
    assert pods["web"] > 3.5
    # Nodes of other tests come and go in the shared cluster; most have a taint that the DaemonSet does not tolerate.
    assert pods["agent"] == pytest.approx(sum(map(_takes_daemon_pods, state.nodes)))
    assert 0 < pods["report"] < 1
    # The Hvpa decides in the variant of the cluster's own autoscalers alone.
    assert "AsDecided" in current["verdicts"]
    assert "AsDecided" not in fixed["verdicts"]
    (left_out,) = [entry for entry in document["notPlayed"] if entry["kind"] == "Buffer"]
    assert left_out["count"] == 1
    assert "no node groups" in left_out["reason"]
    assert f"1 Buffer: {left_out['reason']}" in " ".join(result.stdout.split())
    assert left_out["reason"] in page.read_text().partition("<main>")[0]


def _takes_daemon_pods(node: Node) -> bool:
    """Whether the model gives a node a pod of a DaemonSet without tolerations of its own.

    Nodes that are not ready are not played. Daemon pods tolerate the taints that Kubernetes itself sets for conditions.
    """
    if any(condition.type == READY and condition.status != "True" for condition in node.status.conditions):
        return False
    repelling = [taint for taint in node.spec.taints if taint.effect != "PreferNoSchedule"]
    return all(taint.key.startswith("node.kubernetes.io/") for taint in repelling)


def _put_one_of_each(cluster: Cluster, namespace: str) -> dict[str, str]:
    """An HPA, an Hvpa, a Buffer, a DaemonSet and a CronJob, with what they are about; workloads by name and kind."""
    api = cluster.api
    api.create(workloads.deployment("web", replicas=2), namespace)
    api.create(workloads.deployment("shop"), namespace)
    template = workloads.deployment("agent")["spec"]["template"]
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    api.create({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec}, namespace)
    job = {"spec": {"template": workloads.job("report")["spec"]["template"]}}
    cron = {"schedule": "0 */6 * * *", "concurrencyPolicy": "Forbid", "jobTemplate": job}
    api.create({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report"}, "spec": cron}, namespace)
    target = {"type": "Utilization", "averageUtilization": 25}
    scaling = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 6,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    hpa = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}}
    api.create({**hpa, "spec": scaling}, namespace)
    api.create(hvpa("shop", vpa={"deploy": True}), namespace)
    api.create(buffer("web"), namespace)
    return {"web": "Deployment", "shop": "Deployment", "agent": "DaemonSet", "report": "CronJob"}
