"""Targets of VPAs on a real cluster: supported ones, problems of others, and governance of pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cluster.gardens import flower, garden
from support.cluster.recommenders import (
    EVERY_SECOND,
    MIB,
    find_true_condition,
    steady_memory,
    true_conditions,
    wait_for_passes,
)
from support.cluster.vpas import (
    USAGE_SECONDS,
    count_samples,
    get_checkpoint_status,
    get_container_recommendations,
    get_memory_target,
    get_vpa_status,
    metric_value,
    vpa,
    vpa_path,
)
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import deployment, job, pod
from trellis.base.quantities import Quantity

Start = Callable[..., Controller]

USAGE = {ask.USAGE_CPU: "200m", ask.USAGE_MEMORY: "300Mi"}
TARGET = steady_memory(300 * MIB)
TOPMOST = "a topmost well-known or scalable controller"


@pytest.fixture
def group(cluster: Cluster) -> Iterator[str]:
    """A group with two kinds that nobody else has: a Flower has a scale, a Stone has none."""
    with garden(cluster) as group:
        yield group


def stone(group: str, name: str) -> Json:
    return {"apiVersion": f"{group}/v1", "kind": "Stone", "metadata": {"name": name}}


def owned(document: Json, owner: Json) -> Json:
    """The same object under a controller."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [reference]}}


def template(name: str, **spec: Any) -> Json:
    template: Json = deployment(name, annotations=USAGE, **spec)["spec"]["template"]
    return template


def of_kind(kind: str, name: str, **spec: Any) -> Json:
    """A workload of one pod, of a well-known kind."""
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    selector: Json = {"app": name} if kind == "ReplicationController" else {"matchLabels": {"app": name}}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template(name), **spec},
    }


def cron_job(name: str) -> Json:
    """A CronJob that makes no Job by itself."""
    pods = template(name, restartPolicy="Never")
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": {"template": pods}}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}


