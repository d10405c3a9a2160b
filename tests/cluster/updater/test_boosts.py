"""The end of boosts on a real control plane: each at its own time, in place, and tried again when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.cluster.admission import boosted, cpu
from support.cluster.updaters import (
    MEMORY,
    NO_LEASE,
    Start,
    advise,
    advise_containers,
    by_uid,
    events,
    updaters,
    wait_for_two_passes,
)
from support.cluster.vpas import metric_value, vpa, vpa_path
from testbed.client import STRATEGIC_PATCH, Json
from testbed.cluster import Cluster, is_ready
from testbed.errors import Refused
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment

BEFORE = '{"requests":{"cpu":"100m","memory":"128Mi"}}'
MARK = "vpaCpuStartupBoost/"
MODES = ("Auto", "Recreate", "InPlaceOrRecreate", "InPlace", "Initial", "Off")
PROBE = {"httpGet": {"path": "/", "port": 8080}}
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


def boost(seconds: int) -> Json:
    """A policy whose boost lasts for so long after Ready."""
    return {"cpu": {"type": "Factor", "factor": 5, "duration": f"{seconds}s"}}


def marked(*containers: str) -> dict[str, str]:
    """What the webhook writes on a pod that it boosts from 100m."""
    return {f"{MARK}{name}": BEFORE for name in containers}


def ready_since(pod: Json) -> datetime:
    [condition] = [condition for condition in pod["status"]["conditions"] if condition["type"] == "Ready"]
    return datetime.fromisoformat(condition["lastTransitionTime"])


def in_force(pod: Json) -> str:
    result: str = pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"]
    return result


def until_in_force(cluster: Cluster, namespace: str, amount: str) -> None:
    """Return when the node has done what was asked of it."""
    until("it to be in force", lambda: [in_force(pod) for pod in cluster.list_pods(namespace, "web")] == [amount] * 2)


@pytest.mark.req("SB-39", "SB-48")
def test_containers_are_unboosted_each_at_its_own_time(cluster: Cluster, namespace: str, updater: Start) -> None:
    lasting = {"app": 1, "mesh": 12}
    policies = [{"containerName": name, "startupBoost": boost(seconds)} for name, seconds in lasting.items()]
    policy = {"containerPolicies": policies}
    cluster.api.create(vpa("web", updatePolicy={"updateMode": "Recreate"}, resourcePolicy=policy), namespace)
    # One that is not boosted, and has what is recommended.
    advised = {**dict.fromkeys(lasting, "100m"), "plain": "200m"}
    advise_containers(
        cluster, namespace, "web", {name: {"cpu": amount, "memory": MEMORY} for name, amount in advised.items()}
    )
    updater(namespace, NO_LEASE, "--updater-interval=1h")
    every = [*(container(name, cpu="500m") for name in lasting), container("plain", cpu="200m")]
    cluster.api.create(deployment("web", *every, annotations=marked(*lasting)), namespace)
    [pod] = cluster.wait_for_ready_pods(namespace, "web")

    def left(*names: str) -> Json | None:
        [current] = cluster.list_pods(namespace, "web")
        return current if boosted(current) == set(names) else None

    first = until("the end of the short boost", lambda: left("mesh"))
    assert {name: cpu(first, name) for name in advised} == advised | {"mesh": "500m"}
    last = until("the end of the long boost", left)
    assert datetime.now(UTC) >= ready_since(last) + timedelta(seconds=lasting["mesh"])
    assert {name: cpu(last, name) for name in advised} == advised
    assert last["metadata"]["uid"] == pod["metadata"]["uid"]


@pytest.mark.req("SB-29", "SB-30", "SB-49")
def test_a_boost_ends_with_ready_or_its_duration_after_ready_with_probes_and_without(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    probes: dict[str, Json] = {"none": {}, "readiness": {"readinessProbe": PROBE}, "startup": {"startupProbe": PROBE}}
    late = 3
    # Less than it takes with a probe: counted from the start it would be over before.
    durations = {f"{probe}-{seconds}": seconds for probe in probes for seconds in (0, late - 1)}
    for (name, seconds), mode in zip(durations.items(), MODES, strict=True):
        cluster.api.create(vpa(name, updatePolicy={"updateMode": mode}, startupBoost=boost(seconds)), namespace)
        advise(cluster, namespace, name, "100m")
    controller = updater(namespace, NO_LEASE, "--updater-interval=1h")
    for name in durations:
        probe = name.partition("-")[0]
        # Nothing runs that a kubelet could probe: this is when the probe would succeed.
        slow = {} if probe == "none" else {ask.READY_AFTER: str(late)}
        made = container(cpu="500m", **probes[probe])
        cluster.api.create(deployment(name, made, annotations=marked("app") | slow), namespace)
    uids: dict[str, str] = {}

    def over(name: str, seconds: int) -> bool:
        pods = cluster.list_pods(namespace, name)
        if not pods:
            return False
        [pod] = pods
        assert uids.setdefault(name, pod["metadata"]["uid"]) == pod["metadata"]["uid"]
        assert not any(status["restartCount"] for status in pod["status"].get("containerStatuses", ()))
        if not is_ready(pod):
            assert cpu(pod) == "500m"
        elif cpu(pod) == "100m":
            assert datetime.now(UTC) >= ready_since(pod) + timedelta(seconds=seconds)
        return cpu(pod) == "100m" and not boosted(pod)

    until("all boosts to end", lambda: {over(*duration) for duration in durations.items()} == {True})
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


@pytest.mark.req("SB-30", "SB-40")
def test_an_unboost_that_the_node_does_not_do_is_tried_again_and_never_becomes_an_eviction(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    cluster.api.create(vpa("web", updatePolicy={"updateMode": "InPlaceOrRecreate"}, startupBoost=boost(0)), namespace)
    advise(cluster, namespace, "web", "100m")
    notes = marked("app") | {ask.RESIZE: ask.INFEASIBLE}
    cluster.api.create(deployment("web", container(cpu="500m"), replicas=2, annotations=notes), namespace)
    before = by_uid(cluster.wait_for_ready_pods(namespace, "web", 2))
    controller = updater(namespace, NO_LEASE, "--updater-interval=1s")
    until("the Event", lambda: events(cluster, namespace, "UnboostFailing"))
    wait_for_two_passes(controller)
    # Tried again with what is recommended by then.
    advise(cluster, namespace, "web", "150m")
    until("another try", lambda: [cpu(pod) for pod in cluster.list_pods(namespace, "web")] == ["150m"] * 2)
    assert [in_force(pod) for pod in cluster.list_pods(namespace, "web")] == ["500m"] * 2
    wait_for_two_passes(controller)
    for pod in before.values():
        cluster.api.annotate(f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}", {ask.RESIZE: None})
    until("the end of the boosts", lambda: not any(map(boosted, cluster.list_pods(namespace, "web"))))
    after = by_uid(cluster.list_pods(namespace, "web"))
    assert after.keys() == before.keys()
    until_in_force(cluster, namespace, "150m")
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


@pytest.fixture
def no_resizes(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A webhook that nobody answers for stands before resizes in a namespace: they fail, as the server's error."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/resize"]}
    webhook = {
        "name": "broken.example.com",
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }
    made = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [webhook],
    }
    path = f"{WEBHOOKS}/{namespace}"
    cluster.api.create(made)
    yield path
    if cluster.api.find(path):
        cluster.api.delete(path)


@pytest.mark.req("SB-40")
def test_an_unboost_that_the_api_server_cannot_do_is_tried_again_and_never_becomes_an_eviction(
    cluster: Cluster, namespace: str, no_resizes: str, updater: Start
) -> None:
    cluster.api.create(vpa("web", updatePolicy={"updateMode": "Recreate"}, startupBoost=boost(0)), namespace)
    advise(cluster, namespace, "web", "100m")
    cluster.api.create(deployment("web", container(cpu="500m"), replicas=2, annotations=marked("app")), namespace)
    before = by_uid(cluster.wait_for_ready_pods(namespace, "web", 2))
    name = next(iter(before.values()))["metadata"]["name"]
    until("the API server to ask in vain", lambda: not _resizes(cluster, namespace, name))
    controller = updater(namespace, NO_LEASE, "--updater-interval=1s")
    until("the Event", lambda: events(cluster, namespace, "UnboostRetried"))
    wait_for_two_passes(controller)
    assert [cpu(pod) for pod in cluster.list_pods(namespace, "web")] == ["500m"] * 2
    cluster.api.delete(no_resizes)
    until("the end of the boosts", lambda: not any(map(boosted, cluster.list_pods(namespace, "web"))))
    after = by_uid(cluster.list_pods(namespace, "web"))
    assert after.keys() == before.keys()
    until_in_force(cluster, namespace, "100m")
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


def _resizes(cluster: Cluster, namespace: str, name: str) -> bool:
    body = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "400m"}}}]}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/resize?dryRun=All"
    try:
        cluster.api.patch(path, body, STRATEGIC_PATCH)
    except Refused:
        return False
    return True


@pytest.mark.req("SB-02")
def test_no_running_pod_is_boosted_when_its_vpa_is_edited_or_a_container_restarts(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    cluster.api.create(vpa("web", updatePolicy={"updateMode": "InPlaceOrRecreate"}), namespace)
    advise(cluster, namespace, "web", "100m")
    cluster.api.create(deployment("web", container(cpu="100m"), replicas=2), namespace)
    before = by_uid(cluster.wait_for_ready_pods(namespace, "web", 2))
    controller = updater(namespace, NO_LEASE, "--updater-interval=1s")
    cluster.api.patch(vpa_path(namespace, "web"), {"spec": {"startupBoost": boost(60)}})
    where = f"/api/v1/namespaces/{namespace}/pods/{next(iter(before.values()))['metadata']['name']}"
    cluster.api.annotate(where, {ask.RESTARTED: "app=1"})
    until("the restart", lambda: cluster.api.get(where)["status"]["containerStatuses"][0]["restartCount"] == 1)
    wait_for_two_passes(controller)
    after = cluster.list_pods(namespace, "web")
    assert by_uid(after).keys() == before.keys()
    assert [(cpu(pod), boosted(pod)) for pod in after] == [("100m", set())] * 2
    assert metric_value(controller, "vpa_updater_in_place_updated_pods_total") == 0
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0
