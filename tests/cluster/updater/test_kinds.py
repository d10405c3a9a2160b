"""The updater works on every well-known kind of workload, and on other kinds that have a scale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.admission import cpu, owned
from support.cluster.gardens import flower, garden
from support.cluster.updaters import NO_LEASE, Start, advise, by_uid, updaters, wait_for_two_passes
from support.cluster.vpas import metric_value, vpa
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.control_plane import DEFAULT_NODES
from testbed.waiting import until
from testbed.workloads import container, deployment, pod

# Other tests make nodes and remove them.
_NAMES = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name for node in DEFAULT_NODES]}
ON_LASTING_NODES: Json = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [_NAMES]}]}
}
KINDS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob")


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


def started(cluster: Cluster, namespace: str, kind: str) -> Json:
    """A workload of a kind, with two pods where it can say how many."""
    name = kind.lower()
    template = deployment(name, container())["spec"]["template"]
    selector = {"matchLabels": {"app": name}}
    match kind:
        case "Job":
            return cluster.api.create(_job(name, template), namespace)
        case "CronJob":
            spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": _job(name, template)["spec"]}}
            result = cluster.api.create(_object("batch/v1", kind, name, spec), namespace)
            # As it would make it when its time comes.
            owner = {key: result[key] for key in ("apiVersion", "kind")} | {"name": name, "controller": True}
            made = _job(f"{name}-1", template)
            made["metadata"]["ownerReferences"] = [owner | {"uid": result["metadata"]["uid"]}]
            cluster.api.create(made, namespace)
            return result
        case "ReplicationController":
            spec = {"replicas": 2, "selector": {"app": name}, "template": template}
            return cluster.api.create(_object("v1", kind, name, spec), namespace)
        case "DaemonSet":
            template["spec"]["affinity"] = {"nodeAffinity": ON_LASTING_NODES}
            spec = {"selector": selector, "template": template}
            return cluster.api.create(_object("apps/v1", kind, name, spec), namespace)
        case _:
            spec = {"replicas": 2, "selector": selector, "template": template}
            return cluster.api.create(_object("apps/v1", kind, name, spec), namespace)


def _job(name: str, template: Json) -> Json:
    template = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    return _object("batch/v1", "Job", name, {"parallelism": 2, "completions": 2, "template": template})


def _object(version: str, kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def govern(cluster: Cluster, namespace: str, made: Json, mode: str) -> None:
    """A VPA on a workload of any kind."""
    name = made["metadata"]["name"]
    document = vpa(name, updatePolicy={"updateMode": mode})
    document["spec"]["targetRef"] = {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": name}
    cluster.api.create(document, namespace)
    advise(cluster, namespace, name)


def pods_of(cluster: Cluster, namespace: str, kind: str) -> list[Json]:
    """Its pods once there are two, or for a DaemonSet as many as nodes that stay."""
    count = len(DEFAULT_NODES) if kind == "DaemonSet" else 2
    return cluster.wait_for_ready_pods(namespace, kind.lower(), count)


def test_pods_of_every_kind_are_resized_in_place(cluster: Cluster, namespace: str, updater: Start) -> None:
    made = {kind: started(cluster, namespace, kind) for kind in KINDS}
    before = {kind: by_uid(pods_of(cluster, namespace, kind)) for kind in KINDS}
    for workload in made.values():
        govern(cluster, namespace, workload, "InPlaceOrRecreate")
    controller = updater(namespace, NO_LEASE)

    def sizes() -> dict[str, set[str | None]]:
        return {kind: {cpu(pod) for pod in cluster.list_pods(namespace, kind.lower())} for kind in KINDS}

    until("all pods to be resized", lambda: sizes() == {kind: {"250m"} for kind in KINDS})
    wait_for_two_passes(controller)
    for kind in KINDS:
        assert by_uid(pods_of(cluster, namespace, kind)).keys() == before[kind].keys()
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


def test_pods_of_every_kind_are_evicted(cluster: Cluster, namespace: str, updater: Start) -> None:
    made = {kind: started(cluster, namespace, kind) for kind in KINDS}
    for kind in KINDS:
        pods_of(cluster, namespace, kind)
    for workload in made.values():
        govern(cluster, namespace, workload, "Recreate")
    controller = updater(namespace, NO_LEASE)
    for kind in KINDS:
        until(
            f"an eviction of {kind}",
            lambda kind=kind: metric_value(controller, "vpa_updater_evicted_pods_total", vpa_name=kind.lower()) >= 1,  # type: ignore[misc]
        )


def test_pods_of_another_kind_with_a_scale_are_resized_in_place(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    with garden(cluster) as group:
        made = cluster.api.create(flower(group, "rose"), namespace)
        for number in range(2):
            cluster.api.create(owned(pod(f"rose-{number}"), made), namespace)
        before = by_uid(cluster.wait_for_ready_pods(namespace, "rose", 2))
        govern(cluster, namespace, made, "InPlaceOrRecreate")
        updater(namespace, NO_LEASE)
        until("both to be resized", lambda: {cpu(pod) for pod in cluster.list_pods(namespace, "rose")} == {"250m"})
        assert by_uid(cluster.wait_for_ready_pods(namespace, "rose", 2)).keys() == before.keys()
