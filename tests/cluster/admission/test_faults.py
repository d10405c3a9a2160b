"""The webhook is killed, doubled, replaced and sent nonsense: no pod is refused for it, and none is made wrong."""

from __future__ import annotations

import copy
import json
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from support.cluster.admission import (
    CONFIGURATION,
    LEASE,
    OBSERVED,
    SECRET,
    Start,
    advise,
    cpu,
    create_vpa,
    dry_run,
    is_refused,
    owned,
    reviewer,
    wait_for_current_advice,
    wait_for_webhook_calls,
)
from support.cluster.vpas import metric_value, series, until_value
from support.controllers.admission import build_pod_review, patch_in
from support.json_patch import apply_patch
from testbed.access.certificates import Authority
from testbed.client import STRATEGIC_PATCH, Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.errors import Refused
from testbed.processes import reserve_ports
from testbed.waiting import until
from testbed.workloads import container, deployment, pod
from trellis.controllers.admission.certificates.key_pairs import split_authorities

ADVICE = {"app": {"cpu": "300m", "memory": "256Mi"}}
LATENCY = "vpa_admission_controller_admission_latency_seconds"
EXECUTION = "vpa_admission_controller_execution_latency_seconds"


def web(cluster: Cluster, namespace: str) -> Json:
    """A Deployment without pods, governed; and a pod as it would make them."""
    create_vpa(cluster, namespace, "web", ADVICE)
    return owned(pod("web-1"), cluster.api.create(deployment("web", replicas=0), namespace))


def test_a_killed_webhook_costs_no_pod_and_its_successor_goes_on_under_the_same_authority(
    cluster: Cluster, namespace: str, admission: Start
) -> None:
    made = web(cluster, namespace)
    [port] = reserve_ports(1)
    first = admission(namespace, port=port)
    wait_for_webhook_calls(cluster, namespace)
    wait_for_current_advice(cluster, namespace)
    assert cpu(dry_run(cluster, namespace, made)) == "300m"
    # A dry run is told what would be, and nothing is.
    assert cluster.list_pods(namespace, "web") == []
    bundle = cluster.api.get(CONFIGURATION)["webhooks"][0]["clientConfig"]["caBundle"]

    first.process.kill()
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    cluster.api.patch(path, {"spec": {"replicas": 1}})
    [alone] = cluster.wait_for_ready_pods(namespace, "web")
    assert cpu(alone) == "100m"
    assert OBSERVED not in alone["metadata"].get("annotations", {})
    advise(cluster, namespace, "web", {"app": {"cpu": "450m"}})

    admission(namespace, port=port)
    wait_for_current_advice(cluster, namespace)
    cluster.api.patch(path, {"spec": {"replicas": 2}})
    pods = cluster.wait_for_ready_pods(namespace, "web", 2)
    assert sorted(map(cpu, pods), key=str) == ["100m", "450m"]
    assert cluster.api.get(CONFIGURATION)["webhooks"][0]["clientConfig"]["caBundle"] == bundle


def test_two_replicas_agree_on_an_authority_and_on_every_pod(
    cluster: Cluster, namespace: str, admission: Start
) -> None:
    made = web(cluster, namespace)
    [port] = reserve_ports(1)
    first = admission(namespace)
    # Registered once, as all replicas of a Service are.
    second = admission(namespace, "--register-webhook=false", port=port)
    wait_for_webhook_calls(cluster, namespace)
    wait_for_current_advice(cluster, namespace)
    until("the second", lambda: second.get("/readyz")[0] == 200)
    configured = cluster.api.get(CONFIGURATION)
    bundle = b64decode(configured["webhooks"][0]["clientConfig"]["caBundle"])
    assert b64decode(cluster.api.get(SECRET)["data"]["ca.crt"]) == bundle
    body = build_pod_review(made, namespace)
    answers = [reviewer(cluster)(body), reviewer(cluster, port)(body)]
    assert answers[0] == answers[1]
    assert cpu(apply_patch(made, patch_in(answers[0]))) == "300m"
    first.process.kill()
    assert reviewer(cluster, port)(body) == answers[0]
    assert cluster.api.get(CONFIGURATION) == configured


