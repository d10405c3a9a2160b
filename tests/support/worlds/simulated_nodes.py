"""Workloads on nodes that are added and removed, in the whole simulator, with its state at any time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np

from support.worlds.simulated_cluster import BEGIN, Document, container, container_demand, fleet, workload
from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.sim.cluster import ModelCluster, PodEvent
from trellis.sim.cluster.telemetry import PendingTimes
from trellis.sim.components.control_plane import ControlPlane
from trellis.sim.fleet import Fleet, NodePool, NodeShape, SimulatedWorkload, Variant
from trellis.sim.kernel import Kernel, Priority
from trellis.sim.results import NodeFigures

BOOT = 120.0
GROUP = "kwok-nodegroup"
QUICK = {"scale-down-unneeded-time": "2m", "scale-down-delay-after-add": "2m"}


def pool(name: str = "pool", cpu: str = "4", memory: str = "16Gi", count: int = 0, **fields: Any) -> NodePool:
    labels = {GROUP: name, **fields.pop("labels", {})}
    document = {
        "metadata": {"labels": labels},
        "spec": {"taints": fields.pop("taints", [])},
        "status": {"capacity": {"cpu": cpu, "memory": memory, "pods": "110"}},
    }
    figures = {"max_size": 50, "boot_seconds": BOOT, "price": 1.0, **fields}
    return NodePool(name, count, document, **figures)


def idle_workload(name: str = "web", replicas: int = 1, cpu: str = "1", **fields: Any) -> SimulatedWorkload:
    """A workload that hardly uses anything; its pods are up a second after they have a node."""
    fields.setdefault("demand", (container_demand(0.01, 1e6, steps=600),))
    return workload(name, replicas, container(cpu=cpu, memory="64Mi"), **fields)


def job(
    name: str, begins: list[float], seconds: float, pods: int = 1, cpu: str = "1", **fields: Any
) -> SimulatedWorkload:
    """Runs that begin so many seconds after the beginning."""
    runs = tuple((BEGIN + begin, seconds) for begin in begins)
    demand = (container_demand(0.01, 1e6, steps=600, by_age=True),)
    return idle_workload(name, pods, cpu, kind="Job", runs=runs, demand=demand, **fields)


def pod_capacity(count: int, cpu: str = "1", **spec: Any) -> Document:
    """A capacity of pods written out."""
    requests = {"cpu": cpu, "memory": "64Mi"}
    written = {"containers": [{"name": "app", "resources": {"requests": requests}}], **spec}
    return {"pods": {"replicaNum": count, "podSpec": written}}


def a_buffer(capacity: Document, name: str = "spare", target: tuple[str, str] | None = None, **spec: Any) -> Document:
    """A Buffer; `target` is a kind and a name."""
    versions = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}
    if target is not None:
        version = versions.get(target[0], "example.com/v1")
        spec["targetRef"] = {"apiVersion": version, "kind": target[0], "name": target[1]}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "Buffer",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"capacity": capacity, **spec},
    }


def on_nodes(*workloads: SimulatedWorkload, pools: tuple[NodePool, ...], **fields: Any) -> Fleet:
    nodes: tuple[NodeShape, ...] = fields.pop("nodes", ())
    return msgspec.structs.replace(fleet(*workloads, nodes=nodes, **fields), pools=pools)


class SimulatedNodesRun:
    """A running variant, with its pods, nodes and log."""

    def __init__(self, simulated: Fleet, *objects: Document, **settings: str) -> None:
        self.fleet = simulated
        self.kernel = Kernel(simulated.clock.begin)
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.log: list[tuple[float, PodEvent, str]] = []
        variant = Variant("only", objects=objects, settings={**QUICK, **settings})
        rng = np.random.default_rng(simulated.seed)
        self.cluster = ModelCluster(simulated, self.kernel, self._admit, rng, self)
        self.control_plane = ControlPlane(
            simulated, variant, self.kernel, self.cluster, on_recommendation=lambda *_: None, on_reason=lambda *_: None
        )
        self.control_plane.begin()
        self.cluster.begin()
        for number in range(simulated.clock.steps):
            time = simulated.clock.begin + number * simulated.clock.step
            self.kernel.at(time, lambda number=number: self._step(number), Priority.USAGE)  # type: ignore[misc]

    def _admit(self, pod: Pod) -> Pod:
        return self.control_plane.admit(pod)

    def run_until(self, seconds: float) -> SimulatedNodesRun:
        """Let time go by until so long after the beginning."""
        self.kernel.run_until(BEGIN + seconds)
        return self

    # What the cluster tells.

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        self.control_plane.on_pod(old, new)
        if new is None:
            assert old is not None
            del self.pods[old.metadata.name]
        else:
            self.pods[new.metadata.name] = new

    def on_workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        self.control_plane.on_workload(kind, old, new)

    def on_node(self, old: Node | None, new: Node | None) -> None:
        self.control_plane.on_node(old, new)
        if new is None:
            assert old is not None
            del self.nodes[old.metadata.name]
        else:
            self.nodes[new.metadata.name] = new

    def on_eviction(self, event: Event) -> None:
        self.control_plane.on_eviction(event)

    def on_pod_event(self, workload: int, event: PodEvent, pod: Pod, text: str) -> None:
        del workload, text
        self.log.append((self.kernel.now - BEGIN, event, pod.metadata.name))

    # What tests ask.

    def groups(self) -> dict[str, int]:
        """How many nodes there are of each group."""
        return dict(Counter(node.metadata.labels.get(GROUP, "") for node in self.nodes.values()))

    def placed(self, name: str = "") -> dict[str, str]:
        """The node of each pod that has one."""
        result = {key: pod.spec.node_name for key, pod in self.pods.items() if key.startswith(name)}
        return {key: node for key, node in result.items() if node}

    def pending(self) -> list[str]:
        return sorted(key for key, pod in self.pods.items() if not pod.spec.node_name)

    def longest_wait(self, since: float = 0.0) -> float:
        """The longest that a pod made since then has waited for its node."""
        waited = self.cluster.pending_times
        assert isinstance(waited, PendingTimes)
        return waited.summarize(BEGIN + since, len(self.fleet.workloads), ())[0].most

    def times(self, event: PodEvent, name: str = "") -> list[float]:
        return [time for time, logged, pod in self.log if logged is event and pod.startswith(name)]

    @property
    def chunks(self) -> int:
        return self.control_plane.chunks

    @property
    def figures(self) -> NodeFigures:
        node_figures = self.control_plane.node_figures
        assert isinstance(node_figures, NodeFigures)
        return node_figures

    def _step(self, number: int) -> None:
        self.control_plane.on_usage(self.cluster.step(number), self.cluster.rows)
