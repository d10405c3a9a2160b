"""The node autoscaler on a real control plane, under the account that is shipped: Buffers get spare capacity."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.buffers import Start as StartBuffers
from support.cluster.buffers import buffer, buffer_controllers, buffer_path, count_chunks, get_buffer_status
from support.cluster.nodes import ACCOUNT, QUICK, NodeGroups, Start, taints, translated
from support.cluster.rights import Account
from support.cluster.updaters import events
from support.cluster.vpas import metric_value, until_value
from testbed.access import shipped_accounts
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.kwok.nodes import Node, Taint
from testbed.waiting import until
from testbed.workloads import container, job, pod

BOTH_RIGHTS: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "trellis-nodes-with-buffers"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "trellis-buffers"},
    "subjects": [{"kind": "ServiceAccount", "name": "trellis-nodes", "namespace": "kube-system"}],
}
STORY_1: Json = {
    "replicaBasedBufferSpec": {"replicasCountPercentage": 10, "minCount": 1},
    "recreationStrategy": "keep-empty",
}


@pytest.fixture
def buffers(cluster: Cluster, tmp_path: Path) -> Iterator[StartBuffers]:
    with buffer_controllers(cluster, tmp_path) as start:
        yield start


@pytest.mark.req("BF-01", "BF-02", "BF-03", "BF-37", "BF-38", "BF-39", "BF-44")
def test_headroom_of_a_deployments_buffer_is_used_at_once_and_refilled(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start, buffers: StartBuffers
) -> None:
    node_groups.declare()
    controller = nodes(namespace)
    buffers(namespace)
    node_groups.deploy("web", 2, cpu="1500m")
    until("the pods to run", lambda: len(node_groups.running()) == 2)
    assert len(node_groups.nodes()) == 2
    before = workload(cluster, namespace, "web")

    cluster.api.create(buffer("web", **STORY_1), namespace)
    until("the room to be there", lambda: node_groups.is_provisioned("web"))
    assert count_chunks(cluster, namespace, "web") == 1
    assert len(node_groups.nodes()) == 3
    assert len(node_groups.pods()) == 2
    assert workload(cluster, namespace, "web") == before
    assert abs(_age(get_buffer_status(cluster, namespace, "web")["lastFullyProvisioned"])) < 300
    for reason in ("BufferNodesOrdered", "BufferProvisioned"):
        until(f"the event {reason}", lambda reason=reason: events(cluster, namespace, reason) or None)  # type: ignore[misc]

    # No label, priority, toleration or scheduler of the pod says anything about the Buffer.
    ready = set(node_groups.ready_nodes())
    node_groups.scale("web", 3)
    until("the pod to run", lambda: len(node_groups.running()) == 3)
    assert {pod["spec"]["nodeName"] for pod in node_groups.pods()} == ready
    until(
        "the room to be there again", lambda: len(node_groups.ready_nodes()) == 4 and node_groups.is_provisioned("web")
    )
    until_value(controller, "trellis_nodes_buffer_hits_total", 1, buffer_namespace=namespace)
    assert metric_value(controller, "trellis_nodes_buffer_misses_total", buffer_namespace=namespace) == 0
    until_value(controller, "trellis_nodes_buffer_chunks", 1, buffer_namespace=namespace)
    until_value(controller, "trellis_nodes_buffer_provisioned_chunks", 1, buffer_namespace=namespace)
    price = "trellis_nodes_buffer_price_per_hour"
    until("its price", lambda: metric_value(controller, price, buffer_namespace=namespace) > 0)


@pytest.mark.req("BF-08", "BF-45")
def test_a_buffer_that_another_controller_translated_is_provisioned_and_every_edit_is_followed(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    node_groups.declare()
    nodes(namespace, *QUICK)
    document, status = translated("spare", 4, node_groups.pod_spec())
    cluster.api.create(document, namespace)
    cluster.api.patch(buffer_path(namespace, "spare") + "/status", {"status": status})
    until("the room to be there", lambda: node_groups.is_provisioned("spare"))
    assert len(node_groups.ready_nodes()) == 1

    pods = {**status["podBasedBufferSpec"], "replicaNum": 8}
    cluster.api.patch(buffer_path(namespace, "spare") + "/status", {"status": {"podBasedBufferSpec": pods}})
    until("more room", lambda: len(node_groups.ready_nodes()) == 2 and node_groups.is_provisioned("spare"))

    pods = {**status["podBasedBufferSpec"], "replicaNum": 4}
    cluster.api.patch(buffer_path(namespace, "spare") + "/status", {"status": {"podBasedBufferSpec": pods}})
    until("less room", lambda: len(node_groups.nodes()) == 1)

    cluster.api.patch(buffer_path(namespace, "spare"), {"spec": {"type": "example.com/other"}})
    until("nothing of ours to be said", lambda: node_groups.provisioned("spare") is None)
    until("the nodes to go", lambda: not node_groups.nodes())
    assert get_buffer_status(cluster, namespace, "spare")["podBasedBufferSpec"] == pods


@pytest.mark.req("BF-09")
def test_one_process_can_translate_buffers_and_keep_their_headroom(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start, tmp_path: Path
) -> None:
    shipped_accounts.create_account(cluster, "buffers")
    cluster.api.apply(BOTH_RIGHTS)
    until("both rights", lambda: Account(cluster, ACCOUNT).may("get flowers.example.com/scale"))
    settings = tmp_path / "buffers.yaml"
    settings.write_text(f"vpa-object-namespace: {namespace}\naddress: 127.0.0.1:0\n")
    node_groups.declare()
    nodes(namespace, f"--with-buffers={settings}")
    spec = {"replicaNum": 2, "podSpec": node_groups.pod_spec()}
    cluster.api.create(buffer("spare", kind="", capacity={"pods": spec}), namespace)
    until("the room to be there", lambda: node_groups.is_provisioned("spare"))
    assert count_chunks(cluster, namespace, "spare") == 2
    assert len(node_groups.ready_nodes()) == 1


@pytest.mark.req("BF-11", "BF-37", "BF-44")
def test_without_a_node_autoscaler_a_buffer_is_provisioned_while_it_fits_and_handed_over_both_ways(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start, buffers: StartBuffers
) -> None:
    node_groups.declare()
    controller = buffers(namespace)
    capacity = {"pods": {"replicaNum": 2, "podSpec": node_groups.pod_spec()}}
    cluster.api.create(buffer("spare", kind="", capacity=capacity), namespace)
    until("the translation", lambda: count_chunks(cluster, namespace, "spare") == 2)
    until("no room", lambda: node_groups.provisioned("spare") == ("False", "BufferNotProvisioned"))
    assert not node_groups.nodes(), "nothing is ordered for it"
    assert "lastFullyProvisioned" not in get_buffer_status(cluster, namespace, "spare")

    # A node of another manager. The fixture removes it at the end.
    taint = (Taint(namespace),)
    cluster.add_nodes(
        Node(name=f"{namespace}-n", cpu="1", memory="4Gi", labels={"node_groups": node_groups.group}, taints=taint)
    )
    until("it to fit", lambda: node_groups.is_provisioned("spare"))
    assert abs(_age(get_buffer_status(cluster, namespace, "spare")["lastFullyProvisioned"])) < 300
    assert managers(cluster, namespace, "spare") == {"trellis-buffers"}
    node_groups.deploy("web", 1)
    until("a pod to take a half", lambda: node_groups.provisioned("spare") == ("False", "BufferNotProvisioned"))
    until_value(controller, "trellis_buffers_hits_total", 1, buffer_namespace=namespace)
    until_value(controller, "trellis_buffers_provisioned_chunks", 1, buffer_namespace=namespace)
    assert metric_value(controller, "trellis_buffers_price_per_hour", buffer_namespace=namespace) > 0

    autoscaler = nodes(namespace)
    until("a node to be ordered, and the chunks to fit", lambda: node_groups.is_provisioned("spare"))
    until("one writer", lambda: managers(cluster, namespace, "spare") == {"trellis-nodes"})
    autoscaler.process.kill()
    cluster.remove_nodes(*node_groups.nodes())
    until("the other to take over", lambda: node_groups.provisioned("spare") == ("False", "BufferNotProvisioned"))
    until("one writer again", lambda: managers(cluster, namespace, "spare") == {"trellis-buffers"})


def managers(cluster: Cluster, namespace: str, name: str) -> set[str]:
    """The field managers that own fields about a Buffer's provisioning."""
    result = cluster.api.get(buffer_path(namespace, name))["metadata"]["managedFields"]
    mark = 'k:{"type":"Provisioned"}'
    parts = ((entry["manager"], entry["fieldsV1"].get("f:status", {})) for entry in result)
    return {manager for manager, own in parts if "f:lastFullyProvisioned" in own or mark in own.get("f:conditions", {})}