def test_probes_lease_and_metrics_tell_what_happened(cluster: Cluster, namespace: str, admission: Start) -> None:
    made = web(cluster, namespace)
    controller = admission(namespace, "--status-lease-update-interval=1s")
    until("it to be ready", lambda: controller.get("/readyz") == (200, "ok"))
    assert controller.get("/health-check")[0] == 200
    wait_for_webhook_calls(cluster, namespace)
    wait_for_current_advice(cluster, namespace)
    dry_run(cluster, namespace, made)
    dry_run(cluster, namespace, pod("alone"))
    with pytest.raises(Refused):
        create_vpa(cluster, namespace, "bad", {}, updatePolicy={"updateMode": "Sometimes"})
    reviewer(cluster)(b"{")

    check_metrics(controller)

    # A start in order is no trouble worth a word.
    lease = until("the Lease", lambda: cluster.api.find(LEASE))["spec"]
    assert "not registered" not in controller.read_logs()
    assert "renewal of the status Lease skipped" not in controller.read_logs()
    assert lease["holderIdentity"]
    until("the Lease to be renewed", lambda: cluster.api.get(LEASE)["spec"]["renewTime"] > lease["renewTime"])


def check_metrics(controller: Controller) -> None:
    """Whoever was answered has not been counted yet."""
    pods = "vpa_admission_controller_admission_pods_total"
    until(
        "pods to be counted",
        lambda: min(metric_value(controller, pods, applied=flag) for flag in ("true", "false")) > 0,
    )
    wanted = {
        (("resource", "Pod"), ("status", "applied")),
        (("resource", "Pod"), ("status", "skipped")),
        (("resource", "VPA"), ("status", "applied")),
        (("resource", "VPA"), ("status", "skipped")),
        (("resource", "unknown"), ("status", "error")),
    }

    def counted() -> set[tuple[tuple[str, str], ...]]:
        return {tuple(sorted(labels.items())) for labels, _ in series(controller, f"{LATENCY}_count")}

    until("all reviews to be counted", lambda: wanted <= counted())
    bounds = {labels["le"] for labels, _ in series(controller, f"{LATENCY}_bucket")}
    assert {"0.01", "0.9", "1", "300", "+Inf"} <= bounds
    steps = {"read_request", "admit", "build_response", "write_response", "total"}

    def timed() -> set[str]:
        return {labels["step"] for labels, number in series(controller, f"{EXECUTION}_count") if number > 0}

    until("all steps to be timed", lambda: timed() >= steps)
    assert timed() == steps
    assert metric_value(controller, "trellis_admission_failures_total") == 0
    until_value(controller, "trellis_admission_webhook_registered", 1)


def test_upstreams_registration_is_taken_over_and_can_be_taken_back(
    cluster: Cluster, namespace: str, admission: Start
) -> None:
    theirs = Authority.new("upstream").pair.certificate
    # It asks about this namespace alone, for the sake of the tests beside this one.
    before = cluster.api.create(upstreams(theirs, namespace))
    made = web(cluster, namespace)
    first = admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    wait_for_current_advice(cluster, namespace)
    assert cpu(dry_run(cluster, namespace, made)) == "300m"
    ours = cluster.api.get(CONFIGURATION)
    assert ours["metadata"]["uid"] == before["metadata"]["uid"]
    assert theirs in split_authorities(b64decode(ours["webhooks"][0]["clientConfig"]["caBundle"]))

    # What upstream does when it starts: delete it and make its own. And when its authority changes: patch the bundle.
    first.process.stop()
    assert cluster.api.get(CONFIGURATION) == ours
    cluster.api.delete(CONFIGURATION)
    wanted = upstreams(theirs, namespace)
    back = cluster.api.create(wanted)
    bundle = b64encode(Authority.new("next").pair.certificate).decode()
    patch = {"webhooks": [{"name": "vpa.k8s.io", "clientConfig": {"caBundle": bundle}}]}
    patched = cluster.api.patch(CONFIGURATION, patch, STRATEGIC_PATCH)
    assert patched["webhooks"][0]["rules"] == back["webhooks"][0]["rules"]
    # Nobody answers there, and nobody waits for it.
    assert cpu(dry_run(cluster, namespace, made)) == "100m"


