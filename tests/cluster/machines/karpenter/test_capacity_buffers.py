"""Buffers where the real Karpenter is in charge of nodes: handed over as CapacityBuffers, and reported truthfully."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.buffers import Start, buffer, buffer_controllers, buffer_path, find_buffer_condition
from support.cluster.machines.claim_groups import SLOW_CLASS, find_status
from testbed.client import Json
from testbed.cluster import Cluster, is_ready
from testbed.karpenter import running
from testbed.waiting import until
from testbed.workloads import container, deployment

PROVISIONED = ("True", "BufferProvisioned")


@pytest.fixture
def buffers(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with buffer_controllers(cluster, tmp_path) as start:
        yield start


@pytest.fixture
def pool(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A NodePool whose nodes register after six seconds."""
    name = f"{namespace}-pool"
    cluster.api.create(running.build_node_pool(name, SLOW_CLASS, name, {"pool": name}))
    yield name
    cluster.api.delete(f"{running.NODE_POOLS}/{name}")


def test_a_buffer_is_provisioned_when_its_nodes_are_ready_and_not_when_karpenter_says_so(
    cluster: Cluster, namespace: str, pool: str, buffers: Start
) -> None:
    buffers(namespace, "--translate")
    placement: Json = {"tolerations": [{"key": pool, "operator": "Exists"}], "nodeSelector": {"pool": pool}}
    spec = {"containers": [container(cpu="2500m", memory="1Gi")], **placement}
    create_buffer(cluster, namespace, "spare", 2, spec)
    until("the machines to be launched", lambda: count_launched_machines(cluster, pool) == 2)
    # Karpenter plans again, with nodes that have not registered.
    create_buffer(cluster, namespace, "more", 1, {"containers": [container(cpu="500m", memory="1Gi")], **placement})
    is_early = False

    def is_provisioned() -> bool:
        """Ask in the order in which they become true, and note whether Karpenter was earlier than the nodes."""
        nonlocal is_early
        ours = find_buffer_condition(cluster, namespace, "spare", "Provisioned")
        theirs = find_provisioning(cluster, namespace, "spare")
        ready = count_ready_nodes(cluster, pool)
        assert ours != PROVISIONED or ready == 2, f"provisioned with {ready} nodes"
        is_early |= theirs == "True" and ready < 2
        return ours == PROVISIONED

    until("the Buffer to be provisioned", is_provisioned)
    assert is_early, "Karpenter calls a CapacityBuffer provisioned only when its nodes are ready: mend the guide"
    kept = find_buffer_condition(cluster, namespace, "spare", "KeptAsCapacityBuffer")
    assert kept == ("True", "HeldByCapacityBuffer")

    # Pods take the capacity at once, Karpenter adds a node, and the Buffer is provisioned again when that is ready.
    web = deployment("web", container(cpu="2500m", memory="1Gi"), **placement)
    cluster.api.create(web, namespace)
    cluster.wait_for_ready_pods(namespace, "web")
    until("less capacity", lambda: find_buffer_condition(cluster, namespace, "spare", "Provisioned") != PROVISIONED)
    until(
        "the Buffer to be provisioned again",
        lambda: find_buffer_condition(cluster, namespace, "spare", "Provisioned") == PROVISIONED,
    )
    assert count_ready_nodes(cluster, pool) == 3
    cluster.api.delete(buffer_path(namespace, "spare"))
    cluster.api.delete(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")


def create_buffer(cluster: Cluster, namespace: str, name: str, chunks: int, pod_spec: Json) -> None:
    cluster.api.create(buffer(name, kind="", capacity={"pods": {"replicaNum": chunks, "podSpec": pod_spec}}), namespace)


def count_launched_machines(cluster: Cluster, pool: str) -> int:
    claims = cluster.api.list_items(running.NODE_CLAIMS, labelSelector=f"karpenter.sh/nodepool={pool}")
    return sum(find_status(claim, "Launched") == "True" for claim in claims)


def find_provisioning(cluster: Cluster, namespace: str, name: str) -> str | None:
    """The status of Karpenter's own condition, if the CapacityBuffer has it."""
    path = f"/apis/autoscaling.x-k8s.io/v1beta1/namespaces/{namespace}/capacitybuffers/{name}"
    conditions = (cluster.api.find(path) or {}).get("status", {}).get("conditions", [])
    return next((condition["status"] for condition in conditions if condition["type"] == "Provisioning"), None)


def count_ready_nodes(cluster: Cluster, pool: str) -> int:
    nodes = cluster.api.list_items("/api/v1/nodes", labelSelector=f"karpenter.sh/nodepool={pool}")
    return sum(map(is_ready, nodes))
