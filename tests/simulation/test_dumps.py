"""`trellis simulate --dump`: results for a dumped cluster, with the assumptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from support.api_server.server import ModelServer
from support.builders.dumps import HASH, NOW, example, shop
from support.virtual_time import run
from trellis.cli.main import trellis
from trellis.core.cluster.dump_format import ContainerHistory
from trellis.sources.cluster.collector import collect_lines
from trellis.sources.cluster.dump_writer import DumpWriter
from trellis.sources.cluster.lists import CollectionScope

GROUP = {
    "apiVersion": "nodes.trellis.x-k8s.io/v1alpha1",
    "kind": "KwokNodeGroup",
    "metadata": {"name": "pool"},
    "spec": {"resources": {"cpu": "8", "memory": "32Gi"}, "minSize": 1, "maxSize": 4, "bootTime": "2m"},
}
REQUESTS = {"requests": {"cpu": "100m", "memory": "64Mi"}}


def test_a_dump_is_simulated_with_notes_on_what_was_assumed(tmp_path: Path) -> None:
    dump = tmp_path / "dump.jsonl"
    dump.write_bytes(b"".join(example()))
    arguments = ["--processes", "1", "--quiet", "--dump", str(dump), "--recommenders", "default"]
    result = CliRunner().invoke(trellis, ["simulate", *arguments])
    assert result.exit_code == 0, result.output
    for words in ("fixed", "current", "default", "usage over time (1 container)", "half of the requests"):
        assert words in " ".join(result.stdout.split())


def everything() -> ModelServer:
    """The shop with an Hvpa, a Buffer, a DaemonSet, a CronJob, a node group, and things that cannot be played."""
    server = shop()
    node = server.objects["/api/v1/nodes/ip-10-0-0-7"]
    labels = {**node["metadata"]["labels"], "kwok-nodegroup": "pool", "kwok.x-k8s.io/node": "fake"}
    server.put("/api/v1/nodes/ip-10-0-0-7", {**node, "metadata": {"labels": labels}})
    server.put("/api/v1/namespaces/kube-system/configmaps/groups", {"data": {"pool.yaml": yaml.safe_dump(GROUP)}})
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "app", "resources": REQUESTS}]}}
    put = server.put
    put("/apis/apps/v1/namespaces/shop/daemonsets/agent", {"metadata": {"uid": "a-1"}, "spec": {"template": pod}})
    _put_pod(server, "agent-bbbbb", "DaemonSet", "agent", pod)
    put("/apis/apps/v1/namespaces/shop/statefulsets/db", {"spec": {"replicas": 1, "template": pod}})
    _put_pod(server, "db-0", "StatefulSet", "db", pod)
    job = {"spec": {"template": pod}}
    put("/apis/batch/v1/namespaces/shop/cronjobs/report", {"spec": {"schedule": "0 * * * *", "jobTemplate": job}})
    bucket = {"replicas": {"min": 1, "max": 4}, "cpu": {"min": "0", "max": "1"}, "memory": {"min": "0", "max": "2G"}}
    ours = {"apiVersion": "autoscaling.x-k8s.io/v1alpha1"}
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
    path = "/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/shop"
    spec = {"targetRef": target, "buckets": [bucket], "vpa": {"deploy": True}}
    put(f"{path}/hvpas/db", {**ours, "kind": "Hvpa", "spec": spec})
    capacity = {"pods": {"replicaNum": 100, "podSpec": pod["spec"]}}
    put(f"{path}/buffers/spare", {**ours, "kind": "Buffer", "spec": {"capacity": capacity}})
    queue = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "3"}}
    scaling = {"scaleTargetRef": target, "maxReplicas": 3, "metrics": [{"type": "External", "external": queue}]}
    put("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/db", {"spec": scaling})
    return server


def _put_pod(server: ModelServer, name: str, kind: str, owner: str, pod: dict[str, Any]) -> None:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "o-1", "controller": True}
    server.put(
        f"/api/v1/namespaces/shop/pods/{name}", {"metadata": {"ownerReferences": [reference]}, "spec": pod["spec"]}
    )


def dumped(server: ModelServer, path: Path) -> Path:
    writing = DumpWriter()
    # Twelve hours, from noon to midnight.
    times = NOW - NOW % 86_400.0 - 43_200.0 + 300.0 * np.arange(144, dtype=np.float64)
    used = ContainerHistory("shop", f"web-{HASH}-x2x9z", "app", times, np.full(144, 0.2), np.full(144, 2e8))

    async def read() -> list[bytes]:
        wanted = CollectionScope(node_groups="kube-system/groups")
        lines = [line async for line in collect_lines(server.client, wanted, writing, NOW)]
        return [*lines, writing.encode_history(used), writing.encode_end()]

    path.write_bytes(b"".join(run(read())))
    return path


def test_a_dump_is_simulated_and_the_rest_is_listed_at_the_top(tmp_path: Path) -> None:
    dump = dumped(everything(), tmp_path / "dump.jsonl")
    page, output = tmp_path / "report.html", tmp_path / "report.json"
    arguments = ["--processes", "1", "--quiet", "--dump", str(dump), "--html", str(page), "--json", str(output)]
    result = CliRunner().invoke(trellis, ["simulate", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    document = json.loads(output.read_text())
    fixed, current = document["variants"]
    assert {
        workload["name"]: workload["kind"] for workload in fixed["workloads"] if workload["namespace"] == "shop"
    } == {
        "agent": "DaemonSet",
        "db": "StatefulSet",
        "report": "CronJob",
        "web": "Deployment",
    }
    # A hundred chunks of 100m, and the pods beside them, need two nodes of eight cores.
    assert fixed["nodes"]["most"] == 2
    assert fixed["nodes"]["buffers"][0]["full"] > 0.9
    pods = {workload["name"]: workload["totals"]["scaling"]["replicas"] for workload in fixed["workloads"]}
    assert pods["agent"] == pytest.approx(2, abs=0.1)
    assert pods["report"] == pytest.approx(10 / 60, abs=0.05)
    assert "AsDecided" in current["verdicts"]
    (left_out,) = [entry for entry in document["notPlayed"] if entry["kind"] == "HorizontalPodAutoscaler"]
    assert left_out == {
        "kind": "HorizontalPodAutoscaler",
        "count": 1,
        "reason": "a dump has no values of metrics of type External: its target keeps its replicas",
    }
    line = f"1 HorizontalPodAutoscaler: {left_out['reason']}"
    top, _, _ = result.stdout.partition("\n\n")
    assert line in " ".join(top.split())
    above, _, _ = page.read_text().partition("<main>")
    assert f"<b>1 HorizontalPodAutoscaler</b>: {left_out['reason']}" in above


def test_a_scenario_lists_nothing_as_not_played(tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    scenario = Path(__file__).parents[2] / "examples" / "simulate" / "first.yaml"
    command = ["simulate", "--processes", "1", "--quiet", str(scenario), "--only", "fixed", "--json", str(output)]
    result = CliRunner().invoke(trellis, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "notPlayed" not in json.loads(output.read_text())
    assert "Not played" not in result.stdout