def upstreams(authority: bytes, namespace: str) -> Json:
    """What upstream writes, but for the namespace."""
    rules = [
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]},
        {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": ["autoscaling.k8s.io"],
            "apiVersions": ["*"],
            "resources": ["verticalpodautoscalers"],
        },
    ]
    here = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace]}
    service = {"namespace": "kube-system", "name": "vpa-webhook"}
    webhook = {
        "name": "vpa.k8s.io",
        "admissionReviewVersions": ["v1"],
        "rules": rules,
        "failurePolicy": "Ignore",
        "clientConfig": {"service": service, "caBundle": b64encode(authority).decode()},
        "sideEffects": "None",
        "timeoutSeconds": 30,
        "namespaceSelector": {"matchExpressions": [here]},
    }
    metadata = {"name": "vpa-webhook-config"}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return kind | {"metadata": metadata, "webhooks": [webhook]}


REVIEWS = 300
GOVERNORS: dict[str, Json] = {
    "both": {},
    "requests": {"resourcePolicy": {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}},
    "factor": {"startupBoost": {"cpu": {"type": "Factor", "factor": 4}}},
    "quantity": {
        "startupBoost": {"cpu": {"type": "Quantity", "quantity": "700m"}},
        "resourcePolicy": {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]},
    },
    "off": {"updatePolicy": {"updateMode": "Off"}, "startupBoost": {"cpu": {"type": "Factor", "factor": 3}}},
}
NAMES = ("app", "proxy", "side")
LIMITS: list[Json] = [
    {
        "type": "Container",
        "max": {"cpu": "2", "memory": "2Gi"},
        "min": {"cpu": "1m"},
        "default": {"cpu": "1", "memory": "1Gi"},
        "defaultRequest": {"cpu": "100m", "memory": "100Mi"},
    },
    {"type": "Pod", "max": {"cpu": "4", "memory": "4Gi"}},
]


def test_whatever_a_pod_looks_like_it_is_let_through_and_no_patch_makes_it_unacceptable(
    cluster: Cluster, namespace: str, admission: Start
) -> None:
    """Pods are judged in a namespace with the same LimitRange about which nobody is asked."""
    twin = cluster.create_namespace("twin")
    for target_namespace in (namespace, twin):
        limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "most"}, "spec": {"limits": LIMITS}}
        cluster.api.create(limits, target_namespace)
    owners = {}
    rng = Random(7)  # noqa: S311 - the same pods in every run
    for name, spec in GOVERNORS.items():
        create_vpa(cluster, namespace, name, drawn_advice(rng), **spec)
        owners[name] = cluster.api.create(deployment(name, replicas=0), namespace)
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    wait_for_current_advice(cluster, namespace)
    until("LimitRanges to be enforced", lambda: is_refused(cluster, twin, pod("huge", container(cpu="5"))))
    review = reviewer(cluster)

    def judge(seed: int) -> str:
        draw = Random(seed)  # noqa: S311 - as above
        name = draw.choice(list(GOVERNORS))
        made = mutated(draw, owned(drawn_pod(draw), owners[name], name))
        came = as_it_reaches_us(cluster, twin, made)
        response = review(build_pod_review(came or made, namespace))
        assert response["allowed"] is True, made
        if came is None:
            return "refused"
        operations = patch_in(response)
        patched = apply_patch(came, operations)
        try:
            dry_run(cluster, twin, patched)
        except Refused as error:
            pytest.fail(f"{error}\n{name}: {json.dumps(came['spec'])}\n{json.dumps(operations)}")
        return "patched" if any("/resources" in operation["path"] for operation in operations) else "left alone"

    with ThreadPoolExecutor(4) as pool:
        decisions = list(pool.map(judge, range(REVIEWS)))
    cluster.delete_namespace(twin)
    assert decisions.count("patched") > REVIEWS / 3
    assert decisions.count("refused") > REVIEWS / 20


