"""Node groups behind the external gRPC protocol: `trellis nodes`, our server in front of kwok, a real API server."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from support.cluster.machines.external_grpc import ExternalGrpcNodeGroups
from support.cluster.nodes import QUICK, Start
from support.cluster.vpas import metric_value
from testbed.cluster import Cluster
from testbed.waiting import until
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.providers.external_grpc.answers import strip_node
from trellis.providers.external_grpc.node_messages import decode_node, encode_node
from trellis.providers.external_grpc.protobuf import Message, Number, decode

PROTOBUF = "application/vnd.kubernetes.protobuf"
# What the API server writes in front of each message.
MAGIC = b"k8s\0"


class KindMessage(Message, frozen=True):
    version: Annotated[str, Number(1)] = ""
    kind: Annotated[str, Number(2)] = ""


class Envelope(Message, frozen=True):
    """What the API server puts around an object."""

    kind: Annotated[KindMessage, Number(1)] = KindMessage()
    raw: Annotated[bytes, Number(2)] = b""


def exchange(cluster: Cluster, method: str, path: str, body: bytes | None = None) -> bytes:
    """The bytes of an object as the API server writes it in protobuf."""
    headers = {"Accept": PROTOBUF, "Content-Type": PROTOBUF}
    answer, data = cluster.api._exchange_pooled(method, path, body, headers, 60.0)
    assert answer.status < 300, data
    assert data.startswith(MAGIC)
    return decode(Envelope, data.removeprefix(MAGIC)).raw


def shown(node: Node) -> Any:
    """What a template has of a node."""
    # Controllers add a taint and an annotation of their own.
    taints = [(taint.key, taint.value, taint.effect) for taint in node.spec.taints if taint.key in ("k", "e")]
    annotations = {key: value for key, value in node.metadata.annotations.items() if len(key) == 1}
    stripped = strip_node(node)
    return (
        stripped.metadata,
        stripped.status,
        taints,
        node.metadata.name,
        node.spec.provider_id,
        annotations,
    )


def test_the_api_server_reads_and_writes_nodes_as_we_do(cluster: Cluster, namespace: str) -> None:
    """Templates are v1.Node in protobuf: the API server's own code is the other side."""
    name = namespace[:60].strip("-")
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"a": "b"}, "annotations": {"x": "", "y": "ä"}},
        "spec": {
            "providerID": f"cloud:///{name}",
            "taints": [
                {"key": "k", "value": "v", "effect": "NoSchedule"},
                {"key": "e", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
            ],
        },
        "status": {
            "capacity": {"cpu": "4", "memory": "16Gi", "example.com/gpu": "1", "pods": "110"},
            "allocatable": {"cpu": "3900m", "memory": "15Gi", "example.com/gpu": "1", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "operatingSystem": "linux", "architecture": "arm64"},
            "images": [{"names": ["a"], "sizeBytes": 1}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }
    try:
        cluster.api.create(document)
        stored = convert_object(cluster.api.get(f"/api/v1/nodes/{name}"), Node)
        read = decode_node(exchange(cluster, "GET", f"/api/v1/nodes/{name}"))
        assert shown(read) == shown(stored)
        assert read.metadata.uid == stored.metadata.uid
        assert read.metadata.creation_timestamp == stored.metadata.creation_timestamp
        assert read.status.conditions[0].type == stored.status.conditions[0].type

        cluster.remove_nodes(name)
        envelope = Envelope(KindMessage("v1", "Node"), encode_node(_without_identity(stored)))
        written = decode_node(exchange(cluster, "POST", "/api/v1/nodes", MAGIC + envelope.encode()))
        assert shown(written) == shown(stored)
        assert shown(convert_object(cluster.api.get(f"/api/v1/nodes/{name}"), Node)) == shown(stored)
    finally:
        cluster.remove_nodes(name)


def _without_identity(node: Node) -> Node:
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, uid=""))


def test_nodes_are_ordered_run_pods_and_are_removed_through_the_server(
    namespace: str, nodes: Start, machines: ExternalGrpcNodeGroups
) -> None:
    machines.declare(maxSize=3)
    autoscaler = nodes(namespace, *QUICK, *machines.flags)
    machines.deploy("web", 4, cpu="900m")
    until("the pods to run", lambda: len(machines.running()) == 4)
    assert len(machines.nodes()) == 2

    # The server is killed, and pods come while it is away: its silence is no list without groups.
    machines.server.process.kill()
    machines.scale("web", 8)
    failed = "trellis_nodes_provider_failures_total"
    until("the autoscaler to notice", lambda: metric_value(autoscaler, failed, call="groups") > 0)
    assert len(machines.nodes()) == 2
    machines.start_server()
    until("what fits into the maximum to run", lambda: len(machines.running()) >= 6)
    assert len(machines.nodes()) == 3

    machines.scale("web", 0)
    until("all nodes to be removed", lambda: not machines.nodes())
    assert metric_value(machines.server, "trellis_node_provider_calls_total", rpc="NodeGroupForNode") == 0
    machines.server.process.stop()
    assert "stopped reason=SIGTERM left=nothing" in machines.server.read_logs()


def test_a_read_only_autoscaler_sends_no_change(namespace: str, nodes: Start, machines: ExternalGrpcNodeGroups) -> None:
    machines.declare(maxSize=3)
    autoscaler = nodes(namespace, "--read-only", *machines.flags)
    machines.deploy("web", 4)
    pending = "trellis_nodes_pending_pods"
    until("the pods to be seen", lambda: metric_value(autoscaler, pending) >= 4)
    until("an order that is not sent", lambda: "read-only" in autoscaler.read_logs())
    assert not machines.nodes()
    calls = "trellis_node_provider_calls_total"
    assert metric_value(machines.server, calls, rpc="NodeGroupIncreaseSize") == 0
    assert metric_value(machines.server, calls, rpc="NodeGroups") > 0
