"""A cluster as it was collected, for tests of explanations: a Deployment with pods, a VPA, and whatever a test adds.

Everything goes through the lines of a dump, as it does between a cluster and an explanation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from support.worlds.resizes import DAY, NOW, Document, container, running, time
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, encode_line
from trellis.core.buffers import build_status
from trellis.core.cluster import dump_format
from trellis.core.cluster.dump_format import (
    ContainerHistory,
    DumpedComponent,
    DumpedScale,
    DumpEnd,
    DumpInfo,
    MissingData,
    UsageColumns,
)
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import ObjectKey
from trellis.core.explain import CollectedSettings, Evidence, build_evidence
from trellis.core.explain.buffer_headroom import BufferHeadroom
from trellis.core.explain.buffer_translation import translate_buffers
from trellis.core.usage.checkpoints.format import build_checkpoint_status
from trellis.core.usage.columns import RowKey
from trellis.core.usage.model import UsageModel
from trellis.core.usage.samples import Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

NAMESPACE = "shop"
VERSIONS = {
    "VerticalPodAutoscaler": "autoscaling.k8s.io/v1",
    "VerticalPodAutoscalerCheckpoint": "autoscaling.k8s.io/v1",
    "Hvpa": "autoscaling.x-k8s.io/v1alpha1",
    "Buffer": "autoscaling.x-k8s.io/v1alpha1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "PodDisruptionBudget": "policy/v1",
    "Lease": "coordination.k8s.io/v1",
}
STORY_1 = {
    "replicas": {"min": 1, "max": 8},
    "cpu": {"min": "0", "max": "24"},
    "memory": {"min": "500M", "max": "25G"},
}
BOOST = "vpaCpuStartupBoost/app"


class Cluster:
    """What was collected, document by document."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, ObjectKey], Document] = {}
        self.missing: list[MissingData] = []
        self.scales: list[DumpedScale] = []
        self.components: list[DumpedComponent] = [DumpedComponent(name, "kube-system", name) for name in COMPONENTS]
        self.history: list[ContainerHistory] = []
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
        self.put("Deployment", name, {"spec": spec, "status": {"replicas": replicas}})
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
                {"containerName": container, "target": amounts, "lowerBound": amounts, "upperBound": amounts}
                for container, amounts in targets.items()
            ]
            document["status"] = {"recommendation": {"containerRecommendations": listed}}
        self.put("VerticalPodAutoscaler", name, document)

    def add_hvpa(
        self, name: str = "web", *, replicas: int | None = None, status: Document | None = None, **spec: Any
    ) -> None:
        """An Hvpa of the story with one bucket, unless a test has it otherwise."""
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": spec.pop("target", name)}
        given = {"targetRef": target, "vpa": {"deploy": True}, "buckets": [STORY_1], **spec}
        if replicas is not None:
            given["replicas"] = replicas
        metadata = {"creationTimestamp": time(NOW - 10 * DAY), "generation": 1}
        self.put("Hvpa", name, {"metadata": metadata, "spec": given, "status": status or {}})

    def add_buffer(
        self, name: str = "web", *, status: Document | None = None, age: float = 10 * DAY, **spec: Any
    ) -> None:
        """A Buffer of a fifth of the Deployment of its name, unless a test has it otherwise."""
        percent = {"percent": 20, "minCount": 1}
        given = spec or {"targetRef": deployment(name), "capacity": {"replicas": {"percent": percent}}}
        metadata = {"creationTimestamp": time(NOW - age), "generation": 1}
        self.put("Buffer", name, {"metadata": metadata, "spec": given, **({"status": status} if status else {})})

    def publish_buffers(self, full: str = "") -> None:
        """What the Buffer controller would have written a minute ago; `full` is the one that has had all its room."""
        evidence = self.evidence()
        for name, translation in translate_buffers(evidence, BufferHeadroom(evidence.collected)).items():
            if translation.translation is None:
                continue
            status = build_status(translation.translation, None, 1, NOW - 60)
            if name == full:
                provisioned = {"type": "Provisioned", "status": "True", "lastTransitionTime": time(NOW - 3600)}
                status["conditions"].append(provisioned)
                status["lastFullyProvisioned"] = time(NOW - 30)
            self.objects["Buffer", (NAMESPACE, name)]["status"] = status

    def add_node(self, name: str, cpu: str, memory: str = "32Gi", **labels: str) -> None:
        """A Ready node; of a label `__` stands for a slash."""
        named = {key.replace("__", "/"): value for key, value in labels.items()}
        ready = [{"type": "Ready", "status": "True"}]
        offered = {"cpu": cpu, "memory": memory, "pods": "110"}
        status = {"conditions": ready, "allocatable": offered}
        self.put("Node", name, {"metadata": {"labels": named}, "status": status}, namespace="")

    def add_hvpa_vpa(self, name: str, targets: Document, totals: Document | None = None) -> None:
        """The VPA that an Hvpa owns: targets of a pod and totals of the workload, by container."""
        self.add_vpa(name, targets, mode="Off")
        document = self.objects["VerticalPodAutoscaler", (NAMESPACE, name)]
        document["metadata"]["ownerReferences"] = [owned("Hvpa", name)]
        for recommendation in document["status"]["recommendation"]["containerRecommendations"]:
            if totals is not None:
                recommendation["totalTarget"] = totals[recommendation["containerName"]]

    def add_hvpa_hpa(self, name: str, percent: int = 80, used: str = "", **spec: Any) -> None:
        """An HPA on the Hvpa, on CPU, which sees so much used by a pod on average."""
        source = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}
        reference = {"kind": "Hvpa", "name": name}
        given = {"scaleTargetRef": reference, "maxReplicas": 16, "metrics": [{"type": "Resource", "resource": source}]}
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": used}}}] if used else []
        own = {"ownerReferences": [owned("Hvpa", name)]}
        status = {"currentMetrics": current, "currentReplicas": 2}
        self.put("HorizontalPodAutoscaler", name, {"metadata": own, "spec": {**given, **spec}, "status": status})

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
        pod = TrackedPod(NAMESPACE, "p", "u", vpa, True, (TrackedContainer(container),))
        model.track_pods(NAMESPACE, [pod], NOW - days * DAY)
        times = np.arange(NOW - days * DAY, NOW - 600, 600.0)
        size = len(times)
        drift = 1 + 0.2 * np.sin(times / 9000)
        names = [NAMESPACE] * size, ["p"] * size, [container] * size
        model.ingest(Samples(*names, times, cpu * drift, memory * drift), NOW)
        rows = model.find_rows([RowKey(NAMESPACE, vpa, container)])
        (saved,) = model.save_rows(rows, NOW)
        spec = {"vpaObjectName": vpa, "containerName": container}
        self.put(
            "VerticalPodAutoscalerCheckpoint",
            f"{vpa}-{container}",
            {"spec": spec, "status": build_checkpoint_status(saved)},
        )

    def use(self, pod: str, cpu: float = 0.2, memory: float = 3e8, container: str = "app") -> None:
        """What a container uses now."""
        self.used.append((pod, container, NOW - 20, cpu, memory))

    def lines(self) -> list[bytes]:
        """The dump."""
        about = DumpInfo(NOW, "v1.36.2", True, (NAMESPACE,), self.patterns, everywhere=not self.patterns)
        used = list(zip(*self.used, strict=True)) or [(), (), (), (), ()]
        columns = UsageColumns(
            [NAMESPACE] * len(self.used),
            list(used[0]),
            list(used[1]),
            *(np.array(amounts, float) for amounts in used[2:]),
        )
        return [
            encode_line(HEADER, RecordingHeader(FORMAT_VERSION, dump_format.DUMP, "0.1.0")),
            encode_line(dump_format.ABOUT, about),
            *(encode_line(dump_format.OBJECT, document) for document in self.objects.values()),
            *(encode_line(dump_format.SCALE, scale) for scale in self.scales),
            *(encode_line(dump_format.COMPONENT, component) for component in self.components),
            *(encode_line(dump_format.MISSING, missing) for missing in self.missing),
            encode_line(dump_format.USAGE, columns),
            *(encode_line(dump_format.HISTORY, history) for history in self.history),
            encode_line(dump_format.END, DumpEnd()),
        ]

    def collected(self) -> ClusterState:
        """What is read of it."""
        return ClusterState.from_dump(self.lines())

    def evidence(self, components: CollectedSettings | None = None) -> Evidence:
        """What the components decide."""
        return build_evidence(self.collected(), NAMESPACE, components or CollectedSettings(with_flags=COMPONENTS))


