"""Measures 1,000 different pods against 5,000 nodes with 50,000 pods: where each fits, and why not elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from bench.measurement import CannotMeasure, Row, within
from bench.nodes.packing import build_node, build_pod

NODES = 5000
PODS = 1000
PLACED = 50_000
ROUNDS = 3
# A tenth of a second for all of them is what a pass over pending pods can spare.
SECONDS = 0.1

Json = dict[str, Any]


def measure() -> list[Row]:
    try:
        from trellis.api.kube.nodes import Node  # noqa: PLC0415
        from trellis.api.kube.pods import PodSpec  # noqa: PLC0415
        from trellis.core.fit import (  # noqa: PLC0415
            Demand,
            NodeTable,
            Occupancy,
            explain_unfit_nodes,
            find_fitting_nodes,
            find_largest_request,
        )
    except ImportError as error:
        raise CannotMeasure(str(error)) from error
    rng = Random(1)  # noqa: S311 - the same every time
    nodes = [msgspec.convert(_node(rng, at), Node) for at in range(NODES)]
    specs = [msgspec.convert(_spec(rng, at), PodSpec) for at in range(PODS)]
    table = NodeTable(nodes)
    demands = [Demand.of(spec) for spec in specs]
    used = Occupancy(table, [(rng.randrange(NODES), rng.choice(demands)) for _ in range(PLACED)])
    size = f"{PODS:,} pods, {NODES:,} nodes"
    return [
        within(f"table of {NODES:,} nodes", _best(lambda: NodeTable(nodes)), SECONDS),
        within(f"demands of {PODS:,} pods", _best(lambda: [Demand.of(spec) for spec in specs]), SECONDS),
        within(
            f"fits: {size}", _best(lambda: [find_fitting_nodes(table, demand, used) for demand in demands]), SECONDS
        ),
        within(
            f"why not: {size}",
            _best(lambda: [explain_unfit_nodes(table, demand, used) for demand in demands]),
            2 * SECONDS,
        ),
        within(
            f"most CPU: {size}",
            _best(lambda: [find_largest_request(table, demand, "cpu") for demand in demands]),
            SECONDS,
        ),
        *_beside_others(rng),
    ]


def _beside_others(rng: Random) -> list[Row]:
    """The same for pods with rules about each other, of which one is asked about in less than a millisecond."""
    from trellis.api.kube.nodes import Node  # noqa: PLC0415
    from trellis.api.kube.pods import Pod  # noqa: PLC0415
    from trellis.core.fit import Demand, ExistingPods, NodeTable, Occupancy, explain_unfit_nodes, find_fitting_nodes  # noqa: PLC0415

    table = NodeTable(msgspec.convert(build_node(rng, at), Node) for at in range(NODES))
    pods = [msgspec.convert(build_pod(rng, at, mixed=True), Pod) for at in range(PODS)]
    demands = [Demand.of(pod.spec, metadata=pod.metadata) for pod in pods]
    placed = [(rng.randrange(NODES), rng.choice(demands).profile) for _ in range(PLACED)]
    used, near = Occupancy(table), ExistingPods(table, placed)
    size = f"{PODS:,} pods with rules, {NODES:,} nodes"

    def asked_first() -> None:
        others = ExistingPods(table, placed)
        for demand in demands:
            find_fitting_nodes(table, demand, used, others)

    return [
        within(f"neighbours: {PLACED:,} pods", _best(lambda: ExistingPods(table, placed)), 10 * SECONDS),
        within(f"neighbours, and fits: {size}", _best(asked_first), 20 * SECONDS),
        within(
            f"fits: {size}",
            _best(lambda: [find_fitting_nodes(table, demand, used, near) for demand in demands]),
            5 * SECONDS,
        ),
        within(
            f"why not: {size}",
            _best(lambda: [explain_unfit_nodes(table, demand, used, near) for demand in demands]),
            5 * SECONDS,
        ),
    ]


def _best(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def _node(rng: Random, at: int) -> Json:
    labels = {f"label-{number}": "x" for number in range(15)}
    labels |= {"zone": f"z{rng.randrange(6)}", "type": f"t{rng.randrange(40)}", "generation": str(rng.randrange(10))}
    amounts = {"cpu": rng.choice(("3920m", "15890m")), "memory": rng.choice(("14Gi", "60Gi")), "pods": "110"}
    taints = [{"key": "dedicated", "value": f"team-{at % 7}", "effect": "NoSchedule"}] if at % 5 == 0 else []
    return {
        "metadata": {"name": f"n{at}", "labels": labels | {"kubernetes.io/hostname": f"n{at}"}},
        "spec": {"taints": taints, "unschedulable": at % 97 == 0},
        "status": {"allocatable": amounts | ({"example.com/gpu": "4"} if at % 10 == 0 else {})},
    }


def _spec(rng: Random, at: int) -> Json:
    requests = {"cpu": f"{rng.randrange(1, 8000)}m", "memory": f"{rng.randrange(64, 16000)}Mi"}
    requests |= {"example.com/gpu": "1"} if at % 20 == 0 else {}
    spec: Json = {"containers": [{"name": "app", "resources": {"requests": requests}}, {"name": "proxy"}]}
    spec["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]
    if at % 3 == 0:
        spec["tolerations"].append({"key": "dedicated", "value": f"team-{at % 7}"})
    if at % 2:
        spec["nodeSelector"] = {"zone": f"z{rng.randrange(6)}"}
    if at % 4 == 1:
        spec["affinity"] = _affinity(rng, at)
    return spec


def _affinity(rng: Random, at: int) -> Json:
    """A choice of types and generations, or any machine but one."""
    types = {"key": "type", "operator": "In", "values": [f"t{rng.randrange(40)}" for _ in range(5)]}
    newer = {"key": "generation", "operator": "Gt", "values": [str(rng.randrange(8))]}
    other = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [f"n{at}"]}
    terms = [{"matchExpressions": [types, newer]}, {"matchExpressions": [other]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
