"""Small fleets on the model cluster, and a watcher that keeps what it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from trellis.api.kube.coordination import Event
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import READY, RESIZE_IN_PROGRESS, RESIZE_PENDING, Pod
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.cluster.write_results import WriteResult
from trellis.core.resize.actions import PodRef
from trellis.sim.cluster import ModelCluster, PodEvent, StepUsage
from trellis.sim.fleet import ContainerDemand, Fault, Fleet, Intervals, NodeShape, SimulatedWorkload, SimulationClock
from trellis.sim.kernel import Kernel, Priority

BEGIN = 1_800_000_000.0
STEP = 60.0
GIB = 2.0**30
Document = dict[str, Any]


def shape(cpu: str = "4", memory: str = "16Gi", count: int = 1, name: str = "node", **more: Any) -> NodeShape:
    return NodeShape(name, count, {"status": {"capacity": {"cpu": cpu, "memory": memory, "pods": "110"}}, **more})


def container(name: str = "app", cpu: str = "500m", memory: str = "1Gi", **more: Any) -> Document:
    """A container; `limits` as a map, and `restarts` the resources whose resize restarts it."""
    policy = [{"resourceName": restart, "restartPolicy": "RestartContainer"} for restart in more.pop("restarts", ())]
    resources: Document = {"requests": {"cpu": cpu, "memory": memory}}
    if limits := more.pop("limits", None):
        resources["limits"] = limits
    return {"name": name, "resources": resources, **({"resizePolicy": policy} if policy else {}), **more}


def container_demand(
    cpu: Any = 0.1, memory: Any = 0.5 * GIB, name: str = "app", steps: int = 60, **more: Any
) -> ContainerDemand:
    """A demand; a number holds for all steps."""
    columns = [np.broadcast_to(np.asarray(amounts, dtype=np.float64), (steps,)).copy() for amounts in (cpu, memory)]
    return ContainerDemand(name, columns[0], columns[1], **more)


def workload(name: str = "web", replicas: int = 1, *containers: Document, **more: Any) -> SimulatedWorkload:
    demand = more.pop("demand", (container_demand(),))
    template = {"spec": {"containers": list(containers) or [container()], **more.pop("spec", {})}}
    return SimulatedWorkload("shop", name, more.pop("kind", "Deployment"), replicas, template, demand, **more)


def fleet(*workloads: SimulatedWorkload, nodes: tuple[NodeShape, ...] = (shape(),), **more: Any) -> Fleet:
    clock = SimulationClock(BEGIN, more.pop("step", STEP), more.pop("steps", 60), BEGIN)
    faults: tuple[Fault, ...] = more.pop("faults", ())
    return Fleet("test", more.pop("seed", 1), clock, Intervals(), nodes, workloads, (), faults)


def fault(kind: str, begin: float = 0.0, length: float = 1e6, about: str = "*") -> Fault:
    return Fault(kind, BEGIN + begin, BEGIN + begin + length, about)


class World:
    """A model cluster that lives, and everything it tells. Steps of usage come of themselves."""

    def __init__(self, simulated: Fleet, admit: Callable[[Pod], Pod] = lambda pod: pod) -> None:
        self.fleet = simulated
        self.kernel = Kernel(simulated.clock.begin)
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[tuple[str, str], KubeObject] = {}
        self.nodes: dict[str, Node] = {}
        self.events: list[Event] = []
        self.log: list[tuple[float, str, PodEvent, str]] = []
        self.usages: list[StepUsage] = []
        self.cluster = ModelCluster(simulated, self.kernel, admit, np.random.default_rng(simulated.seed), self)
        self.cluster.begin()
        for number in range(simulated.clock.steps):
            time = simulated.clock.begin + number * simulated.clock.step
            self.kernel.at(time, lambda number=number: self._step(number), Priority.USAGE)  # type: ignore[misc]

    def _step(self, number: int) -> None:
        self.usages.append(self.cluster.step(number))

    def run(self, seconds: float) -> World:
        """Let time go by."""
        self.kernel.run_until(self.kernel.now + seconds)
        return self

    # What the cluster tells.

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        previous = self.pods.get((new or old).metadata.name)  # type: ignore[union-attr]
        assert previous == old
        if new is None:
            assert old is not None
            del self.pods[old.metadata.name]
        else:
            self.pods[new.metadata.name] = new

    def on_workload(self, kind: str, old: KubeObject | None, new: KubeObject | None) -> None:
        metadata = (new or old).metadata  # type: ignore[union-attr]
        assert self.workloads.get((kind, metadata.name)) == old
        if new is None:
            del self.workloads[kind, metadata.name]
        else:
            self.workloads[kind, metadata.name] = new

    def on_node(self, old: Node | None, new: Node | None) -> None:
        assert new is not None
        assert self.nodes.get(new.metadata.name) == old
        self.nodes[new.metadata.name] = new

    def on_eviction(self, event: Event) -> None:
        self.events.append(event)

    def on_pod_event(self, workload: int, event: PodEvent, pod: Pod, text: str) -> None:
        assert pod.metadata.name.startswith(self.fleet.workloads[workload].name)
        self.log.append((self.kernel.now - BEGIN, pod.metadata.name, event, text))

    # What tests ask.

    def list_pods(self, name: str = "web") -> list[Pod]:
        """The pods of a workload that are not going."""
        return [
            pod
            for pod in self.pods.values()
            if pod.metadata.labels["app"] == name and pod.metadata.deletion_timestamp is None
        ]

    def get_pod(self, name: str = "web") -> Pod:
        (pod,) = self.list_pods(name)
        return pod

    def times(self, event: PodEvent) -> list[float]:
        return [time for time, _, logged, _ in self.log if logged is event]

    def count(self, event: PodEvent) -> int:
        return len(self.times(event))

    def resize(
        self, pod: Pod, cpu: str | None = None, memory: str | None = None, **more: Any
    ) -> tuple[WriteResult, str]:
        """Ask for other requests of the first container; `limits` as a map."""
        amounts = {("requests", "cpu"): cpu, ("requests", "memory"): memory}
        amounts |= {("limits", name): text for name, text in more.pop("limits", {}).items()}
        patch = tuple(
            PatchOp("add", f"/spec/containers/{more.get('at', 0)}/resources/{field}/{name}", text)
            for (field, name), text in amounts.items()
            if text is not None
        )
        return self.cluster.resize(ref(pod), (PatchOp("test", "/metadata/uid", pod.metadata.uid), *patch))


def ref(pod: Pod) -> PodRef:
    return PodRef(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def is_ready(pod: Pod) -> bool:
    condition = pod.status.find_condition(READY)
    return condition is not None and condition.status == "True"


def in_force(pod: Pod, name: str = "app") -> dict[str, str]:
    """The requests that the kubelet reports."""
    result = next(status for status in pod.status.container_statuses if status.name == name)
    assert result.resources is not None
    return dict(result.resources.requests)


def resize_conditions(pod: Pod) -> dict[str, str]:
    """The conditions about resizes, by their reasons."""
    return {
        condition.type: condition.reason
        for condition in pod.status.conditions
        if condition.type in (RESIZE_PENDING, RESIZE_IN_PROGRESS)
    }


def history(world: World) -> bytes:
    """Everything that happened, and everything that was used, as bytes."""
    used = [[usage.used_cpu.tolist(), usage.used_memory.tolist()] for usage in world.usages]
    return msgspec.json.encode([world.log, used, list(world.pods.values())])
