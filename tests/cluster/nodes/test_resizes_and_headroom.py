"""Pending resizes and recommendations of VPAs on a real control plane, under the account that is shipped."""

from __future__ import annotations

from support.cluster.nodes import QUICK, NodeGroups, Start
from support.cluster.updaters import advise, create_vpa_with_advice, events
from support.cluster.vpas import metric_value, vpa_path
from testbed.client import STRATEGIC_PATCH, Json
from testbed.cluster import Cluster
from testbed.kwok.annotations import DEFERRED, RESIZE
from testbed.waiting import until


def defer_resize(cluster: Cluster, namespace: str, pod: Json, cpu: str) -> None:
    """Ask for a resize that the kubelet of the pod defers."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
    cluster.api.annotate(path, {RESIZE: DEFERRED})
    containers = [{"name": "app", "resources": {"requests": {"cpu": cpu}}}]
    cluster.api.patch(f"{path}/resize", {"spec": {"containers": containers}}, STRATEGIC_PATCH)


def test_a_node_is_ordered_for_a_deferred_resize_before_the_pod_is_evicted(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    node_groups.declare()
    create_vpa_with_advice(cluster, namespace, "web", "InPlaceOrRecreate")
    advise(cluster, namespace, "web", "1500m", "64Mi")
    nodes(namespace, *QUICK)
    node_groups.deploy("web", 4)
    until("the pods to run", lambda: len(node_groups.running()) == 4)
    assert len(node_groups.nodes()) == 1
    defer_resize(cluster, namespace, node_groups.pods()[0], "1500m")
    until("a node for its replacement", lambda: len(node_groups.ready_nodes()) == 2)
    until("the event", lambda: events(cluster, namespace, "ResizeAwaitsNode") or None)


def test_a_node_is_kept_while_the_pods_of_another_are_to_grow(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    node_groups.declare()
    controller = nodes(namespace, *QUICK)
    node_groups.deploy("web", 5)
    until("the pods to run", lambda: len(node_groups.running()) == 5)
    assert len(node_groups.nodes()) == 2
    # Two of 500m fit on one node of 2 CPU, and of 1500m do not.
    create_vpa_with_advice(cluster, namespace, "web", "InPlaceOrRecreate")
    advise(cluster, namespace, "web", "1500m", "64Mi")
    node_groups.scale("web", 2)
    reason = {"reason": "NoHeadroomForRecommendations"}
    until("a node to be kept", lambda: metric_value(controller, "trellis_nodes_nodes", **reason) > 0 or None)
    assert len(node_groups.nodes()) == 2
    cluster.api.delete(vpa_path(namespace, "web"))
    until("one node to go", lambda: len(node_groups.nodes()) == 1)
