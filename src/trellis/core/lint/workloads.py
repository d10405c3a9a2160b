"""Finds the workloads and HPAs of a set by the references that autoscalers make to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import Container, PodSpec
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from trellis.base.errors import UnreadableObject
from trellis.core.lint.manifests import Manifest

_KINDS: Mapping[str, type[msgspec.Struct]] = {
    "Deployment": Deployment,
    "ReplicaSet": ReplicaSet,
    "StatefulSet": StatefulSet,
    "DaemonSet": DaemonSet,
    "Job": Job,
    "CronJob": CronJob,
    "ReplicationController": ReplicationController,
}


def _get_pod_spec(workload: Any) -> PodSpec:
    spec = workload.spec.job_template.spec if isinstance(workload, CronJob) else workload.spec
    found: PodSpec = spec.template.spec
    return found


def _get_replicas(workload: Any) -> tuple[int, int] | None:
    """How many pods a workload has; a DaemonSet has one on each node."""
    if isinstance(workload, DaemonSet):
        return None
    jobs = workload.spec.job_template.spec if isinstance(workload, CronJob) else workload.spec
    count = jobs.parallelism if isinstance(workload, Job | CronJob) else workload.spec.replicas
    return (1, 1) if count is None else (count, count)


def _read_hpa(manifest: Manifest) -> HorizontalPodAutoscaler | None:
    try:
        return convert_object(manifest.value, HorizontalPodAutoscaler)
    except UnreadableObject:
        return None


class WorkloadManifest(msgspec.Struct, frozen=True):
    """A workload as lint and explanations read it: its containers, native sidecars included.

    `replicas` are the fewest and the most pods of one controller, None where the manifests do not say.
    """

    kind: str
    name: str
    containers: tuple[Container, ...]
    pod_spec: PodSpec = PodSpec()
    replicas: tuple[int, int] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The containers' names."""
        return tuple(container.name for container in self.containers)


class WorkloadIndex:
    """Workloads by namespace, kind and name, decoded on first use."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._cache: dict[tuple[str, str, str], Manifest] = {}
        self.hpas: list[Manifest] = []
        for manifest in manifests:
            if manifest.kind in _KINDS:
                self._cache.setdefault((manifest.namespace, manifest.kind, manifest.name), manifest)
            elif manifest.kind == "HorizontalPodAutoscaler":
                self.hpas.append(manifest)

    def find(self, namespace: str, kind: str, name: str) -> WorkloadManifest | None:
        """The workload, if it exists and can be read."""
        manifest = self._cache.get((namespace, kind, name))
        if manifest is None:
            return None
        try:
            workload: Any = convert_object(manifest.value, _KINDS[kind])
        except UnreadableObject:
            return None  # `kubectl` reports what is wrong with it
        spec = _get_pod_spec(workload)
        sidecars = tuple(container for container in spec.init_containers if container.is_sidecar)
        replicas = self._find_hpa_bounds(namespace, kind, name) or _get_replicas(workload)
        return WorkloadManifest(kind, name, (*spec.containers, *sidecars), spec, replicas)

    def _find_hpa_bounds(self, namespace: str, kind: str, name: str) -> tuple[int, int] | None:
        """The bounds of an HPA on the workload."""
        for manifest in self.hpas:
            hpa = _read_hpa(manifest)
            if hpa is None or manifest.namespace != namespace:
                continue
            target, least = hpa.spec.scale_target_ref, hpa.spec.min_replicas
            if (target.kind, target.name) == (kind, name):
                return 1 if least is None else least, hpa.spec.max_replicas
        return None

    def list_names(self, namespace: str, kind: str) -> tuple[str, ...]:
        """Names of the workloads of a kind in a namespace."""
        return tuple(name for (where, what, name) in self._cache if where == namespace and what == kind)


def read_scaled_resources(manifest: Manifest) -> tuple[tuple[str, str], frozenset[str]] | None:
    """An HPA's target (kind, name) and the resources whose usage it scales by; None if it cannot be read."""
    hpa = _read_hpa(manifest)
    if hpa is None:
        return None
    sources = (metric.resource or metric.container_resource for metric in hpa.spec.metrics)
    resources = {source.name for source in sources if source is not None}
    spec = manifest.value.get("spec")
    # autoscaling/v1 knows CPU alone; without any metric, v2 scales by CPU too.
    if not hpa.spec.metrics or (isinstance(spec, dict) and "targetCPUUtilizationPercentage" in spec):
        resources.add("cpu")
    target = hpa.spec.scale_target_ref
    return (target.kind, target.name), frozenset(resources)
