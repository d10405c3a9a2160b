"""Nodes with a startup taint are not ready yet, and templates of groups have neither startup nor status taints."""

from __future__ import annotations

import msgspec
import pytest

from support.worlds.nodes import SETTINGS, Cluster, a_group, a_node, a_pod
from support.worlds.scale_down import DOWN, ShrinkingCluster
from trellis.api.kube.nodes import Taint
from trellis.core.nodes.node_groups import InstanceState
from trellis.core.nodes.state.readiness import classify_nodes
from trellis.core.nodes.state.transient_taints import TransientTaints

NAMED = TransientTaints(startup=("node.cilium.io/agent-not-ready",), status=("example.com/slow-disk",))
STARTUP = [
    "startup-taint.cluster-autoscaler.kubernetes.io/network",
    "ignore-taint.cluster-autoscaler.kubernetes.io/network",
    "node.cilium.io/agent-not-ready",
]
STATUS = ["status-taint.cluster-autoscaler.kubernetes.io/disk", "example.com/slow-disk"]


def taint(cluster: Cluster, name: str, key: str) -> None:
    node = cluster.snapshot.nodes[name]
    taints = (Taint(key, "", "NoSchedule"),)
    cluster.nodes(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints)))


def states(cluster: Cluster, name: str) -> set[str]:
    readiness = classify_nodes(cluster.snapshot, cluster.now, cluster.settings)
    number = cluster.snapshot.table.find(name)
    return {field for field in readiness.__struct_fields__ if getattr(readiness, field)[number]}


def a_cluster(**group: object) -> Cluster:
    settings = msgspec.structs.replace(SETTINGS, transient_taints=NAMED)
    return Cluster(a_group("small", **group), settings=settings)  # type: ignore[arg-type]  # figures of the group


@pytest.mark.parametrize("key", STARTUP)
def test_a_node_with_a_startup_taint_is_starting_until_it_has_had_the_time_to_start(key: str) -> None:
    cluster = a_cluster(boot_seconds=0)
    cluster._order_instance("small", cluster.now)
    cluster.wait(1)
    (name,) = cluster.snapshot.nodes
    assert states(cluster, name) == {"ready"}
    taint(cluster, name, key)
    assert states(cluster, name) == {"starting"}
    cluster.wait(900)
    assert states(cluster, name) == {"unready"}


@pytest.mark.parametrize("key", STARTUP)
def test_a_node_with_a_startup_taint_counts_as_upcoming(key: str) -> None:
    cluster = a_cluster(boot_seconds=0)
    cluster._order_instance("small", cluster.now)
    cluster.wait(1)
    (name,) = cluster.snapshot.nodes
    taint(cluster, name, key)
    cluster.create_pods(4)
    assert cluster.ordered() == {}, "the pods wait for the node"
    cluster.create_pods(4, prefix="more")
    assert cluster.ordered() == {"small": 1}


def test_a_taint_that_is_not_named_makes_no_node_start() -> None:
    cluster = Cluster(a_group("small", boot_seconds=0))
    cluster._order_instance("small", cluster.now)
    cluster.wait(1)
    (name,) = cluster.snapshot.nodes
    taint(cluster, name, "node.cilium.io/agent-not-ready")
    assert states(cluster, name) == {"ready"}
    cluster.create_pods(1)
    assert cluster.ordered() == {"small": 1}


@pytest.mark.parametrize("key", STATUS)
def test_a_node_with_a_status_taint_is_ready_and_takes_no_pod(key: str) -> None:
    cluster = a_cluster()
    cluster.nodes(a_node("slow", taints=[{"key": key, "effect": "NoSchedule"}]))
    assert states(cluster, "slow") == {"ready"}
    cluster.create_pods(1)
    assert cluster.ordered() == {"small": 1}


@pytest.mark.parametrize("key", STARTUP + STATUS)
def test_a_group_whose_template_has_such_a_taint_refuses_no_pod(key: str) -> None:
    cluster = a_cluster(taints=[{"key": key, "effect": "NoSchedule"}])
    cluster.create_pods(1)
    assert cluster.ordered() == {"small": 1}


def test_other_taints_of_a_template_still_keep_pods_away() -> None:
    taints = [{"key": STARTUP[0], "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoSchedule"}]
    cluster = a_cluster(taints=taints)
    cluster.create_pods(1)
    assert cluster.ordered() == {}
    cluster.create(a_pod("tolerant", tolerations=[{"key": "gpu", "operator": "Exists"}]))
    assert cluster.ordered() == {"small": 1}


def test_a_node_that_keeps_its_startup_taint_is_removed_like_one_that_is_not_ready() -> None:
    cluster = ShrinkingCluster(a_group("small"), down=msgspec.structs.replace(DOWN, transient_taints=NAMED))
    cluster.add_group_nodes("small", 1)
    taint(cluster, "small-1", "node.cilium.io/agent-not-ready")
    cluster.run_passes(1190)
    assert (cluster.reason_code("small-1"), cluster.released) == ("NodeUnneeded", [])
    cluster.run_passes(40)
    assert cluster.released == ["small-1"]


def test_a_starting_node_with_a_startup_taint_is_not_unneeded() -> None:
    cluster = ShrinkingCluster(a_group("small", boot_seconds=0))
    cluster._order_instance("small", cluster.now)
    cluster.wait(1)
    (name,) = cluster.snapshot.nodes
    assert cluster.instances["small"][0].state is InstanceState.RUNNING
    taint(cluster, name, STARTUP[0])
    cluster.plan_removals()
    assert cluster.reason_code(name) == "NodeStarting"
