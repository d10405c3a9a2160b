"""Pods of every kind of workload are sized and boosted as they are made, by the process as it is shipped.

The API server's own admission is as it comes, with a LimitRange to obey: what reaches the webhook has its defaults.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from support.builders.manifests import hvpa
from support.cluster.admission import (
    OBSERVED,
    Start,
    boosted,
    cpu,
    create_vpa,
    dry_run,
    owned,
    resources,
    wait_for_current_advice,
    wait_for_webhook_calls,
)
from support.cluster.vpas import metric_value, until_value, vpa_path
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment, job, pod

LIMITS = {
    "type": "Container",
    "max": {"cpu": "4"},
    "default": {"cpu": "200m", "memory": "128Mi"},
    "defaultRequest": {"cpu": "50m", "memory": "32Mi"},
}
CAME = {"requests": {"cpu": "100m", "memory": "64Mi"}}
ADVICE = {"app": {"cpu": "300m", "memory": "256Mi"}, "proxy": {"cpu": "80m", "memory": "64Mi"}}
SPEC = {
    "updatePolicy": {"updateMode": "Initial"},
    "startupBoost": {"cpu": {"type": "Factor", "factor": 2}},
    "resourcePolicy": {"containerPolicies": [{"containerName": "proxy", "startupBoost": {}}]},
}
# Limits are in the proportion that the LimitRange's defaults gave them: two to one, and four to one.
APP = {"requests": {"cpu": "600m", "memory": "256Mi"}, "limits": {"cpu": "1200m", "memory": "512Mi"}}
PROXY = {"requests": {"cpu": "80m", "memory": "64Mi"}, "limits": {"cpu": "320m", "memory": "256Mi"}}


def containers() -> list[Json]:
    return [container("app", resources=CAME), container("proxy", resources={})]


def template(name: str) -> Json:
    template: Json = deployment(name, *containers())["spec"]["template"]
    return template


def workload(kind: str, name: str) -> Json:
    """One that makes pods by itself, labelled app=<name>."""
    batch: Json = job(name, *containers())
    match kind:
        case "Deployment":
            return deployment(name, *containers())
        case "Job":
            return batch
        case "CronJob":
            spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": batch["spec"]}}
            return {**batch, "kind": "CronJob", "spec": spec}
        case "ReplicationController":
            spec = {"replicas": 1, "selector": {"app": name}, "template": template(name)}
            return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template(name)}
    spec |= {"serviceName": name} if kind == "StatefulSet" else {}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


KINDS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet", "ReplicationController")


@pytest.fixture
def flower(cluster: Cluster, namespace: str) -> Iterator[Json]:
    """A target of a kind that nobody knows, whose scale says which pods are its own."""
    group = f"garden-{secrets.token_hex(4)}.example.com"
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"scale": {**paths, "labelSelectorPath": ".status.selector"}},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"flowers.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Flower", "plural": "flowers", "singular": "flower"},
            "versions": [version],
        },
    }
    cluster.api.create(definition)
    path = cluster.api.get_path(definition)
    until("the kind to be served", lambda: "Flower" in str(cluster.api.find(f"/apis/{group}/v1")))
    about = {"apiVersion": f"{group}/v1", "kind": "Flower", "metadata": {"name": "flower"}}
    yield cluster.api.create(
        about | {"spec": {"replicas": 1}, "status": {"replicas": 1, "selector": "app=flower"}}, namespace
    )
    cluster.api.delete(path)


def reference(target: Json) -> Json:
    return {"apiVersion": target["apiVersion"], "kind": target["kind"], "name": target["metadata"]["name"]}


def live(cluster: Cluster, namespace: str, app: str, wanted: Callable[[list[Json]], bool] = bool) -> list[Json]:
    return until(
        f"pods of {app}",
        lambda: pods if wanted(pods := cluster.list_pods(namespace, app)) else None,
    )


def check(made: Json) -> None:
    """That a pod got all that is its due."""
    assert resources(made) == {"app": APP, "proxy": PROXY}
    assert boosted(made) == {"app"}
    assert made["metadata"]["annotations"][OBSERVED] == "app, proxy"


@pytest.mark.req("SB-01", "SB-02", "SB-26", "SB-48")
def test_pods_of_every_workload_are_sized_and_boosted_whenever_one_is_made_and_at_no_other_time(
    cluster: Cluster, namespace: str, admission: Start, flower: Json
) -> None:
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"}, "spec": {"limits": [LIMITS]}}
    cluster.api.create(limits, namespace)
    targets = [workload(kind, kind.lower()) for kind in KINDS]
    for target in (*targets, flower):
        name = target["metadata"]["name"]
        create_vpa(cluster, namespace, name, ADVICE, **SPEC | {"targetRef": reference(target)})
    cluster.api.create(deployment("hvpa", *containers()), namespace)
    live(cluster, namespace, "hvpa")
    governed_by_hvpa(cluster, namespace, "hvpa")
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    wait_for_current_advice(cluster, namespace)

    made = {target["kind"]: cluster.api.create(target, namespace) for target in targets}
    # As `kubectl create job --from` does: nobody waits for the next full minute.
    cluster.api.create(owned(job("cronjob", *containers()), made["CronJob"]), namespace)
    cluster.api.create(owned(pod("flower", *containers()), flower), namespace)
    for target in (*targets, flower):
        for sized_pod in live(cluster, namespace, target["metadata"]["name"]):
            check(sized_pod)

    cluster.api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/hvpa", {"spec": {"replicas": 2}})
    plain, sized = sorted(live(cluster, namespace, "hvpa", lambda pods: len(pods) == 2), key=cpu_of_app)
    assert (cpu(plain), cpu(sized), cpu(sized, "proxy")) == ("100m", "300m", "80m")

    # Neither a pod of nobody, nor one with a target's labels, nor one of another workload is touched.
    cluster.api.create(deployment("stranger", *containers()), namespace)
    alone = cluster.api.create(pod("alone", *containers()), namespace)
    alike = pod("alike", *containers()) | {"metadata": {"name": "alike", "labels": {"app": "job"}}}
    [other] = live(cluster, namespace, "stranger")
    for sized_pod in (alone, cluster.api.create(alike, namespace), other):
        assert cpu(sized_pod) == "100m"
        assert OBSERVED not in sized_pod["metadata"].get("annotations", {})

    made_again_and_again(cluster, namespace)


def governed_by_hvpa(cluster: Cluster, namespace: str, name: str) -> None:
    """The same advice, of an Hvpa."""
    wanted = hvpa(targetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": name})
    created = cluster.api.create(wanted | {"metadata": {"name": name}}, namespace)
    result = [{"containerName": container_name, "target": target} for container_name, target in ADVICE.items()]
    status = {"recommendation": {"containerRecommendations": result}}
    cluster.api.patch(f"{cluster.api.get_path(created)}/status", {"status": status})


def cpu_of_app(made: Json) -> str:
    return cpu(made) or ""


def made_again_and_again(cluster: Cluster, namespace: str) -> None:
    """A scale-up, a rollout and an eviction make pods; an edited VPA and a container that restarts change none."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/deployment"
    cluster.api.patch(path, {"spec": {"replicas": 2}})
    first = names(live(cluster, namespace, "deployment", lambda listed: len(listed) == 2))
    cluster.api.patch(path, {"spec": {"template": {"metadata": {"annotations": {"example/version": "2"}}}}})
    pods = live(cluster, namespace, "deployment", lambda listed: len(listed) == 2 and not names(listed) & first)
    second = names(pods)
    evicted = pods[0]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted}}
    cluster.api.send("POST", f"/api/v1/namespaces/{namespace}/pods/{evicted}/eviction", eviction)
    live(cluster, namespace, "deployment", lambda listed: len(listed) == 2 and names(listed) != second)
    for current in cluster.wait_for_ready_pods(namespace, "deployment", 2):
        check(current)

    boost = {"cpu": {"type": "Factor", "factor": 3}}
    cluster.api.patch(vpa_path(namespace, "deployment"), {"spec": {"startupBoost": boost}})
    wait_for_current_advice(cluster, namespace)
    running = cluster.list_pods(namespace, "deployment")
    where = f"/api/v1/namespaces/{namespace}/pods/{running[0]['metadata']['name']}"
    cluster.api.annotate(where, {ask.RESTARTED: "app=1"})
    until("the restart", lambda: cluster.api.get(where)["status"]["containerStatuses"][0]["restartCount"] == 1)
    for current in cluster.list_pods(namespace, "deployment"):
        check(current)
    assert names(cluster.list_pods(namespace, "deployment")) == names(running)


def names(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


CONTROLLERS = {
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicationController": "v1",
    "CronJob": "batch/v1",
    "Job": "batch/v1",
}


def test_a_controller_that_the_watch_does_not_show_is_read_and_its_pod_comes_as_it_is_if_there_is_none(
    cluster: Cluster, namespace: str, admission: Start
) -> None:
    controller = admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    create_vpa(cluster, namespace, "web", ADVICE, updatePolicy={"updateMode": "Initial"})
    wait_for_current_advice(cluster, namespace)
    before = metric_value(controller, "trellis_admission_lookups_total", result="missing")
    for kind, version in CONTROLLERS.items():
        owner = {"apiVersion": version, "kind": kind, "metadata": {"name": "web", "uid": str(uuid4())}}
        made = dry_run(cluster, namespace, owned(pod(f"of-{kind.lower()}"), owner))
        assert cpu(made) == "100m"
    until_value(controller, "trellis_admission_lookups_total", before + len(CONTROLLERS), result="missing")
