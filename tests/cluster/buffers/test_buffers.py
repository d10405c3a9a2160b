"""Buffers on a real control plane, under the account that is shipped: what their status says, and how soon."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.cluster.buffers import (
    Start,
    buffer,
    buffer_controllers,
    buffer_path,
    count_chunks,
    find_buffer_condition,
    get_buffer_status,
    get_pod_based_spec,
    get_requests,
)
from support.cluster.rights import grant_switch
from support.cluster.updaters import events
from support.cluster.vpas import metric_value, until_value, vpa, vpa_path, wait_for_further_passes
from testbed.client import APPLY_PATCH, Json
from testbed.cluster import Cluster
from testbed.errors import Refused
from testbed.kwok.nodes import Node, Taint
from testbed.waiting import until
from testbed.workloads import container, deployment, job
from trellis.install.permissions import ADMISSION_DRY_RUN

READY = ("True", "BufferReady")
# As the kernel's tables of connections say it.
ESTABLISHED = "01"
# What is followed all the same is followed at once, and not at the next pass.
NO_PASSES = "--buffer-interval=10m"
OFTEN = "--buffer-interval=1s"
# All of 40 cores and 5120Mi.
LARGEST = {"cpu": "40", "memory": "5Gi"}


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with buffer_controllers(cluster, tmp_path) as start:
        yield start


@pytest.fixture
def garden(cluster: Cluster) -> Iterator[str]:
    """A group with a kind that has a scale."""
    group = f"garden-{secrets.token_hex(4)}.example.com"
    anything: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
        "subresources": {"status": {}, "scale": scale},
    }
    names = {"kind": "Flower", "plural": "flowers", "singular": "flower"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"flowers.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    cluster.api.create(definition)
    until("flowers to be served", lambda: "Flower" in str(cluster.api.find(f"/apis/{group}/v1")))
    yield group
    cluster.api.delete(cluster.api.get_path(definition))


def deployment_path(namespace: str, name: str = "web") -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"


def workload(cluster: Cluster, namespace: str, replicas: int, name: str = "web", **spec: Any) -> None:
    cluster.api.create(deployment(name, container(), replicas=replicas, **spec), namespace)
    if replicas:
        cluster.wait_for_ready_pods(namespace, name, replicas)


def bystanders(cluster: Cluster, namespace: str) -> Json:
    """What a Buffer must not change: workloads, HPAs and all pods of the namespace, and how many of each there are."""

    def stored(document: Json) -> Json:
        metadata = {key: document["metadata"].get(key) for key in ("uid", "generation", "labels", "annotations")}
        return {**metadata, "spec": document["spec"]}

    paths = ("apis/apps/v1", "deployments"), ("apis/autoscaling/v2", "horizontalpodautoscalers"), ("api/v1", "pods")
    return {
        plural: {document["metadata"]["name"]: stored(document) for document in result}
        for group, plural in paths
        for result in [cluster.api.list_items(f"/{group}/namespaces/{namespace}/{plural}")]
    }


def percent(percent: int, **bounds: int) -> Json:
    return {"replicas": {"percent": {"percent": percent, **bounds}}}


@pytest.mark.req("BF-07", "BF-12", "BF-15", "BF-23")
def test_a_buffer_follows_count_and_shape_of_its_target(cluster: Cluster, namespace: str, controller: Start) -> None:
    workload(cluster, namespace, 10)
    cluster.api.create(buffer("web", capacity=percent(20)), namespace)
    controller(namespace, NO_PASSES)
    until("two chunks", lambda: count_chunks(cluster, namespace, "web") == 2)
    assert get_requests(cluster, namespace, "web") == {"cpu": "100m", "memory": "128Mi"}
    # What admission made of the pod, and nothing of what only runs.
    pod = get_pod_based_spec(cluster, namespace, "web")["podSpec"]
    assert (pod["priority"], pod["schedulerName"]) == (0, "default-scheduler")
    assert not {"nodeName", "volumes", "serviceAccountName"} & pod.keys()
    assert "image" not in pod["containers"][0]
    assert get_pod_based_spec(cluster, namespace, "web")["podLabels"]["app"] == "web"
    assert find_buffer_condition(cluster, namespace, "web") == READY

    cluster.api.patch(deployment_path(namespace), {"spec": {"replicas": 20}})
    until("twenty", lambda: cluster.api.get(deployment_path(namespace))["status"].get("replicas") == 20)
    until("four chunks", lambda: count_chunks(cluster, namespace, "web") == 4)
    bigger = {"spec": {"template": {"spec": {"containers": [container(cpu="200m")]}}}}
    cluster.api.patch(deployment_path(namespace), bigger)
    until("the new shape", lambda: get_requests(cluster, namespace, "web")["cpu"] == "200m")


@pytest.mark.req("BF-13")
def test_without_a_pod_the_template_goes_through_admission(cluster: Cluster, namespace: str, controller: Start) -> None:
    limits = [{"type": "Container", "defaultRequest": {"cpu": "250m"}}]
    ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "x"}, "spec": {"limits": limits}}
    cluster.api.create(ranges, namespace)
    cluster.api.create(deployment("web", container(resources={}), replicas=0), namespace)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    mounted = container(volumeMounts=[{"name": "data", "mountPath": "/data"}])
    db = deployment("db", mounted, replicas=0)
    db["spec"] |= {"serviceName": "db", "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}]}
    cluster.api.create({**db, "kind": "StatefulSet"}, namespace)
    cluster.api.create(buffer("web"), namespace)
    cluster.api.create(buffer("db", "StatefulSet"), namespace)
    grant_switch(cluster, "buffers", ADMISSION_DRY_RUN.key, namespace)
    controller(namespace, "--admission-dry-run")
    until("a chunk of web", lambda: count_chunks(cluster, namespace, "web") == 2)
    assert get_requests(cluster, namespace, "web") == {"cpu": "250m"}
    until("a chunk of db", lambda: count_chunks(cluster, namespace, "db") == 2)
    until("the volume to be named", lambda: bool(events(cluster, namespace, "VolumesDropped")))
    assert not events(cluster, namespace, "TemplateRefused")
    assert cluster.api.list_items(f"/api/v1/namespaces/{namespace}/pods") == []


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController", "Job"])
def test_the_template_of_a_target_without_a_pod_is_read_whatever_its_kind(
    cluster: Cluster, namespace: str, controller: Start, kind: str
) -> None:
    made = deployment("web", container(cpu="300m"), replicas=0)
    template = made["spec"]["template"]
    versions = {"ReplicaSet": "apps/v1", "ReplicationController": "v1", "Job": "batch/v1"}
    specs: dict[str, Json] = {
        "ReplicaSet": made["spec"],
        "ReplicationController": {"replicas": 0, "template": template},
        "Job": {
            "suspend": True,
            "template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}},
        },
    }
    target = {"apiVersion": versions[kind], "kind": kind, "metadata": {"name": "web"}, "spec": specs[kind]}
    cluster.api.create(target, namespace)
    cluster.api.create(buffer("web", kind, version=versions[kind]), namespace)
    controller(namespace)
    until("its chunks", lambda: count_chunks(cluster, namespace, "web") == 2)
    assert get_requests(cluster, namespace, "web")["cpu"] == "300m"


def has_chunks(cluster: Cluster, namespace: str, name: str, count: int) -> bool:
    return count_chunks(cluster, namespace, name) == count


def test_without_dry_runs_a_template_gets_the_defaults_that_the_api_server_gives(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    items = [
        {"type": "Container", "default": {"memory": "1Gi"}, "defaultRequest": {"cpu": "250m"}, "max": {"cpu": "8"}},
        {"type": "Pod", "max": {"cpu": "16"}},
    ]
    ranges = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "x"}, "spec": {"limits": items}}
    cluster.api.create(ranges, namespace)
    written: dict[str, Json] = {
        "none": {},
        "limit": {"limits": {"cpu": "2"}},
        "request": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "3Gi"}},
    }
    wanted: dict[str, Json] = {}
    for name, resources in written.items():
        workload = deployment(name, container(resources=resources), replicas=0)
        cluster.api.create(workload, namespace)
        cluster.api.create(buffer(name), namespace)
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": workload["spec"]["template"]["spec"],
        }
        [stored] = cluster.api.apply(pod, namespace, dry_run=True)["spec"]["containers"]
        wanted[name] = stored["resources"]["requests"]
    started = controller(namespace)
    for name, requests in wanted.items():
        until(f"chunks of {name}", partial(has_chunks, cluster, namespace, name, 2))
        assert get_requests(cluster, namespace, name) == requests, name
        assert find_buffer_condition(cluster, namespace, name) == READY
    assert metric_value(started, "trellis_buffers_dry_runs_total") == 0


def test_a_refused_template_is_used_as_written(cluster: Cluster, namespace: str, controller: Start) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    workload(cluster, namespace, 0)
    cluster.api.create(buffer("web"), namespace)
    grant_switch(cluster, "buffers", ADMISSION_DRY_RUN.key, namespace)
    started = controller(namespace, "--admission-dry-run")
    until("two chunks", lambda: count_chunks(cluster, namespace, "web") == 2)
    assert find_buffer_condition(cluster, namespace, "web") == READY
    until("the refusal", lambda: bool(events(cluster, namespace, "TemplateRefused")))
    until_value(started, "trellis_buffers_dry_runs_total", 1, result="refused")


@pytest.mark.req("BF-24")
def test_a_job_and_a_kind_of_ones_own_are_targets(
    cluster: Cluster, namespace: str, controller: Start, garden: str
) -> None:
    group = garden
    made = {"apiVersion": f"{group}/v1", "kind": "Flower", "metadata": {"name": "rose"}}
    cluster.api.create({**made, "spec": {"replicas": 3}}, namespace)
    path = f"/apis/{group}/v1/namespaces/{namespace}/flowers/rose"
    cluster.api.patch(f"{path}/status", {"status": {"replicas": 3, "selector": "app=rose"}})
    run = job("run", container(cpu="300m"))
    run["spec"] |= {"parallelism": 5, "completions": 10}
    cluster.api.create(run, namespace)
    cluster.api.create(buffer("run", "Job", version="batch/v1", capacity=percent(50)), namespace)
    cluster.api.create(buffer("rose", "Flower", version=f"{group}/v1", capacity=percent(100)), namespace)
    controller(namespace)
    until("three for the Job", lambda: count_chunks(cluster, namespace, "run") == 3)
    waiting = ("False", "TargetWithoutPods")
    until("the flower to wait", lambda: find_buffer_condition(cluster, namespace, "rose") == waiting)
    cluster.api.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "rose-1", "labels": {"app": "rose"}},
            "spec": {"containers": [container(cpu="700m")], "terminationGracePeriodSeconds": 0},
        },
        namespace,
    )
    until("three for the flower", lambda: count_chunks(cluster, namespace, "rose") == 3)
    assert get_requests(cluster, namespace, "rose")["cpu"] == "700m"
    # Scaled to nothing, it keeps its shape.
    cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/rose-1")
    cluster.api.patch(f"{path}/status", {"status": {"replicas": 1}})
    until("one for the flower", lambda: count_chunks(cluster, namespace, "rose") == 1)
    assert get_requests(cluster, namespace, "rose")["cpu"] == "700m"


def test_a_recommendation_in_force_is_the_size_of_a_chunk(cluster: Cluster, namespace: str, controller: Start) -> None:
    workload(cluster, namespace, 1)
    cluster.api.create(vpa("web"), namespace)
    cluster.api.create(buffer("web"), namespace)
    controller(namespace, NO_PASSES)
    until("two chunks", lambda: count_chunks(cluster, namespace, "web") == 2)
    part = {"containerName": "app", "target": {"cpu": "900m", "memory": "1Gi"}}
    status = {"recommendation": {"containerRecommendations": [part]}}
    cluster.api.patch(f"{vpa_path(namespace, 'web')}/status", {"status": status})
    until("its size", lambda: get_requests(cluster, namespace, "web") == {"cpu": "900m", "memory": "1Gi"})


@pytest.mark.req("BF-37", "BF-44")
def test_both_writers_of_the_status_keep_their_fields(cluster: Cluster, namespace: str, controller: Start) -> None:
    workload(cluster, namespace, 1)
    cluster.api.create(buffer("web"), namespace)
    # Some node autoscaler of ours runs.
    held = {"holderIdentity": "nodes-1", "leaseDurationSeconds": 3600}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "trellis-nodes"}}
    cluster.api.create({**lease, "spec": held}, namespace)
    started = controller(namespace)
    until("two chunks", lambda: count_chunks(cluster, namespace, "web") == 2)
    result = {"type": "Provisioned", "status": "True", "reason": "AllThere", "message": ""}
    when = "2026-11-18T12:00:00Z"
    status = {"conditions": [{**result, "lastTransitionTime": when}], "lastFullyProvisioned": when}
    made = buffer("web")
    applied = {field: made[field] for field in ("apiVersion", "kind", "metadata")} | {"status": status}
    path = buffer_path(namespace, "web")
    cluster.api.patch(f"{path}/status?fieldManager=trellis-nodes&force=true", applied, APPLY_PATCH)
    assert find_buffer_condition(cluster, namespace, "web") == READY

    cluster.api.patch(path, {"spec": {"capacity": {"replicas": {"exactly": 5}}}})
    until("five chunks", lambda: count_chunks(cluster, namespace, "web") == 5)
    assert find_buffer_condition(cluster, namespace, "web", "Provisioned") == ("True", "AllThere")
    assert get_buffer_status(cluster, namespace, "web")["lastFullyProvisioned"] == when
    until_value(started, "trellis_buffers_chunks", 5, buffer_namespace=namespace)
    until_value(started, "trellis_buffers_wanted_chunks", 5, buffer_namespace=namespace)
    until_value(started, "trellis_buffers_last_full_timestamp_seconds", 1_795_003_200, buffer_namespace=namespace)


@pytest.mark.req("BF-03", "BF-38", "BF-40")
def test_a_buffer_changes_only_its_status_which_is_written_once(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    workload(cluster, namespace, 2)
    # It may scale nothing by itself: whatever changes is the Buffer's doing.
    scaler: Json = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    scaler["spec"] = {"scaleTargetRef": reference, "minReplicas": 2, "maxReplicas": 2}
    cluster.api.create(scaler, namespace)
    before = bystanders(cluster, namespace)
    assert [len(result) for result in before.values()] == [1, 1, 2]
    scale = cluster.api.get(f"{deployment_path(namespace)}/scale")
    cluster.api.create(buffer("web", capacity={"replicas": {"exactly": 1000}}), namespace)
    first = controller(namespace, OFTEN)
    until("all chunks", lambda: count_chunks(cluster, namespace, "web") == 1000)
    until("whether they fit", lambda: find_buffer_condition(cluster, namespace, "web", "Provisioned"))
    version = cluster.api.get(buffer_path(namespace, "web"))["metadata"]["resourceVersion"]
    # Nothing changes, and so nothing is written. Another one has nothing to say either.
    second = controller(namespace, OFTEN)
    for replica in (first, second):
        wait_for_further_passes(replica, "trellis_buffers", 3)
    assert cluster.api.get(buffer_path(namespace, "web"))["metadata"]["resourceVersion"] == version
    # Count and selector are what an HPA goes by, and usage is that of the pods.
    with_buffer = cluster.api.get(f"{deployment_path(namespace)}/scale")
    assert (with_buffer["spec"], with_buffer["status"]) == (scale["spec"], scale["status"])
    assert bystanders(cluster, namespace) == before, "created"
    cluster.api.patch(buffer_path(namespace, "web"), {"spec": {"capacity": {"replicas": {"exactly": 3}}}})
    until("three chunks", lambda: count_chunks(cluster, namespace, "web") == 3)
    wait_for_further_passes(first, "trellis_buffers")
    assert bystanders(cluster, namespace) == before, "changed"
    cluster.api.delete(buffer_path(namespace, "web"))
    wait_for_further_passes(first, "trellis_buffers")
    assert bystanders(cluster, namespace) == before, "deleted"


def test_quotas_go_to_the_oldest_buffer_first(cluster: Cluster, namespace: str, controller: Start) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "5"}}}
    cluster.api.create(quota, namespace)
    workload(cluster, namespace, 2)
    older = cluster.api.create(buffer("older", target="web"), namespace)
    until("another second: ages are whole ones", lambda: _made_after(cluster, namespace, older))
    controller(namespace)
    until("two for the older", lambda: count_chunks(cluster, namespace, "older") == 2)
    until("one for the younger", lambda: count_chunks(cluster, namespace, "younger") == 1)
    limited = ("True", "LimitedByQuotas")
    until("that to be said", lambda: find_buffer_condition(cluster, namespace, "younger", "LimitedByQuotas") == limited)
    cluster.api.patch(f"/api/v1/namespaces/{namespace}/resourcequotas/few", {"spec": {"hard": {"pods": "20"}}})
    until("two for the younger", lambda: count_chunks(cluster, namespace, "younger") == 2)


def _made_after(cluster: Cluster, namespace: str, older: Json) -> bool:
    """Whether the other was created in a later second; else it is removed again."""
    made = cluster.api.create(buffer("younger", target="web"), namespace)
    if made["metadata"]["creationTimestamp"] > older["metadata"]["creationTimestamp"]:
        return True
    cluster.api.delete(buffer_path(namespace, "younger"))
    return False


def test_its_scale_can_be_driven_by_people_and_by_an_hpa(cluster: Cluster, namespace: str, controller: Start) -> None:
    workload(cluster, namespace, 1)
    cluster.api.create(buffer("web"), namespace)
    controller(namespace)
    until("two chunks", lambda: count_chunks(cluster, namespace, "web") == 2)
    scale = f"{buffer_path(namespace, 'web')}/scale"
    cluster.api.patch(scale, {"spec": {"replicas": 3}})
    until("three chunks", lambda: count_chunks(cluster, namespace, "web") == 3)
    assert cluster.api.get(scale)["status"]["replicas"] == 3
    about = {"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": "Buffer", "name": "web"}
    metric = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}}
    spec = {"scaleTargetRef": about, "minReplicas": 6, "maxReplicas": 9, "metrics": [metric]}
    hpa = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": spec}
    cluster.api.create(hpa, namespace)
    until("six chunks", lambda: count_chunks(cluster, namespace, "web") == 6)

    def inactive() -> str | None:
        path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/web"
        conditions = cluster.api.get(path).get("status", {}).get("conditions", [])
        return next((condition["reason"] for condition in conditions if condition["type"] == "ScalingActive"), None)

    # It lacks the metric, and nothing else.
    until("the HPA to be asked", lambda: inactive() == "FailedGetExternalMetric")


@pytest.mark.req("BF-06", "BF-28")
def test_shorthands_are_accepted_and_a_chunk_larger_than_a_total_is_refused(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    labels = {"cloud.google.com/compute-class": namespace}
    # Nobody else's pods go to a node that is about to be removed.
    apart = (Taint(namespace),)
    cluster.add_nodes(Node(name=f"{namespace}-n", cpu="7900m", memory="64Gi", labels=labels, taints=apart))
    try:
        workload(cluster, namespace, 12, "my-deployment")
        story_1 = buffer(
            "one",
            target="my-deployment",
            recreationStrategy="keep-empty",
            replicaBasedBufferSpec={"replicasCountPercentage": 10, "minCount": 1},
        )
        totals = {"totalCpu": 40, "totalMem": "5120Mi"}
        kind = {"kind": "CustomComputeClass", "version": "cloud.google.com/v1", "target": namespace}
        story_2 = buffer("two", **kind, recreationStrategy="keep-minimum", nodeClassBufferSpec=totals)
        cluster.api.create(story_1, namespace)
        cluster.api.create(story_2, namespace)
        controller(namespace)
        until("story 1", lambda: count_chunks(cluster, namespace, "one") == 2)
        until("story 2", lambda: count_chunks(cluster, namespace, "two") == 6)
        assert get_requests(cluster, namespace, "two")["cpu"] == "6666m"
        for chunk in ({"cpu": "41", "memory": "1Gi"}, {"cpu": "1", "memory": "6Gi"}):
            wrong = buffer("three", **kind, capacity={"nodeClass": {**totals, "perChunkResources": chunk}})
            with pytest.raises(Refused, match="a chunk must not exceed a total"):
                cluster.api.create(wrong, namespace)
        pod_level = buffer("three", **kind, capacity={"nodeClass": {**totals, "perChunkResources": LARGEST}})
        cluster.api.create(pod_level, namespace)
    finally:
        cluster.remove_nodes(f"{namespace}-n")


@pytest.mark.req("BF-19", "BF-45")
def test_buffers_of_other_types_are_ignored_and_an_edit_is_followed(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    workload(cluster, namespace, 1)
    cluster.api.create(buffer("foreign", target="web", type="example.com/other"), namespace)
    cluster.api.create(buffer("aside", "StatefulSet", target="web"), namespace)
    cluster.api.create(buffer("web"), namespace)
    controller(namespace, "--set-aside-target-kinds=StatefulSet")
    until("two chunks", lambda: count_chunks(cluster, namespace, "web") == 2)
    assert get_buffer_status(cluster, namespace, "foreign") == get_buffer_status(cluster, namespace, "aside") == {}
    path = buffer_path(namespace, "web")
    spec = {"containers": [container(cpu="3")]}
    pods = {"targetRef": None, "capacity": {"replicas": None, "pods": {"replicaNum": 4, "podSpec": spec}}}
    cluster.api.patch(path, {"spec": pods})
    until("four given pods", lambda: count_chunks(cluster, namespace, "web") == 4)
    assert get_requests(cluster, namespace, "web")["cpu"] == "3"


@pytest.mark.req("BF-04")
def test_the_owner_of_a_workload_may_manage_its_buffer(cluster: Cluster, namespace: str, controller: Start) -> None:
    workload(cluster, namespace, 1)
    controller(namespace)
    rules = [{"apiGroups": ["autoscaling.x-k8s.io"], "resources": ["buffers"], "verbs": ["create", "get", "delete"]}]
    rbac, named = "rbac.authorization.k8s.io", {"name": "buffers"}
    subjects = [{"kind": "ServiceAccount", "name": "owner", "namespace": namespace}]
    reference = {"apiGroup": rbac, "kind": "Role", "name": "buffers"}
    for document in (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "owner"}},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": named, "rules": rules},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": named,
            "roleRef": reference,
            "subjects": subjects,
        },
    ):
        cluster.api.create(document, namespace)
    owner = cluster.api_for("owner", namespace)

    def created() -> bool:
        try:
            return bool(owner.send("POST", f"{buffer_path(namespace, '')[:-1]}", buffer("web")))
        except Refused:
            return False

    until("the right to be known", created)
    until("two chunks", lambda: count_chunks(cluster, namespace, "web") == 2)


@pytest.mark.req("BF-09")
def test_the_controller_can_be_switched_off_or_only_watch(cluster: Cluster, namespace: str, controller: Start) -> None:
    workload(cluster, namespace, 1)
    cluster.api.create(buffer("web"), namespace)
    watcher = controller(namespace, "--read-only", OFTEN)
    until("a look", lambda: metric_value(watcher, "trellis_buffers_translations_total") >= 1)
    assert get_buffer_status(cluster, namespace, "web") == {}
    # Somebody else's translation is nobody's business while ours is not at work.
    path = buffer_path(namespace, "web")
    pods = {"replicaNum": 7, "podSpec": {"containers": [{"name": "theirs"}]}}
    cluster.api.patch(f"{path}/status", {"status": {"podBasedBufferSpec": pods}})
    wait_for_further_passes(watcher, "trellis_buffers", 3)
    assert count_chunks(cluster, namespace, "web") == 7
    controller(namespace, "--leader-elect=true")
    until("ours", lambda: count_chunks(cluster, namespace, "web") == 2)


@pytest.mark.req("BF-42")
def test_the_controller_talks_to_the_api_server_alone(cluster: Cluster, namespace: str, controller: Start) -> None:
    workload(cluster, namespace, 1)
    cluster.api.create(buffer("web"), namespace)
    started = controller(namespace)
    until("two chunks", lambda: count_chunks(cluster, namespace, "web") == 2)
    server = int(cluster.api.url.rpartition(":")[2])
    probed = int(started.url.rpartition(":")[2])
    talks = until("its connections", lambda: connections(started.process.pid))
    assert {port for own, port in talks if own != probed} == {server}


def connections(pid: int) -> set[tuple[int, int]] | None:
    """The local and the remote port of every connection of a process and its children; None if one has just gone."""
    try:
        return _connections(pid)
    except OSError:
        return None


def _connections(pid: int) -> set[tuple[int, int]]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    connections = {connection for child in children for connection in _connections(int(child))}
    sockets = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == ESTABLISHED and f"socket:[{fields[9]}]" in sockets:
                connections.add((int(fields[1].rpartition(":")[2], 16), int(fields[2].rpartition(":")[2], 16)))
    return connections
