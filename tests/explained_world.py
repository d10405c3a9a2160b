"""A cluster as it was collected, for tests of explanations: a Deployment with pods, a VPA, and whatever a test adds.

Everything goes through the lines of a dump, as it does between a cluster and an explanation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from resize_world import DAY, NOW, Document, container, running, time
from trellis.core.explain import Components, Evidence, evidence_of
from trellis.core.model import dump_lines
from trellis.core.model.collected import Collected
from trellis.core.model.dump_lines import About, Component, End, History, Missing, UsageColumns
from trellis.core.model.keys import Key
from trellis.core.model.pods import FollowedContainer, FollowedPod
from trellis.core.model.recording import FORMAT, HEADER, Header, encode_line
from trellis.core.usage.checkpoints import as_status
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples

NAMESPACE = "shop"
VERSIONS = {
    "VerticalPodAutoscaler": "autoscaling.k8s.io/v1",
    "VerticalPodAutoscalerCheckpoint": "autoscaling.k8s.io/v1",
    "Hvpa": "autoscaling.x-k8s.io/v1alpha1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "PodDisruptionBudget": "policy/v1",
    "Lease": "coordination.k8s.io/v1",
}
BOOST = "vpaCpuStartupBoost/app"


class Cluster:
    """What was collected, document by document."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, Key], Document] = {}
        self.missing: list[Missing] = []
        self.components: list[Component] = [Component(name, "kube-system", name) for name in COMPONENTS]
        self.history: list[History] = []
        self.used: list[tuple[str, str, float, float, float]] = []
        self.patterns: tuple[str, ...] = ()
        self.put("Namespace", NAMESPACE, namespace="")
        offered = {"cpu": "64", "memory": "256Gi", "pods": "500"}
        ready = [{"type": "Ready", "status": "True"}]
        self.put("Node", "n1", {"status": {"conditions": ready, "allocatable": offered}}, namespace="")
        renewed = {"spec": {"renewTime": time(NOW - 5), "holderIdentity": "admission-1"}}
        self.put("Lease", "vpa-admission-controller", renewed, namespace="kube-system")

    def put(self, kind: str, name: str, document: Document | None = None, namespace: str = NAMESPACE) -> None:
        """An object as the API server gives it."""
        given = document or {}
        metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", **given.get("metadata", {})}
        full = {"apiVersion": VERSIONS.get(kind, "v1"), "kind": kind, **given, "metadata": metadata}
        self.objects[kind, (namespace, name)] = full

    def add_workload(
        self, name: str = "web", replicas: int = 2, *containers: Document, requests: Document | None = None, **pod: Any
    ) -> None:
        """A Deployment, its ReplicaSet and its pods, which run for two days unless a test has it otherwise."""
        listed = list(containers) or [container(**(requests or {}))]
        selector = {"matchLabels": {"app": name}}
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": listed}}
        spec = {"replicas": replicas, "selector": selector, "template": template}
        self.put("Deployment", name, {"spec": spec})
        owner = {"ownerReferences": [owned("Deployment", name)]}
        self.put("ReplicaSet", f"{name}-1", {"metadata": owner, "spec": spec})
        for number in range(replicas):
            self.add_pod(name, f"{name}-1-{number}", *listed, **pod)

    def add_pod(self, app: str, name: str, *containers: Document, **more: Any) -> None:
        """One more pod of a workload."""
        document = running(name, *containers, owner=("ReplicaSet", f"{app}-1"), **more)
        document["metadata"]["labels"] = {"app": app}
        self.put("Pod", name, document)

    def add_vpa(
        self, name: str = "web", targets: Document | None = None, *, mode: str = "Recreate", **spec: Any
    ) -> None:
        """A VPA, with a recommendation if there are targets: bounds are half and twice of them."""
        metadata = {"creationTimestamp": time(NOW - 10 * DAY), "annotations": spec.pop("annotations", {})}
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": spec.pop("target", name)}
        policy = {"updateMode": mode, **spec.pop("updatePolicy", {})}
        document: Document = {
            "metadata": {**metadata, "generation": 1},
            "spec": {"targetRef": target, "updatePolicy": policy, **spec},
        }
        if targets is not None:
            listed = [
                {"containerName": each, "target": amounts, "lowerBound": amounts, "upperBound": amounts}
                for each, amounts in targets.items()
            ]
            document["status"] = {"recommendation": {"containerRecommendations": listed}}
        self.put("VerticalPodAutoscaler", name, document)

    def add_checkpoint(
        self,
        vpa: str = "web",
        container: str = "app",
        cpu: float = 0.2,
        memory: float = 3e8,
        *,
        days: float = 8.0,
        hours: bool = False,
    ) -> None:
        """History as a recommender would have saved it: steady usage, a sample every ten minutes, until a while ago."""
        model = UsageModel()
        model.keep_history({(NAMESPACE, vpa)} if hours else ())
        pod = FollowedPod(NAMESPACE, "p", "u", vpa, True, (FollowedContainer(container),))
        model.follow(NAMESPACE, [pod], NOW - days * DAY)
        times = np.arange(NOW - days * DAY, NOW - 600, 600.0)
        size = len(times)
        drift = 1 + 0.2 * np.sin(times / 9000)
        names = [NAMESPACE] * size, ["p"] * size, [container] * size
        model.ingest(Samples(*names, times, cpu * drift, memory * drift), NOW)
        rows = model.find([RowKey(NAMESPACE, vpa, container)])
        (saved,) = model.saved(rows, NOW)
        spec = {"vpaObjectName": vpa, "containerName": container}
        self.put("VerticalPodAutoscalerCheckpoint", f"{vpa}-{container}", {"spec": spec, "status": as_status(saved)})

    def use(self, pod: str, cpu: float = 0.2, memory: float = 3e8, container: str = "app") -> None:
        """What a container uses now."""
        self.used.append((pod, container, NOW - 20, cpu, memory))

    def lines(self) -> list[bytes]:
        """The dump."""
        about = About(NOW, "v1.36.2", True, (NAMESPACE,), self.patterns, everywhere=not self.patterns)
        used = list(zip(*self.used, strict=True)) or [(), (), (), (), ()]
        columns = UsageColumns(
            [NAMESPACE] * len(self.used), list(used[0]), list(used[1]), *(np.array(each, float) for each in used[2:])
        )
        return [
            encode_line(HEADER, Header(FORMAT, dump_lines.DUMP, "0.1.0")),
            encode_line(dump_lines.ABOUT, about),
            *(encode_line(dump_lines.OBJECT, each) for each in self.objects.values()),
            *(encode_line(dump_lines.COMPONENT, each) for each in self.components),
            *(encode_line(dump_lines.MISSING, each) for each in self.missing),
            encode_line(dump_lines.USAGE, columns),
            *(encode_line(dump_lines.HISTORY, each) for each in self.history),
            encode_line(dump_lines.END, End()),
        ]

    def collected(self) -> Collected:
        """What is read of it."""
        return Collected.of(self.lines())

    def evidence(self, components: Components | None = None) -> Evidence:
        """What the components decide."""
        return evidence_of(self.collected(), NAMESPACE, components or Components(seen=COMPONENTS))


