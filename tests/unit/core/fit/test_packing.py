"""Where pods go that are packed: each on the first node that fits, beside all that were put before it."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.builders.nodes_and_pods import a_node, a_pod_spec, seeded
from support.builders.pod_affinities import NAMESPACES, REQUIRED, a_node_in_domains, a_pod_with_rules
from support.oracles import fit
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.core.fit import Demand, ExistingPods, NodeTable, Occupancy, find_fitting_nodes, pack

Json = dict[str, Any]

RNGS = st.integers(0, 2**32 - 1).map(seeded)

APP = {"matchLabels": {"app": "web"}}


def node(name: str, zone: str, cpu: str = "4") -> Node:
    labels = {"zone": zone, "host": name}
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}}, Node)


def demand(cpu: str = "1", labels: Json | None = None, **spec: Any) -> Demand:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"namespace": "red", "labels": {"app": "web"} if labels is None else labels}
    pod = msgspec.convert({"metadata": metadata, "spec": {"containers": [container]} | spec}, Pod)
    return Demand.of(pod.spec, metadata=pod.metadata)


def rule(kind: str, key: str) -> Json:
    return {"affinity": {kind: {REQUIRED: [{"topologyKey": key, "labelSelector": APP}]}}}


def spread(*keys: str) -> Json:
    usual = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}
    return {"topologySpreadConstraints": [usual | {"topologyKey": key} for key in keys]}


def packed(table: NodeTable, *groups: tuple[Demand, int]) -> list[list[str]]:
    return [table.keys(numbers.tolist()) for numbers in pack(table, Occupancy(table), groups)]


def zones() -> NodeTable:
    return NodeTable([node("a1", "a"), node("a2", "a"), node("b1", "b"), node("c1", "c")])


def a_world(rng: Random) -> tuple[list[Json], list[Json]]:
    """Nodes and pods: with rules about each other, or with all other rules."""
    size, kinds = rng.choice((1, 4, 8)), rng.choice((2, 5))
    if rng.random() < 0.7:
        nodes = [a_node_in_domains(rng, f"n{at}", "s") for at in range(size)]
        return nodes, [a_pod_with_rules(rng, f"p{at}", "s") for at in range(kinds)]
    specs = [a_pod_spec(rng, ["n0", "n1"], wild=True) for _ in range(kinds)]
    nodes = [a_node(rng, f"n{at}") for at in range(size)]
    return nodes, [{"metadata": {"namespace": "red", "labels": {}}, "spec": spec} for spec in specs]


@given(RNGS)
def test_packing_is_sequential_first_fit_by_the_rules_for_one_pod_and_one_node(rng: Random) -> None:
    nodes, pods = a_world(rng)
    table = NodeTable(msgspec.convert(node, Node) for node in nodes)
    read = [msgspec.convert(pod, Pod) for pod in pods]
    groups = [
        (Demand.of(waiting_pod.spec, metadata=waiting_pod.metadata), rng.choice((0, 1, 3, 6))) for waiting_pod in read
    ]
    by_name = {node["metadata"]["name"]: node for node in nodes}
    placed: list[tuple[str, Json]] = []
    result = pack(table, Occupancy(table), groups, ExistingPods(table, namespaces=NAMESPACES))
    for pod, (_, count), numbers in zip(pods, groups, result, strict=True):
        expected: list[str] = []
        for _ in range(count):
            fitting = (name for name in by_name if fit.fits_beside(pod, by_name[name], by_name, placed, NAMESPACES))
            first = next(fitting, None)
            if first is None:
                break
            expected.append(first)
            placed.append((first, pod))
        assert table.keys(numbers.tolist()) == expected, pod


@given(RNGS)
def test_packing_leaves_the_same_state_as_adding_pods_one_by_one(rng: Random) -> None:
    nodes, pods = a_world(rng)
    table = NodeTable(msgspec.convert(node, Node) for node in nodes)
    read = [msgspec.convert(pod, Pod) for pod in pods]
    groups = [(Demand.of(pod.spec, metadata=pod.metadata), rng.choice((1, 4))) for pod in read]
    order = np.array(rng.sample(range(len(nodes)), rng.randrange(1, len(nodes) + 1)))
    used, near = Occupancy(table), ExistingPods(table, namespaces=NAMESPACES)
    tried, beside = used.copy(), near.copy()
    result = pack(table, tried, groups, beside, order)
    for (demand, count), numbers in zip(groups, result, strict=True):
        for number in numbers.tolist():
            first = next(row for row in order.tolist() if find_fitting_nodes(table, demand, used, near)[row])
            assert number == first
            used.add(number, demand)
            near.add(number, demand.profile)
        assert len(numbers) == count or not find_fitting_nodes(table, demand, used, near)[order].any()
    assert np.array_equal(tried.amounts, used.amounts)
    for demand, _ in groups:
        assert np.array_equal(
            find_fitting_nodes(table, demand, tried, beside), find_fitting_nodes(table, demand, used, near)
        )


def test_equal_pods_fill_node_after_node_and_the_rest_is_not_placed() -> None:
    table = NodeTable([node("n1", "a", "2"), node("n2", "a", "500m"), node("n3", "a", "3")])
    assert packed(table, (demand("1"), 4), (demand("500m"), 9)) == [["n1", "n1", "n3", "n3"], ["n2", "n3", "n3"]]
    assert packed(table, (demand("1"), 0), (demand("9"), 2), (demand("1"), 1)) == [[], [], ["n1"]]
    assert packed(NodeTable(), (demand(), 3)) == [[]]


def test_a_host_port_is_used_by_one_pod_on_each_node() -> None:
    port: Json = {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]}
    assert packed(zones(), (demand(**port), 9)) == [["a1", "a2", "b1", "c1"]]


def test_pods_are_spread_over_domains_and_over_hosts() -> None:
    table = zones()
    assert packed(table, (demand(**spread("zone")), 5)) == [["a1", "b1", "c1", "a1", "b1"]]
    assert packed(table, (demand(**spread("host")), 5)) == [["a1", "a2", "b1", "c1", "a1"]]
    assert packed(table, (demand(**spread("zone", "host")), 5)) == [["a1", "b1", "c1", "a2", "b1"]]


def test_a_full_domain_ends_the_spread_even_if_others_have_capacity() -> None:
    table = NodeTable([node("a1", "a", "1"), node("b1", "b"), node("c1", "c")])
    assert packed(table, (demand(**spread("zone")), 9)) == [["a1", "b1", "c1", "b1", "c1"]]


def test_pods_with_affinity_to_each_other_follow_the_first() -> None:
    table = zones()
    together = demand(**rule("podAffinity", "zone"))
    assert packed(table, (together, 10)) == [["a1"] * 4 + ["a2"] * 4]
    used, near = Occupancy(table), ExistingPods(table)
    used.add(table.find("a1"), demand("4"))
    near.add(table.find("c1"), demand().profile)
    assert table.keys(pack(table, used, [(together, 2)], near)[0].tolist()) == ["c1", "c1"]


def test_pods_with_anti_affinity_get_a_domain_each_and_exclude_later_groups() -> None:
    apart, other = demand(**rule("podAntiAffinity", "zone")), demand()
    assert packed(zones(), (apart, 2), (other, 2)) == [["a1", "b1"], ["c1", "c1"]]
    assert packed(zones(), (demand(**rule("podAntiAffinity", "host")), 9)) == [["a1", "a2", "b1", "c1"]]


def test_nodes_are_tried_in_the_given_order() -> None:
    table = zones()
    order = np.array([table.find(name) for name in ("c1", "a2")])
    result = pack(table, Occupancy(table), [(demand("3"), 4)], nodes=order)
    assert [table.keys(rows.tolist()) for rows in result] == [["c1", "a2"]]


def test_packed_pods_can_be_removed() -> None:
    table, pod_demand = zones(), demand()
    used, near = Occupancy(table), ExistingPods(table)
    where, times = np.unique(pack(table, used, [(pod_demand, 7)], near)[0], return_counts=True)
    used.add_many(where, pod_demand, -times)
    near.add_many(where, pod_demand.profile, -times)
    assert not used.amounts.any()
    assert packed(table, (pod_demand, 2)) == [["a1", "a1"]]
