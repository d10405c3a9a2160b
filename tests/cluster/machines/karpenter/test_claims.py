"""Machines by NodeClaims: the real Karpenter launches, drains and gives up, beside a NodePool of its own."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from cluster.nodes.test_kwok_provider import execute
from support.cluster.machines.claim_groups import (
    DEAD_CLASS,
    MISSING_CLASS,
    QUICK_CLASS,
    ClaimNodeGroups,
    find_status,
    require,
)
from support.cluster.machines.external_grpc import GroupServer
from support.cluster.nodes import QUICK, Start
from support.cluster.updaters import events
from support.cluster.vpas import metric_value
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.karpenter import running
from testbed.waiting import until
from testbed.workloads import disruption_budget
from trellis.api.kube.coordination import ConfigMap
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.machines.node_claims import NodeClaim
from trellis.api.kube.nodes import Node
from trellis.core.nodes import GroupState, InstanceState
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.providers.node_claims.provider import ClaimObjects, NodeClaimProvider
from trellis.providers.protocol import Steps


class Provider:
    """The provider of the groups of one namespace, called without an autoscaler."""

    def __init__(self, cluster: Cluster, namespace: str, group: str) -> None:
        self.cluster, self.namespace, self.group = cluster, namespace, group
        self.provider = NodeClaimProvider(self.read_objects, f"{namespace}/groups", launch_timeout=3.0)

    def read_objects(self) -> ClaimObjects:
        api = self.cluster.api
        config = api.get(f"/api/v1/namespaces/{self.namespace}/configmaps/groups")
        nodes = [convert_object(node, Node) for node in api.list_items("/api/v1/nodes")]
        claims = [convert_object(claim, NodeClaim) for claim in api.list_items(running.NODE_CLAIMS)]
        return ClaimObjects(convert_object(config, ConfigMap), nodes, claims)

    def write(self, steps: Steps) -> list[WriteOutcome]:
        return asyncio.run(execute(self.cluster.kubeconfig, steps))

    def order(self, target: int) -> list[Result]:
        ordered = asyncio.run(self.provider.order(self.group, target, time.time()))
        assert ordered.error is None
        return [outcome.result for outcome in self.write(ordered.steps)]

    def release(self, *names: str) -> list[Result]:
        released = asyncio.run(self.provider.release(self.group, names, time.time()))
        assert not released.refused
        return [outcome.result for outcome in self.write(released.steps)]

    def tend(self) -> None:
        self.write(asyncio.run(self.provider.tend(time.time())).steps)

    def state(self) -> GroupState:
        states = asyncio.run(self.provider.groups(time.time())).states
        return next(state for state in states if state.group.name == self.group)

    def count(self, state: InstanceState) -> int:
        self.tend()
        return self.state().count(state)


@pytest.fixture
def provider(cluster: Cluster, namespace: str, node_groups: ClaimNodeGroups) -> Provider:
    return Provider(cluster, namespace, node_groups.group)


def test_a_named_claim_is_drained_within_its_budget_and_the_others_stay(
    cluster: Cluster, namespace: str, node_groups: ClaimNodeGroups, provider: Provider
) -> None:
    agent = [{"key": "example.com/agent", "effect": "NoSchedule"}]
    node_groups.declare(startupTaints=agent, minSize=1)
    assert provider.order(2) == [Result.APPLIED] * 2
    old = provider.read_objects()
    until("the machines", lambda: all(find_status(claim, "Registered") == "True" for claim in claims(node_groups)))
    # A startup taint is there, and no pod is placed on a node that has one: it is not up.
    assert provider.state().count(InstanceState.ORDERED) == 2
    for node in node_groups.nodes().values():
        kept = [taint for taint in node["spec"]["taints"] if taint["key"] != "example.com/agent"]
        cluster.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"taints": kept}})
    until("both to run", lambda: provider.count(InstanceState.RUNNING) == 2)
    # The same order on an old view orders nothing.
    provider.read_objects = lambda: ClaimObjects(old.config, old.nodes, ())  # type: ignore[method-assign]
    stale = NodeClaimProvider(provider.read_objects, f"{namespace}/groups")
    repeated = asyncio.run(stale.order(node_groups.group, 2, time.time()))
    assert [outcome.result for outcome in provider.write(repeated.steps)] == [Result.CONFLICT] * 2
    del provider.read_objects

    # Each node has what its group declares, and its labels.
    state = provider.state()
    for instance in state.instances:
        node = node_groups.nodes()[instance.node]
        template = state.group.template
        assert template.metadata.labels.items() <= node["metadata"]["labels"].items()
        assert all(node["status"]["allocatable"][name] == amount for name, amount in offered(template).items())

    cluster.api.create(disruption_budget("web", minAvailable="100%"), namespace)
    node_groups.deploy("web", 2, cpu="1500m")
    until("the pods to run", lambda: len(node_groups.running()) == 2)
    [stays, goes] = sorted(state.instances, key=lambda instance: instance.id)
    uids = {pod["metadata"]["uid"] for pod in node_groups.pods()}
    assert provider.release(goes.id) == [Result.APPLIED]
    until("the drain to begin", lambda: "karpenter.sh/disrupted" in str(node_groups.nodes()[goes.node]["spec"]))
    until("the drain to wait", lambda: is_drain_waiting(cluster, goes.node))
    assert {pod["metadata"]["uid"] for pod in node_groups.pods()} == uids
    assert (provider.state().target, provider.count(InstanceState.LEAVING)) == (1, 1)
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web"
    cluster.api.patch(path, {"spec": {"minAvailable": 0}})
    until("the claim and its node to go", lambda: set(node_groups.nodes()) == {stays.node})
    until("the claim to go", lambda: set(node_groups.claims()) == {stays.id})
    assert provider.state().index_by_id()[stays.id] == stays


def test_claims_that_fail_are_reported_with_their_reasons_and_released(
    cluster: Cluster, namespace: str, node_groups: ClaimNodeGroups, nodes: Start
) -> None:
    """A node class that does not exist, an instance type that does not exist; the third group has machines."""
    group = node_groups.group
    groups: dict[str, Json] = {
        f"{group}-c": {"node_class": MISSING_CLASS},
        f"{group}-t": {"requirements": [require("none.such")]},
    }
    node_groups.declare_all(
        *({"name": name, "price": 0.1, **spec} for name, spec in groups.items()), {"name": group, "price": 1.0}
    )
    controller = nodes(namespace, *node_groups.flags, *QUICK, "--karpenter-launch-timeout=3s")
    node_groups.deploy("web", 1)
    until("the pod to run", lambda: len(node_groups.running()) == 1)
    assert {node_groups.get_group(node) for node in node_groups.nodes().values()} == {group}
    for name in groups:
        assert metric_value(controller, "trellis_nodes_group_backoff_seconds", group=name) > 0
    until("the failed claims to go", lambda: not any(node_groups.claims(name) for name in groups))
    assert len(node_groups.claims(group)) == 1
    logs = controller.read_logs()
    assert "deleted before a machine was launched" in logs
    assert "LaunchFailed: translating nodeclaim to node, instance type not found" in logs


def test_a_machine_whose_node_never_registers_is_released(node_groups: ClaimNodeGroups, provider: Provider) -> None:
    node_groups.declare(node_class=DEAD_CLASS)
    assert provider.order(1) == [Result.APPLIED]
    until("the machine", lambda: all(find_status(claim, "Launched") == "True" for claim in claims(node_groups)) or None)
    [instance] = provider.state().instances
    assert (instance.state, instance.node) == (InstanceState.ORDERED, "")
    # Karpenter changes the claim while it starts: a release on an old view is refused, and repeated.
    until("it to be released", lambda: Result.APPLIED in provider.release(instance.id) or not node_groups.claims())
    until("the claim to go", lambda: not node_groups.claims())
    assert provider.state().target == 0


def test_neither_karpenter_nor_trellis_touches_the_nodes_of_the_other(
    cluster: Cluster, namespace: str, node_groups: ClaimNodeGroups, provider: Provider, nodes: Start
) -> None:
    pool = f"{namespace}-pool"
    pool_labels = {"pool": namespace}
    # With the labels of ours, too: what a NodePool has ordered stays its own.
    taken = {**pool_labels, "trellis.x-k8s.io/node-group": node_groups.group}
    cluster.api.create(running.build_node_pool(pool, QUICK_CLASS, pool, taken))
    node_groups.declare()
    nodes(namespace, *node_groups.flags, *QUICK)
    placement: Json = {"tolerations": [{"key": pool, "operator": "Exists"}], "nodeSelector": pool_labels}
    node_groups.deploy("theirs", 1, cpu="2500m", placement=placement)
    node_groups.deploy("ours", 2, cpu="1500m")
    until("all pods to run", lambda: len(node_groups.running()) == 3)
    theirs, ours = pool_nodes(cluster, pool), node_groups.nodes()
    assert (len(theirs), len(ours)) == (1, 2)
    assert provider.state().target == len(node_groups.claims()) == 2

    # Trellis removes its own, and those of the NodePool stay.
    node_groups.scale("ours", 0)
    until("our nodes to go", lambda: not node_groups.nodes() and not node_groups.claims())
    assert pool_nodes(cluster, pool) == theirs

    # Karpenter removes its own, and ours stay, though nothing runs on one of them.
    node_groups.declare(minSize=2)
    node_groups.scale("ours", 2)
    until("our nodes", lambda: len(node_groups.ready_nodes()) == 2)
    ours = node_groups.nodes()
    node_groups.scale("ours", 1)
    node_groups.scale("theirs", 0)
    until("their nodes to go", lambda: not pool_nodes(cluster, pool))
    assert node_groups.nodes().keys() == ours.keys()
    cluster.api.delete(f"{running.NODE_POOLS}/{pool}")


def test_a_group_scales_from_zero_and_to_zero(namespace: str, node_groups: ClaimNodeGroups, nodes: Start) -> None:
    node_groups.declare()
    nodes(namespace, *node_groups.flags, *QUICK)
    node_groups.deploy("web", 3, cpu="900m")
    until("the pods to run", lambda: len(node_groups.running()) == 3)
    assert len(node_groups.claims()) == 2
    node_groups.scale("web", 0)
    until("the nodes to go", lambda: not node_groups.nodes() and not node_groups.claims())


def claims(node_groups: ClaimNodeGroups) -> list[Json]:
    return list(node_groups.claims().values())


def offered(template: Node) -> dict[str, str]:
    return {name: amount for name, amount in template.status.allocatable.items() if name in ("cpu", "memory", "pods")}


def is_drain_waiting(cluster: Cluster, node: str) -> bool:
    found = events(cluster, "default", "FailedDraining")
    return any(
        event["involvedObject"]["name"] == node and "waiting to be evicted" in event["message"] for event in found
    )


def pool_nodes(cluster: Cluster, pool: str) -> set[str]:
    nodes = cluster.api.list_items("/api/v1/nodes", labelSelector=f"karpenter.sh/nodepool={pool}")
    return {node["metadata"]["uid"] for node in nodes}


def test_a_client_orders_and_removes_machines_through_the_server(
    cluster: Cluster, namespace: str, node_groups: ClaimNodeGroups, nodes: Start, tmp_path: Path
) -> None:
    node_groups.declare()
    server = GroupServer(cluster, namespace, tmp_path, node_groups.flags)
    try:
        nodes(namespace, *QUICK, *server.client_flags)
        node_groups.deploy("web", 5)
        until("the pods to run", lambda: len(node_groups.running()) == 5)
        assert len(node_groups.nodes()) == 2
        node_groups.scale("web", 0)
        until("all nodes to go", lambda: not node_groups.nodes() and not node_groups.claims())
        assert "forbidden" not in server.running.read_logs()
    finally:
        server.close()
