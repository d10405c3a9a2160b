"""Pending pods with volumes: their nodes depend on their claims and on other pods with the same claims."""

from __future__ import annotations

from typing import Any

import pytest

from support.worlds.nodes import ZONE, Cluster, a_group, a_node, a_pod
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import Pod
from trellis.api.kube.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.core.fit import Storage
from trellis.core.nodes.scale_up.decisions import PendingPodsDecision

CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
LATE = convert_object({"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}, StorageClass)


def stored(zone: str = "", mode: str = "ReadWriteOnce") -> Storage:
    """A claim that is bound to a volume in a zone, or waits for one."""
    completed = {BIND_COMPLETED: "yes"} if zone else {}
    spec = {"volumeName": "v" if zone else "", "storageClassName": "late", "accessModes": [mode]}
    metadata = {"namespace": "default", "name": "data", "annotations": completed}
    claim = convert_object({"metadata": metadata, "spec": spec}, PersistentVolumeClaim)
    volume = convert_object({"metadata": {"name": "v", "labels": {ZONE: zone}}}, PersistentVolume)
    return Storage({("default", "data"): claim}, {"v": volume} if zone else {}, {"late": LATE})


def with_claim(name: str, **fields: Any) -> Pod:
    return a_pod(name, volumes=CLAIM, owner=("StatefulSet", "db"), **fields)


def decide(cluster: Cluster) -> PendingPodsDecision:
    [decided] = cluster.plan().pods
    return decided


def in_zones() -> Cluster:
    return Cluster(a_group("a", labels={ZONE: "za"}), a_group("b", labels={ZONE: "zb"}, price=9.0))


def test_a_pending_pod_is_read_again_when_its_claim_is_bound() -> None:
    cluster = in_zones()
    cluster.snapshot.put_storage(stored())
    cluster.create(with_claim("db-0"))
    assert cluster.ordered() == {"a": 1}
    cluster = in_zones()
    cluster.snapshot.put_storage(stored())
    cluster.create(with_claim("db-0"))
    cluster.snapshot.put_storage(stored("zb"))
    assert cluster.ordered() == {"b": 1}


def test_no_node_is_ordered_for_a_pod_whose_exclusive_claim_is_in_use() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.snapshot.put_storage(stored("z", "ReadWriteOncePod"))
    cluster.place(with_claim("db-0", cpu="4"), "there").create(with_claim("db-1"))
    assert cluster.ordered() == {}
    decided = decide(cluster)
    assert decided.reason.reason.code == "NoGroupFits"
    assert [str(refusal) for refusal in decided.refused] == ["VolumeNotReady: small"]


def test_a_node_is_ordered_once_the_exclusive_claim_is_free() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.snapshot.put_storage(stored("z", "ReadWriteOncePod"))
    cluster.place(with_claim("db-0", cpu="1"), "there").create(with_claim("db-1", cpu="4"))
    assert cluster.ordered() == {}
    cluster.place(a_pod("full", cpu="3"), "there").delete("db-0")
    assert cluster.ordered() == {"small": 1}


def test_a_pending_pod_is_read_again_when_another_pod_uses_its_claim() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there", cpu="1"))
    cluster.snapshot.put_storage(stored("z", "ReadWriteOncePod"))
    cluster.create(with_claim("db-1", cpu="4"))
    cluster.place(with_claim("db-0"), "there")
    assert cluster.ordered() == {}


def test_a_claim_that_several_pods_may_use_blocks_no_pod() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.snapshot.put_storage(stored("z"))
    cluster.place(with_claim("db-0", cpu="4"), "there").create(with_claim("db-1"))
    assert cluster.ordered() == {"small": 1}


def test_a_claim_of_two_pods_is_free_when_both_are_deleted() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("there"))
    cluster.snapshot.put_storage(stored("z", "ReadWriteOncePod"))
    cluster.place(with_claim("db-0", cpu="2"), "there").place(with_claim("db-2", cpu="2"), "there")
    cluster.create(with_claim("db-1", cpu="4"))
    assert cluster.delete("db-0").ordered() == {}
    assert cluster.delete("db-2").place(a_pod("full", cpu="4"), "there").ordered() == {"small": 1}


@pytest.mark.parametrize("changes_hands", [False, True])
def test_a_nominated_pod_is_placed_on_its_node_whatever_its_claim(
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
    assert cluster.snapshot.pods_on("there").keys() == {("default", "db-0")}


def test_a_pod_with_an_ephemeral_claim_is_read_again_when_the_claim_exists() -> None:
    cluster = in_zones().create(a_pod("run-0", volumes=[{"name": "scratch", "ephemeral": {}}], owner=("Job", "run")))
    assert cluster.ordered() == {}
    owner = {"kind": "Pod", "name": "run-0", "uid": "run-0", "controller": True}
    metadata = {"namespace": "default", "name": "run-0-scratch", "ownerReferences": [owner]}
    claim = convert_object({"metadata": metadata, "spec": {"storageClassName": "late"}}, PersistentVolumeClaim)
    cluster.snapshot.put_storage(Storage({("default", "run-0-scratch"): claim}, {}, {"late": LATE}))
    assert cluster.ordered() == {"a": 1}


def sharing(*pods: Pod, mode: str = "ReadWriteOncePod") -> Cluster:
    cluster = Cluster(a_group("small"))
    cluster.snapshot.put_storage(stored("z", mode))
    return cluster.create(*pods)


def find_pods_without_volume(cluster: Cluster) -> list[str]:
    """The pods for which a node would not help, because of their volumes."""
    reported = [
        pod for pod in cluster.plan().pods if any(reason.reason.code == "VolumeNotReady" for reason in pod.refused)
    ]
    return sorted(key[1] for decision in reported for key in decision.pods)


def test_only_one_of_two_pending_pods_with_an_exclusive_claim_gets_a_node() -> None:
    pods = with_claim("db-0", cpu="4"), with_claim("db-1", cpu="4")
    cluster = sharing(*pods)
    assert cluster.ordered() == {"small": 1}
    assert find_pods_without_volume(cluster) == ["db-1"]
    assert sharing(*pods, mode="ReadWriteMany").ordered() == {"small": 2}


def test_the_pending_pod_of_the_highest_priority_gets_an_exclusive_claim() -> None:
    cluster = sharing(with_claim("db-0"), with_claim("db-1"))
    cluster.create(with_claim("db-2", priority=5))
    assert find_pods_without_volume(cluster) == ["db-0", "db-1"]


def test_the_next_pending_pod_gets_the_claim_when_the_first_is_deleted() -> None:
    cluster = sharing(with_claim("db-0", cpu="4"), with_claim("db-1", cpu="4"), with_claim("db-2", cpu="4"))
    cluster.delete("db-0")
    assert find_pods_without_volume(cluster) == ["db-2"]
    cluster.delete("db-1")
    assert find_pods_without_volume(cluster) == []


def test_once_the_first_pending_pod_has_a_node_no_other_gets_one() -> None:
    cluster = sharing(with_claim("db-0"), with_claim("db-1"), with_claim("db-2")).nodes(a_node("there"))
    cluster.place(with_claim("db-0"), "there")
    assert find_pods_without_volume(cluster) == ["db-1", "db-2"]
    cluster.delete("db-0")
    assert find_pods_without_volume(cluster) == ["db-2"]


def test_an_unreadable_pod_keeps_a_claim_from_no_pod() -> None:
    assert sharing(with_claim("db-0", cpu="much"), with_claim("db-1")).ordered() == {"small": 1}


def test_a_pod_that_fits_no_node_keeps_a_claim_from_no_pod() -> None:
    cluster = sharing(with_claim("db-0", cpu="64"), with_claim("db-1"))
    assert cluster.ordered() == {"small": 1}
    assert find_pods_without_volume(cluster) == []


def test_unschedulable_pods_with_one_claim_are_reported_together() -> None:
    cluster = sharing(*(with_claim(f"db-{number}") for number in range(4)))
    assert sorted(len(pod.pods) for pod in cluster.plan().pods) == [1, 3]


def test_an_exclusive_claim_counts_although_its_pods_came_before_it() -> None:
    cluster = Cluster(a_group("small")).create(with_claim("db-0"), with_claim("db-1"))
    assert find_pods_without_volume(cluster) == ["db-0", "db-1"]
    cluster.snapshot.put_storage(stored("z", "ReadWriteOncePod"))
    assert find_pods_without_volume(cluster) == ["db-1"]
    cluster.snapshot.put_storage(stored("z"))
    assert find_pods_without_volume(cluster) == []
