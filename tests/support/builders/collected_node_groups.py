"""A cluster as it was collected whose nodes come from groups, for tests of explanations of nodes."""

from __future__ import annotations

from typing import Any

import yaml

from support.builders.collected_clusters import Cluster
from support.worlds.resizes import DAY, NOW, Document, container, running, time
from trellis.cli.dump_reader import read_node_groups
from trellis.core.cluster.dump_format import DumpedComponent
from trellis.core.explain import CollectedSettings, ObjectExplanation, explain_buffer, explain_node, explain_pod
from trellis.core.explain.component_decisions.node_plans import NodeEvidence, run_node_autoscaler

COMPONENTS = CollectedSettings(with_flags=("recommender", "updater", "admission-controller", "buffers", "nodes"))
READY = [{"type": "Ready", "status": "True"}]
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


class Pools(Cluster):
    """Groups and nodes of them; node `n1` is of none, and small."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, Document] = {}
        self.components += [DumpedComponent(name, "kube-system", f"trellis-{name}") for name in ("buffers", "nodes")]
        self.add_node("n1", "2", "8Gi")

    def add_group(self, name: str, cpu: str = "4", memory: str = "16Gi", **spec: Any) -> None:
        """A group of up to four nodes that come up in a minute."""
        given = {"resources": {"cpu": cpu, "memory": memory}, "maxSize": 4, "bootTime": "1m", "price": 0.2, **spec}
        self.groups[name] = {
            "apiVersion": "nodes.trellis.x-k8s.io/v1alpha1",
            "kind": "KwokNodeGroup",
            "metadata": {"name": name},
            "spec": given,
        }
        text = yaml.safe_dump_all(self.groups.values(), sort_keys=False)
        self.put("ConfigMap", "trellis-kwok-node-groups", {"data": {"groups.yaml": text}}, namespace="kube-system")

    def add_member(self, name: str, group: str = "small", *, age: float = DAY, **more: Any) -> None:
        """A node of a group that was ordered so long ago."""
        spec = self.groups[group]["spec"]
        notes = {"trellis.x-k8s.io/ordered-at": time(NOW - age), "trellis.x-k8s.io/boot-seconds": "60.0"}
        labels = {"kwok-nodegroup": group, "kubernetes.io/hostname": name, **spec.get("labels", {})}
        metadata = {"labels": labels, "annotations": {**notes, **more.pop("annotations", {})}}
        offered = {"pods": "110", **spec["resources"]}
        status = {"conditions": more.pop("conditions", READY), "allocatable": offered}
        self.put("Node", name, {"metadata": metadata, "spec": more, "status": status}, namespace="")

    def run(self, name: str, node: str, cpu: str = "500m", *, app: str = "web", **metadata: Any) -> None:
        """A pod on a node, of a ReplicaSet unless other `ownerReferences` are given."""
        document = running(name, container(cpu=cpu), owner=("ReplicaSet", f"{app}-1"), nodeName=node)
        document["metadata"] |= {"labels": {"app": app}, **metadata}
        self.put("Pod", name, document)

    def want(self, name: str, cpu: str, *, examined: bool = True, **spec: Any) -> None:
        """A pod that waits for a node."""
        document = running(name, container(cpu=cpu), owner=("ReplicaSet", "web-1"), **spec)
        document["spec"].pop("nodeName", None)
        document["status"] = {"phase": "Pending", "conditions": [UNSCHEDULABLE] if examined else []}
        self.put("Pod", name, document)

    def keep(self, name: str, count: int, cpu: str = "2", **spec: Any) -> None:
        """A Buffer of so many chunks, as the Buffer controller has translated it."""
        pods = {"replicaNum": count, "podSpec": {"containers": [container(cpu=cpu)]}}
        self.add_buffer(name, capacity={"pods": pods}, **spec)
        self.publish_buffers()

    def noded(self, components: CollectedSettings = COMPONENTS) -> NodeEvidence:
        collected = self.collected()
        noded = run_node_autoscaler(collected, read_node_groups(collected), components, collected.time)
        assert noded is not None
        return noded

    def node(self, name: str, components: CollectedSettings = COMPONENTS) -> ObjectExplanation:
        collected = self.collected()
        return explain_node(collected, name, read_node_groups(collected), components)

    def buffer(self, name: str) -> ObjectExplanation:
        return explain_buffer(self.evidence(COMPONENTS), name, node_evidence=self.noded())

    def pod(self, name: str) -> ObjectExplanation:
        return explain_pod(self.evidence(COMPONENTS), name, self.noded())


def pools() -> Pools:
    """Three small nodes: one is in use, one could go, one has a pod that nobody would make anew.

    One Buffer has its chunk on them, another wants larger nodes, and two pods wait, one of them in vain.
    """
    cluster = Pools()
    cluster.add_workload("web", 1)
    cluster.add_group("small", minSize=1)
    cluster.add_group("large", "16", "64Gi", maxSize=2, price=0.8)
    for number in (1, 2, 3):
        cluster.add_member(f"small-{number}")
    for number in (1, 2, 3):
        cluster.run(f"web-1-{number}", "small-1", "1")
    cluster.run("web-1-4", "small-2")
    cluster.run("cache-0", "small-3", "250m", ownerReferences=[])
    daemon = {"kind": "DaemonSet", "name": "logs", "uid": "uid-logs", "controller": True}
    cluster.run("logs-2", "small-2", "100m", app="logs", ownerReferences=[daemon])
    budget = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
    status = {"disruptionsAllowed": 0, "currentHealthy": 4, "desiredHealthy": 4}
    cluster.put("PodDisruptionBudget", "web", {"spec": budget, "status": status})
    cluster.keep("web", 1)
    cluster.keep("builds", 2, "6")
    cluster.want("import-1", "12")
    cluster.want("import-2", "32")
    about = {"kind": "Node", "name": "small-3"}
    result = {"reason": "TriggeredScaleUp", "message": "ordered for pods", "count": 1}
    cluster.put(
        "Event", "e1", {"involvedObject": about, "lastTimestamp": time(NOW - DAY), **result}, namespace="default"
    )
    return cluster
