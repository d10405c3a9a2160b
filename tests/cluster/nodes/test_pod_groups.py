"""PodGroups on a real control plane: nodes for the minimum of their pods, or none."""

from __future__ import annotations

from pathlib import Path

import testbed
from support.cluster.nodes import NodeGroups, Start
from support.cluster.updaters import events
from support.cluster.vpas import wait_for_further_passes
from testbed.cluster import Cluster
from testbed.waiting import until
from testbed.workloads import container, pod

DEFINITION = Path(testbed.__file__).parent / "definitions" / "podgroups.yaml"


def test_nodes_are_ordered_for_all_pods_of_a_group_once_the_limits_allow_it(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    cluster.install_definitions([DEFINITION])
    node_groups.declare(maxSize=1)
    controller = nodes(namespace)
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "training"}}
    cluster.api.create({**group, "spec": {"minMember": 4}}, namespace)
    for number in range(4):
        made = pod(f"training-{number}", container(cpu="900m", memory="64Mi"), **node_groups.placement)
        made["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "training"}
        cluster.api.create(made, namespace)
    until("the events", lambda: events(cluster, namespace, "NotTriggerScaleUp") or None)
    [message] = {event["message"] for event in events(cluster, namespace, "NotTriggerScaleUp")}
    assert message.startswith(f"2 of 4 pods that PodGroup {namespace}/training needs would get a place")
    wait_for_further_passes(controller, "trellis_nodes", 2)
    assert not node_groups.nodes()

    node_groups.declare(maxSize=2)
    until("the pods to run", lambda: len(node_groups.running()) == 4)
    assert len(node_groups.nodes()) == 2
