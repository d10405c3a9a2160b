"""Measures a scale-up of 40,000 pending pods with 400 node types, in pods a second.

What a pod asks for is read when the pod is seen, and is not part of it: a plan begins with everything counted.
"""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from bench.measurement import CannotMeasure, Row, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from trellis.core.nodes.scale_up.decisions import ScaleUpPlan
    from trellis.core.nodes.state.snapshot import ClusterSnapshot


PODS = 40_000
TYPES = 400
# Pods of one template, as in the measurement of packing.
ALIKE = 50
ROUNDS = 3
PLAIN_A_SECOND = 50_000
MIXED_A_SECOND = 5_000
CHUNKS, SHAPES = 10_000, 100
# A planning pass may take as long as a full pass with nothing to do.
CHUNK_SECONDS = 2.0

Json = dict[str, Any]


def measure() -> list[Row]:
    try:
        from trellis.core.nodes.scale_up.plan import plan_scale_up  # noqa: PLC0415
    except ImportError as error:
        raise CannotMeasure(str(error)) from error
    del plan_scale_up
    rows = []
    for mixed, bar in ((False, PLAIN_A_SECOND), (True, MIXED_A_SECOND)):
        kinds = "of five kinds" if mixed else "plain"
        for share in (10, 3, 1):
            pods = PODS // share
            seconds, nodes = _planned(pods, mixed=mixed)
            rate = pods / seconds
            what = f"scale-up: {pods:,} pods, {kinds}, {TYPES} types, {nodes:,} nodes"
            rows.append(Row(what, f"{rate:,.0f} pods/s", bar=f">= {bar:,} pods/s", met=rate >= bar))
    what = f"scale-up: {CHUNKS:,} chunks of {SHAPES} shapes"
    chunks = _best(_buffered())
    rows.append(within(what, chunks, CHUNK_SECONDS))
    ratio = _since_read(_buffered) / _since_read(lambda: _waiting(CHUNKS, mixed=False, alike=CHUNKS // SHAPES))
    what = f"read and planned: {CHUNKS:,} chunks beside as many pods of as many shapes"
    rows.append(Row(what, f"{ratio:.2f} of their time", bar="<= 1 of their time", met=ratio <= 1))
    return rows


def _since_read(make: Callable[[], ClusterSnapshot]) -> float:
    """The best time to read a cluster, and to plan for it once."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        _plan(make())
        best = min(best, time.perf_counter() - start)
    return best


def _waiting(pods: int, *, mixed: bool, alike: int = ALIKE) -> ClusterSnapshot:
    """A cluster in which pods wait."""
    from trellis.api.kube.pods import Pod  # noqa: PLC0415

    rng = Random(1)  # noqa: S311 - the same every time
    snapshot = _cluster(rng)
    for at in range(pods // alike):
        document = _pod(rng, at, mixed=mixed)
        for number in range(alike):
            document["metadata"] |= {"name": f"p{at}-{number}", "uid": f"p{at}-{number}"}
            snapshot.put_pod((f"ns{at % 30}", f"p{at}-{number}"), msgspec.convert(document, Pod))
    return snapshot


def _planned(pods: int, *, mixed: bool) -> tuple[float, int]:
    """The best time of some plans, and how many nodes each orders; every pod gets one."""
    snapshot = _waiting(pods, mixed=mixed)
    plan = _plan(snapshot)
    unplaced = sum(pod.unplaced for pod in plan.pods)
    if unplaced:
        raise CannotMeasure(f"{unplaced} of {pods} pods got no node")
    return _best(snapshot), sum(order.count for order in plan.orders)


def _plan(snapshot: ClusterSnapshot) -> ScaleUpPlan:
    from trellis.core.nodes.scale_up.plan import plan_scale_up  # noqa: PLC0415
    from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory  # noqa: PLC0415
    from trellis.core.nodes.settings import ScaleUpSettings  # noqa: PLC0415

    return plan_scale_up(snapshot, ScaleUpMemory(), 1e9, ScaleUpSettings(max_nodes_per_scaleup=PODS))


def _best(snapshot: ClusterSnapshot) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        _plan(snapshot)
        best = min(best, time.perf_counter() - start)
    return best


def _cluster(rng: Random) -> ClusterSnapshot:
    from trellis.api.kube.nodes import Node  # noqa: PLC0415
    from trellis.api.kube.workloads import DaemonSet  # noqa: PLC0415
    from trellis.core.nodes.node_groups import GroupState, NodeGroup  # noqa: PLC0415
    from trellis.core.nodes.state.snapshot import ClusterSnapshot  # noqa: PLC0415

    snapshot = ClusterSnapshot()
    for at in range(4):
        template = {
            "spec": {"containers": [{"name": "d", "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}]}
        }
        document = {"metadata": {"name": f"d{at}"}, "spec": {"template": template}}
        snapshot.put_daemon_set(("kube-system", f"d{at}"), msgspec.convert(document, DaemonSet))
    states = []
    for at in range(TYPES):
        cores = rng.choice((4, 8, 16, 32, 64))
        memory = cores * rng.choice((2, 4, 8))
        template = msgspec.convert(_template(at, cores, memory), Node)
        price = 0.03 * cores + 0.004 * memory * rng.uniform(0.8, 1.2)
        states.append(GroupState(NodeGroup(f"type-{at:03}", template, 100_000, price=price), 0))
    snapshot.put_groups(states)
    return snapshot


def _template(at: int, cores: int, memory: int) -> Json:
    labels = {"topology.kubernetes.io/zone": f"z{at % 6}", "type": f"t{at}", "family": f"f{at % 20}"}
    taints = [{"key": "dedicated", "value": f"team-{at % 7}", "effect": "NoSchedule"}] if at % 5 == 0 else []
    amounts = {
        "cpu": f"{cores * 1000 - 80}m",
        "memory": f"{memory * 1000}Mi",
        "pods": "110",
        "ephemeral-storage": "200Gi",
    }
    return {"metadata": {"labels": labels}, "spec": {"taints": taints}, "status": {"allocatable": amounts}}


def _pod(rng: Random, at: int, *, mixed: bool) -> Json:
    requests = {
        "cpu": f"{rng.randrange(50, 900)}m",
        "memory": f"{rng.randrange(64, 3000)}Mi",
        "ephemeral-storage": "1Gi",
    }
    spec: Json = {"containers": [{"name": "app", "resources": {"requests": requests}}]}
    if at % 3 == 0:
        spec["tolerations"] = [{"key": "dedicated", "value": f"team-{at % 7}"}]
    if at % 2 and not mixed:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": f"z{rng.randrange(6)}"}
    labels = {"app": f"a{at}", "team": f"t{at % 30}"}
    if mixed:
        spec |= _rule(at % 5, {"matchLabels": {"app": f"a{at}"}})
    owner = {"kind": "ReplicaSet", "name": f"a{at}", "uid": f"a{at}", "controller": True}
    metadata = {"namespace": f"ns{at % 30}", "labels": labels, "ownerReferences": [owner]}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": [condition]}}


def _rule(kind: int, selector: Json) -> Json:
    """None, spread over zones, over hosts, near to one another in a zone, away from one another on hosts."""
    zone, host = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
    if kind in (1, 2):
        rule = {"maxSkew": 1, "topologyKey": zone if kind == 1 else host, "whenUnsatisfiable": "DoNotSchedule"}
        return {"topologySpreadConstraints": [rule | {"labelSelector": selector}]}
    if kind in (3, 4):
        which, key = ("podAffinity", zone) if kind == 3 else ("podAntiAffinity", host)
        term = {"labelSelector": selector, "topologyKey": key}
        return {"affinity": {which: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    return {}


def _buffered() -> ClusterSnapshot:
    from trellis.api.kinds.buffer import Buffer  # noqa: PLC0415

    rng = Random(1)  # noqa: S311 - the same every time
    snapshot = _cluster(rng)
    for at in range(SHAPES):
        pods = {"replicaNum": CHUNKS // SHAPES, "podSpec": _pod(rng, at, mixed=False)["spec"]}
        document = {
            "metadata": {"name": f"b{at}", "namespace": "default", "uid": f"b{at}"},
            "spec": {"recreationStrategy": "KeepMinimum" if at % 2 else "KeepEmpty"},
            "status": {"podBasedBufferSpec": pods},
        }
        snapshot.put_buffer(("default", f"b{at}"), msgspec.convert(document, Buffer))
    return snapshot