@pytest.mark.req("BF-01")
def test_keep_minimum_counts_running_pods_and_keep_empty_does_not(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start, buffers: StartBuffers
) -> None:
    node_groups.declare()
    nodes(namespace, *QUICK)
    buffers(namespace)
    capacity = {"pods": {"replicaNum": 4, "podSpec": node_groups.pod_spec()}}
    cluster.api.create(buffer("least", kind="", capacity=capacity, recreationStrategy="KeepMinimum"), namespace)
    until("the room to be there", lambda: node_groups.is_provisioned("least"))
    node_groups.deploy("web", 4)
    until("the pods to run", lambda: len(node_groups.running()) == 4)
    until("the room to be theirs", lambda: len(node_groups.nodes()) == 1 and node_groups.is_provisioned("least"))

    # The same on top of what runs takes another node.
    cluster.api.patch(buffer_path(namespace, "least"), {"spec": {"recreationStrategy": "KeepEmpty"}})
    until("another node", lambda: len(node_groups.ready_nodes()) == 2 and node_groups.is_provisioned("least"))


@pytest.mark.req("BF-01")
def test_a_dedicated_buffer_keeps_what_its_pods_do_not_use(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start, buffers: StartBuffers
) -> None:
    node_groups.declare()
    nodes(namespace, *QUICK)
    buffers(namespace)
    spec: Json = {
        "capacity": {"pods": {"replicaNum": 6, "podSpec": node_groups.pod_spec()}},
        "recreationStrategy": "KeepMinimum",
        "podSelector": {"matchLabels": {"app": "web"}},
    }
    cluster.api.create(buffer("own", kind="", **spec), namespace)
    until("the room to be there", lambda: len(node_groups.ready_nodes()) == 2 and node_groups.is_provisioned("own"))
    node_groups.deploy("web", 6)
    until("the pods to run", lambda: len(node_groups.running()) == 6)
    until("nothing to be left", lambda: count_chunks(cluster, namespace, "own") == 0)
    until("that to be said", lambda: node_groups.provisioned("own") == ("True", "BufferNeedsNothing"))
    # Another may have been ordered when the pods were there and the Buffer had not heard of them; it goes again.
    until("no more nodes than are needed", lambda: len(node_groups.nodes()) == 2)


