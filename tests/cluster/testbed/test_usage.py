"""Usage that a test scripts is reported by the real metrics-server, and the real HPA acts on it."""

from __future__ import annotations

import pytest

from testbed.cluster import Cluster
from testbed.errors import Refused
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment, pod
from trellis.base.quantities import Quantity


def test_scripted_usage_shows_up_in_the_metrics_api(cluster: Cluster, namespace: str) -> None:
    usage = {ask.USAGE_CPU: "250m", ask.USAGE_MEMORY: "300Mi", f"{ask.USAGE_CPU}.proxy": "40m"}
    cluster.api.create(pod("busy", container("app"), container("proxy"), annotations=usage), namespace)
    cluster.api.create(pod("idle"), namespace)

    def measured_well() -> dict[str, dict[str, str]] | None:
        """Usage as it is scripted: what is counted late, because the machine is busy, is wrong until the next time."""
        result = _usage(cluster, namespace, "busy")
        cpu = {name: _milli(amounts["cpu"]) for name, amounts in (result or {}).items()}
        return result if cpu == {"app": pytest.approx(250, rel=0.05), "proxy": pytest.approx(40, rel=0.05)} else None

    measured = until("usage of the busy pod", measured_well)
    assert Quantity.parse(measured["app"]["memory"]) == Quantity.parse("300Mi")
    assert Quantity.parse(measured["proxy"]["memory"]) == Quantity.parse("300Mi")
    idle = until("usage of the idle pod", lambda: _usage(cluster, namespace, "idle"))
    assert _milli(idle["app"]["cpu"]) < 10


def test_a_change_of_the_script_is_followed(cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/busy"
    cluster.api.create(pod("busy", annotations={ask.USAGE_MEMORY: "100Mi"}), namespace)
    until("the first usage", lambda: _memory(cluster, namespace) == Quantity.parse("100Mi"))
    cluster.api.annotate(path, {ask.USAGE_MEMORY: "700Mi"})
    until("the second usage", lambda: _memory(cluster, namespace) == Quantity.parse("700Mi"))


def test_usage_with_a_spread_varies_within_it(cluster: Cluster, namespace: str) -> None:
    usage = {ask.USAGE_MEMORY: "100Mi", ask.USAGE_SPREAD: "0.3"}
    cluster.api.create(pod("busy", annotations=usage), namespace)
    first = until("the first usage", lambda: _memory(cluster, namespace))

    def changed() -> Quantity | None:
        result = _memory(cluster, namespace)
        return result if result != first else None

    other = until("another usage", changed)
    assert Quantity.parse("70Mi") <= min(first, other) < max(first, other) <= Quantity.parse("130Mi")


def test_an_hpa_scales_a_deployment_on_scripted_usage(cluster: Cluster, namespace: str) -> None:
    usage = {ask.USAGE_CPU: "300m"}
    cluster.api.create(deployment("web", container("app", cpu="100m"), annotations=usage), namespace)
    target = {"type": "Utilization", "averageUtilization": 100}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 3,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    kind = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}}
    cluster.api.create({**kind, "spec": spec}, namespace)
    cluster.wait_for_ready_pods(namespace, "web", 3)
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/web"
    until("it to say so", lambda: cluster.api.get(path)["status"].get("desiredReplicas") == 3)


def test_nodes_report_what_their_pods_use(cluster: Cluster, namespace: str) -> None:
    spot = {"kubernetes.io/hostname": "node-a"}
    usage = {ask.USAGE_MEMORY: "5Gi"}
    cluster.api.create(pod("busy", annotations=usage, nodeSelector=spot), namespace)

    def enough() -> bool:
        try:
            node = cluster.api.get("/apis/metrics.k8s.io/v1beta1/nodes/node-a")
        except Refused:
            return False
        return Quantity.parse(node["usage"]["memory"]) >= Quantity.parse("5Gi")

    until("the node's usage", enough)


def _usage(cluster: Cluster, namespace: str, name: str) -> dict[str, dict[str, str]] | None:
    try:
        result = cluster.api.get(f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/{name}")
    except Refused as refusal:
        if refusal.status not in {404, 503}:  # no sample yet
            raise
        return None
    return {container["name"]: container["usage"] for container in result["containers"]}


def _memory(cluster: Cluster, namespace: str) -> Quantity | None:
    usage = _usage(cluster, namespace, "busy")
    return Quantity.parse(usage["app"]["memory"]) if usage else None


def _milli(cpu: str) -> int:
    return Quantity.parse(cpu).milli
