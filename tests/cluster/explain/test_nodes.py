"""What is explained of nodes on a real API server is what the node autoscaler then does there."""

from __future__ import annotations

import asyncio
import time

from support.cluster.nodes import QUICK, NodeGroups, Start
from support.cluster.updaters import events
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until
from testbed.workloads import container, pod
from trellis.cli.dump_reader import read_node_groups
from trellis.cli.options import open_chosen_client
from trellis.core.cluster.state import ClusterState
from trellis.core.explain import CollectedSettings, ObjectExplanation, build_evidence, explain_node, explain_pod
from trellis.core.explain.component_decisions.node_plans import run_node_autoscaler
from trellis.sources.cluster.collector import collect_state
from trellis.sources.cluster.lists import CollectionScope

COMPONENTS = CollectedSettings(with_flags=("nodes",))


def collect(cluster: Cluster, namespace: str) -> ClusterState:
    """What is collected for a node, with the groups of a test of many that share the cluster."""

    async def read() -> ClusterState:
        async with open_chosen_client(cluster.kubeconfig, "", "trellis-explain") as (client, own):
            wanted = CollectionScope((), own, node_groups=f"{namespace}/groups", nodes_only=True)
            return await collect_state(client, wanted, time.time())

    return asyncio.run(read())


def verdict(cluster: Cluster, namespace: str, node: str) -> tuple[str, str]:
    result = collect(cluster, namespace)
    explained = explain_node(result, node, read_node_groups(result), COMPONENTS).node
    assert explained is not None
    assert explained.decision is not None
    return explained.outcome, explained.decision.reason.code


def explained_pod(cluster: Cluster, namespace: str, name: str) -> ObjectExplanation:
    result = collect(cluster, namespace)
    noded = run_node_autoscaler(result, read_node_groups(result), COMPONENTS, result.time)
    return explain_pod(build_evidence(result, namespace, COMPONENTS), name, noded)


def list_events(cluster: Cluster, namespace: str) -> list[Json]:
    return events(cluster, namespace, "NotTriggerScaleUp")


def test_what_is_explained_of_nodes_is_what_the_autoscaler_does(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    node_groups.declare()
    node_groups.deploy("web", 1)
    huge = pod("huge", container(cpu="40", memory="64Mi"), **node_groups.placement)
    cluster.api.create(huge, namespace)
    until("the pods to wait", lambda: len(node_groups.pods()) == 2)
    until("the scheduler to look", lambda: all(pod["status"].get("conditions") for pod in node_groups.pods()))
    placing = explained_pod(cluster, namespace, "huge").placement
    assert placing is not None
    assert (placing.decision.reason.code, [refusal.groups for refusal in placing.refused]) == (
        "NoGroupFits",
        [(node_groups.group,)],
    )
    assert placing.orders == {node_groups.group: 1}

    controller = nodes(namespace)
    until("the pod to run", lambda: len(node_groups.running()) == 1)
    [node] = node_groups.nodes()
    lacking = placing.refused[0].resource
    # Autoscalers of other tests tell the pod of their own groups.
    until("the other to be told", lambda: any(lacking in event["message"] for event in list_events(cluster, namespace)))
    assert verdict(cluster, namespace, node) == ("Kept", "NoPlaceForPods")

    controller.process.stop()
    node_groups.scale("web", 0)
    until("the pod to go", lambda: len(node_groups.pods()) == 1)
    assert verdict(cluster, namespace, node) == ("Unneeded", "NodeUnneeded")
    nodes(namespace, *QUICK)
    until("the node to go", lambda: not node_groups.nodes())
