"""50,000 pods on 5,000 nodes, each on the first that fits: plain ones, and five kinds with rules about each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from bench.measurement import CannotMeasure, Row, at_least, within

if TYPE_CHECKING:
    from trellis.core.fit import Demand, NodeTable


NODES = 5000
PODS = 50_000
# Pods of one template: half a Deployment's worth, and a thousand templates in all.
ALIKE = 50
ROUNDS = 3
SECONDS = 0.25
# The scale-up of many pending pods can spare no more.
MIXED_A_SECOND = 5000
PLAIN_A_SECOND = 50_000
# Plain Python is compared at a size that it can do.
PEER_NODES, PEER_PODS, PEER_RATIO = 1000, 10_000, 20.0

Json = dict[str, Any]


def measure() -> list[Row]:
    try:
        import trellis.core.fit.packing  # noqa: F401, PLC0415
    except ImportError as error:
        raise CannotMeasure(str(error)) from error
    plain = {share: _packed(NODES // share, PODS // share, mixed=False) for share in (10, 3, 1)}
    mixed = {share: _packed(NODES // share, PODS // share, mixed=True) for share in (10, 3, 1)}
    rows = [within(f"pack: {PODS:,} pods, {NODES:,} nodes, 4 resources, selectors, taints", plain[1], SECONDS)]
    rows += [
        _rate(f"pack: {PODS // share:,} plain pods", PODS // share, plain[share], PLAIN_A_SECOND) for share in plain
    ]
    rows += [
        _rate(f"pack: {PODS // share:,} pods of five kinds", PODS // share, mixed[share], MIXED_A_SECOND)
        for share in mixed
    ]
    different = _packed(NODES, PODS // 10, mixed=False, alike=1)
    rows.append(
        Row(f"pack: {PODS // 10:,} pods, no two alike, {NODES:,} nodes", f"{PODS / 10 / different:,.0f} pods/s")
    )
    value, peer = _packed(PEER_NODES, PEER_PODS, mixed=False), _first_fit(PEER_NODES, PEER_PODS)
    title = f"pack: {PEER_PODS:,} pods, {PEER_NODES:,} nodes, beside plain Python"
    rows.append(at_least(title, f"{value * 1000:.1f} ms", f"{peer * 1000:,.0f} ms", peer / value, PEER_RATIO))
    return rows


def _rate(title: str, pods: int, seconds: float, bar: int) -> Row:
    rate = pods / seconds
    return Row(title, f"{rate:,.0f} pods/s", bar=f">= {bar:,} pods/s", met=rate >= bar)


def _packed(nodes: int, pods: int, *, mixed: bool, alike: int = ALIKE) -> float:
    from trellis.core.fit import ExistingPods, Occupancy, pack  # noqa: PLC0415

    table, groups = _world(nodes, pods, mixed=mixed, alike=alike)

    def pack_once() -> None:
        pack(table, Occupancy(table), groups, ExistingPods(table))

    return _best(pack_once)


def _world(nodes: int, pods: int, *, mixed: bool, alike: int = ALIKE) -> tuple[NodeTable, list[tuple[Demand, int]]]:
    from trellis.api.kube.nodes import Node  # noqa: PLC0415
    from trellis.api.kube.pods import Pod  # noqa: PLC0415
    from trellis.core.fit import Demand, NodeTable  # noqa: PLC0415

    rng = Random(1)  # noqa: S311 - the same every time
    table = NodeTable(msgspec.convert(build_node(rng, at), Node) for at in range(nodes))
    made = [msgspec.convert(build_pod(rng, at, mixed=mixed), Pod) for at in range(pods // alike)]
    return table, [(Demand.of(pod.spec, metadata=pod.metadata), alike) for pod in made]


def _first_fit(nodes: int, pods: int) -> float:
    """Pod by pod and node by node, with dictionaries and loops; what a node allows is asked once for a group."""
    from trellis.core.fit import find_eligible_nodes  # noqa: PLC0415

    table, groups = _world(nodes, pods, mixed=False)
    capacity = {name: table.offered(name).tolist() for name in table.resources}
    demands = [(find_eligible_nodes(table, demand).tolist(), demand.requests, count) for demand, count in groups]

    def fit_once() -> None:
        free = {name: list(amounts) for name, amounts in capacity.items()}
        for allowed, requests, count in demands:
            for _ in range(count):
                for node in range(nodes):
                    if allowed[node] and all(free[name][node] >= amount for name, amount in requests.items()):
                        for name, amount in requests.items():
                            free[name][node] -= amount
                        break

    return _best(fit_once)


def _best(work: Callable[[], object]) -> float:
    """Seconds of one core: what else the machine does is not counted."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def build_node(rng: Random, at: int) -> Json:
    labels = {f"label-{number}": "x" for number in range(15)}
    labels |= {"zone": f"z{rng.randrange(6)}", "type": f"t{rng.randrange(40)}", "host": f"n{at}"}
    amounts = {"cpu": rng.choice(("3920m", "15890m")), "memory": rng.choice(("14Gi", "60Gi")), "pods": "110"}
    amounts |= {"ephemeral-storage": "100Gi", "example.com/gpu": "4" if at % 10 == 0 else "0"}
    taints = [{"key": "dedicated", "value": f"team-{at % 7}", "effect": "NoSchedule"}] if at % 5 == 0 else []
    return {
        "metadata": {"name": f"n{at}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": amounts},
    }


def build_pod(rng: Random, at: int, *, mixed: bool) -> Json:
    """Four resources, a zone for every second kind, a toleration for every third; a rule if they are mixed."""
    requests = {"cpu": f"{rng.randrange(50, 900)}m", "memory": f"{rng.randrange(64, 3000)}Mi"}
    requests |= {"ephemeral-storage": "1Gi"} | ({"example.com/gpu": "1"} if at % 20 == 0 else {})
    spec: Json = {"containers": [{"name": "app", "resources": {"requests": requests}}]}
    if at % 3 == 0:
        spec["tolerations"] = [{"key": "dedicated", "value": f"team-{at % 7}"}]
    if at % 2 and not mixed:
        spec["nodeSelector"] = {"zone": f"z{rng.randrange(6)}"}
    if mixed:
        spec |= _rule(at % 5, {"matchLabels": {"app": f"a{at}"}})
    labels = {"app": f"a{at}", "pod-template-hash": f"{at:x}", "team": f"t{at % 30}"}
    return {"metadata": {"name": f"p{at}", "namespace": f"ns{at % 30}", "labels": labels}, "spec": spec}


def _rule(kind: int, selector: Json) -> Json:
    """None, spread over zones, over hosts, near to one another in a zone, away from one another on hosts."""
    if kind in (1, 2):
        key = "zone" if kind == 1 else "host"
        constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        return {"topologySpreadConstraints": [constraint]}
    if kind in (3, 4):
        affinity_kind, key = ("podAffinity", "zone") if kind == 3 else ("podAntiAffinity", "host")
        term = {"labelSelector": selector, "topologyKey": key}
        return {"affinity": {affinity_kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    return {}