@pytest.mark.req("BF-01")
def test_a_buffer_for_a_class_of_nodes_is_kept_on_nodes_of_that_class(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start, buffers: StartBuffers
) -> None:
    other = f"{node_groups.group[:30]}-other".replace("--", "-")
    node_groups.declare(node_groups.group, other)
    nodes(namespace)
    buffers(namespace)
    # Nodes of the node groups have a taint, and of the class there is none yet.
    target = {"targetRef": {"apiVersion": "nodes.trellis.x-k8s.io/v1alpha1", "kind": "KwokNodeGroup", "name": other}}
    node_class = {"totalCpu": "3", "totalMem": "2Gi", "perChunkResources": {"cpu": "1500m", "memory": "1Gi"}}
    document = buffer("class", kind="", capacity={"nodeClass": node_class})
    document["spec"] |= target
    cluster.api.create(document, namespace)
    until("the room to be there", lambda: node_groups.is_provisioned("class"))
    assert {node["metadata"]["labels"]["kwok-nodegroup"] for node in node_groups.nodes().values()} == {other}
    assert len(node_groups.nodes()) == 2


def test_headroom_is_kept_for_further_pods_of_a_job(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start, buffers: StartBuffers
) -> None:
    node_groups.declare()
    nodes(namespace)
    buffers(namespace)
    batch = job("batch", container(cpu="1500m", memory="64Mi"))
    batch["spec"]["template"]["spec"] |= node_groups.placement
    cluster.api.create(batch, namespace)
    until("its pod to run", lambda: len(node_groups.running()) == 1)
    cluster.api.create(buffer("batch", kind="Job", version="batch/v1"), namespace)
    until("the room to be there", lambda: len(node_groups.ready_nodes()) == 3 and node_groups.is_provisioned("batch"))
    assert count_chunks(cluster, namespace, "batch") == 2


