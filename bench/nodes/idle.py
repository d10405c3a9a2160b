"""Measures a full pass over 5,000 nodes, 150,000 pods and 200 Buffers with nothing to do.

Every node has four pods of DaemonSets and is well used but for one in ten. Of these some hold a pod that must not be
moved, and the others one of pods that keep away from each other in a pool of five: their drain simulation fails, and is
repeated every five minutes. A pass is both plans, for fewer nodes and for more. Each size is a process of its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from bench.client.pod_list import peak_megabytes
from bench.measurement import Row, python, within
from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import PodDisruptionBudget
from trellis.api.kube.workloads import DaemonSet
from trellis.base.python_gc import freeze_live_objects, pause_garbage_collection
from trellis.core.nodes.autoscaler_pass import AutoscalerMemory, AutoscalerSettings, PassInput, PassPlans, plan_pass
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState, NodeGroup
from trellis.core.nodes.settings import ScaleDownSettings
from trellis.core.nodes.state.snapshot import ClusterSnapshot

NODES = 5_000
PODS = 30
DAEMONS = 4
BUFFERS = 200
CHUNKS = 20
GROUPS = 50
POOL = 5
BUDGETS = 1_000
PASSES = 60
# The bars of the whole.
SECONDS = 2.0
MEGABYTES = 1_500.0

NOW = 1_800_000_000.0
EVERY = 10.0
Json = dict[str, Any]


class Measured(msgspec.Struct, frozen=True):
    """What one size cost: the usual pass, the longest one, one that tries everything, all objects put, and memory."""

    usual: float
    longest: float
    exhaustive: float
    put: float
    megabytes: float
    actions: int


def measure() -> list[Row]:
    result = {share: _in_process(share) for share in (10, 3, 1)}
    rows = []
    for share, measured in result.items():
        size = f"{NODES // share:,} nodes, {NODES // share * PODS:,} pods, {BUFFERS // share} Buffers"
        rows.append(within(f"{size}, nothing to do: a pass", measured.usual, SECONDS))
        rows.append(within(f"{size}, nothing to do: the longest of {PASSES} passes", measured.longest, SECONDS))
        rows.append(
            within(f"{size}, nothing to do: a pass that tries every underused node", measured.exhaustive, SECONDS)
        )
    largest = result[1]
    rows.append(
        Row("nodes, nothing to do: orders and removals", f"{largest.actions}", bar="0", met=not largest.actions)
    )
    rows.append(Row("nodes: all objects put", f"{largest.put:.1f} s"))
    title = f"{NODES:,} nodes, {NODES * PODS:,} pods: memory of the process, at most"
    bar, met = f"<= {MEGABYTES:,.0f} MB", largest.megabytes <= MEGABYTES
    rows.append(Row(title, f"{largest.megabytes:,.0f} MB", bar=bar, met=met))
    return rows


def _in_process(share: int) -> Measured:
    return msgspec.json.decode(python("-m", __name__, str(share)), type=Measured)


def _measured(share: int) -> Measured:
    start = time.perf_counter()
    with pause_garbage_collection():
        snapshot = _filled(share)
    freeze_live_objects()
    put = time.perf_counter() - start
    budgets = [_budget(at) for at in range(BUDGETS // share)]
    memory, now = AutoscalerMemory(), NOW
    spent: list[float] = []
    actions = 0
    for _ in range(PASSES):
        start = time.perf_counter()
        plans = _pass(snapshot, budgets, memory, now, ScaleDownSettings())
        spent.append(time.perf_counter() - start)
        memory, now = AutoscalerMemory(plans.up.memory, plans.down.memory), now + EVERY
        actions += len(plans.down.actions) + len(plans.up.orders)
    start = time.perf_counter()
    _pass(snapshot, budgets, AutoscalerMemory(memory.up), now, ScaleDownSettings(max_nodes_tried=NODES))
    exhaustive = time.perf_counter() - start
    # In the first pass nothing has a seat and nothing has been tried.
    spent = spent[1:]
    return Measured(sorted(spent)[len(spent) // 2], max(spent), exhaustive, put, peak_megabytes(), actions)


def _pass(
    snapshot: ClusterSnapshot,
    budgets: list[PodDisruptionBudget],
    memory: AutoscalerMemory,
    now: float,
    settings: ScaleDownSettings,
) -> PassPlans:
    pass_input = PassInput(tuple(snapshot.groups.values()), budgets, memory, now)
    return plan_pass(snapshot, pass_input, AutoscalerSettings(down=settings))


def _filled(share: int) -> ClusterSnapshot:
    rng = Random(1)  # noqa: S311 - the same every time
    snapshot = ClusterSnapshot()
    nodes = NODES // share
    for at in range(DAEMONS):
        template = {"spec": {"containers": [_container("50m", "64Mi")]}}
        daemon: Json = {"metadata": {"name": f"d{at}"}, "spec": {"template": template}}
        snapshot.put_daemon_set(("kube-system", f"d{at}"), msgspec.convert(daemon, DaemonSet))
    for at in range(nodes):
        snapshot.put_node(f"n{at}", msgspec.convert(_node(at), Node))
    snapshot.put_groups(_group(number, nodes) for number in range(GROUPS))
    for at in range(nodes):
        for document in _pods(rng, at):
            metadata = document["metadata"]
            snapshot.put_pod((metadata["namespace"], metadata["name"]), msgspec.convert(document, Pod))
    for at in range(BUFFERS // share):
        snapshot.put_buffer((f"ns{at % 30}", f"b{at}"), msgspec.convert(_buffer(at), Buffer))
    return snapshot


def _is_idle(at: int) -> bool:
    """Whether a node is one of those with little on it: pools of five, one pool in ten."""
    return at // POOL % 10 == 0


def _node(at: int) -> Json:
    labels = {"kubernetes.io/hostname": f"n{at}", "topology.kubernetes.io/zone": f"z{at % 3}"}
    labels |= {f"label-{number}": "x" for number in range(12)}
    if _is_idle(at):
        labels["pool"] = f"p{at // POOL}"
    amounts = {"cpu": "15890m", "memory": "60Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "metadata": {"name": f"n{at}", "uid": f"n{at}", "labels": labels},
        "spec": {"providerID": f"made://n{at}"},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _group(number: int, nodes: int) -> GroupState:
    instances = tuple(
        Instance(f"n{at}", InstanceState.RUNNING, NOW - 86_400.0, f"n{at}") for at in range(number, nodes, GROUPS)
    )
    template = msgspec.convert(_node(1), Node)
    return GroupState(NodeGroup(f"g{number:02}", template, 10_000, price=0.8), len(instances), instances)


def _pods(rng: Random, at: int) -> Iterator[Json]:
    for number in range(DAEMONS):
        app = f"d{number}"
        yield _pod(f"{app}-{at}", "kube-system", {"app": app}, ("DaemonSet", app), _spec(at, "50m", "64Mi"))
    first = 0
    if _is_idle(at):
        app, first = f"one-{at // POOL}", 1
        owner = None if at // POOL % 20 == 0 else ("StatefulSet", app)
        yield _pod(f"{app}-{at}", "one", {"app": app}, owner, _spec(at, "200m", "512Mi", **_apart(at)))
    for number in range(first, PODS - DAEMONS):
        kind = rng.randrange(1_000)
        labels = {"app": f"a{kind}", "pod-template-hash": f"{kind:x}"}
        size = (f"{rng.choice((150, 200, 250))}m", "512Mi") if _is_idle(at) else (f"{rng.randrange(350, 500)}m", "1Gi")
        owner = ("ReplicaSet", f"a{kind}")
        yield _pod(f"a{kind}-{at}-{number}", f"ns{kind % 30}", labels, owner, _spec(at, *size))


def _pod(name: str, namespace: str, labels: Json, owner: tuple[str, str] | None, spec: Json) -> Json:
    metadata: Json = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
    if owner is not None:
        kind, whose = owner
        metadata["ownerReferences"] = [{"kind": kind, "name": whose, "uid": whose, "controller": True}]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": metadata, "spec": spec, "status": status}


def _spec(at: int, cpu: str, memory: str, **more: Any) -> Json:
    return {"nodeName": f"n{at}", "containers": [_container(cpu, memory)], **more}


def _container(cpu: str, memory: str) -> Json:
    return {"name": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}


def _apart(at: int) -> Json:
    """One on each node of its pool."""
    term = {"labelSelector": {"matchLabels": {"app": f"one-{at // POOL}"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"nodeSelector": {"pool": f"p{at // POOL}"}, "affinity": affinity}


def _buffer(at: int) -> Json:
    pods = {
        "replicaNum": CHUNKS,
        "podSpec": {"containers": [_container("250m", "512Mi")]},
        "podLabels": {"app": f"a{at}"},
    }
    return {
        "metadata": {"name": f"b{at}", "namespace": f"ns{at % 30}", "uid": f"b{at}"},
        "spec": {"recreationStrategy": "KeepMinimum"} if at % 4 == 0 else {},
        "status": {"podBasedBufferSpec": pods},
    }


def _budget(at: int) -> PodDisruptionBudget:
    document = {
        "metadata": {"name": f"a{at}", "namespace": f"ns{at % 30}", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": f"a{at}"}}},
        "status": {"disruptionsAllowed": 1, "observedGeneration": 1},
    }
    return msgspec.convert(document, PodDisruptionBudget)


if __name__ == "__main__":
    print(msgspec.json.encode(_measured(int(sys.argv[1]))).decode())
