"""What goes wrong around the node autoscaler on a real control plane: kills, groups that fail, an API server away."""

from __future__ import annotations

import time
from pathlib import Path

from support.cluster.nodes import LEAVING, QUICK, NodeGroups, Start, node_controllers, taints
from support.cluster.vpas import metric_value, wait_for_further_passes
from testbed.control_plane import ControlPlane
from testbed.keeper import list_definitions
from testbed.waiting import until
from testbed.workloads import container, pod

SHOP = "shop"
AWAY_SECONDS = 4.0


def test_an_interrupted_removal_leaves_no_taint(namespace: str, node_groups: NodeGroups, nodes: Start) -> None:
    node_groups.declare()
    first = nodes(namespace, *QUICK, "--node-delete-delay-after-taint=1h")
    node_groups.deploy("web", 1)
    until("the pod to run", lambda: len(node_groups.running()) == 1)
    node_groups.scale("web", 0)
    [name] = node_groups.nodes()
    until("the mark", lambda: LEAVING in taints(node_groups.nodes()[name]))
    first.process.kill()
    # Whoever does not remove nodes at all takes the mark off as well.
    nodes(namespace, "--scale-down-enabled=false")
    until("the mark to be gone", lambda: LEAVING not in taints(node_groups.nodes()[name]))
    node_groups.scale("web", 1)
    until("the pod to run there", lambda: len(node_groups.running()) == 1)
    assert list(node_groups.nodes()) == [name]


def test_a_group_that_hangs_is_backed_off_and_another_one_used(
    namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    node_groups.declare(fails={"how": "Hang"}, priority=10)
    controller = nodes(namespace, "--provider-timeout=2s")
    node_groups.deploy("web", 1)
    failed = "trellis_nodes_provider_failures_total"
    until("the order to be given up", lambda: metric_value(controller, failed, call="order") >= 1)
    node_groups.declare()
    assert not node_groups.nodes()
    # The group is well by now, and is left alone all the same; one of another name is not.
    node_groups.declare(node_groups.group, f"{node_groups.group}-b")
    until("the pod to run", lambda: len(node_groups.running()) == 1)
    assert {node["metadata"]["labels"]["kwok-nodegroup"] for node in node_groups.nodes().values()} == {
        f"{node_groups.group}-b"
    }


def test_an_api_server_outage_during_an_order_orders_no_node_twice(
    own_api_server: ControlPlane, tmp_path: Path
) -> None:
    cluster = own_api_server.cluster
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
    cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, SHOP)
    cluster.install_definitions(list_definitions())
    node_groups = NodeGroups(cluster, SHOP)
    node_groups.declare(maxSize=20)
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    with node_controllers(cluster, tmp_path, restarts=True) as start:
        controller = start(SHOP)
        for number in range(8):
            made = pod(f"web-{number}", container(cpu="1500m", memory="64Mi"), **node_groups.placement)
            cluster.api.create(made, SHOP)
            # No scheduler is there that could say so.
            path = f"/api/v1/namespaces/{SHOP}/pods/web-{number}/status"
            cluster.api.patch(path, {"status": {"conditions": [unschedulable]}})
        until("an order", lambda: metric_value(controller, "trellis_nodes_ordered_total") > 0)
        own_api_server.kill("kube-apiserver")
        stopped_at = time.monotonic()
        until("some time without it", lambda: time.monotonic() >= stopped_at + AWAY_SECONDS, 2 * AWAY_SECONDS)
        own_api_server.start("kube-apiserver")
        own_api_server.wait_until_ready()
        until("all nodes", lambda: len(node_groups.nodes()) == 8)
        wait_for_further_passes(controller, "trellis_nodes", 3)
        assert len(node_groups.nodes()) == 8
