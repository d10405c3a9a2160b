"""The API server takes every boosted pod that it takes unboosted, and the resize that takes the boost back.

The server's own rules are what counts here: LimitRanges, QoS classes, resources that cannot be removed. No pod is
scheduled, so that nothing but them decides.
"""

from __future__ import annotations

import copy
from random import Random

import msgspec
import pytest

from support.builders.manifests import vpa
from support.worlds.boosts import NO_LIMITS, Life, container, effective, end, start, with_memory
from testbed.client import STRATEGIC_PATCH, Json
from testbed.cluster import Cluster
from testbed.errors import Refused
from testbed.workloads import IMAGE
from trellis.api.kube.policies import LimitRange
from trellis.api.resolve import EffectiveVpa
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges

PODS = 40
READY = 100.0
NAMES = ("app", "proxy", "logger")
BOOSTS = (
    {"type": "Factor", "factor": 2},
    {"type": "Factor", "factor": 7},
    {"type": "Quantity", "quantity": "1"},
    {"type": "Quantity", "quantity": "1m"},
)
RANGES: dict[str, list[Json]] = {
    "none": [],
    "container": [{"type": "Container", "max": {"cpu": "2"}}],
    "pod": [{"type": "Pod", "max": {"cpu": "3"}}],
    "both": [
        {"type": "Container", "max": {"cpu": "1500m"}, "maxLimitRequestRatio": {"cpu": "3"}},
        {"type": "Pod", "max": {"cpu": "2500m"}},
    ],
}


@pytest.mark.req("SB-21", "SB-22")
@pytest.mark.parametrize("kind", RANGES)
def test_a_boosted_pod_is_admitted_and_its_boost_can_be_taken_back(cluster: Cluster, namespace: str, kind: str) -> None:
    rng = Random(kind)  # noqa: S311 - the same pods in every run
    limits = demand(cluster, namespace, RANGES[kind])
    boosted = 0
    for number in range(PODS):
        came = as_it_reaches_admission(cluster, namespace, drawn_pod(rng))
        at_start, at_end, first, second = drawn_vpa(rng), drawn_vpa(rng), drawn_targets(rng), drawn_targets(rng)
        if limits.pod.most:
            # A recommendation that vanishes may leave a pod whose own amounts no longer fit beside its neighbours'.
            at_end, second = at_start, {name: second.get(name, target) for name, target in first.items()}
        if came is None or not admitted(cluster, namespace, start(came, without_boost(at_start), first, limits=limits)):
            continue
        began = start(came, at_start, first, limits=limits)
        created = cluster.api.create(manifest(f"p{number}", began), namespace)
        assert created["status"]["qosClass"] == began.shape.qos, began
        boosted += len(began.annotations)
        resized = taken_back(cluster, created, began, (at_end, second), limits)
        assert resized["status"]["qosClass"] == created["status"]["qosClass"]
    assert boosted > PODS / 4


def taken_back(
    cluster: Cluster, created: Json, began: Life, by: tuple[EffectiveVpa, Json], limits: NamespaceLimits
) -> Json:
    """The pod after two looks. At the first, what its neighbours still have may leave too little room for it."""
    path = "/api/v1/namespaces/{namespace}/pods/{name}/resize".format_map(created["metadata"])
    first = end(began, *by, now=READY, ready_since=READY, limits=limits)
    try:
        cluster.api.patch(path, {"spec": resources(first)}, STRATEGIC_PATCH)
    except Refused:
        assert first.annotations
        first = began
    last = end(first, *by, now=READY + 60, ready_since=READY, limits=limits)
    assert last.annotations == {}
    assert all(container.requests for container in last.ended), last.ended
    return cluster.api.patch(path, {"spec": resources(last)}, STRATEGIC_PATCH)


def demand(cluster: Cluster, namespace: str, items: list[Json]) -> NamespaceLimits:
    """A LimitRange in the cluster, and what we make of it."""
    if not items:
        return NO_LIMITS
    written = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "most"}, "spec": {"limits": items}}
    created = cluster.api.create(written, namespace)
    return read_limit_ranges([msgspec.convert(created, LimitRange)])


def as_it_reaches_admission(cluster: Cluster, namespace: str, life: Life) -> Life | None:
    """With the defaults of the server and of its LimitRanger, which come before any webhook; None if it is refused."""
    try:
        spec = dry_run(cluster, namespace, life)["spec"]
    except Refused:
        return None
    submitted = Life(copy.deepcopy(life.spec))
    for own, filled in zip(submitted.spec["containers"], spec["containers"], strict=True):
        own["resources"] = filled["resources"]
    return submitted


def admitted(cluster: Cluster, namespace: str, life: Life) -> bool:
    try:
        dry_run(cluster, namespace, life)
    except Refused:
        return False
    return True


def dry_run(cluster: Cluster, namespace: str, life: Life) -> Json:
    return cluster.api.apply(manifest("dry", life), namespace, dry_run=True)


def manifest(name: str, life: Life) -> Json:
    metadata = {"name": name, "annotations": life.annotations}
    spec = {**life.spec, "schedulerName": "nobody"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def resources(life: Life) -> Json:
    return {
        "containers": [
            {"name": container["name"], "resources": container["resources"]} for container in life.spec["containers"]
        ]
    }


def drawn_pod(rng: Random) -> Life:
    return Life({"containers": [drawn_container(rng, name) for name in NAMES[: rng.randint(1, 3)]]})


def drawn_container(rng: Random, name: str) -> Json:
    cpu = rng.choice([None, 1, 100, 250, 500, 1000])
    limit = rng.choice([None, cpu or 300, (cpu or 300) + rng.choice([1, 200, 500])])
    document = container(
        None if cpu is None else f"{cpu}m", None if limit is None else f"{limit}m", name=name, image=IMAGE
    )
    if rng.random() < 0.7:
        with_memory(document, "100Mi", rng.choice([None, "100Mi", "200Mi"]))
    return document


def drawn_targets(rng: Random) -> Json:
    cpu = {name: f"{rng.choice([1, 80, 300, 700])}m" for name in NAMES if rng.random() < 0.6}
    return {name: {"cpu": amount, "memory": "150Mi"} for name, amount in cpu.items()}


def drawn_vpa(rng: Random) -> EffectiveVpa:
    """In which one container of a pod loses its boost a minute before the others."""
    every = {
        "controlledValues": rng.choice(["RequestsAndLimits", "RequestsOnly"]),
        "controlledResources": rng.choice([["cpu", "memory"], ["cpu"], ["memory"]]),
    }
    spec = {
        "updatePolicy": {"updateMode": rng.choice(["Off", "Recreate", "Initial"])},
        "resourcePolicy": {
            "containerPolicies": [
                {"containerName": "app", "startupBoost": {"cpu": rng.choice(BOOSTS)}, **every},
                {"containerName": "*", **every},
            ]
        },
        "startupBoost": {"cpu": {**rng.choice(BOOSTS), "duration": "60s"}},
    }
    return effective(vpa(**spec))


def without_boost(meaning: EffectiveVpa) -> EffectiveVpa:
    plain = {name: msgspec.structs.replace(container, boost=None) for name, container in meaning.containers.items()}
    others = msgspec.structs.replace(meaning.default_container, boost=None)
    return msgspec.structs.replace(meaning, containers=plain, default_container=others)
