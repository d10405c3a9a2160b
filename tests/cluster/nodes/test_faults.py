"""What goes wrong around the node autoscaler on a real control plane: kills, groups that fail, an API server away."""

from __future__ import annotations

import time
from pathlib import Path

from support.cluster.nodes import QUICK, Start, Yard, node_controllers, taints
from support.cluster.vpas import until_passed, value
from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.keeper import definitions
from testbed.waiting import until
from testbed.workloads import container, disruption_budget, pod

MARK = "trellis.x-k8s.io/leaving"
SHOP = "shop"
AWAY_SECONDS = 4.0


def test_a_process_that_is_killed_while_nodes_boot_orders_none_twice(namespace: str, yard: Yard, nodes: Start) -> None:
    yard.declare(bootTime="4s")
    first = nodes(namespace)
    yard.deploy("web", 12)
    until("an order", lambda: len(yard.nodes()) > 0)
    first.process.kill()
    before = yard.nodes().keys()
    nodes(namespace)
    until("the pods to run", lambda: len(yard.running()) == 12)
    assert before <= yard.nodes().keys()
    assert len(yard.nodes()) == 3


def test_a_removal_that_was_interrupted_leaves_no_node_marked(namespace: str, yard: Yard, nodes: Start) -> None:
    yard.declare()
    first = nodes(namespace, *QUICK, "--node-delete-delay-after-taint=1h")
    yard.deploy("web", 1)
    until("the pod to run", lambda: len(yard.running()) == 1)
    yard.scale("web", 0)
    [name] = yard.nodes()
    until("the mark", lambda: MARK in taints(yard.nodes()[name]))
    first.process.kill()
    # Whoever does not remove nodes at all takes the mark off as well.
    nodes(namespace, "--scale-down-enabled=false")
    until("the mark to be gone", lambda: MARK not in taints(yard.nodes()[name]))
    yard.scale("web", 1)
    until("the pod to run there", lambda: len(yard.running()) == 1)
    assert list(yard.nodes()) == [name]


def test_a_node_whose_pod_may_not_be_moved_is_kept(cluster: Cluster, namespace: str, yard: Yard, nodes: Start) -> None:
    yard.declare()
    controller = nodes(namespace, *QUICK)
    cluster.api.create(disruption_budget("web", minAvailable="100%"), namespace)
    yard.deploy("web", 3, cpu="900m")
    until("the pods to run", lambda: len(yard.running()) == 3)
    # One is left on each node, and both would fit on one.
    yard.scale("web", 2)
    until("the pod to go", lambda: len(yard.pods()) == 2)
    uids = {pod["metadata"]["uid"] for pod in yard.pods()}
    until("the reason", lambda: value(controller, "trellis_nodes_nodes", reason="DisruptionsUsedUp") > 0)
    assert len(yard.nodes()) == 2
    assert {pod["metadata"]["uid"] for pod in yard.pods()} == uids


def test_a_group_that_hangs_is_left_alone_and_another_one_serves(namespace: str, yard: Yard, nodes: Start) -> None:
    yard.declare(fails={"how": "Hang"}, priority=10)
    controller = nodes(namespace, "--provider-timeout=2s")
    yard.deploy("web", 1)
    failed = "trellis_nodes_provider_failures_total"
    until("the order to be given up", lambda: value(controller, failed, call="order") >= 1)
    yard.declare()
    assert not yard.nodes()
    # The group is well by now, and is left alone all the same; one of another name is not.
    yard.declare(yard.group, f"{yard.group}-b")
    until("the pod to run", lambda: len(yard.running()) == 1)
    assert {node["metadata"]["labels"]["kwok-nodegroup"] for node in yard.nodes().values()} == {f"{yard.group}-b"}


def test_an_api_server_that_goes_away_in_the_middle_of_an_order_brings_no_node_twice(
    own_api_server: ControlPlane, tmp_path: Path
) -> None:
    cluster = own_api_server.cluster
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
    cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, SHOP)
    cluster.install_definitions(definitions())
    yard = Yard(cluster, SHOP)
    yard.declare(maxSize=20)
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    with node_controllers(cluster, tmp_path, restarts=True) as start:
        controller = start(SHOP)
        for number in range(8):
            made = pod(f"web-{number}", container(cpu="1500m", memory="64Mi"), **yard.placement)
            cluster.api.create(made, SHOP)
            # No scheduler is there that could say so.
            path = f"/api/v1/namespaces/{SHOP}/pods/web-{number}/status"
            cluster.api.patch(path, {"status": {"conditions": [unschedulable]}})
        until("an order", lambda: value(controller, "trellis_nodes_ordered_total") > 0)
        own_api_server.kill("kube-apiserver")
        gone = time.monotonic()
        until("some time without it", lambda: time.monotonic() >= gone + AWAY_SECONDS, 2 * AWAY_SECONDS)
        own_api_server.start("kube-apiserver")
        own_api_server.wait_until_ready()
        until("all nodes", lambda: len(yard.nodes()) == 8)
        until_passed(controller, "trellis_nodes", 3)
        assert len(yard.nodes()) == 8
