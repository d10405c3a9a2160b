"""A cluster from which nodes are removed: evictions keep to disruption budgets, and successors wait for a node."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from support.worlds.nodes import SETTINGS, Cluster, a_pod
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import PodDisruptionBudget
from trellis.core.nodes.node_groups import InstanceState, NodeGroup
from trellis.core.nodes.scale_down.decisions import DrainPod, NodeDecision, ReleaseNode, ScaleDownPlan, SetTaints
from trellis.core.nodes.scale_down.plan import plan_scale_down
from trellis.core.nodes.scale_down.remembered_state import ScaleDownMemory
from trellis.core.nodes.scale_down.removal_steps import has_leaving_taint
from trellis.core.nodes.scale_down.view import ScaleDownInput
from trellis.core.nodes.settings import ScaleDownSettings

DOWN = ScaleDownSettings()
READY = [{"type": "Ready", "status": "True"}]


def a_web_pod(name: str, cpu: str = "1", memory: str = "1Gi", **fields: Any) -> Pod:
    """A pod of a ReplicaSet, Ready once it runs."""
    annotations = fields.pop("annotations", {})
    pod = a_pod(name, cpu, memory, owner=fields.pop("owner", ("ReplicaSet", "web")), **fields)
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


def a_budget(name: str, allowed: int, labels: Mapping[str, str], **fields: Any) -> PodDisruptionBudget:
    status = {"disruptionsAllowed": allowed, "observedGeneration": fields.pop("observed", 1)}
    document = {
        "metadata": {"name": name, "namespace": fields.pop("namespace", "default"), "generation": 1},
        "spec": {"selector": {"matchLabels": dict(labels)}, **fields.pop("spec", {})},
        "status": {**status, **fields},
    }
    return convert_object(document, PodDisruptionBudget)


class ShrinkingCluster(Cluster):
    """`plan_removals` plans, `execute` executes the plan, and `run_pass` does both and advances the time."""

    def __init__(self, *groups: NodeGroup, down: ScaleDownSettings = DOWN) -> None:
        super().__init__(*groups, settings=SETTINGS)
        self.down = down
        self.budgets: list[PodDisruptionBudget] = []
        self.scale_down_memory = ScaleDownMemory()
        self.decisions: dict[str, NodeDecision] = {}
        self.evicted: list[str] = []
        self.released: list[str] = []
        self._successors = 0

    def add_group_nodes(self, group: str, count: int) -> ShrinkingCluster:
        super().add_group_nodes(group, count)
        return self

    def plan_removals(self) -> ScaleDownPlan:
        view = ScaleDownInput(self.snapshot, self.budgets, self.memory.chunk_nodes, self.memory.requests)
        plan = plan_scale_down(view, self.scale_down_memory, self.now, self.down)
        self.scale_down_memory = plan.memory
        self.decisions = {node.node: node for node in plan.nodes}
        assert set(self.decisions) == set(self.snapshot.nodes)
        return plan

    def reason_code(self, node: str) -> str:
        """The reason of the last verdict on a node."""
        return self.decisions[node].reason.reason.code

    def execute(self, plan: ScaleDownPlan) -> None:
        for action in plan.actions:
            match action:
                case SetTaints(node=name, taints=taints):
                    node = self.snapshot.nodes[name]
                    self.change(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints)))
                case DrainPod():
                    self.evict(action)
                case ReleaseNode(node=name, group=group):
                    self.release(name, group)

    def evict(self, action: DrainPod) -> None:
        """The API server lets the pod go, and its controller makes another."""
        pod = self.pods[action.name]
        assert pod.metadata.uid == action.uid
        self.evicted.append(action.name)
        self.delete(action.name)
        if pod.metadata.controller is not None:
            self._successors += 1
            name = f"{action.name.split('+')[0]}+{self._successors}"
            metadata = msgspec.structs.replace(pod.metadata, name=name, uid=name)
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            status = convert_object({"status": {"phase": "Pending", "conditions": [condition]}}, Pod).status
            spec = msgspec.structs.replace(pod.spec, node_name="")
            self.create(msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=status))

    def release(self, name: str, group: str) -> None:
        self.released.append(name)
        self.instances[group] = [instance for instance in self.instances[group] if instance.id != name]
        for pod in list(self.snapshot.pods_on(name).values()):
            self.delete(pod.key[1])
        self.snapshot.put_node(name, None)
        self.update_groups()

    def run_pass(self, seconds: float = 10.0) -> ScaleDownPlan:
        """What is decided is done, the scheduler places what waits, and time passes."""
        plan = self.plan_removals()
        self.execute(plan)
        self.plan()
        self.schedule()
        self.wait(seconds)
        return plan

    def run_passes(self, seconds: float, every: float = 10.0) -> ShrinkingCluster:
        for _ in range(int(seconds / every)):
            self.run_pass(every)
        return self

    def change(self, node: Node) -> None:
        self.snapshot.put_node(node.metadata.name, node)

    def annotate(self, name: str, **annotations: str) -> None:
        node = self.snapshot.nodes[name]
        written = {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
        self.change(msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, annotations=written)))

    def mark_unready(self, name: str) -> None:
        node = self.snapshot.nodes[name]
        self.change(msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, conditions=())))

    def mark_terminating(self, pod: str, at: float) -> None:
        """Delete a pod, whose grace period ends at that time."""
        terminating = self.pods[pod]
        when = datetime.fromtimestamp(at, UTC)
        self.create(
            msgspec.structs.replace(
                terminating, metadata=msgspec.structs.replace(terminating.metadata, deletion_timestamp=when)
            )
        )

    def run(self, node: str, *pods: Pod) -> ShrinkingCluster:
        """Pods that run and are Ready."""
        status = convert_object({"status": {"phase": "Running", "conditions": READY}}, Pod).status
        for pod in pods:
            spec = msgspec.structs.replace(pod.spec, node_name=node)
            self._put_pod(msgspec.structs.replace(pod, spec=spec, status=status))
        return self

    def mark_leaving(self, name: str, group: str) -> None:
        """The provider shows an instance as one that is leaving."""
        self.instances[group] = [
            msgspec.structs.replace(instance, state=InstanceState.LEAVING) if instance.id == name else instance
            for instance in self.instances[group]
        ]
        self.update_groups()

    @property
    def tainted_nodes(self) -> list[str]:
        return [name for name, node in self.snapshot.nodes.items() if has_leaving_taint(node)]
