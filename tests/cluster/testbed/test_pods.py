"""Pods on the testbed run, become ready, finish, restart and go away as a test asks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from testbed.cluster import Cluster, is_ready
from testbed.kwok import annotations as ask
from testbed.kwok.nodes import Node, Taint
from testbed.waiting import until
from testbed.workloads import container, deployment, job, pod

Json = dict[str, Any]


def test_pods_of_a_deployment_run_and_are_ready(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(deployment("web", container("app"), container("proxy"), replicas=3), namespace)
    for ready in cluster.wait_for_ready_pods(namespace, "web", 3):
        assert ready["status"]["phase"] == "Running"
        assert ready["status"]["observedGeneration"] == ready["metadata"]["generation"]
        assert {status["name"] for status in ready["status"]["containerStatuses"]} == {"app", "proxy"}
        assert all(
            status["started"] and "running" in status["state"] for status in ready["status"]["containerStatuses"]
        )
        assert ready["status"]["podIP"] != ready["status"]["hostIP"]


def test_a_pod_is_ready_only_after_the_delay_it_asks_for(cluster: Cluster, namespace: str) -> None:
    delays = {"slow": "4", "quick": "1"}
    for name, seconds in delays.items():
        cluster.api.create(pod(name, annotations={ask.READY_AFTER: seconds}), namespace)
    started = until("the slow pod to run", lambda: _running(cluster, namespace, "slow"))
    # It is not, unless nobody looked for as long as it takes.
    assert started["status"]["containerStatuses"][0]["ready"] == is_ready(started)
    for name, seconds in delays.items():
        (ready,) = cluster.wait_for_ready_pods(namespace, name)
        assert _seconds(ready, "Ready") >= float(seconds)
        assert ready["status"]["containerStatuses"][0]["ready"]


def test_a_change_of_the_pod_does_not_begin_its_delay_anew(cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/slow"
    cluster.api.create(pod("slow", annotations={ask.READY_AFTER: "3"}), namespace)
    until("the pod to run", lambda: _running(cluster, namespace, "slow"))

    def touch_until_ready() -> Json | None:
        touched = cluster.api.patch(path, {"metadata": {"annotations": {"touched": datetime.now().isoformat()}}})
        return touched if is_ready(touched) else None

    assert _seconds(until("the touched pod to be ready", touch_until_ready), "Ready") >= 3


def test_a_job_finishes_or_fails_if_asked_and_else_runs_on(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(job("done", annotations={ask.FINISH: "Succeeded"}), namespace)
    cluster.api.create(job("broken", annotations={ask.FINISH: "Failed", ask.FINISH_AFTER: "1"}), namespace)
    cluster.api.create(job("endless"), namespace)
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    until("the job to complete", lambda: _condition(cluster.api.get(f"{jobs}/done"), "Complete"))
    until("the job to fail", lambda: _condition(cluster.api.get(f"{jobs}/broken"), "Failed"))
    (ended,) = cluster.list_pods(namespace, "broken")
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    (running,) = cluster.wait_for_ready_pods(namespace, "endless")
    assert running["status"]["phase"] == "Running"
    until("it to be counted", lambda: cluster.api.get(f"{jobs}/endless")["status"].get("active") == 1)


def test_an_oom_kill_raises_the_restart_count_and_leaves_its_reason(cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/hungry"
    cluster.api.create(pod("hungry", container("app"), container("other")), namespace)
    cluster.wait_for_ready_pods(namespace, "hungry")
    for kills in (1, 3):
        cluster.api.annotate(path, {ask.OOM_KILLED: f"app={kills}"})
        status = _wait_for_restarts(cluster, namespace, "hungry", kills)
        assert status["lastState"]["terminated"]["reason"] == "OOMKilled"
        assert status["lastState"]["terminated"]["exitCode"] == 137
        assert "running" in status["state"]
    other = next(status for status in cluster.api.get(path)["status"]["containerStatuses"] if status["name"] == "other")
    assert other["restartCount"] == 0


def test_a_restart_is_distinguished_from_an_oom_kill(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(pod("shaky", annotations={ask.RESTARTED: "app=2"}), namespace)
    status = _wait_for_restarts(cluster, namespace, "shaky", 2)
    assert status["lastState"]["terminated"]["reason"] == "Error"


def test_sidecars_run_on_and_initializers_end(cluster: Cluster, namespace: str) -> None:
    initializers = [container("setup"), container("mesh", restartPolicy="Always")]
    cluster.api.create(pod("meshed", initContainers=initializers), namespace)
    (meshed,) = cluster.wait_for_ready_pods(namespace, "meshed")
    states = {status["name"]: status["state"] for status in meshed["status"]["initContainerStatuses"]}
    assert states["setup"]["terminated"]["reason"] == "Completed"
    assert "running" in states["mesh"]


def test_an_evicted_pod_is_replaced(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(deployment("web"), namespace)
    (old,) = cluster.wait_for_ready_pods(namespace, "web")
    name = old["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    cluster.api.send("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)
    until("the pod to go", lambda: cluster.api.find(f"/api/v1/namespaces/{namespace}/pods/{name}") is None)
    (new,) = cluster.wait_for_ready_pods(namespace, "web")
    assert new["metadata"]["name"] != name


def test_pods_land_where_size_labels_and_taints_let_them(cluster: Cluster, namespace: str) -> None:
    team = {"team": namespace}
    # Nobody else's pods go to nodes that are about to be removed.
    apart = Taint(namespace)
    small = Node(name=f"{namespace}-small", cpu="2", memory="4Gi", zone="zone-x", labels=team, taints=(apart,))
    tainted = Node(name=f"{namespace}-kept", zone="zone-y", labels=team, taints=(apart, Taint("kept", "yes")))
    cluster.add_nodes(small, tainted)
    try:
        ours: Json = {"nodeSelector": team, "tolerations": [{"key": namespace, "operator": "Exists"}]}
        more: Json = {**ours, "tolerations": [*ours["tolerations"], {"key": "kept", "operator": "Exists"}]}
        cluster.api.create(pod("fits", container(cpu="1"), **ours), namespace)
        cluster.api.create(pod("large", container(cpu="4"), **ours), namespace)
        cluster.api.create(pod("tolerant", container(cpu="4"), **more), namespace)
        assert cluster.wait_for_ready_pods(namespace, "fits")[0]["spec"]["nodeName"] == small.name
        assert cluster.wait_for_ready_pods(namespace, "tolerant")[0]["spec"]["nodeName"] == tainted.name
        path = f"/api/v1/namespaces/{namespace}/pods/large"
        decision = until("the scheduler's verdict", lambda: _condition(cluster.api.get(path), "PodScheduled", "False"))
        assert decision["reason"] == "Unschedulable"
        assert cluster.api.get(f"/api/v1/nodes/{small.name}")["metadata"]["labels"]["topology.kubernetes.io/zone"] == (
            "zone-x"
        )
    finally:
        cluster.remove_nodes(small.name, tainted.name)


def _running(cluster: Cluster, namespace: str, name: str) -> Json | None:
    result = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return result if result["status"]["phase"] == "Running" else None


def _wait_for_restarts(cluster: Cluster, namespace: str, name: str, count: int) -> Json:
    def restarted() -> Json | None:
        status = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]
        result = (one for one in status.get("containerStatuses", []) if one["name"] == "app")
        return next((one for one in result if one["restartCount"] == count), None)

    return until(f"{count} restarts of {name}", restarted)


def _condition(value: Json, kind: str, status: str = "True") -> Json | None:
    conditions = value.get("status", {}).get("conditions", [])
    return next(
        (condition for condition in conditions if condition["type"] == kind and condition["status"] == status), None
    )


def _seconds(value: Json, kind: str) -> float:
    """From the pod's start to the condition's last change."""
    changed = _condition(value, kind)
    assert changed is not None
    times = (datetime.fromisoformat(text) for text in (changed["lastTransitionTime"], value["status"]["startTime"]))
    return next(times).timestamp() - next(times).timestamp()