COMPONENTS = ("recommender", "updater", "admission-controller")


def owned(kind: str, name: str) -> Document:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def shop() -> Cluster:
    """A service that is too small, a boosted one, and everything that may have a say."""
    cluster = Cluster()
    cluster.add_workload("web", 3, container(limits={"memory": "1Gi"}))
    policy = {"containerName": "app", "minAllowed": {"cpu": "1"}, "maxAllowed": {"memory": "2Gi"}}
    cluster.add_vpa("web", {"app": {"cpu": "1", "memory": "2Gi"}}, resourcePolicy={"containerPolicies": [policy]})
    cluster.add_checkpoint(cpu=0.6, memory=2e9)
    times = np.arange(NOW - DAY, NOW, 300.0)
    wave = 1 + 0.5 * np.sin(times / 9000)
    cluster.history = [History(NAMESPACE, "web-1-0", "app", times, 0.4 * wave, 1e9 * wave)]
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    scaled = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "metrics": [metric], "maxReplicas": 9}
    cluster.put("HorizontalPodAutoscaler", "web", {"spec": scaled, "status": {"currentReplicas": 3}})
    budget = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
    healthy = {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2}
    cluster.put("PodDisruptionBudget", "web", {"spec": budget, "status": healthy})
    limits = [{"type": "Container", "max": {"memory": "1536Mi"}}]
    cluster.put("LimitRange", "bounds", {"spec": {"limits": limits}})
    quota = {"hard": {"requests.cpu": "20"}, "used": {"requests.cpu": "1500m"}}
    cluster.put("ResourceQuota", "team", {"status": quota})
    about = {"kind": "Pod", "name": "web-1-0", "namespace": NAMESPACE}
    told = {"reason": "InPlaceResizedByVPA", "message": "Pod was resized in place by VPA Updater.", "count": 2}
    cluster.put("Event", "e1", {"involvedObject": about, "lastTimestamp": time(NOW - 7200), **told})
    return cluster
