"""Nodes ordered from a kwok group: up after their boot time, and released."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.worlds.providers.kwok_nodes import group
from testbed.cluster import Cluster
from testbed.waiting import until
from testbed.workloads import pod
from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.core.nodes import GroupState, InstanceState
from trellis.kube.auth.kubeconfig import load_kubeconfig_connection
from trellis.kube.client import Client
from trellis.kube.transport.aiohttp_transport import AiohttpTransport
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.providers.kwok import KwokObjects, KwokProvider
from trellis.providers.protocol import Steps

BOOT = 3.0


class Groups:
    """The groups of one namespace's ConfigMap, and nodes that are theirs alone."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.name = namespace[:40].strip("-")
        self.provider = KwokProvider(self.read_objects, f"{namespace}/groups")
        mine = group(
            self.name,
            minSize=0,
            maxSize=2,
            bootTime=f"{BOOT:g}s",
            resources={"cpu": "2", "memory": "4Gi", "example.com/gpu": "1"},
            taints=[{"key": namespace, "effect": "NoSchedule"}],
        )
        data = {"groups.yaml": yaml.safe_dump(mine), "broken.yaml": "kind: {"}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "groups"}, "data": data}
        cluster.api.create(config, namespace)

    def read_objects(self) -> KwokObjects:
        config = self.cluster.api.get(f"/api/v1/namespaces/{self.namespace}/configmaps/groups")
        nodes = self.cluster.api.list_items("/api/v1/nodes")
        return KwokObjects(convert_object(config, ConfigMap), [convert_object(node, Node) for node in nodes])

    def nodes(self) -> dict[str, Any]:
        nodes = self.cluster.api.list_items("/api/v1/nodes", labelSelector=f"kwok-nodegroup={self.name}")
        return {node["metadata"]["name"]: node for node in nodes}

    def state(self) -> GroupState:
        [state] = asyncio.run(self.provider.groups(time.time())).states
        return state

    def write(self, steps: Steps) -> list[WriteOutcome]:
        return asyncio.run(execute(self.cluster.kubeconfig, steps))

    def tend(self) -> None:
        for outcome in self.write(asyncio.run(self.provider.tend(time.time())).steps):
            assert outcome.result in (Result.APPLIED, Result.CONFLICT), outcome

    def all_running(self) -> bool:
        self.tend()
        state = self.state()
        return bool(state.target) and state.count(InstanceState.RUNNING) == state.target


@asynccontextmanager
async def writing(kubeconfig: Path) -> AsyncIterator[Writer]:
    client = Client(AiohttpTransport(load_kubeconfig_connection({}, file=kubeconfig)))
    try:
        yield Writer(client, record=lambda _: None, settings=WriterSettings(timeout=30.0))
    finally:
        await client.close()


async def execute(kubeconfig: Path, steps: Steps) -> list[WriteOutcome]:
    async with writing(kubeconfig) as writer:
        return [outcome for step in steps for outcome in await writer.write_all(step)]


@pytest.fixture
def groups(cluster: Cluster, namespace: str) -> Iterator[Groups]:
    groups = Groups(cluster, namespace)
    yield groups
    cluster.remove_nodes(*groups.nodes())


def is_ready(node: dict[str, Any]) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions", ())
    )


def test_two_nodes_are_ordered_boot_run_pods_and_are_released(cluster: Cluster, namespace: str, groups: Groups) -> None:
    begin = time.time()
    ordered = asyncio.run(groups.provider.order(groups.name, 2, begin))
    assert [outcome.result for outcome in groups.write(ordered.steps)] == [Result.APPLIED] * 2
    # A second process that gives the same order on the same view orders nothing.
    assert [outcome.result for outcome in groups.write(ordered.steps)] == [Result.CONFLICT] * 2
    assert not any(map(is_ready, groups.nodes().values()))
    state = groups.state()
    assert (state.target, state.count(InstanceState.ORDERED)) == (2, 2)

    until("both nodes to run", groups.all_running)
    assert time.time() - begin >= BOOT
    nodes = groups.nodes()
    assert sorted(nodes) == sorted(ordered.instances)
    assert all(map(is_ready, nodes.values()))
    for node in nodes.values():
        assert node["status"]["allocatable"]["example.com/gpu"] == "1"
        assert "trellis.x-k8s.io/starting" not in {taint["key"] for taint in node["spec"]["taints"]}

    tolerations = [{"key": namespace, "operator": "Exists"}]
    cluster.api.create(pod("web", tolerations=tolerations, nodeSelector={"kwok-nodegroup": groups.name}), namespace)
    [placed] = cluster.wait_for_ready_pods(namespace, "web")
    assert placed["spec"]["nodeName"] in nodes
    cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/web")

    released = asyncio.run(groups.provider.release(groups.name, [*nodes, "nobody"], time.time()))
    assert [outcome.result for outcome in groups.write(released.steps)] == [Result.APPLIED] * 2
    assert list(released.refused) == ["nobody"]
    until("the nodes to go", lambda: not groups.nodes())
    assert groups.state().target == 0
