"""What we call schedulable the real scheduler schedules, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from support.builders.nodes_and_pods import a_node, a_pod_spec, seeded
from support.oracles.scheduler import SET, agreement, find_decided_pod
from testbed import workloads
from testbed.cluster import Cluster
from testbed.kwok.nodes import Node as NewNode
from testbed.kwok.nodes import Taint
from testbed.waiting import until
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.core.fit import Demand, NodeTable, Occupancy, explain_unfit_nodes, find_fitting_nodes, read_running_demand

Json = dict[str, Any]

NODES = 8
PODS = 20

# As many as a minute has room for on two cores; bench/nodes/fit_agreement.py draws twenty times as many.
CLUSTERS = 50
PODS_EACH = 8


def test_the_scheduler_places_the_pods_with_inter_pod_rules_that_fit(cluster: Cluster) -> None:
    decided, placed, differences = agreement(cluster, range(CLUSTERS), PODS_EACH)
    assert differences == []
    assert decided == CLUSTERS * PODS_EACH
    assert decided * 0.3 < placed < decided * 0.8  # else the clusters were drawn too hard, or too easy


class World(NamedTuple):
    """A namespace whose pods can only be placed on nodes of its own, and what we know of those."""

    cluster: Cluster
    namespace: str
    table: NodeTable
    used: Occupancy


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_scheduler_places_the_pods_that_fit_and_no_others(cluster: Cluster, namespace: str, seed: int) -> None:
    rng = seeded(seed)
    names = [f"{namespace}-{at}" for at in range(NODES)]
    try:
        add_nodes(cluster, rng, namespace, names)
        table = NodeTable(convert_object(node, Node) for node in read_nodes(cluster, names))
        world = World(cluster, namespace, table, Occupancy(table))
        decisions = [check_a_pod(world, rng, f"p{at}") for at in range(PODS)]
    finally:
        cluster.remove_nodes(*names)
    assert 4 <= sum(decisions) <= PODS - 4  # else the world was drawn too easy, or too hard


def check_a_pod(world: World, rng: Random, name: str) -> bool:
    """Whether the scheduler placed the pod, as the filters expect."""
    cluster, namespace, table, used = world
    spec = a_pod_spec(rng, table.names(table.exists))
    spec["nodeSelector"] = {**spec.get("nodeSelector", {}), SET: namespace}
    spec["tolerations"].append({"key": SET, "operator": "Exists"})
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    template = Demand.of(convert_object(manifest, Pod).spec)
    created = cluster.api.create(manifest, namespace)
    demand = Demand.of(convert_object(created, Pod).spec)
    # What the API server fills in for a pod we fill in for a template.
    assert (template.amounts, template.ports) == (demand.amounts, demand.ports), spec
    expected = table.names(find_fitting_nodes(table, demand, used))
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    pod = until(
        f"the scheduler's verdict on {name}",
        lambda: find_decided_pod(cluster.api.get(path), expected_to_fit=bool(expected)),
    )
    chosen = pod["spec"].get("nodeName")
    if chosen is None:
        assert expected == [], (spec, pod["status"])
        cluster.api.delete(path)
        until(f"the end of {name}", lambda: cluster.api.find(path) is None)
        return False
    assert chosen in expected, (spec, [str(reason) for reason in explain_unfit_nodes(table, demand, used)])
    used.add(table.find(chosen), read_running_demand(convert_object(pod, Pod)))
    return True


def add_nodes(cluster: Cluster, rng: Random, namespace: str, names: list[str]) -> None:
    """Nodes for this test alone: no other pod tolerates their taint."""
    drawn = {name: a_node(rng, name) for name in names}
    cluster.add_nodes(*(new_node(node, namespace) for node in drawn.values()))
    for name, node in drawn.items():
        if node["spec"]["unschedulable"]:
            cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    until("the taints of cordoned nodes", lambda: all(map(is_tainted_if_cordoned, read_nodes(cluster, names))))
    wait_for_scheduler(cluster, namespace)


def wait_for_scheduler(cluster: Cluster, namespace: str) -> None:
    """Return when the scheduler knows of all nodes as they are: it hears of them in order, and of this one last."""
    last = f"{namespace}-last"
    try:
        cluster.add_nodes(NewNode(name=last, taints=(Taint(SET, last),)))
        tolerated: Json = {
            "nodeSelector": {"kubernetes.io/hostname": last},
            "tolerations": [{"key": SET, "value": last}],
        }
        cluster.api.create(workloads.pod("last", **tolerated), namespace)
        cluster.wait_for_ready_pods(namespace, "last")
    finally:
        cluster.remove_nodes(last)


def new_node(node: Json, namespace: str) -> NewNode:
    amounts = node["status"]["allocatable"]
    return NewNode(
        name=node["metadata"]["name"],
        pods=int(amounts["pods"]),
        labels={**node["metadata"]["labels"], SET: namespace},
        taints=(
            Taint(SET, namespace),
            *(Taint(taint["key"], taint.get("value", ""), taint["effect"]) for taint in node["spec"]["taints"]),
        ),
        allocatable=amounts,
    )


def is_tainted_if_cordoned(node: Json) -> bool:
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return not node["spec"].get("unschedulable") or "node.kubernetes.io/unschedulable" in taints


def read_nodes(cluster: Cluster, names: list[str]) -> Iterator[Json]:
    return (cluster.api.get(f"/api/v1/nodes/{name}") for name in names)