def as_it_reaches_us(cluster: Cluster, namespace: str, made: Json) -> Json | None:
    """With the defaults of the server and of its LimitRanger, which come before any webhook; None if it is refused."""
    try:
        return dry_run(cluster, namespace, made)
    except Refused:
        return None


def drawn_advice(rng: Random) -> dict[str, Json]:
    return {
        name: {"cpu": f"{rng.choice([1, 90, 400, 1900])}m", "memory": rng.choice(["32Mi", "300Mi", "1Gi", "123456789"])}
        for name in NAMES
    }


def drawn_pod(rng: Random) -> Json:
    made = pod("p", *(drawn_container(rng, name) for name in NAMES[: rng.randint(1, 2)]), schedulerName="nobody")
    if rng.random() < 0.3:
        sidecar = drawn_container(rng, NAMES[2]) | ({"restartPolicy": "Always"} if rng.random() < 0.7 else {})
        made["spec"]["initContainers"] = [sidecar]
    if rng.random() < 0.3:
        made["spec"]["resources"] = {
            "requests": {"cpu": rng.choice(["1", "3"]), "memory": rng.choice(["2Gi", "3Gi"])},
            "limits": {name: "4" if name == "cpu" else "4Gi" for name in AMOUNTS if rng.random() < 0.7},
        }
    if rng.random() < 0.2:
        made["metadata"]["annotations"] = {"a/b": "~1", "vpaUpdates": "old", "vpaCpuStartupBoost/app": rng.choice(OLD)}
    return made


OLD = ("{", '{"requests":{"cpu":"100m"},"limits":{}}', '{"requests":{},"limits":{"cpu":"1"}}')


def drawn_container(rng: Random, name: str) -> Json:
    made = container(name, resources=drawn_resources(rng))
    if rng.random() < 0.2:
        policy = rng.choice(["RestartContainer", "NotRequired"])
        made["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": policy}]
    if rng.random() < 0.1:
        made.pop("resources")
    return made


def drawn_resources(rng: Random) -> Json:
    """Requests and limits, mostly in order."""
    result: Json = {field: {} for field in ("requests", "limits") if rng.random() < 0.9}
    for name, amounts in AMOUNTS.items():
        few = sorted(rng.choices(range(len(amounts)), k=2), reverse=rng.random() < 0.1)
        for field, which in zip(("requests", "limits"), few, strict=True):
            if field in result and rng.random() < 0.7:
                result[field][name] = amounts[which]
    if rng.random() < 0.1:
        result.setdefault("limits", {})["ephemeral-storage"] = "1Gi"
    return result


AMOUNTS = {
    "cpu": ("1m", "100m", "250m", "500m", "1", "1500m", "2"),
    "memory": ("16Mi", "100M", "512Mi", "1Gi", "1500000000", "1999Mi", "2Gi"),
}


def mutated(rng: Random, made: Json) -> Json:
    """One time in three, something somewhere in the spec is not what it was."""
    if rng.random() > 0.33:
        return made
    made = copy.deepcopy(made)
    places = list(_places(made["spec"]))
    parent, key = rng.choice(places)
    junk = [None, "", "x", -1, 1.5, True, [], {}, "1e3", "-1", "9" * 30, "0", [None], {"cpu": "1"}]
    match rng.randrange(3):
        case 0:
            del parent[key]
        case 1:
            parent[key] = rng.choice(junk)
        case _:
            other, name = rng.choice(places)
            parent[key] = copy.deepcopy(other[name]) if name in _keys(other) else None
    return made


def _places(node: Any) -> Any:
    for key in _keys(node):
        yield node, key
        yield from _places(node[key])


def _keys(node: Any) -> list[Any]:
    return list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
