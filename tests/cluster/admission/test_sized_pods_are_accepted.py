"""The API server takes every sized pod whose original it takes, and gives it the class that we reckon with.

The server's own rules are what counts: defaults, validation of pods and of their own resources, LimitRanges, and what a
resize may change. Nothing is scheduled, so that nothing else decides.
"""

from __future__ import annotations

from random import Random
from typing import Any

from support.builders.pods import Document, limit_ranges, list_resource_changes, policies, read_shape
from support.json_patch import apply_patch
from testbed.client import JSON_PATCH, Api
from testbed.control_plane import ControlPlane
from testbed.errors import Refused
from testbed.waiting import until
from trellis.core.cluster.json_patches import PatchOp, build_guarded_ops, build_resource_ops
from trellis.core.recommend.capping import NamespaceLimits, RecommendedResources
from trellis.core.sizing import PodSize, size_pod

NAMESPACE = "sizes"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
PODS_OF_EACH = 40
RANGES: dict[str, list[Document]] = {
    "none": [],
    "container": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "32Mi"}}],
    "ratio": [{"type": "Container", "default": {"cpu": "500m"}, "maxLimitRequestRatio": {"cpu": "2.5"}}],
    "pod": [{"type": "Pod", "max": {"cpu": "3", "memory": "2Gi"}, "min": {"cpu": "50m"}}],
    "pod ratio": [{"type": "Pod", "maxLimitRequestRatio": {"memory": "3"}}],
}
CPU = ("0", "50m", "100m", "333m", "1", "1500m")
MEMORY = ("0", "64Mi", "100Mi", "333333333", "1Gi")


def test_every_sized_pod_is_admitted_and_can_be_resized(own_api_server: ControlPlane) -> None:
    api = own_api_server.cluster.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    # No controller makes it here, and the API server takes no pod without it.
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, NAMESPACE)
    for name, items in RANGES.items():
        rng = Random(name)  # noqa: S311 - the same pods in every run
        limits = in_force(api, items)
        taken = [judge(api, rng, f"p{number}", limits) for number in range(PODS_OF_EACH)]
        # A pod that is refused as it came shows nothing.
        assert sum(taken) > PODS_OF_EACH / 4, name
        api.delete(PODS)


def judge(api: Api, rng: Random, name: str, limits: NamespaceLimits) -> bool:
    document = drawn_pod(rng, name)
    try:
        response = api.send("POST", f"{PODS}?dryRun=All", document)
    except Refused:
        return False
    shape, vpa = read_shape(response), policies(drawn_policy(rng))
    assert shape.qos == response["status"]["qosClass"], response["spec"]
    assert read_shape(document).qos == response["status"]["qosClass"] or limits != NamespaceLimits(), document

    advice = drawn_advice(rng, read_shape(response).containers)
    sized = patched(document, response, build_resource_ops(list_resource_changes(size_pod(shape, advice, vpa, limits))))
    created = api.send("POST", PODS, sized)

    advice = drawn_advice(rng, shape.containers)
    size = size_pod(read_shape(created), advice, vpa, limits, keep_qos=True)
    operations = build_guarded_ops(created["metadata"]["uid"], list_resource_changes(size))
    if operations:
        resized = api.patch(f"{PODS}/{name}/resize", as_json(operations), JSON_PATCH)
        assert read_shape(resized).qos == created["status"]["qosClass"] == resized["status"]["qosClass"]
        assert all_set(resized, size)
    return True


def patched(document: Document, created: Document, operations: list[PatchOp]) -> Document:
    """The pod as a webhook would leave it, without what the server adds to metadata and status."""
    changed: Document = apply_patch({**document, "spec": created["spec"]}, operations)
    return changed


def as_json(operations: list[PatchOp]) -> list[Document]:
    return [{"op": operation.op, "path": operation.path, "value": operation.value} for operation in operations]


def all_set(document: Document, size: PodSize) -> bool:
    now = {container.name: container for container in read_shape(document).containers}
    return all(
        container.requests.items() <= now[container.container.name].requests.items()
        and container.limits.items() <= now[container.container.name].limits.items()
        for container in size.containers
    )


def in_force(api: Api, items: list[Document]) -> NamespaceLimits:
    """The LimitRange as the server stores it, once it holds: the LimitRanger works from a cache."""
    path = f"/api/v1/namespaces/{NAMESPACE}/limitranges/bounds"
    if api.find(path):
        api.delete(path)
    probe = {"type": "Pod", "max": {"ephemeral-storage": "1"}}
    manifest = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "bounds"}, "spec": {"limits": [probe]}}
    api.create(manifest, NAMESPACE)
    until("the probe to hold", lambda: not accepts(api))
    bounds = api.patch(path, {"spec": {"limits": items}})["spec"].get("limits") or []
    until("the LimitRange to hold", lambda: accepts(api))
    return limit_ranges(*bounds)


def accepts(api: Api) -> bool:
    """Refused under the probe, because it has no limit of that, and under none of the ranges."""
    resources = {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
    spec = {"containers": [{"name": "app", "image": "app", "resources": resources}]}
    try:
        api.send("POST", f"{PODS}?dryRun=All", manifest_of("probe", spec))
    except Refused:
        return False
    return True


def manifest_of(name: str, spec: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"automountServiceAccountToken": False, **spec},
    }


def drawn_resources(rng: Random) -> Document:
    limits = {name: rng.choice(texts[1:]) for name, texts in (("cpu", CPU), ("memory", MEMORY)) if rng.random() < 0.6}
    requests = {name: rng.choice(texts) for name, texts in (("cpu", CPU), ("memory", MEMORY)) if rng.random() < 0.5}
    return {"requests": {} if rng.random() < 0.3 else requests, "limits": limits}


def drawn_container(rng: Random, name: str, **more: Any) -> Document:
    return {"name": name, "image": "app", "resources": drawn_resources(rng), **more}


def drawn_pod(rng: Random, name: str) -> Document:
    spec: Document = {"containers": [drawn_container(rng, f"c{number}") for number in range(rng.randint(1, 2))]}
    spec["initContainers"] = [
        drawn_container(rng, f"i{number}", **rng.choice([{}, {"restartPolicy": "Always"}]))
        for number in range(rng.choice([0, 0, 1, 2]))
    ]
    if rng.random() < 0.3:
        spec["resources"] = rng.choice(
            [
                {"requests": {"cpu": "3"}},
                {"requests": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "2Gi"}},
                {"limits": {"cpu": "3", "memory": "2Gi"}},
            ]
        )
    return manifest_of(name, spec)


def drawn_policy(rng: Random) -> Document:
    policy: Document = {"containerName": rng.choice(["*", "c0"])}
    policy["controlledValues"] = rng.choice(["RequestsOnly", "RequestsAndLimits"])
    if rng.random() < 0.3:
        policy["minAllowed"] = {"cpu": rng.choice(CPU)}
    if rng.random() < 0.3:
        policy["maxAllowed"] = {"memory": rng.choice(MEMORY[1:])}
    return policy


def drawn_advice(rng: Random, containers: Any) -> list[RecommendedResources]:
    return [
        RecommendedResources(
            container.name, {"cpu": rng.choice([5, 25, 999, 4000]), "memory": rng.choice([2**20, 2**28, 2**32, 777])}
        )
        for container in containers
        if rng.random() < 0.8
    ]
