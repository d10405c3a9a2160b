"""The nodes that a pod fits on, by the scheduler's filters for all nodes at once."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders.nodes_and_pods import GPU, a_node, a_pod_spec, seeded
from support.oracles import fit
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import PodSpec
from trellis.core.fit import (
    Demand,
    NodeTable,
    Occupancy,
    UnfitNodes,
    explain_unfit_nodes,
    find_eligible_nodes,
    find_fitting_nodes,
    find_largest_request,
)
from trellis.core.fit.filters import (
    HOST_PORT_TAKEN,
    NO_NODES,
    NODE_CORDONED,
    NODE_FULL,
    NODE_NOT_NAMED,
    NODE_NOT_SELECTED,
    NODE_TOO_SMALL,
    TAINT_NOT_TOLERATED,
)
from trellis.core.fit.node_table import CodeColumn

Json = dict[str, Any]

# Drawn by a seed: drawn one by one, the hundreds of choices in a world take ten times as long.
RNGS = st.integers(0, 2**32 - 1).map(seeded)


def node(
    name: str = "n",
    labels: dict[str, str] | None = None,
    spec: Json | None = None,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    gpu: str = "0",
) -> Node:
    document = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec or {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods, GPU: gpu},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return msgspec.convert(document, Node)


def demand(requests: dict[str, str] | None = None, **spec: Any) -> Demand:
    written = {"containers": [{"name": "app", "resources": {"requests": requests or {}}}]} | spec
    return Demand.of(msgspec.convert(written, PodSpec))


def on(table: NodeTable, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> list[str]:
    return sorted(table.names(mask))


def affinity(*terms: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


# Agreement with the rules, one pod and one node at a time


@given(RNGS)
def test_filters_over_all_nodes_agree_with_those_for_one_node(rng: Random) -> None:
    nodes = [a_node(rng, f"n{at}") for at in range(rng.choice((1, 4, 9)))]
    names = [node["metadata"]["name"] for node in nodes]
    table = NodeTable(msgspec.convert(node, Node) for node in nodes)
    placed: dict[str, list[Json]] = {name: [] for name in names}
    used = Occupancy(table)
    for _ in range(rng.choice((3, 8))):
        spec = a_pod_spec(rng, names, wild=True)
        pod_demand = Demand.of(msgspec.convert(spec, PodSpec))
        expected = {
            "eligible": [node["metadata"]["name"] for node in nodes if fit.is_eligible(spec, node)],
            "empty": [node["metadata"]["name"] for node in nodes if fit.fits(spec, node)],
            "now": [
                node["metadata"]["name"] for node in nodes if fit.fits(spec, node, placed[node["metadata"]["name"]])
            ],
        }
        result = {
            "eligible": on(table, find_eligible_nodes(table, pod_demand)),
            "empty": on(table, find_fitting_nodes(table, pod_demand)),
            "now": on(table, find_fitting_nodes(table, pod_demand, used)),
        }
        assert result == expected, spec
        assert pod_demand.requests == fit.pod_requests(spec) | {"pods": 1}
        obstacles = explain_unfit_nodes(table, pod_demand, used)
        assert sum(obstacle.nodes for obstacle in obstacles) == len(nodes) - len(result["now"])
        assert all(obstacle.nodes > 0 for obstacle in obstacles)
        # Anywhere, fitting or not: a node may also be fuller than it should be.
        where = rng.choice(result["now"] or names)
        placed[where].append(spec)
        used.add(table.find(where), pod_demand)


@given(RNGS)
def test_a_table_after_changes_equals_one_made_at_once(rng: Random) -> None:
    names = [f"n{at}" for at in range(6)]
    specs = [a_pod_spec(rng, names, wild=True) for _ in range(6)]
    demands = [Demand.of(msgspec.convert(spec, PodSpec)) for spec in specs]
    table, current = NodeTable(), dict[str, Json]()
    for _ in range(12):
        name = rng.choice(names)
        if rng.random() < 0.3:
            assert table.remove(name) == (current.pop(name, None) is not None)
        else:
            current[name] = a_node(rng, name)
            table.update(msgspec.convert(current[name], Node))
        anew = NodeTable(msgspec.convert(node, Node) for node in current.values())
        for spec, pod_demand in zip(specs, demands, strict=True):
            assert on(table, find_fitting_nodes(table, pod_demand)) == on(anew, find_fitting_nodes(anew, pod_demand)), (
                spec
            )


@given(RNGS)
def test_removing_pods_restores_the_previous_state(rng: Random) -> None:
    table = NodeTable(msgspec.convert(a_node(rng, f"n{at}"), Node) for at in range(4))
    specs = [a_pod_spec(rng, ["n0"], wild=True) for _ in range(8)]
    placed = [(rng.randrange(4), Demand.of(msgspec.convert(spec, PodSpec))) for spec in specs]
    at_once = Occupancy(table, placed[:4])
    step_by_step = Occupancy(table)
    for number, pod_demand in placed:
        step_by_step.add(number, pod_demand)
    for number, pod_demand in rng.sample(placed[4:], 4):
        step_by_step.remove(number, pod_demand)
    assert np.array_equal(at_once.amounts, step_by_step.amounts)
    for _, pod_demand in placed:
        assert np.array_equal(
            find_fitting_nodes(table, pod_demand, at_once), find_fitting_nodes(table, pod_demand, step_by_step)
        )


# The rules, by example


def test_a_pod_needs_free_capacity_of_every_resource_and_a_pod_slot() -> None:
    table = NodeTable([node("small", cpu="1"), node("few", pods="1"), node("gpu", gpu="1")])
    pod_demand = demand({"cpu": "1", GPU: "1"})
    assert on(table, find_fitting_nodes(table, pod_demand)) == ["gpu"]
    assert on(table, find_fitting_nodes(table, demand({"cpu": "1"}))) == ["few", "gpu", "small"]
    used = Occupancy(table, [(table.find(name), demand({"cpu": "100m"})) for name in ("small", "few", "gpu")])
    assert on(table, find_fitting_nodes(table, demand({"cpu": "1"}), used)) == ["gpu"]
    assert on(table, find_fitting_nodes(table, demand({"example.com/fpga": "1"}))) == []


def test_a_pod_without_a_request_for_a_resource_fits_where_it_is_overcommitted() -> None:
    table = NodeTable([node(cpu="1")])
    used = Occupancy(table, [(0, demand({"cpu": "3"}))])
    assert on(table, find_fitting_nodes(table, demand({"memory": "1Gi"}), used)) == ["n"]
    assert on(table, find_fitting_nodes(table, demand({"cpu": "1m"}), used)) == []
    assert used.free("cpu").tolist() == [-2000]


def test_a_pod_on_an_unknown_node_takes_no_resources() -> None:
    table = NodeTable([node("a"), node("b")])
    used = Occupancy(table, [(table.find("gone"), demand({"cpu": "4"}))])
    used.add(table.find("gone"), demand({"cpu": "4"}))
    assert on(table, find_fitting_nodes(table, demand({"cpu": "4"}), used)) == ["a", "b"]


def test_resources_that_the_scheduler_does_not_count_are_ignored() -> None:
    table = NodeTable([node()])
    assert on(table, find_fitting_nodes(table, demand({"storage": "1Gi", "made-up": "1"}))) == ["n"]
    assert on(table, find_fitting_nodes(table, demand({"requests.example.com/odd": "1"}))) == ["n"]
    for counted in ("kubernetes.io/odd", "requests.kubernetes.io/odd", "attachable-volumes-odd"):
        assert on(table, find_fitting_nodes(table, demand({counted: "1"}))) == []


def test_absurd_amounts_fit_nowhere_without_an_error() -> None:
    table = NodeTable([node(cpu="99999999999999999999E", memory="junk", pods="-5"), node("m", cpu="4")])
    assert on(table, find_fitting_nodes(table, demand({"cpu": "99999999999999999999E"}))) == []
    used = Occupancy(table, [(0, demand({"cpu": "9E"}))] * 500)
    assert used.free("cpu").tolist()[0] < 0
    assert on(table, find_fitting_nodes(table, demand({"cpu": "1"}), used)) == ["m"]


@pytest.mark.parametrize(
    ("wanted", "held", "clash"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "10.0.0.1"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.2"}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.1"}, True),
        ({"containerPort": 80}, {"containerPort": 80}, False),
    ],
)
def test_a_host_port_is_used_by_one_pod_only(wanted: Json, held: Json, clash: bool) -> None:
    table = NodeTable([node("a"), node("b")])
    pod_demand, other = (demand(containers=[{"name": "app", "ports": [port]}]) for port in (wanted, held))
    used = Occupancy(table, [(table.find("a"), other)])
    assert on(table, find_fitting_nodes(table, pod_demand, used)) == (["b"] if clash else ["a", "b"])
    used.clear(table.find("a"))
    assert on(table, find_fitting_nodes(table, pod_demand, used)) == ["a", "b"]


def test_a_cordon_is_a_taint_that_can_be_tolerated() -> None:
    table = NodeTable([node(spec={"unschedulable": True})])
    tolerant = demand(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert on(table, find_eligible_nodes(table, demand())) == []
    assert on(table, find_eligible_nodes(table, tolerant)) == ["n"]
    assert table.schedulable.tolist() == [False]


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerated"),
    [
        ({"operator": "Exists"}, {"key": "a", "value": "1", "effect": "NoSchedule"}, True),
        ({"key": "a", "operator": "Exists"}, {"key": "a", "value": "1", "effect": "NoExecute"}, True),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}, False),
        ({"key": "a", "value": "1"}, {"key": "a", "value": "1", "effect": "NoSchedule"}, True),
        ({"key": "a", "value": "2"}, {"key": "a", "value": "1", "effect": "NoSchedule"}, False),
        ({"key": "a"}, {"key": "a", "effect": "NoSchedule"}, True),
        ({"key": "a", "operator": "Gt", "value": "4"}, {"key": "a", "value": "5", "effect": "NoSchedule"}, True),
        ({"key": "a", "operator": "Gt", "value": "5"}, {"key": "a", "value": "5", "effect": "NoSchedule"}, False),
        ({"key": "a", "operator": "Lt", "value": "6"}, {"key": "a", "value": "-7", "effect": "NoSchedule"}, True),
        ({"key": "a", "operator": "Lt", "value": "6"}, {"key": "a", "value": "05", "effect": "NoSchedule"}, False),
        ({"key": "a", "operator": "Lt", "value": "9" * 19}, {"key": "a", "value": "5", "effect": "NoSchedule"}, False),
        ({"key": "a", "operator": "Odd"}, {"key": "a", "effect": "NoSchedule"}, False),
        ({"key": "b"}, {"key": "a", "effect": "PreferNoSchedule"}, True),
    ],
)
def test_pods_do_not_fit_on_nodes_with_untolerated_taints(toleration: Json, taint: Json, tolerated: bool) -> None:
    table = NodeTable([node(spec={"taints": [taint]})])
    assert bool(find_eligible_nodes(table, demand(tolerations=[toleration])).any()) == tolerated


def test_every_taint_of_a_node_must_be_tolerated() -> None:
    both = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoExecute"}]
    table = NodeTable([node("one", spec={"taints": both[:1]}), node("two", spec={"taints": both})])
    assert on(table, find_eligible_nodes(table, demand(tolerations=[{"key": "a"}]))) == ["one"]
    assert on(table, find_eligible_nodes(table, demand(tolerations=[{"key": "a"}, {"key": "b"}]))) == ["one", "two"]


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (expression("size", "Gt", "2"), ["ten"]),
        (expression("size", "Lt", "10"), ["two"]),
        (expression("size", "Gt", "2", "3"), []),
        (expression("size", "Gt", "many"), []),
        (expression("size", "Near", "2"), []),
        (expression("size", "In"), []),
        (expression("size", "NotIn", "2"), ["big", "none", "ten"]),
        (expression("size", "DoesNotExist"), ["none"]),
        ({}, []),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["two"]}]}, ["two"]),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["two", "ten"]}]}, []),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["two"]}]}, ["big", "none", "ten"]),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}, []),
        ({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["x"]}]}, []),
        (
            {"matchFields": [{"key": "metadata.uid", "operator": "NotIn", "values": ["x"]}]},
            ["big", "none", "ten", "two"],
        ),
    ],
)
def test_node_affinity_terms_select_nodes_and_unreadable_ones_none(term: Json, expected: list[str]) -> None:
    sizes = {"two": "2", "ten": "10", "big": "many"}
    table = NodeTable([node("none"), *(node(name, {"size": size}) for name, size in sizes.items())])
    assert on(table, find_eligible_nodes(table, demand(affinity=affinity(term)))) == expected
    either = affinity(term, expression("size", "In", "many"))
    assert on(table, find_eligible_nodes(table, demand(affinity=either))) == sorted({*expected, "big"})


def test_node_selector_and_affinity_must_both_hold_and_no_terms_match_nothing() -> None:
    table = NodeTable([node("a", {"zone": "x", "disk": "fast"}), node("b", {"zone": "x"}), node("c", {"disk": "fast"})])
    fast = affinity(expression("disk", "In", "fast", "faster"))
    assert on(table, find_eligible_nodes(table, demand(nodeSelector={"zone": "x"}, affinity=fast))) == ["a"]
    assert on(table, find_eligible_nodes(table, demand(affinity=affinity()))) == []
    assert on(table, find_eligible_nodes(table, demand(affinity={"nodeAffinity": {}}))) == ["a", "b", "c"]


def test_a_placed_pod_fits_only_its_node_unless_it_moves() -> None:
    table = NodeTable([node("a"), node("b")])
    spec = msgspec.convert({"nodeName": "b", "containers": []}, PodSpec)
    assert on(table, find_eligible_nodes(table, Demand.of(spec))) == ["b"]
    assert on(table, find_eligible_nodes(table, Demand.of(spec, moves=True))) == ["a", "b"]


# Why not


def test_each_node_is_counted_for_the_first_filter_it_does_not_pass() -> None:
    table = NodeTable(
        [
            node("cordoned", spec={"unschedulable": True}),
            node("tainted", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
            node("elsewhere", {"zone": "y"}),
            node("plain", {"zone": "x"}),
            node("small", {"zone": "x"}, cpu="1", gpu="1"),
            node("port", {"zone": "x"}, gpu="1"),
            node("full", {"zone": "x"}, gpu="1"),
            node("good", {"zone": "x"}, gpu="1"),
        ]
    )
    port = {"name": "app", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "2", GPU: "1"}}}
    pod_demand = demand(containers=[port], nodeSelector={"zone": "x"})
    used = Occupancy(
        table,
        [
            (table.find("port"), demand(containers=[{"name": "p", "ports": [{"hostPort": 80}]}])),
            (table.find("full"), demand({"cpu": "3"})),
        ],
    )
    assert explain_unfit_nodes(table, pod_demand, used) == (
        UnfitNodes(NODE_CORDONED, 1),
        UnfitNodes(TAINT_NOT_TOLERATED, 1),
        UnfitNodes(NODE_NOT_SELECTED, 1),
        UnfitNodes(NODE_TOO_SMALL, 1, "cpu"),
        UnfitNodes(NODE_TOO_SMALL, 1, GPU),
        UnfitNodes(HOST_PORT_TAKEN, 1),
        UnfitNodes(NODE_FULL, 1, "cpu"),
    )
    assert on(table, find_fitting_nodes(table, pod_demand, used)) == ["good"]
    assert [str(node) for node in explain_unfit_nodes(table, pod_demand)[-2:]] == [
        "1 NodeTooSmall (cpu)",
        f"1 NodeTooSmall ({GPU})",
    ]


def test_a_pod_with_an_unknown_node_name_fits_nowhere() -> None:
    table = NodeTable([node("a"), node("b")])
    assert explain_unfit_nodes(table, demand(nodeName="gone")) == (UnfitNodes(NODE_NOT_NAMED, 2),)


def test_without_nodes_nothing_fits_with_that_reason() -> None:
    table = NodeTable()
    assert find_fitting_nodes(table, demand({"cpu": "1"}), Occupancy(table)).tolist() == []
    assert explain_unfit_nodes(table, demand()) == (UnfitNodes(NO_NODES, 0),)
    assert find_largest_request(table, demand(), "cpu") is None


# The most of one resource


def test_the_largest_request_is_that_of_the_largest_node_that_fits_the_rest() -> None:
    table = NodeTable(
        [
            node("large", cpu="16", memory="1Gi"),
            node("tainted", cpu="32", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
            node("medium", cpu="7910m", memory="32Gi"),
            node("small", cpu="2", memory="64Gi"),
        ]
    )
    assert find_largest_request(table, demand({"cpu": "1", "memory": "512Mi"}), "cpu") == 16_000
    assert find_largest_request(table, demand({"cpu": "100", "memory": "2Gi"}), "cpu") == 7910
    assert find_largest_request(table, demand({"memory": "2Gi"}, overhead={"cpu": "250m"}), "cpu") == 7660
    assert find_largest_request(table, demand({"memory": "128Gi"}), "cpu") is None
    assert find_largest_request(table, demand({"cpu": "1"}), GPU) == 0


@given(RNGS)
def test_a_pod_with_the_largest_request_fits_and_with_one_more_does_not(rng: Random) -> None:
    table = NodeTable(msgspec.convert(a_node(rng, f"n{at}"), Node) for at in range(5))
    spec = a_pod_spec(rng, ["n0", "n1"], wild=True)
    for extra in ("resources", "initContainers"):
        spec.pop(extra, None)
    spec["containers"] = spec["containers"][:1]
    read = msgspec.convert(spec, PodSpec)
    most = find_largest_request(table, Demand.of(read), "cpu")
    if most is None:
        assert not find_fitting_nodes(table, Demand.of(read, {"c0": {"cpu": 0}})).any() or "overhead" in spec
        return
    with_most, with_more = (Demand.of(read, {"c0": {"cpu": amount}}) for amount in (most, most + 1))
    assert find_fitting_nodes(table, with_most).any()
    assert not find_fitting_nodes(table, with_more).any()


# A table that follows its nodes


def test_a_node_keeps_its_number_which_is_reused_after_its_removal() -> None:
    table = NodeTable([node("a", cpu="1"), node("b", cpu="2")])
    before = table.find("b")
    table.update(node("c", cpu="3"))
    table.remove("a")
    assert not table.remove("a")
    assert table.find("b") == before
    assert table.update(node("d", cpu="4")) == 0
    assert dict(zip(table.names(table.exists), table.offered("cpu")[table.exists].tolist(), strict=True)) == {
        "d": 4000,
        "b": 2000,
        "c": 3000,
    }


def test_the_next_query_sees_changed_labels_taints_and_amounts() -> None:
    table = NodeTable([node("a"), node("b", {"zone": "x"})])
    pod_demand = demand({GPU: "1"}, nodeSelector={"zone": "x"})
    assert on(table, find_fitting_nodes(table, pod_demand)) == []
    table.update(node("a", {"zone": "x"}, gpu="1"))
    assert on(table, find_fitting_nodes(table, pod_demand)) == ["a"]
    table.update(node("a", {"zone": "x"}, {"taints": [{"key": "k", "effect": "NoExecute"}]}, gpu="1"))
    assert on(table, find_fitting_nodes(table, pod_demand)) == []
    table.update(node("a", {"zone": "x"}))
    assert explain_unfit_nodes(table, pod_demand) == (UnfitNodes(NODE_TOO_SMALL, 2, GPU),)
    table.update(node("b", {"zone": "y"}))
    assert on(table, find_eligible_nodes(table, pod_demand)) == ["a"]


def test_a_table_grows_with_its_nodes_and_with_the_pods_placed_on_them() -> None:
    table = NodeTable([node("n0", {"at": "0"})])
    used = Occupancy(table, [(0, demand({"cpu": "4"}))])
    last = demand({"cpu": "4"}, nodeSelector={"at": "199"})
    assert not find_fitting_nodes(table, last, used).any()
    for at in range(1, 200):
        table.update(node(f"n{at}", {"at": str(at)}))
    assert on(table, find_fitting_nodes(table, last, used)) == ["n199"]
    assert int(np.count_nonzero(find_fitting_nodes(table, demand({"cpu": "4"}), used))) == 199


def test_removed_nodes_leave_nothing_in_masks() -> None:
    """Every node has a label value of its own, and more nodes are added and removed than the table has capacity for."""
    table = NodeTable()
    for at in range(400):
        table.update(node(f"n{at}", {"host": f"n{at}"}, {"taints": [{"key": f"t{at}", "effect": "NoSchedule"}]}))
        for older in range(max(at - 3, 0), at + 1):
            pod_demand = demand(nodeSelector={"host": f"n{older}"}, tolerations=[{"key": f"t{older}"}])
            assert on(table, find_eligible_nodes(table, pod_demand)) == [f"n{older}"]
        if at >= 3:
            table.remove(f"n{at - 3}")
    assert table.capacity == 64
    assert on(table, find_eligible_nodes(table, demand(tolerations=[{"operator": "Exists"}]))) == [
        "n397",
        "n398",
        "n399",
    ]


def test_label_values_of_removed_nodes_are_dropped() -> None:
    column: CodeColumn[str] = CodeColumn(4)
    for at in range(100):
        column.put(at % 2, f"v{at}")
    pod_demand: list[str] = []

    def is_last(values: Mapping[str, int]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        pod_demand.extend(values)
        return np.array([value == "v99" for value in (*values, None)])

    assert column.mask("last?", is_last).tolist() == [False, True, False, False]
    assert len(pod_demand) <= 8
    column.reserve(5)
    assert column.mask("last?", is_last).tolist() == [False, True, False, False, False]


def test_labels_and_terms_beyond_the_cache_limits_stay_correct() -> None:
    table = NodeTable([node("a", {"k": "600", "k150": "v"}), node("b", {"k": "601"})])
    for at in range(700):
        expected = {600: ["a"], 601: ["b"]}.get(at, [])
        assert on(table, find_eligible_nodes(table, demand(nodeSelector={"k": str(at)}))) == expected
    for at in range(200):
        assert on(table, find_eligible_nodes(table, demand(nodeSelector={f"k{at}": "v"}))) == (
            ["a"] if at == 150 else []
        )


def test_readiness_of_a_node_does_not_exclude_pods() -> None:
    unready = msgspec.structs.replace(node("b"), status=msgspec.structs.replace(node().status, conditions=()))
    table = NodeTable([node("a"), unready])
    assert on(table, table.ready[: table.numbers_end]) == ["a"]
    assert on(table, find_fitting_nodes(table, demand())) == ["a", "b"]
