"""Scale-down on a real control plane: soft taints that the scheduler heeds, and the eviction of DaemonSet pods."""

from __future__ import annotations

import time
from typing import Any

from support.cluster.nodes import QUICK, SOFT, NodeGroups, Start, taints
from support.cluster.updaters import events
from support.cluster.vpas import wait_for_further_passes
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until
from testbed.workloads import container

# Long enough that no node is removed during a test.
PATIENT = "--scale-down-unneeded-time=30m"


def softly_tainted(node_groups: NodeGroups) -> dict[str, Json]:
    """The nodes with the soft taint, each with the taint."""
    return {
        name: taint
        for name, node in node_groups.nodes().items()
        for taint in node["spec"].get("taints", ())
        if taint["key"] == SOFT
    }


def pods_by_node(node_groups: NodeGroups) -> dict[str, int]:
    counts = dict.fromkeys(node_groups.nodes(), 0)
    for pod in node_groups.pods():
        if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
            counts[pod["spec"]["nodeName"]] += 1
    return counts


def test_the_scheduler_avoids_an_unneeded_node_until_it_is_needed_again(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    node_groups.declare()
    first = nodes(namespace, *QUICK, PATIENT)
    # Three pods fit on a node, and two use more than half of it.
    node_groups.deploy("web", 5, cpu="600m")
    until("the pods to run", lambda: len(node_groups.running()) == 5)
    assert len(node_groups.nodes()) == 2
    # The ReplicaSet deletes the pods that share their node with most others.
    node_groups.scale("web", 3)
    [(name, taint)] = until("a soft taint", lambda: softly_tainted(node_groups)).items()
    assert taint["effect"] == "PreferNoSchedule"
    assert 0 < time.time() - int(taint["value"]) < 300
    before = pods_by_node(node_groups)
    assert sorted(before.values()) == [1, 2]
    assert before[name] == 1, "by what they request, the scheduler would prefer this node"

    # Another process takes over, and keeps the taint as long as the node is unneeded.
    first.process.kill()
    second = nodes(namespace, *QUICK, PATIENT)
    wait_for_further_passes(second, "trellis_nodes")
    assert list(softly_tainted(node_groups)) == [name]
    node_groups.scale("web", 4)
    until("the pod to run", lambda: len(node_groups.running()) == 4)
    assert pods_by_node(node_groups)[name] == before[name]
    # The other node is full now.
    until("the taint to be removed", lambda: not softly_tainted(node_groups))
    node_groups.scale("web", 6)
    until("the pods to run", lambda: len(node_groups.running()) == 6)
    assert len(node_groups.nodes()) == 2


def test_turning_scale_down_off_removes_soft_taints(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    node_groups.declare()
    node_groups.deploy("web", 1)
    first = nodes(namespace, *QUICK, PATIENT)
    until("the pod to run", lambda: len(node_groups.running()) == 1)
    node_groups.scale("web", 0)
    until("a soft taint", lambda: softly_tainted(node_groups))
    first.process.kill()
    nodes(namespace, "--scale-down-enabled=false")
    until("the taint to be removed", lambda: not softly_tainted(node_groups))
    assert [taints(node) for node in node_groups.nodes().values()] == [[namespace]]


def daemon_set(name: str, placement: dict[str, Any]) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container(cpu="100m")], **placement}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def test_the_daemon_set_pod_of_a_drained_node_is_evicted_beside_its_other_pod(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    node_groups.declare()
    cluster.api.create(daemon_set("agent", node_groups.placement), namespace)
    nodes(namespace, *QUICK)
    node_groups.deploy("web", 3, cpu="600m")
    until("the pods to run", lambda: len(node_groups.running()) == 4)
    node_groups.deploy("other", 1, cpu="600m")
    until("a pod on another node", lambda: len(node_groups.running()) == 6)
    assert len(node_groups.nodes()) == 2
    node_groups.scale("web", 1)
    until("one node to go", lambda: len(node_groups.nodes()) == 1)
    until("the other pods to run", lambda: len(node_groups.running()) == 3)
    until("events of evictions", lambda: len(events(cluster, namespace, "ScaleDown")) == 2)
    evicted = sorted(event["involvedObject"]["name"] for event in events(cluster, namespace, "ScaleDown"))
    assert [name.partition("-")[0] for name in evicted] in (["agent", "other"], ["agent", "web"])
