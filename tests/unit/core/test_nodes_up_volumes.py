"""Pods that wait with volumes: where they can go changes with their claims, and with who else uses them."""

from __future__ import annotations

from typing import Any

import pytest

from nodes_world import ZONE, Cluster, a_group, a_node, a_pod
from trellis.api.kube.decode import convert_object
from trellis.api.kube.pods import Pod
from trellis.api.kube.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.core.fit import Storage
from trellis.core.nodes.verdicts import PodsVerdict

CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
LATE = convert_object({"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}, StorageClass)


def stored(zone: str = "", mode: str = "ReadWriteOnce") -> Storage:
    """A claim that is bound to a volume in a zone, or waits for one."""
    done = {BIND_COMPLETED: "yes"} if zone else {}
    spec = {"volumeName": "v" if zone else "", "storageClassName": "late", "accessModes": [mode]}
    metadata = {"namespace": "default", "name": "data", "annotations": done}
    claim = convert_object({"metadata": metadata, "spec": spec}, PersistentVolumeClaim)
    volume = convert_object({"metadata": {"name": "v", "labels": {ZONE: zone}}}, PersistentVolume)
    return Storage({("default", "data"): claim}, {"v": volume} if zone else {}, {"late": LATE})


def with_claim(name: str, **more: Any) -> Pod:
    return a_pod(name, volumes=CLAIM, owner=("StatefulSet", "db"), **more)


def told(cluster: Cluster) -> PodsVerdict:
    [verdict] = cluster.plan().pods
    return verdict


def in_zones() -> Cluster:
    return Cluster(a_group("a", labels={ZONE: "za"}), a_group("b", labels={ZONE: "zb"}, price=9.0))


def test_a_pod_that_was_read_before_its_claim_was_bound_goes_where_its_volume_is() -> None:
    cluster = in_zones()
    cluster.snapshot.put_storage(stored())
    cluster.create(with_claim("db-0"))
    assert cluster.ordered() == {"a": 1}
    cluster = in_zones()
    cluster.snapshot.put_storage(stored())
    cluster.create(with_claim("db-0"))
    cluster.snapshot.put_storage(stored("zb"))
    assert cluster.ordered() == {"b": 1}


def test_no_node_is_ordered_for_a_pod_whose_claim_is_for_another_pod_alone() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.snapshot.put_storage(stored("z", "ReadWriteOncePod"))
    cluster.place(with_claim("db-0", cpu="4"), "there").create(with_claim("db-1"))
    assert cluster.ordered() == {}
    verdict = told(cluster)
    assert verdict.said.reason.code == "NoGroupFits"
    assert [str(each) for each in verdict.refused] == ["VolumeNotReady: small"]


def test_once_the_other_pod_is_gone_a_node_is_ordered() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.snapshot.put_storage(stored("z", "ReadWriteOncePod"))
    cluster.place(with_claim("db-0", cpu="1"), "there").create(with_claim("db-1", cpu="4"))
    assert cluster.ordered() == {}
    cluster.place(a_pod("full", cpu="3"), "there").delete("db-0")
    assert cluster.ordered() == {"small": 1}


def test_whoever_waits_is_read_again_when_another_takes_the_claim() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there", cpu="1"))
    cluster.snapshot.put_storage(stored("z", "ReadWriteOncePod"))
    cluster.create(with_claim("db-1", cpu="4"))
    cluster.place(with_claim("db-0"), "there")
    assert cluster.ordered() == {}


def test_a_claim_that_several_pods_may_use_keeps_nobody() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.snapshot.put_storage(stored("z"))
    cluster.place(with_claim("db-0", cpu="4"), "there").create(with_claim("db-1"))
    assert cluster.ordered() == {"small": 1}


def test_a_claim_that_two_had_is_free_when_both_are_gone() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.snapshot.put_storage(stored("z", "ReadWriteOncePod"))
    cluster.place(with_claim("db-0", cpu="2"), "there").place(with_claim("db-2", cpu="2"), "there")
    cluster.create(with_claim("db-1", cpu="4"))
    assert cluster.delete("db-0").ordered() == {}
    assert cluster.delete("db-2").place(a_pod("full", cpu="4"), "there").ordered() == {"small": 1}


@pytest.mark.parametrize("changes_hands", [False, True])
def test_whoever_was_promised_a_node_is_on_it_when_it_comes_whatever_became_of_claims_since(
    changes_hands: bool,
) -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("other"))
    cluster.snapshot.put_storage(stored("z", "ReadWriteOncePod"))
    cluster.create(with_claim("db-0", status={"phase": "Pending", "nominatedNodeName": "there"}))
    if changes_hands:
        cluster.place(with_claim("db-1"), "other")
    else:
        cluster.snapshot.put_storage(stored("z"))
    assert cluster.snapshot.pending.keys() == {("default", "db-0")}
    cluster.nodes(a_node("there"))
    assert not cluster.snapshot.pending
    assert cluster.snapshot.on("there").keys() == {("default", "db-0")}


def test_a_pod_whose_claim_is_made_for_it_is_read_again_when_that_is_there() -> None:
    cluster = in_zones().create(a_pod("run-0", volumes=[{"name": "scratch", "ephemeral": {}}], owner=("Job", "run")))
    assert cluster.ordered() == {}
    owner = {"kind": "Pod", "name": "run-0", "uid": "run-0", "controller": True}
    metadata = {"namespace": "default", "name": "run-0-scratch", "ownerReferences": [owner]}
    claim = convert_object({"metadata": metadata, "spec": {"storageClassName": "late"}}, PersistentVolumeClaim)
    cluster.snapshot.put_storage(Storage({("default", "run-0-scratch"): claim}, {}, {"late": LATE}))
    assert cluster.ordered() == {"a": 1}
