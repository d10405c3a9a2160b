"""The nodes that reach a pod's volumes, by the scheduler's rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.core.fit import (
    Demand,
    NodeTable,
    Storage,
    UnfitNodes,
    explain_unfit_nodes,
    find_fitting_nodes,
    find_volume_terms,
)
from trellis.core.fit.filters import VOLUME_NOT_REACHABLE, VOLUME_NOT_READY

Json = dict[str, Any]

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
DONE = {"pv.kubernetes.io/bind-completed": "yes"}
LATE = {"metadata": {"name": "late"}, "provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer"}


def table() -> NodeTable:
    labels: dict[str, Json] = {"a": {ZONE: "za"}, "b": {ZONE: "zb"}, "old": {OLD_ZONE: "za"}, "free": {}}
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    documents = (
        {"metadata": {"name": name, "labels": label}, "status": {"allocatable": amounts}}
        for name, label in labels.items()
    )
    return NodeTable(msgspec.convert(document, Node) for document in documents)


def claim(volume: str = "", **fields: Any) -> Json:
    """Bound to a volume, or waiting for the class that makes one late."""
    metadata = {"name": "data", "namespace": "red", "annotations": DONE if volume else {}}
    return {"metadata": metadata, "spec": {"volumeName": volume, "storageClassName": "late"}} | fields


def volume(labels: Json | None = None, *terms: Json) -> Json:
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}} if terms else {}
    return {"metadata": {"name": "pv", "labels": labels or {}}, "spec": affinity}


def storage(claims: list[Json], volumes: tuple[Json, ...] = (), made_by: Json = LATE) -> Storage:
    read = [msgspec.convert(claim, PersistentVolumeClaim) for claim in claims]
    return Storage(
        claims={(claim.metadata.namespace, claim.metadata.name): claim for claim in read},
        volumes={volume["metadata"]["name"]: msgspec.convert(volume, PersistentVolume) for volume in volumes},
        classes={made_by["metadata"]["name"]: msgspec.convert(made_by, StorageClass)},
    )


def demand(known: Storage, *volumes: Json) -> Demand:
    written = volumes or ({"persistentVolumeClaim": {"claimName": "data"}},)
    metadata = {"name": "p", "namespace": "red", "uid": "u1"}
    pod = msgspec.convert({"metadata": metadata, "spec": {"volumes": list(written), "containers": []}}, Pod)
    return Demand.of(pod.spec, volumes=find_volume_terms(pod.spec, pod.metadata, known))


def where(known: Storage, *volumes: Json) -> list[str]:
    nodes = table()
    return nodes.names(find_fitting_nodes(nodes, demand(known, *volumes)))


def expression(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_a_pod_with_a_bound_volume_fits_only_nodes_that_reach_it() -> None:
    def at(*terms: Json) -> list[str]:
        return where(storage([claim("pv")], (volume(None, *terms),)))

    assert at(expression(ZONE, "In", "za")) == ["a"]
    assert at(expression(ZONE, "In", "zb"), expression(OLD_ZONE, "Exists")) == ["b", "old"]
    assert at() == ["a", "b", "old", "free"]
    assert at({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}) == []
    assert at({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}) == [
        "a",
        "b",
        "old",
        "free",
    ]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({ZONE: "za"}, ["a", "free"]),
        ({ZONE: "za__zb"}, ["a", "b", "free"]),
        ({OLD_ZONE: "za"}, ["a", "old", "free"]),
        ({ZONE: "za", REGION: "r"}, ["free"]),
        ({"zone": "za"}, ["a", "b", "old", "free"]),
    ],
)
def test_zone_labels_of_a_volume_restrict_nodes_that_are_in_zones(labels: Json, expected: list[str]) -> None:
    assert where(storage([claim("pv")], (volume(labels),))) == expected


def test_a_late_binding_volume_fits_where_its_class_allows() -> None:
    assert where(storage([claim()])) == ["a", "b", "old", "free"]
    some = [{"matchLabelExpressions": [{"key": ZONE, "values": ["zb", "zc"]}]}, {"matchLabelExpressions": []}]
    assert where(storage([claim()], made_by=LATE | {"allowedTopologies": some})) == ["b"]
    empty: Json = LATE | {"allowedTopologies": [{"matchLabelExpressions": []}]}
    assert where(storage([claim()], made_by=empty)) == []


def test_a_volume_with_a_selected_node_restricts_its_pod_to_that_node() -> None:
    chosen = {"name": "data", "namespace": "red", "annotations": {"volume.kubernetes.io/selected-node": "b"}}
    assert where(storage([claim(metadata=chosen)])) == ["b"]


@pytest.mark.parametrize(
    "known",
    [
        storage([]),
        storage([claim("pv")]),
        storage([claim("pv", status={"phase": "Lost"})], (volume(),)),
        storage([claim()], made_by=LATE | {"volumeBindingMode": "Immediate"}),
        storage([claim()], made_by=LATE | {"metadata": {"name": "other"}}),
        storage([claim(metadata={"name": "data", "namespace": "blue"})]),
        storage([claim("pv", metadata={"name": "data", "namespace": "red"})], (volume(),)),
        storage(
            [claim(metadata={"name": "data", "namespace": "red", "deletionTimestamp": "2026-01-01T00:00:00Z"})],
        ),
    ],
    ids=["no claim", "no volume", "lost", "immediate", "no class", "other namespace", "half bound", "going"],
)
def test_a_pod_whose_claim_is_not_ready_fits_nowhere_with_that_reason(known: Storage) -> None:
    nodes = table()
    assert not find_fitting_nodes(nodes, demand(known)).any()
    assert explain_unfit_nodes(nodes, demand(known)) == (UnfitNodes(VOLUME_NOT_READY, 4),)


@pytest.mark.parametrize("mode", ["ReadWriteOncePod", "ReadWriteOnce", "ReadWriteMany"])
@pytest.mark.parametrize("in_use", [("red", "data"), ("red", "other"), ("blue", "data")])
def test_a_pod_whose_exclusive_claim_is_in_use_fits_nowhere(mode: str, in_use: tuple[str, str]) -> None:
    spec = {"volumeName": "pv", "storageClassName": "late", "accessModes": [mode]}
    known = storage([claim("pv", spec=spec)], (volume(),))
    pod = msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": "red", "uid": "u1"},
            "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}], "containers": []},
        },
        Pod,
    )
    terms = find_volume_terms(pod.spec, pod.metadata, known, {in_use})
    result = table().names(find_fitting_nodes(table(), Demand.of(pod.spec, volumes=terms)))
    assert bool(result) == (mode != "ReadWriteOncePod" or in_use != ("red", "data"))


def test_nodes_that_cannot_reach_a_volume_are_unfit_for_that_reason() -> None:
    known = storage([claim("pv")], (volume(None, expression(ZONE, "In", "za")),))
    assert explain_unfit_nodes(table(), demand(known)) == (UnfitNodes(VOLUME_NOT_REACHABLE, 3),)


def test_every_volume_must_be_reached() -> None:
    other = claim("pw", metadata={"name": "more", "namespace": "red", "annotations": DONE})
    volumes = (volume({ZONE: "za__zb"}), volume({ZONE: "zb"}) | {"metadata": {"name": "pw", "labels": {ZONE: "zb"}}})
    both = [{"persistentVolumeClaim": {"claimName": name}} for name in ("data", "more")]
    assert where(storage([claim("pv"), other], volumes), *both) == ["b", "free"]


def test_an_ephemeral_claim_is_found_by_its_owner() -> None:
    owner = [{"uid": "u1", "kind": "Pod", "name": "p", "controller": True}]
    own = claim("pv", metadata={"name": "p-x", "namespace": "red", "annotations": DONE, "ownerReferences": owner})
    bound = storage([own], (volume({ZONE: "za"}, expression(ZONE, "In", "zb")),))
    # The scheduler asks where such a volume is, and not what its labels say.
    assert where(bound, {"ephemeral": {}}) == ["b"]
    assert where(bound, {"ephemeral": {}}, {"ephemeral": {}}) == []
    assert where(storage([]), {"emptyDir": {}}, {"hostPath": {}}) == ["a", "b", "old", "free"]