def next_job(made_by: Json) -> Json:
    """The Job that a CronJob would make."""
    name = f"{made_by['metadata']['name']}-1"
    spec = made_by["spec"]["jobTemplate"]["spec"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def vpa_of(target: Json, name: str = "", **spec: Any) -> Json:
    """A VPA for any object."""
    reference = {key: target[key] for key in ("apiVersion", "kind")} | {"name": target["metadata"]["name"]}
    return vpa(name or target["metadata"]["name"], targetRef=reference, **spec)


def managers(document: Json) -> set[str]:
    return {entry["manager"] for entry in document["metadata"].get("managedFields", [])}


@pytest.mark.req("CR-20", "CR-21")
def test_pods_of_every_target_kind_get_recommendations(
    cluster: Cluster, namespace: str, recommender: Start, group: str
) -> None:
    api = cluster.api
    spot = {"kubernetes.io/hostname": "node-a"}
    daemons = template("daemon-set", nodeSelector=spot)
    targets = [
        deployment("deployment", annotations=USAGE),
        of_kind("StatefulSet", "stateful-set", serviceName="stateful-set"),
        of_kind("DaemonSet", "daemon-set", template=daemons),
        of_kind("ReplicaSet", "replica-set"),
        of_kind("ReplicationController", "replication-controller"),
        job("job", annotations=USAGE),
        cron_job("cron-job"),
        flower(group, "owning"),
        flower(group, "selecting"),
    ]
    made = {target["metadata"]["name"]: api.create(target, namespace) for target in targets}
    api.create(owned(next_job(made["cron-job"]), made["cron-job"]), namespace)
    api.create(owned(pod("owning", annotations=USAGE), made["owning"]), namespace)
    api.create(pod("selecting", annotations=USAGE), namespace)
    # Nobody can aim at a Stone, so that a Deployment under one is the topmost that can be aimed at.
    operator = api.create(stone(group, "operator"), namespace)
    made["operated"] = api.create(owned(deployment("operated", annotations=USAGE), operator), namespace)
    for target in made.values():
        api.create(vpa_of(target), namespace)
    recommender(namespace, EVERY_SECOND)

    def served() -> dict[str, int]:
        return {name: get_memory_target(cluster, namespace, name) for name in made}

    until("all to be recommended for", lambda: served() == dict.fromkeys(made, TARGET), USAGE_SECONDS)
    for name, target in made.items():
        assert true_conditions(cluster, namespace, name) == {"RecommendationProvided", "LowConfidence"}
        result = api.get(api.get_path(target, namespace))
        assert "trellis-recommender" not in managers(result)
        assert result["spec"].get("replicas") == target["spec"].get("replicas")
        if target["kind"] == "Flower":
            assert result["metadata"]["resourceVersion"] == target["metadata"]["resourceVersion"]


@pytest.mark.req("CR-20")
def test_an_unusable_target_is_reported_in_a_condition(
    cluster: Cluster, namespace: str, recommender: Start, group: str
) -> None:
    api = cluster.api
    api.create(deployment("web"), namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    [listed] = api.list_items(f"/apis/apps/v1/namespaces/{namespace}/replicasets")
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", **listed}
    head = api.create(flower(group, "head"), namespace)
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    unsaid = {**flower(group, "unsaid"), "status": {"replicas": 1}}
    deleted = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gone"}}
    uprooted = flower(group, "uprooted")
    stranger = {"apiVersion": f"{group}/v1", "kind": "Weed", "metadata": {"name": "stranger"}}
    cases = {
        "missing": (deleted, f"Cannot read targetRef. Reason: Deployment {namespace}/gone does not exist"),
        "missing-scale": (uprooted, f"Cannot read targetRef. Reason: Flower {namespace}/uprooted does not exist"),
        "below": (
            replica_set,
            f"The target apps/v1.ReplicaSet/{replica_set['metadata']['name']} has a parent controller but it should "
            f"point to {TOPMOST}",
        ),
        "operated": (
            api.create(owned(deployment("operated", replicas=0), head), namespace),
            f"The target apps/v1.Deployment/operated has a parent controller but it should point to {TOPMOST}",
        ),
        "no-scale": (
            api.create(stone(group, "still"), namespace),
            f"Cannot read targetRef. Reason: stones.{group} is neither a well-known controller nor has a scale",
        ),
        "no-controller": (
            api.create(settings, namespace),
            "Cannot read targetRef. Reason: configmaps is neither a well-known controller nor has a scale",
        ),
        "unknown-kind": (
            stranger,
            f"Cannot read targetRef. Reason: the cluster does not serve the kind Weed in {group}/v1",
        ),
        "no-selector": (
            api.create(unsaid, namespace),
            f"Cannot read targetRef. Reason: resource {namespace}/unsaid has an empty selector for scale sub-resource",
        ),
    }
    for name, (target, _) in cases.items():
        api.create(vpa_of(target, name), namespace)
    api.create(vpa("web"), namespace)
    running = recommender(namespace, EVERY_SECOND)

    def message_of(name: str) -> str:
        condition = find_true_condition(cluster, namespace, name, "ConfigUnsupported")
        return condition["message"] if condition else ""

    until("all to be told", lambda: all(map(message_of, cases)))
    for name, (_, message) in cases.items():
        assert message_of(name).startswith(message)
        assert true_conditions(cluster, namespace, name) == {"ConfigUnsupported", "NoPodsMatched"}
    assert not message_of("web")

    def counted(unsupported: str) -> float:
        return metric_value(running, "vpa_recommender_vpa_objects_count", unsupported_config=unsupported)

    until("all to be counted", lambda: (counted("true"), counted("false")) == (len(cases), 1))

    # Watched kinds are followed at once; a custom resource is asked for again within a minute.
    api.create(deployment("gone"), namespace)
    until("the target to be found", lambda: not message_of("missing"))


def test_a_target_that_is_deleted_and_created_again_keeps_its_history(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    api = cluster.api
    web = deployment("web", annotations=USAGE)
    path = api.get_path(web, namespace)
    api.create(web, namespace)
    api.create(vpa("web"), namespace)
    running = recommender(namespace, EVERY_SECOND)
    until("a recommendation", lambda: get_memory_target(cluster, namespace, "web") > 0, USAGE_SECONDS)
    until("a checkpoint", lambda: count_samples(cluster, namespace, "web-app") > 0)
    known = get_checkpoint_status(cluster, namespace, "web-app")

    api.delete(path)
    until("the target to be missed", lambda: find_true_condition(cluster, namespace, "web", "ConfigUnsupported"))
    until("its pods to go", lambda: not cluster.list_pods(namespace, "web"))
    wait_for_passes(running)
    assert get_memory_target(cluster, namespace, "web") == TARGET

    api.create(web, namespace)
    until("the target to be found", lambda: not find_true_condition(cluster, namespace, "web", "ConfigUnsupported"))
    cluster.wait_for_ready_pods(namespace, "web")
    wait_for_passes(running)
    assert get_memory_target(cluster, namespace, "web") == TARGET
    now = get_checkpoint_status(cluster, namespace, "web-app")
    assert now["firstSampleStart"] == known["firstSampleStart"]
    assert now["totalSamplesCount"] >= known["totalSamplesCount"]


def test_of_two_vpas_on_one_pod_the_older_governs_and_edits_are_applied(
    cluster: Cluster, namespace: str, recommender: Start
) -> None:
    api = cluster.api
    api.create(deployment("web", annotations=USAGE), namespace)
    api.create(deployment("other", annotations=USAGE), namespace)
    older = api.create(vpa("z-older", target="web"), namespace)
    # Ages are told in whole seconds.
    younger = until("another second", lambda: _created_after(cluster, namespace, older, vpa("a-younger", target="web")))
    api.create(vpa("absurd", target="other", resourcePolicy={"containerPolicies": [ABSURD]}), namespace)
    api.patch(f"{vpa_path(namespace, 'absurd')}/status", {"status": ABSURD_STATUS})
    running = recommender(namespace, EVERY_SECOND)

    conflict = until(
        "the younger to say so", lambda: find_true_condition(cluster, namespace, "a-younger", "ConflictingVPA")
    )
    assert conflict["message"].endswith("governed by an older VerticalPodAutoscaler: z-older")
    until("a recommendation", lambda: get_memory_target(cluster, namespace, "z-older") > 0, USAGE_SECONDS)
    assert "ConflictingVPA" not in true_conditions(cluster, namespace, "z-older")
    assert not get_container_recommendations(cluster, namespace, "a-younger")
    assert not count_samples(cluster, namespace, "a-younger-app")
    until(
        "the absurd one to be served like any other", lambda: get_memory_target(cluster, namespace, "absurd") == TARGET
    )
    assert (
        Quantity.parse(get_container_recommendations(cluster, namespace, "absurd")["app"]["target"]["cpu"])
        > Quantity.ZERO
    )
    assert "pass failed" not in running.read_logs()
    assert "Warning" not in running.read_logs()

    cap = {"containerName": "app", "maxAllowed": {"memory": "100Mi"}}
    edited = api.patch(vpa_path(namespace, "z-older"), {"spec": {"resourcePolicy": {"containerPolicies": [cap]}}})

    def capped() -> Json | None:
        result = get_container_recommendations(cluster, namespace, "z-older")["app"]
        return result if result["target"]["memory"] == "100Mi" else None

    recommended = until("the edit to be followed", capped)
    assert recommended["uncappedTarget"]["memory"] == str(TARGET)
    assert get_vpa_status(cluster, namespace, "z-older")["observedGeneration"] == edited["metadata"]["generation"] == 2

    api.delete(vpa_path(namespace, "z-older"))
    until("the younger to take over", lambda: count_samples(cluster, namespace, "a-younger-app") > 0)
    name = younger["metadata"]["name"]
    until("its recommendation", lambda: get_memory_target(cluster, namespace, name) == TARGET)
    calm = {"RecommendationProvided", "LowConfidence"}
    until("no more conflict", lambda: true_conditions(cluster, namespace, name) == calm)


# What the schema lets through: amounts beyond all machines and below nothing, and figures that no clock reaches.
ABSURD: Json = {
    "containerName": "*",
    "minAllowed": {"cpu": "99999999999999999999E", "memory": "-5"},
    "maxAllowed": {"cpu": "-1", "memory": "1e-30"},
    "oomBumpUpRatio": "99999999999999999999E",
    "oomMinBumpUp": "99999999999999999999E",
    "memoryAggregationIntervalSeconds": 2**31 - 1,
    "memoryAggregationIntervalCount": 2**63 - 1,
}
ABSURD_STATUS: Json = {
    "recommendation": {
        "containerRecommendations": [
            {"containerName": "app", "target": {"cpu": "99999999999999999999E", "memory": "-1"}},
            {"containerName": "", "target": {"hugepages-1Gi": "1"}},
        ]
    },
    "conditions": [
        {"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "0001-01-01T00:00:00Z"},
    ],
    "observedGeneration": 2**62,
}


def _created_after(cluster: Cluster, namespace: str, older: Json, manifest: Json) -> Json | None:
    """The object, if it was created in a later second than the other; else it is removed again."""
    made = cluster.api.create(manifest, namespace)
    if made["metadata"]["creationTimestamp"] > older["metadata"]["creationTimestamp"]:
        return made
    cluster.api.delete(vpa_path(namespace, made["metadata"]["name"]))
    return None
