"""The real scheduler places a pod on a node that the filters expect to reach its volumes, and on no other."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import pytest

from support.oracles.scheduler import SET, find_decided_pod
from testbed.cluster import Cluster
from testbed.kwok.nodes import Node as NewNode
from testbed.kwok.nodes import Taint
from testbed.waiting import until
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.core.fit import Demand, NodeTable, Storage, find_fitting_nodes, find_volume_terms

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"


class World(NamedTuple):
    """A namespace with a node in each of two zones, and what we know of them."""

    cluster: Cluster
    namespace: str
    table: NodeTable


@pytest.fixture
def world(cluster: Cluster, namespace: str) -> Iterator[World]:
    names = [f"{namespace}-{zone}" for zone in ("a", "b")]
    cluster.add_nodes(
        *(NewNode(name=name, zone=name[-1], labels={SET: namespace}, taints=(Taint(SET, namespace),)) for name in names)
    )
    result = (cluster.api.get(f"/api/v1/nodes/{name}") for name in names)
    try:
        yield World(cluster, namespace, NodeTable(convert_object(node, Node) for node in result))
    finally:
        cluster.remove_nodes(*names)
        for path in ("/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses"):
            cluster.api.delete(f"{path}/{namespace}")


def test_a_pod_is_placed_on_a_node_that_reaches_its_volume(world: World) -> None:
    make_class(world)
    make_volume(world, {"nodeAffinity": reached_from("b")})
    assert check_a_pod(world, {"volumeName": world.namespace, "storageClassName": ""}) == ["b"]


def test_a_pod_is_placed_in_the_zone_of_its_volumes_label(world: World) -> None:
    make_class(world)
    make_volume(world, {}, {ZONE: "a__c"})
    assert check_a_pod(world, {"volumeName": world.namespace, "storageClassName": ""}) == ["a"]


def test_a_pod_whose_volume_no_node_reaches_stays_pending(world: World) -> None:
    make_class(world)
    make_volume(world, {"nodeAffinity": reached_from("c")})
    assert check_a_pod(world, {"volumeName": world.namespace, "storageClassName": ""}) == []


def test_a_pod_whose_volume_no_topology_allows_stays_pending(world: World) -> None:
    make_class(world, {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}]}]})
    make_volume(world, {}, claim="another")
    assert check_a_pod(world, {"storageClassName": world.namespace}) == []


def test_a_pod_with_an_unbound_immediate_claim_stays_pending(world: World) -> None:
    make_class(world, {"volumeBindingMode": "Immediate"})
    make_volume(world, {}, claim="another")
    assert check_a_pod(world, {"storageClassName": world.namespace}) == []


@pytest.mark.parametrize(("mode", "second"), [("ReadWriteOncePod", []), ("ReadWriteOnce", ["a", "b"])])
def test_a_second_pod_with_an_exclusive_claim_stays_pending(world: World, mode: str, second: list[str]) -> None:
    make_class(world)
    make_volume(world, {"accessModes": [mode]})
    claim = {"volumeName": world.namespace, "storageClassName": "", "accessModes": [mode]}
    assert check_a_pod(world, claim) == ["a", "b"]
    assert verdict_on(world, "second", {(world.namespace, "data")}) == second


def check_a_pod(world: World, claim: Json) -> list[str]:
    """The zones it can be placed in, which are those the scheduler says."""
    make_claim(world, claim)
    return verdict_on(world, "p")


def verdict_on(world: World, name: str, in_use: Collection[tuple[str, str]] = ()) -> list[str]:
    """The same of one more pod with the claim; `in_use` are those of pods before."""
    cluster, namespace, table = world
    spec = {
        "containers": [{"name": "c", "image": "example/app:1.0"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "nodeSelector": {SET: namespace},
        "tolerations": [{"key": SET, "operator": "Exists"}],
    }
    created = cluster.api.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}, namespace
    )
    read = convert_object(created, Pod)
    terms = find_volume_terms(read.spec, read.metadata, read_storage(world), in_use)
    expected = table.names(find_fitting_nodes(table, Demand.of(read.spec, metadata=read.metadata, volumes=terms)))
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    pod = until(
        "the scheduler's verdict", lambda: find_decided_pod(cluster.api.get(path), expected_to_fit=bool(expected))
    )
    chosen = pod["spec"].get("nodeName")
    assert (chosen in expected) if chosen else expected == [], pod["status"]
    return [name[-1] for name in expected]


def read_storage(world: World) -> Storage:
    api, name = world.cluster.api, world.namespace
    claim = api.get(f"/api/v1/namespaces/{name}/persistentvolumeclaims/data")
    volume = api.get(f"/api/v1/persistentvolumes/{name}")
    made_by = api.get(f"/apis/storage.k8s.io/v1/storageclasses/{name}")
    return Storage(
        claims={(name, "data"): convert_object(claim, PersistentVolumeClaim)},
        volumes={name: convert_object(volume, PersistentVolume)},
        classes={name: convert_object(made_by, StorageClass)},
    )


def make_class(world: World, more: Json | None = None) -> None:
    document = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": world.namespace}}
    usual = {"provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer"}
    world.cluster.api.create(document | usual | (more or {}))


def make_volume(world: World, more: Json, labels: Json | None = None, claim: str = "data") -> None:
    """For one claim of this test and no other."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/nowhere"},
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": world.namespace, "name": claim},
    }
    metadata = {"name": world.namespace, "labels": labels or {}}
    document = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec | more}
    world.cluster.api.create(document)


def make_claim(world: World, spec: Json) -> None:
    usual = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": usual | spec}
    world.cluster.api.create(document, world.namespace)
    path = f"/api/v1/namespaces/{world.namespace}/persistentvolumeclaims/data"
    if "volumeName" in spec:
        until("the claim to be bound", lambda: world.cluster.api.get(path)["status"].get("phase") == "Bound")


def reached_from(zone: str) -> Json:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    return {"required": {"nodeSelectorTerms": terms}}