COMPONENTS = ("recommender", "updater", "admission-controller")


def owned(kind: str, name: str) -> Document:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def deployment(name: str) -> Document:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}


def sized(name: str, cpu: str, memory: str) -> Document:
    """What an Hvpa publishes for a container: bounds that leave no room."""
    amounts = {"cpu": cpu, "memory": memory}
    return {"containerName": name, "target": amounts, "lowerBound": amounts, "upperBound": amounts}


def shop() -> Cluster:
    """A service that is too small, a boosted one, and everything that may have a say."""
    cluster = Cluster()
    cluster.add_workload("web", 3, container(limits={"memory": "1Gi"}))
    policy = {"containerName": "app", "minAllowed": {"cpu": "1"}, "maxAllowed": {"memory": "2Gi"}}
    cluster.add_vpa("web", {"app": {"cpu": "1", "memory": "2Gi"}}, resourcePolicy={"containerPolicies": [policy]})
    cluster.add_checkpoint(cpu=0.6, memory=2e9)
    times = np.arange(NOW - DAY, NOW, 300.0)
    wave = 1 + 0.5 * np.sin(times / 9000)
    cluster.history = [ContainerHistory(NAMESPACE, "web-1-0", "app", times, 0.4 * wave, 1e9 * wave)]
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
    result = {"reason": "InPlaceResizedByVPA", "message": "Pod was resized in place by VPA Updater.", "count": 2}
    cluster.put("Event", "e1", {"involvedObject": about, "lastTimestamp": time(NOW - 7200), **result})
    return cluster


