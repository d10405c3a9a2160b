"""Metrics of kube-state-metrics, and the objects that their series were made from.

As far as sizes need it, so that whatever works from a cluster works from this too. What an object has that no metric
shows, such as the labels of a pod, is left out. An HPA's metric of one container is shown as if it were the pod's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from trellis.api.kube.meta import KubeObject, ObjectMeta, OwnerReference
from trellis.api.kube.observed_pods import (
    ObservedAmounts,
    ObservedContainer,
    ObservedPod,
    ObservedPodMeta,
    ObservedPodSpec,
    ObservedPodStatus,
    ObservedResources,
)
from trellis.api.kube.scaling import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
    Metric,
    MetricSource,
    MetricTarget,
)
from trellis.api.kube.workloads import (
    CronJob,
    DaemonSet,
    DaemonSetStatus,
    Deployment,
    DeploymentSpec,
    StatefulSet,
    StatefulSetSpec,
)

Labels: TypeAlias = Mapping[str, str]
# The labels of a series and its newest value.
MetricSample: TypeAlias = tuple[Labels, float]
# Namespace and name of an object.
ObjectName: TypeAlias = tuple[str, str]

POD_OWNER: Final = "kube_pod_owner"
REPLICA_SET_OWNER: Final = "kube_replicaset_owner"
JOB_OWNER: Final = "kube_job_owner"
PHASE: Final = "kube_pod_status_phase"
CONTAINER: Final = "kube_pod_container_info"
SIDECAR: Final = "kube_pod_init_container_info"
HPA: Final = "kube_horizontalpodautoscaler_info"
HPA_LEAST: Final = "kube_horizontalpodautoscaler_spec_min_replicas"
HPA_MOST: Final = "kube_horizontalpodautoscaler_spec_max_replicas"
HPA_NOW: Final = "kube_horizontalpodautoscaler_status_current_replicas"
HPA_TARGET: Final = "kube_horizontalpodautoscaler_spec_target_metric"

# Whose owner a metric tells, and which label names that.
OWNER_METRICS: Final = {
    POD_OWNER: ("Pod", "pod"),
    REPLICA_SET_OWNER: ("ReplicaSet", "replicaset"),
    JOB_OWNER: ("Job", "job_name"),
}
RESOURCE_METRICS: Final = {
    "kube_pod_container_resource_requests": "requests",
    "kube_pod_container_resource_limits": "limits",
    "kube_pod_init_container_resource_requests": "requests",
    "kube_pod_init_container_resource_limits": "limits",
}
# What there is one series of for each object of a kind, and which label names that; the value is how many pods it has.
WORKLOAD_METRICS: Final = {
    "kube_deployment_spec_replicas": ("Deployment", "deployment"),
    "kube_statefulset_replicas": ("StatefulSet", "statefulset"),
    "kube_daemonset_status_desired_number_scheduled": ("DaemonSet", "daemonset"),
    "kube_cronjob_info": ("CronJob", "cronjob"),
}
HPA_METRICS: Final = (HPA, HPA_LEAST, HPA_MOST, HPA_NOW, HPA_TARGET)
STATE_METRICS: Final = (*OWNER_METRICS, CONTAINER, SIDECAR, *RESOURCE_METRICS, *WORKLOAD_METRICS, *HPA_METRICS)


class LabelNames(msgspec.Struct, frozen=True):
    """The names of labels. Prometheus renames those that it would overwrite, unless it is configured to honor them."""

    prefix: str = ""

    def read(self, labels: Labels, name: str) -> str:
        """The value of a label of the object itself."""
        return labels.get(f"{self.prefix}{name}", "")

    def read_name(self, labels: Labels, name: str) -> ObjectName:
        """Namespace and name of the object that a label of this kind names."""
        return self.read(labels, "namespace"), self.read(labels, name) or labels.get(name, "")


_UTILIZATION: Final = "utilization"


class KubeStateHpas:
    """Builds HPAs from the series about them."""

    def __init__(self, label_names: LabelNames) -> None:
        self._label_names = label_names
        self._targets: dict[ObjectName, CrossVersionObjectReference] = {}
        self._metrics: dict[ObjectName, list[Metric]] = {}
        self._counts: dict[ObjectName, dict[str, int]] = {}

    def add_sample(self, metric: str, labels: Labels, value: float) -> None:
        """Add a sample of a metric about HPAs."""
        name = self._label_names.read_name(labels, "horizontalpodautoscaler")
        if metric == HPA:
            kind, target = labels.get("scaletargetref_kind", ""), labels.get("scaletargetref_name", "")
            api_version = labels.get("scaletargetref_api_version", "")
            self._targets[name] = CrossVersionObjectReference(kind, target, api_version)
        elif metric == HPA_TARGET:
            self._metrics.setdefault(name, []).append(_build_metric(labels, value))
        else:
            self._counts.setdefault(name, {})[metric] = int(value)

    def build_hpas(self) -> list[HorizontalPodAutoscaler]:
        """The HPAs whose target is known."""
        return [
            _build_hpa(name, target, tuple(self._metrics.get(name, ())), self._counts.get(name, {}))
            for name, target in sorted(self._targets.items())
        ]


def _build_metric(labels: Labels, value: float) -> Metric:
    if labels.get("metric_target_type") == _UTILIZATION:
        target = MetricTarget("Utilization", average_utilization=round(value))
    else:
        target = MetricTarget("AverageValue", average_value=f"{round(value * 1000)}m")
    return Metric(type="Resource", resource=MetricSource(name=labels.get("metric_name", ""), target=target))


def _build_hpa(
    name: ObjectName, target: CrossVersionObjectReference, metrics: tuple[Metric, ...], counts: Mapping[str, int]
) -> HorizontalPodAutoscaler:
    spec: dict[str, Any] = {"min_replicas": counts.get(HPA_LEAST), "max_replicas": counts.get(HPA_MOST, 0)}
    return HorizontalPodAutoscaler(
        ObjectMeta(name=name[1], namespace=name[0]),
        HorizontalPodAutoscalerSpec(scale_target_ref=target, metrics=metrics, **spec),
        HorizontalPodAutoscalerStatus(current_replicas=counts.get(HPA_NOW, 0)),
    )


_API_VERSIONS: Final = {
    "CronJob": "batch/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "Node": "v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
    "Rollout": "argoproj.io/v1alpha1",
    "StatefulSet": "apps/v1",
}
_POD: Final = "Pod"
_NO_OWNER: Final = ("", "<none>")
_ALWAYS: Final = "Always"
_MOST: Final = 1e18

_OwnersByName = dict[ObjectName, OwnerReference | None]


class KubeStateObjects:
    """Builds pods, workloads and HPAs from the series about them."""

    def __init__(self, label_names: LabelNames) -> None:
        self._label_names = label_names
        self._current_pods: _OwnersByName = {}
        self._past_pods: _OwnersByName = {}
        self._intermediate_owners: dict[str, _OwnersByName] = {"ReplicaSet": {}, "Job": {}}
        self._running: dict[ObjectName, dict[str, str]] = {}
        self._amounts: dict[ObjectName, dict[str, dict[str, dict[str, str]]]] = {}
        self._phases: dict[ObjectName, str] = {}
        self._sets: dict[str, dict[ObjectName, int]] = {}
        self._hpas = KubeStateHpas(label_names)

    @property
    def is_empty(self) -> bool:
        """Whether there were no series of pods and workloads."""
        return not (self._current_pods or self._sets)

    def add_past_owners(self, samples: Iterable[Labels]) -> None:
        """Add series about owners at any time of the history."""
        for labels in samples:
            self._add_owner(labels.get("__name__", ""), labels, self._past_pods)

    def add_samples(self, samples: Iterable[MetricSample]) -> None:
        """Add current samples."""
        for labels, value in samples:
            metric = labels.get("__name__", "")
            if metric in OWNER_METRICS:
                self._add_owner(metric, labels, self._current_pods)
            elif metric in RESOURCE_METRICS:
                self._add_amount(RESOURCE_METRICS[metric], labels, value)
            elif metric in WORKLOAD_METRICS:
                kind, label = WORKLOAD_METRICS[metric]
                self._sets.setdefault(kind, {})[self._label_names.read_name(labels, label)] = int(value)
            elif metric in HPA_METRICS:
                self._hpas.add_sample(metric, labels, value)
            elif metric == PHASE:
                self._phases[self._read_pod_name(labels)] = labels.get("phase", "")
            elif metric == CONTAINER or (metric == SIDECAR and labels.get("restart_policy") == _ALWAYS):
                restarts = _ALWAYS if metric == SIDECAR else ""
                self._running.setdefault(self._read_pod_name(labels), {})[
                    self._label_names.read(labels, "container")
                ] = restarts

    def pods(self) -> list[ObservedPod]:
        """The pods that exist now."""
        return [self._build_pod(name, owner) for name, owner in sorted(self._current_pods.items())]

    def past_pods(self) -> list[ObservedPod]:
        """The pods that existed and are gone."""
        return [
            self._build_pod(name, owner)
            for name, owner in sorted(self._past_pods.items())
            if name not in self._current_pods
        ]

    def workloads(self) -> dict[str, list[KubeObject]]:
        """The current workloads, by kind."""
        return {
            kind: [_build_workload(kind, *name, replicas) for name, replicas in sorted(sets.items())]
            for kind, sets in self._sets.items()
        }

    def intermediate_owners(self) -> dict[str, list[KubeObject]]:
        """ReplicaSets and Jobs with their owners; they may be gone."""
        return {
            kind: [
                KubeObject(ObjectMeta(name=name, namespace=namespace, owner_references=(owner,) if owner else ()))
                for (namespace, name), owner in sorted(owners.items())
            ]
            for kind, owners in self._intermediate_owners.items()
        }

    def hpas(self) -> list[HorizontalPodAutoscaler]:
        """The HPAs whose target is known."""
        return self._hpas.build_hpas()

    def _read_pod_name(self, labels: Labels) -> ObjectName:
        return self._label_names.read_name(labels, "pod")

    def _add_owner(self, metric: str, labels: Labels, pods: _OwnersByName) -> None:
        if metric not in OWNER_METRICS:
            return
        kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
        is_controlled = labels.get("owner_is_controller", "true") == "true"
        owner = OwnerReference(_API_VERSIONS.get(kind, ""), kind, name, "", True)
        owned_kind, label = OWNER_METRICS[metric]
        owners, owned_name = (
            pods if owned_kind == _POD else self._intermediate_owners[owned_kind],
            self._label_names.read_name(labels, label),
        )
        if all(owned_name):
            is_owned = is_controlled and kind not in _NO_OWNER and name not in _NO_OWNER
            owners[owned_name] = owner if is_owned else owners.get(owned_name)

    def _add_amount(self, field: str, labels: Labels, value: float) -> None:
        resource, container = labels.get("resource", ""), self._label_names.read(labels, "container")
        owned_name = self._read_pod_name(labels)
        if resource not in ("cpu", "memory") or not (container and all(owned_name)) or not 0 <= value < _MOST:
            return
        sizes = self._amounts.setdefault(owned_name, {}).setdefault(container, {"requests": {}, "limits": {}})
        sizes[field][resource] = f"{round(value * 1000)}m" if resource == "cpu" else str(round(value))

    def _build_pod(self, name: ObjectName, owner: OwnerReference | None) -> ObservedPod:
        sizes = self._amounts.get(name, {})
        restart_policies = self._running.get(name) or dict.fromkeys(sizes, "")
        containers = [
            ObservedContainer(container, _build_resources(sizes.get(container, {})), restarts)
            for container, restarts in sorted(restart_policies.items())
        ]
        spec = ObservedPodSpec(
            tuple(container for container in containers if container.is_sidecar),
            tuple(container for container in containers if not container.is_sidecar),
        )
        metadata = ObservedPodMeta(name=name[1], namespace=name[0], owner_references=(owner,) if owner else ())
        return ObservedPod(metadata, spec, ObservedPodStatus(phase=self._phases.get(name, "Running")))


def _build_resources(sizes: Mapping[str, Mapping[str, str]]) -> ObservedResources:
    return ObservedResources(ObservedAmounts(**sizes.get("limits", {})), ObservedAmounts(**sizes.get("requests", {})))


def _build_workload(kind: str, namespace: str, name: str, replicas: int) -> KubeObject:
    metadata = ObjectMeta(name=name, namespace=namespace)
    match kind:
        case "Deployment":
            return Deployment(metadata, DeploymentSpec(replicas=replicas))
        case "StatefulSet":
            return StatefulSet(metadata, StatefulSetSpec(replicas=replicas))
        case "DaemonSet":
            return DaemonSet(metadata, status=DaemonSetStatus(desired_number_scheduled=replicas))
        case _:
            return CronJob(metadata)
