"""Upstream's CapacityBuffers on a real control plane, served and made of Buffers, under the account that is shipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import testbed
from support.cluster.buffers import (
    Start,
    buffer,
    buffer_controllers,
    buffer_path,
    find_buffer_condition,
    get_buffer_status,
)
from support.cluster.vpas import wait_for_further_passes
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.waiting import until
from testbed.workloads import container, deployment

DEFINITION = Path(testbed.__file__).parent / "definitions" / "capacitybuffers.yaml"
OF_WEB: Json = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}}
# The garbage collector learns of new kinds twice a minute, and begins anew when one goes meanwhile.
COLLECTED_SECONDS = 300.0
# As much of what scheduling reads as a pod can have.
RICH: Json = {
    "initContainers": [container("side", cpu="0.1", restartPolicy="Always"), container("init", memory="1024Ki")],
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
    "priorityClassName": "system-cluster-critical",
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ],
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                    },
                }
            ]
        }
    },
}


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    cluster.install_definitions([DEFINITION])
    with buffer_controllers(cluster, tmp_path) as start:
        yield start


def capacity_path(namespace: str, name: str = "web", version: str = "v1beta1") -> str:
    return f"/apis/autoscaling.x-k8s.io/{version}/namespaces/{namespace}/capacitybuffers/{name}"


def template_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/podtemplates/{name}"


def capacity(name: str, **spec: Any) -> Json:
    metadata = {"name": name}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": metadata,
        "spec": spec,
    }


def read_status(cluster: Cluster, namespace: str, name: str = "web") -> Json:
    status: Json = cluster.api.get(capacity_path(namespace, name)).get("status", {})
    return status


def find_condition(cluster: Cluster, namespace: str, type_: str, name: str = "web") -> tuple[str, str, str] | None:
    conditions = read_status(cluster, namespace, name).get("conditions", [])
    return next(
        (
            (condition["status"], condition["reason"], condition["message"])
            for condition in conditions
            if condition["type"] == type_
        ),
        None,
    )


def versions(cluster: Cluster, *paths: str) -> list[str]:
    return [cluster.api.get(path)["metadata"]["resourceVersion"] for path in paths]


def until_quiet(cluster: Cluster, started: Controller, *paths: str) -> None:
    """Return when none of these was written during two passes, because the last write may be in flight."""

    def quiet() -> bool:
        before = versions(cluster, *paths)
        wait_for_further_passes(started, "trellis_buffers")
        return versions(cluster, *paths) == before

    until("two passes without a write", quiet)


def test_a_capacity_buffer_is_served_in_upstreams_words(cluster: Cluster, namespace: str, controller: Start) -> None:
    api = cluster.api
    api.create(deployment("web", container(cpu="0.25", memory="64Mi"), replicas=2, **RICH), namespace)
    cluster.wait_for_ready_pods(namespace, "web", 2)
    made = api.create(capacity("web", **OF_WEB, percentage=100), namespace)
    started = controller(namespace, "--serve-capacity-buffers")
    until("its status", lambda: read_status(cluster, namespace).get("replicas") == 2)
    assert find_condition(cluster, namespace, "ReadyForProvisioning") == ("True", "AttributesSetSuccessfully", "ready")
    assert find_condition(cluster, namespace, "LimitedByQuotas") == ("False", "ResourceQuotasAllocated", "")
    managed = template_path(namespace, "capacitybuffer-web-pod-template")
    template = api.get(managed)
    assert read_status(cluster, namespace)["podTemplateGeneration"] == template["metadata"]["generation"] == 1
    [owner] = template["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("CapacityBuffer", made["metadata"]["uid"])
    spec = template["template"]["spec"]
    assert spec["priorityClassName"] == "system-cluster-critical"
    assert spec["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    assert api.get(capacity_path(namespace, version="v1alpha1"))["status"]["replicas"] == 2
    until_quiet(cluster, started, managed, capacity_path(namespace))

    # A count, a new shape and an edit are followed.
    api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/web", {"spec": {"replicas": 3}})
    until("the new count", lambda: read_status(cluster, namespace).get("replicas") == 3)
    limited = {"spec": {"hard": {"requests.cpu": "3"}}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "compute"}, **limited}
    api.create(quota, namespace)
    api.patch(capacity_path(namespace), {"spec": {"percentage": 1000}})
    until(
        "the quota to limit it", lambda: (find_condition(cluster, namespace, "LimitedByQuotas") or ("",))[0] == "True"
    )
    assert 0 < read_status(cluster, namespace)["replicas"] < 30

    # What it owned goes with it.
    api.delete(capacity_path(namespace))
    until("its template to go", lambda: api.find(managed) is None, COLLECTED_SECONDS)


def test_a_template_by_reference_and_a_node_autoscalers_condition(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    api = cluster.api
    own = {"type": "Provisioning", "status": "True", "reason": "FakePodsInjected", "message": ""}
    api.create(capacity("web", podTemplateRef={"name": "chunk"}, limits={"cpu": "9"}), namespace)
    controller(namespace, "--serve-capacity-buffers")
    cause = until("why it is not ready", lambda: find_condition(cluster, namespace, "ReadyForProvisioning"))
    status, reason, message = cause
    assert (status, reason) == ("False", "error")
    assert message.startswith("Buffer not ready for provisioning: ")
    conditions = [*read_status(cluster, namespace)["conditions"], {**own, "lastTransitionTime": "2026-11-18T12:00:00Z"}]
    api.patch(f"{capacity_path(namespace)}/status", {"status": {"conditions": conditions}})
    template = {"metadata": {"labels": {"app": "chunk"}}, "spec": {"containers": [container(cpu="2", memory="1Gi")]}}
    api.create(
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "chunk"}, "template": template}, namespace
    )
    until("four chunks", lambda: read_status(cluster, namespace).get("replicas") == 4)
    assert find_condition(cluster, namespace, "Provisioning") == ("True", "FakePodsInjected", "")
    assert not api.list_items(f"/api/v1/namespaces/{namespace}/pods"), "a chunk is no pod"


def test_a_buffer_is_mirrored_as_a_capacity_buffer_and_the_mirror_deleted(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    api = cluster.api
    api.create(deployment("web", container(cpu="0.25", memory="64Mi"), **RICH), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    made = api.create(buffer("web"), namespace)
    started = controller(namespace, "--translate")
    until("its CapacityBuffer", lambda: find_buffer_condition(cluster, namespace, "web", "KeptAsCapacityBuffer"))
    until("all of it", lambda: find_mirror_condition(cluster, namespace) == ("True", "HeldByCapacityBuffer"))
    own = template_path(namespace, "capacitybuffer-of-web-pod-template")
    for path in (capacity_path(namespace), own):
        [owner] = api.get(path)["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Buffer", made["metadata"]["uid"])
    spec = api.get(capacity_path(namespace))["spec"]
    assert (spec["replicas"], spec["podTemplateRef"]["name"]) == (2, "capacitybuffer-of-web-pod-template")
    until_quiet(cluster, started, own, capacity_path(namespace), buffer_path(namespace, "web"))

    # Three write into one status, and each keeps its own.
    api.patch(buffer_path(namespace, "web"), {"spec": {"capacity": {"replicas": {"exactly": 5}}}})
    until("the new count", lambda: api.get(capacity_path(namespace))["spec"]["replicas"] == 5)
    bigger = {"spec": {"template": {"spec": {"containers": [container(cpu="0.5", memory="64Mi")]}}}}
    api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/web", bigger)
    until("the new shape", lambda: find_requests(api.get(own))["cpu"] == "500m")
    assert find_buffer_condition(cluster, namespace, "web") == ("True", "BufferReady")
    api.patch(buffer_path(namespace, "web"), {"spec": {"recreationStrategy": "KeepMinimum"}})
    until("a minimum", lambda: find_mirror_condition(cluster, namespace) == ("True", "MinimumHeldByCapacityBuffer"))

    # Without the flag nobody keeps it any more.
    started.process.stop()
    controller(namespace)
    until("it to be given up", lambda: api.find(capacity_path(namespace)) is None and api.find(own) is None)
    until("nothing to be told of it", lambda: find_mirror_condition(cluster, namespace) is None)
    assert get_buffer_status(cluster, namespace, "web")["podBasedBufferSpec"]["replicaNum"] == 5


def test_objects_owned_by_a_buffer_are_deleted_with_it(cluster: Cluster, namespace: str, controller: Start) -> None:
    api = cluster.api
    spec = {"containers": [container()]}
    api.create(buffer("web", kind="", capacity={"pods": {"replicaNum": 3, "podSpec": spec}}), namespace)
    controller(namespace, "--translate")
    until("its CapacityBuffer", lambda: api.find(capacity_path(namespace)))
    api.delete(buffer_path(namespace, "web"))
    own = template_path(namespace, "capacitybuffer-of-web-pod-template")
    until("its template to go", lambda: api.find(own) is None, COLLECTED_SECONDS)
    until("itself to go", lambda: api.find(capacity_path(namespace)) is None, COLLECTED_SECONDS)


def test_a_pod_of_the_template_passes_a_dry_run_under_the_restricted_standard(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    api = cluster.api
    standard = {"pod-security.kubernetes.io/enforce": "restricted"}
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": standard}})
    hard = {"requests.cpu": "9", "limits.cpu": "9", "limits.memory": "9Gi", "requests.example.com/gpu": "9"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "compute"}, "spec": {"hard": hard}}
    api.create(quota, namespace)
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/compute"
    until("the quota to be counted", lambda: api.get(path).get("status", {}).get("hard"))
    requests = {"cpu": "1", "memory": "1Gi", "example.com/gpu": "2"}
    spec = {"containers": [container(resources={"requests": requests})], "initContainers": [container("init")]}
    api.create(buffer("web", kind="", capacity={"pods": {"replicaNum": 3, "podSpec": spec}}), namespace)
    controller(namespace, "--translate")
    until("all of it", lambda: find_mirror_condition(cluster, namespace) == ("True", "HeldByCapacityBuffer"))
    template = api.get(template_path(namespace, "capacitybuffer-of-web-pod-template"))["template"]
    tried = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"}, "spec": template["spec"]}
    made = api.apply(tried, namespace, dry_run=True)
    assert made["spec"]["containers"][0]["resources"]["requests"] == requests


def find_mirror_condition(cluster: Cluster, namespace: str) -> tuple[str, str] | None:
    return find_buffer_condition(cluster, namespace, "web", "KeptAsCapacityBuffer")


def find_requests(template: Json) -> Json:
    requests: Json = template["template"]["spec"]["containers"][0]["resources"]["requests"]
    return requests