def search() -> Cluster:
    """A service with an Hvpa that is about to get a third replica: its HPA asks for more than its VPA."""
    cluster = Cluster()
    app, proxy = container("app", cpu="5", memory="4G"), container("proxy", cpu="1", memory="1G")
    cluster.add_workload("search", 2, app, proxy)
    cluster.add_pod("search", "search-1-1", container("app", cpu="4", memory="4G"), proxy)
    status = {
        "replicas": 2,
        "recommendation": {"containerRecommendations": [sized("app", "5", "4G"), sized("proxy", "1", "1G")]},
        "hpa": {"total": {"cpu": "24"}, "time": time(NOW - 90)},
        "conditions": [
            {"type": "Active", "status": "True", "reason": "AsDecided", "message": "2 x (CPU 6, memory 5G)"}
        ],
    }
    cluster.add_hvpa("search", replicas=4, hpa={"deploy": True}, status=status)
    targets = {"app": {"cpu": "9", "memory": "4G"}, "proxy": {"cpu": "1", "memory": "1G"}}
    totals = {"app": {"cpu": "18", "memory": "8G"}, "proxy": {"cpu": "2", "memory": "2G"}}
    cluster.add_hvpa_vpa("search", targets, totals)
    cluster.add_hvpa_hpa("search", used="9600m")
    about = {"kind": "Hvpa", "name": "search", "namespace": NAMESPACE}
    result = {"reason": "ScalesUp", "message": "1 x (CPU 3, memory 3.5G) to 2 x (CPU 6, memory 5G)", "count": 1}
    cluster.put("Event", "e1", {"involvedObject": about, "lastTimestamp": time(NOW - 3600), **result})
    return cluster


def spare() -> Cluster:
    """A service whose next pods are larger than those that run, room for builds by day, and a class of nodes.

    A quota leaves one chunk less to the youngest of the three Buffers.
    """
    cluster = Cluster()
    cluster.components.append(DumpedComponent("buffers", "kube-system", "trellis-buffers"))
    cluster.add_node("n1", "8")
    cluster.add_node("n2", "8")
    cluster.add_node("spot-1", "4", "16Gi", **{"karpenter.sh__nodepool": "spot"})
    cluster.add_workload("web", 10)
    cluster.add_vpa("web", {"app": {"cpu": "1", "memory": "2Gi"}}, mode="Initial")
    cluster.add_workload("build", 2, container("build", cpu="2", memory="4Gi"), nodeName="n2")
    pods = {"replicaNum": 4, "podSpec": {"containers": [container("build", cpu="2", memory="4Gi")]}}
    windows = [{"start": "0 8 * * 1-5", "duration": "10h"}]
    cluster.add_buffer(
        "builds",
        recreationStrategy="KeepMinimum",
        podSelector={"matchLabels": {"app": "build"}},
        capacity={"pods": pods},
        schedule={"timeZone": "Europe/Berlin", "windows": windows},
    )
    reference = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "spot"}
    totals = {"totalCpu": "10", "totalMem": "20Gi"}
    cluster.add_buffer("spot", targetRef=reference, capacity={"nodeClass": totals}, age=9 * DAY)
    cluster.add_buffer("web", age=DAY, targetRef=deployment("web"), capacity={"replicas": {"percent": {"percent": 30}}})
    cluster.put("ResourceQuota", "team", {"status": {"hard": {"requests.cpu": "25"}, "used": {"requests.cpu": "9"}}})
    about = {"kind": "Buffer", "name": "web", "namespace": NAMESPACE}
    result = {"reason": "LimitedByQuotas", "message": "chunks limited from 3 to 2 by quotas: team", "count": 1}
    cluster.put("Event", "e1", {"involvedObject": about, "lastTimestamp": time(NOW - 3600), **result})
    cluster.publish_buffers(full="web")
    return cluster
