"""Nodes with GPUs: when they are in use, when they are up, and for which pods they are ordered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.worlds.nodes import ZONE, Cluster, a_group, a_node, a_pod, spread
from support.worlds.scale_down import ShrinkingCluster, a_web_pod
from trellis.api.kube.nodes import Node
from trellis.core.nodes.node_groups import GroupOptions, GroupState, find_group_problem
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings
from trellis.core.nodes.state.readiness import classify_nodes

GPU = "nvidia.com/gpu"
GPUS = {GPU: "2"}


def requesting(gpus: int, cpu: str = "1") -> dict[str, Any]:
    """The containers of a pod that requests GPUs."""
    return {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu, GPU: str(gpus)}}}]}


def without_gpus(node: Node, amount: str | None = None) -> Node:
    """The node before its device plugin has registered, or after it has gone."""
    amounts = {name: text for name, text in node.status.allocatable.items() if name != GPU}
    if amount is not None:
        amounts[GPU] = amount
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=amounts))


# Utilization


def build_gpu_cluster(down: ScaleDownSettings | None = None, **options: float) -> ShrinkingCluster:
    """Two nodes with two GPUs each, one of them full, and a node without GPUs that is half full."""
    group = a_group("gpu", amounts=GPUS, options=GroupOptions(**options))
    cluster = ShrinkingCluster(group, a_group("plain"), down=down or ScaleDownSettings())
    cluster.add_group_nodes("gpu", 2).add_group_nodes("plain", 1)
    return cluster.run("gpu-2", a_web_pod("full", **requesting(2, "4"))).run("plain-1", a_web_pod("other", "2100m"))


def test_a_gpu_node_is_underused_however_much_cpu_is_requested_on_it() -> None:
    cluster = build_gpu_cluster().run("gpu-1", a_web_pod("cpu-only", "1900m"))
    cluster.run("gpu-1", a_web_pod("agent", "2", owner=("DaemonSet", "agent"))).plan_removals()
    assert cluster.reason_code("gpu-1") == "NodeUnneeded"
    assert cluster.decisions["gpu-1"].utilization == 0.0
    assert cluster.reason_code("plain-1") == "NodeInUse"
    assert cluster.decisions["plain-1"].utilization == 0.525


def test_a_gpu_node_is_in_use_by_its_gpus_alone() -> None:
    cluster = build_gpu_cluster().run("gpu-1", a_web_pod("training", **requesting(2, "100m")))
    cluster.plan_removals()
    assert cluster.reason_code("gpu-1") == "NodeInUse"
    assert cluster.decisions["gpu-1"].utilization == 1.0


def test_a_pod_that_needs_no_gpu_does_not_keep_a_gpu_node() -> None:
    cluster = build_gpu_cluster().run("gpu-1", a_web_pod("cpu-only", "1900m")).run_passes(900)
    assert (cluster.evicted, cluster.released) == (["cpu-only"], ["gpu-1"])
    assert cluster.pods["cpu-only+1"].spec.node_name == "plain-1"


# The second GPU of the other node is used, so that a node that is not in use has pods without another place.
@pytest.mark.parametrize(("threshold", "reason"), [(0.4, "NodeInUse"), (0.5, "NoPlaceForPods")])
def test_gpu_nodes_have_a_threshold_of_their_own(threshold: float, reason: str) -> None:
    settings = ScaleDownSettings(scale_down_utilization_threshold=0.9, scale_down_gpu_utilization_threshold=threshold)
    cluster = build_gpu_cluster(settings).run("gpu-1", a_web_pod("half", **requesting(1)))
    cluster.plan_removals()
    assert cluster.reason_code("gpu-1") == reason


def test_a_group_has_its_own_threshold_of_gpus() -> None:
    cluster = build_gpu_cluster(scale_down_gpu_utilization_threshold=0.1)
    cluster.run("gpu-1", a_web_pod("half", **requesting(1))).plan_removals()
    assert cluster.reason_code("gpu-1") == "NodeInUse"


def test_an_impossible_threshold_of_gpus_is_a_problem_of_its_group() -> None:
    state = GroupState(a_group("gpu", options=GroupOptions(scale_down_gpu_utilization_threshold=1.5)), 0)
    assert "is 1.5, but must be 0 to 1" in str(find_group_problem(state))


# Readiness


def order_gpu_node() -> Cluster:
    """A node was ordered for a pod, is Ready, and has no GPU yet."""
    cluster = Cluster(a_group("gpu", amounts=GPUS)).create(a_pod("training", **requesting(1)))
    assert cluster.ordered() == {"gpu": 1}
    cluster.execute_orders().wait(120)
    cluster.nodes(without_gpus(cluster.snapshot.nodes["gpu-1"]))
    return cluster


@pytest.mark.parametrize("amount", [None, "0"])
def test_a_node_counts_as_starting_until_its_devices_are_there(amount: str | None) -> None:
    cluster = order_gpu_node()
    cluster.nodes(without_gpus(cluster.snapshot.nodes["gpu-1"], amount))
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert cluster.last.pods[0].reason.reason.code == "PodAwaitsNode"
    cluster.nodes(a_node("gpu-1", amounts=GPUS, labels={"group": "gpu"})).plan()
    assert cluster.last.pods[0].reason.reason.code == "PodFits"


def test_a_node_whose_devices_never_come_is_unready_and_no_other_is_ordered() -> None:
    cluster = order_gpu_node()
    cluster.now += ScaleUpSettings().max_node_provision_seconds
    readiness = classify_nodes(cluster.snapshot, cluster.now, ScaleUpSettings())
    assert cluster.snapshot.table.names(readiness.unready) == ["gpu-1"]
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert cluster.last.pods[0].reason.reason.code == "NoGroupFits"
    assert cluster.last.notes["gpu"].reason.code == "GroupShapeDiffers"


def test_a_node_without_its_devices_is_removed_as_an_unready_one() -> None:
    cluster = build_gpu_cluster(scale_down_unready_seconds=30.0)
    cluster.nodes(without_gpus(cluster.snapshot.nodes["gpu-1"]))
    cluster.run_passes(120)
    assert cluster.released == ["gpu-1"]


def test_a_node_that_lost_some_of_its_devices_stays_ready() -> None:
    cluster = Cluster(a_group("gpu", amounts=GPUS)).add_group_nodes("gpu", 1)
    cluster.nodes(without_gpus(cluster.snapshot.nodes["gpu-1"], "1")).create(a_pod("training", **requesting(1)))
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert cluster.last.pods[0].on_ready == 1


# Choice of groups


@pytest.mark.parametrize(
    "expanders", [("least-waste",), ("price",), ("priority",), ("most-pods",), ("least-nodes",), ("priority", "price")]
)
def test_pods_without_gpus_get_no_gpu_nodes_while_another_group_fits(expanders: tuple[str, ...]) -> None:
    gpu = a_group("gpu", cpu="8", memory="8Gi", price=0.1, priority=9, amounts=GPUS)
    plain = a_group("plain", cpu="4", memory="32Gi", price=5.0)
    cluster = Cluster(gpu, plain, settings=ScaleUpSettings(expanders=expanders)).create_pods(8)
    assert cluster.ordered() == {"plain": 2}


def test_pods_of_both_kinds_get_nodes_of_both_kinds() -> None:
    cluster = Cluster(a_group("gpu", cpu="2", price=0.1, amounts=GPUS), a_group("plain", price=5.0)).create_pods(40)
    cluster.create(*(a_pod(f"training-{number}", **requesting(2)) for number in range(3)))
    # One CPU of each GPU node is left for other pods.
    assert cluster.ordered() == {"gpu": 3, "plain": 10}


def test_pods_without_gpus_get_gpu_nodes_where_no_other_group_can_grow() -> None:
    cluster = Cluster(a_group("gpu", amounts=GPUS), a_group("plain", most=1)).create_pods(8)
    assert cluster.ordered() == {"gpu": 1, "plain": 1}


def test_pods_without_gpus_that_only_gpu_nodes_hold_get_them() -> None:
    cluster = Cluster(a_group("gpu", cpu="16", amounts=GPUS), a_group("plain")).create(a_pod("large", cpu="8"))
    assert cluster.ordered() == {"gpu": 1}


def test_spread_pods_without_gpus_prefer_other_nodes_in_each_zone() -> None:
    groups = [
        a_group(f"{kind}-{zone}", labels={ZONE: zone}, price=price, amounts=amounts)
        for kind, price, amounts in (("gpu", 0.1, GPUS), ("plain", 5.0, {}))
        for zone in ("a", "b")
    ]
    only_gpus = a_group("gpu-c", labels={ZONE: "c"}, amounts=GPUS)
    cluster = Cluster(*groups, only_gpus).create_pods(3, labels={"app": "web"}, **spread({"app": "web"}))
    assert cluster.ordered() == {"gpu-c": 1, "plain-a": 1, "plain-b": 1}


def test_other_extended_resources_are_no_reason_to_avoid_a_group() -> None:
    kvm = a_group("kvm", price=0.1, amounts={"devices.kubevirt.io/kvm": "1k"})
    settings = ScaleUpSettings(expanders=("price",))
    assert Cluster(kvm, a_group("plain", price=5.0), settings=settings).create_pods(1).ordered() == {"kvm": 1}
