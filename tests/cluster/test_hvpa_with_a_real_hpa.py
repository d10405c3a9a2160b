"""An Hvpa, the HPA controller of Kubernetes and the updater at one workload, with usage as a test scripts it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_hvpas import (
    Start,
    conditions_of,
    hpa_path,
    hvpa,
    hvpa_controllers,
    hvpa_path,
    replicas_of,
    size_of,
    workload,
)
from cluster_updaters import NO_LEASE, updaters
from cluster_vpas import USAGE_SECONDS, vpa_path
from testbed import annotations as ask
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until
from trellis.base.quantity import Quantity

HELD_SECONDS = 45.0
PLURALS = {"Deployment": "deployments", "StatefulSet": "statefulsets"}
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with hvpa_controllers(cluster, tmp_path) as start:
        yield start


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with updaters(cluster, tmp_path) as start:
        yield start


def share(cluster: Cluster, namespace: str, millicores: int) -> None:
    """All running pods use the same part of this."""
    pods = [each for each in cluster.pods(namespace, "web") if each["status"].get("phase") == "Running"]
    for each in pods:
        part = f"{millicores // len(pods)}m"
        if each["metadata"]["annotations"].get(ask.USAGE_CPU) != part:
            where = f"/api/v1/namespaces/{namespace}/pods/{each['metadata']['name']}"
            cluster.api.patch(where, {"metadata": {"annotations": {ask.USAGE_CPU: part}}})


def requested(pod: Json) -> int:
    return Quantity.parse(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]).milli


def is_ready(pod: Json) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


@pytest.mark.timeout(240)
@pytest.mark.req("HV-38")
@pytest.mark.parametrize("kind", PLURALS)
def test_a_wish_of_the_real_hpa_becomes_three_of_eight_and_stays(
    cluster: Cluster, namespace: str, controller: Start, updater: Start, kind: str
) -> None:
    api, plural = cluster.api, PLURALS[kind]
    used = {ask.USAGE_CPU: "9600m", ask.USAGE_MEMORY: "1G"}
    api.create(workload(kind, "6", "2G", 2, used), namespace)
    cluster.ready_pods(namespace, "web", 2)
    template = {"spec": {"maxReplicas": 16, "metrics": [METRIC]}}
    api.create(hvpa("web", kind=kind, hpa={"template": template}), namespace)
    controller(namespace)
    updater(namespace, NO_LEASE)

    def shape() -> tuple[int, set[int]]:
        share(cluster, namespace, 19_200)
        return replicas_of(cluster, namespace, "web", plural), {
            requested(each) for each in cluster.pods(namespace, "web")
        }

    until("three of eight", lambda: shape() == (3, {8000}), 2 * USAGE_SECONDS)
    end = time.monotonic() + HELD_SECONDS
    while time.monotonic() < end:
        assert shape() == (3, {8000})
        time.sleep(0.5)
    assert api.get(hvpa_path(namespace, "web"))["spec"]["replicas"] == 3
    found = {each["type"]: each["status"] for each in api.get(hpa_path(namespace, "web"))["status"]["conditions"]}
    assert (found["AbleToScale"], found["ScalingActive"]) == ("True", "True")


@pytest.mark.req("HV-41")
def test_the_bounds_of_a_users_hpa_are_no_wish_and_no_loop(cluster: Cluster, namespace: str, controller: Start) -> None:
    api = cluster.api
    used = {ask.USAGE_CPU: "2500m", ask.USAGE_MEMORY: "1G"}
    api.create(workload("Deployment", "3125m", "2G", 2, used), namespace)
    cluster.ready_pods(namespace, "web", 2)
    api.create(hvpa("web"), namespace)
    reference = {"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "Hvpa", "name": "web"}
    spec = {"scaleTargetRef": reference, "minReplicas": 10, "maxReplicas": 20, "metrics": [METRIC]}
    hpa = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "mine"}}
    controller(namespace)
    api.create({**hpa, "spec": spec}, namespace)
    until("the bound", lambda: "HPABounds" in conditions_of(cluster, namespace, "web"), 30.0)
    before = api.get(hvpa_path(namespace, "web"))
    assert before["spec"]["replicas"] == 10
    time.sleep(HELD_SECONDS / 2)
    after = api.get(hvpa_path(namespace, "web"))
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert replicas_of(cluster, namespace, "web") == 2


@pytest.mark.req("HV-45")
def test_ready_pods_never_hold_less_than_before_while_replicas_come(
    cluster: Cluster, namespace: str, controller: Start, updater: Start
) -> None:
    api = cluster.api
    api.create(workload("Deployment", "6", "2G", 2, {ask.READY_AFTER: "3"}), namespace)
    cluster.ready_pods(namespace, "web", 2)
    api.create(hvpa("web", vpa={"deploy": True}), namespace)
    controller(namespace)
    updater(namespace, NO_LEASE)
    until("a seed", lambda: api.get(hvpa_path(namespace, "web"))["spec"].get("replicas") == 2)
    part = {
        "containerName": "app",
        "target": {"cpu": "6001m", "memory": "2G"},
        "totalTarget": {"cpu": "12001m", "memory": "4G"},
    }
    status = {"recommendation": {"containerRecommendations": [part]}}
    held: list[int] = []

    def all_small() -> bool:
        pods = cluster.pods(namespace, "web")
        held.append(sum(requested(each) for each in pods if is_ready(each)))
        return len(pods) == 3 and all(is_ready(each) and requested(each) == 4001 for each in pods)

    api.patch(f"{vpa_path(namespace, 'web')}/status", {"status": status})
    until("three of 4.001", all_small, 60.0)
    assert min(held) >= 12_000
    assert size_of(cluster, namespace, "web") == (4001, 2_000_000_000)
