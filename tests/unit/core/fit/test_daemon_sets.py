"""What a new node holds before anything else: the pods of DaemonSets."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from trellis.api.kube.nodes import Node
from trellis.api.kube.workloads import DaemonSet
from trellis.core.fit import NodeTable, Occupancy, build_daemon_demand, find_eligible_nodes, place_daemon_pods

Json = dict[str, Any]


def node(name: str, *taints: str, cpu: str = "4", **labels: str) -> Node:
    document = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": taint, "effect": "NoSchedule"} for taint in taints]},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }
    return msgspec.convert(document, Node)


def daemons(cpu: str, **spec: Any) -> DaemonSet:
    container = {"name": "agent", "resources": {"requests": {"cpu": cpu}}}
    return msgspec.convert({"spec": {"template": {"spec": {"containers": [container]} | spec}}}, DaemonSet)


def test_each_daemon_set_pod_uses_capacity_of_its_nodes() -> None:
    table = NodeTable([node("plain"), node("gpu", kind="gpu"), node("guarded", "dedicated")])
    used = Occupancy(table)
    sets = [
        daemons("500m"),
        daemons("1", nodeSelector={"kind": "gpu"}),
        daemons("2", tolerations=[{"operator": "Exists"}]),
    ]
    result = place_daemon_pods(table, used, map(build_daemon_demand, sets))
    assert [table.names(mask) for mask in result] == [["plain", "gpu"], ["gpu"], ["plain", "gpu", "guarded"]]
    assert dict(zip(table.names(table.exists), used.free("cpu").tolist(), strict=True)) == {
        "plain": 1500,
        "gpu": 500,
        "guarded": 2000,
    }
    assert used.amounts[table.row("pods")].tolist() == [2, 3, 1]


def test_a_daemon_set_pod_that_does_not_fit_uses_no_capacity() -> None:
    table = NodeTable([node("small", cpu="1"), node("large")])
    used = Occupancy(table)
    result = place_daemon_pods(
        table, used, [build_daemon_demand(daemons("800m")), build_daemon_demand(daemons("300m"))]
    )
    assert [table.names(mask) for mask in result] == [["small", "large"], ["large"]]
    assert used.free("cpu").tolist() == [200, 2900]


def test_daemon_set_pods_are_placed_only_on_the_given_nodes() -> None:
    table = NodeTable([node("old"), node("new")])
    used = Occupancy(table)
    place_daemon_pods(table, used, [build_daemon_demand(daemons("1"))], np.array([False, True]))
    assert used.free("cpu").tolist() == [4000, 3000]


@pytest.mark.parametrize(
    ("taint", "spec", "runs"),
    [
        ("node.kubernetes.io/disk-pressure", {}, True),
        ("node.kubernetes.io/unschedulable", {}, True),
        ("node.kubernetes.io/network-unavailable", {}, False),
        ("node.kubernetes.io/network-unavailable", {"hostNetwork": True}, True),
        ("dedicated", {}, False),
    ],
)
def test_daemon_set_pods_tolerate_node_conditions(taint: str, spec: Json, runs: bool) -> None:
    table = NodeTable([node("n", taint)])
    assert bool(find_eligible_nodes(table, build_daemon_demand(daemons("1", **spec))).any()) == runs


def test_daemon_set_pods_run_on_cordoned_nodes() -> None:
    cordoned = msgspec.structs.replace(node("n"), spec=msgspec.convert({"unschedulable": True}, type(node("n").spec)))
    assert find_eligible_nodes(NodeTable([cordoned]), build_daemon_demand(daemons("1"))).tolist() == [True]