def test_a_buffer_releases_its_nodes_when_its_window_ends(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start, buffers: StartBuffers
) -> None:
    node_groups.declare()
    nodes(namespace, *QUICK)
    buffers(namespace)
    capacity = {"pods": {"replicaNum": 2, "podSpec": node_groups.pod_spec()}}
    always = {"windows": [{"start": "0 0 * * *", "duration": "24h"}]}
    cluster.api.create(buffer("day", kind="", capacity=capacity, schedule=always), namespace)
    until("the room to be there", lambda: node_groups.is_provisioned("day"))
    hour = (time.gmtime().tm_hour + 12) % 24
    later = {"windows": [{"start": f"0 {hour} * * *", "duration": "1h"}]}
    cluster.api.patch(buffer_path(namespace, "day"), {"spec": {"schedule": later}})
    until("the nodes to go", lambda: not node_groups.nodes())
    until("that to be said", lambda: node_groups.provisioned("day") == ("True", "BufferNeedsNothing"))


def test_an_underused_node_is_drained_and_removed(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    node_groups.declare()
    nodes(namespace, *QUICK)
    node_groups.deploy("web", 5)
    until("the pods to run", lambda: len(node_groups.running()) == 5)
    assert len(node_groups.nodes()) == 2
    node_groups.scale("web", 3)
    until("one node to go", lambda: len(node_groups.nodes()) == 1)
    until("the pods to run again", lambda: len(node_groups.running()) == 3)
    until("no mark to be left", lambda: [taints(node) for node in node_groups.nodes().values()] == [[namespace]])


def test_a_pod_without_a_fitting_group_gets_an_event_with_the_reason(
    cluster: Cluster, namespace: str, node_groups: NodeGroups, nodes: Start
) -> None:
    node_groups.declare()
    nodes(namespace)
    huge = pod("huge", container(cpu="40", memory="64Mi"), **node_groups.placement)
    cluster.api.create(huge, namespace)

    def is_reported() -> bool:
        # Autoscalers of other tests tell the pod of their own groups.
        result = [event["message"] for event in events(cluster, namespace, "NotTriggerScaleUp")]
        return any("cpu" in message and node_groups.group in message for message in result)

    until("the pod to be told", is_reported)


def workload(cluster: Cluster, namespace: str, name: str) -> Json:
    result = cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    return {
        "spec": result["spec"],
        "generation": result["metadata"]["generation"],
        "labels": result["metadata"].get("labels"),
    }


def _age(text: str) -> float:
    return time.time() - time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")) + time.timezone
