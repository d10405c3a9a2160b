"""Resources: the kinds, their paths on the API server, and the slices they are decoded to.

A `Resource` carries its slice, so that a request for `PODS` returns pods, and mypy knows it.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

import msgspec

from trellis.api import registry
from trellis.api.kinds.buffer import Buffer
from trellis.api.kinds.checkpoint import VerticalPodAutoscalerCheckpoint
from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.capacity_buffers import CapacityBuffer
from trellis.api.kube.coordination import ConfigMap, Event, Lease, Namespace
from trellis.api.kube.machines.devices import DeviceClaim, DeviceClaimTemplate, ResourceSlice
from trellis.api.kube.machines.node_claims import NodeClaim
from trellis.api.kube.meta import KubeObject
from trellis.api.kube.metrics import PodMetrics
from trellis.api.kube.nodes import Node
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.kube.observed_workloads import ObservedCronJob, ObservedReplicationController, ObservedWorkload
from trellis.api.kube.pods import Pod, PodTemplate
from trellis.api.kube.policies import LimitRange, PodDisruptionBudget, ResourceQuota
from trellis.api.kube.provisioning.pod_groups import PodGroup
from trellis.api.kube.provisioning.requests import ProvisioningRequest
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from trellis.api.kube.webhooks import MutatingWebhookConfiguration
from trellis.api.kube.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

T = TypeVar("T", bound=msgspec.Struct)
U = TypeVar("U", bound=msgspec.Struct)


class Resource(msgspec.Struct, Generic[T], frozen=True):
    """One kind as it is served, and the struct that its objects are decoded to."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    struct: type[T]
    # Request `PartialObjectMetadata`: a pod's is a fifth of its bytes.
    metadata_only: bool = False

    @property
    def api_version(self) -> str:
        """Group and version as a manifest spells them; the oldest group has no name."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`deployments.apps`, as RBAC and kubectl call it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, of a subresource, or of all objects (of one namespace) if there is no name."""
        parts = ["/apis" if self.group else "/api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        # `system:node` is a legal name of a ClusterRole; a colon needs no escape inside a path.
        parts += [quote(part, safe=":") for part in (name, subresource) if part]
        return "/".join(parts)

    def read_as(self, struct: type[U]) -> Resource[U]:
        """The same objects, read as another struct: a smaller slice of them."""
        return Resource(self.group, self.version, self.plural, self.kind, self.namespaced, struct, self.metadata_only)

    def in_version(self, version: str) -> Resource[T]:
        """The same kind in another version of its group."""
        return Resource(self.group, version, self.plural, self.kind, self.namespaced, self.struct, self.metadata_only)

    def as_metadata(self) -> Resource[KubeObject]:
        """The same objects, of which only `metadata` is requested: enough for owners and labels."""
        return Resource(self.group, self.version, self.plural, self.kind, self.namespaced, KubeObject, True)


def build_resource(kind: registry.Kind, struct: type[T]) -> Resource[T]:
    """The resource of one of our own kinds."""
    return Resource(kind.group, kind.version, kind.plural, kind.name, True, struct)


PODS: Final = Resource("", "v1", "pods", "Pod", True, Pod)
POD_TEMPLATES: Final = Resource("", "v1", "podtemplates", "PodTemplate", True, PodTemplate)
NODES: Final = Resource("", "v1", "nodes", "Node", False, Node)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", False, Namespace)
EVENTS: Final = Resource("", "v1", "events", "Event", True, Event)
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", "LimitRange", True, LimitRange)
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota", True, ResourceQuota)
REPLICATION_CONTROLLERS: Final = Resource(
    "", "v1", "replicationcontrollers", "ReplicationController", True, ReplicationController
)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", True, Deployment)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet", True, ReplicaSet)
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet", True, StatefulSet)
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet", True, DaemonSet)
JOBS: Final = Resource("batch", "v1", "jobs", "Job", True, Job)
CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob", True, CronJob)
HPAS: Final = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, HorizontalPodAutoscaler
)
PDBS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, PodDisruptionBudget)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", True, ConfigMap)
VOLUME_CLAIMS: Final = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, PersistentVolumeClaim
)
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, PersistentVolume)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, StorageClass)
DEVICE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, DeviceClaim)
DEVICE_CLAIM_TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True, DeviceClaimTemplate
)
RESOURCE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False, ResourceSlice)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)
POD_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True, PodMetrics)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
    MutatingWebhookConfiguration,
)
CAPACITY_BUFFERS: Final = Resource(
    "autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer", True, CapacityBuffer
)
PROVISIONING_REQUESTS: Final = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", True, ProvisioningRequest
)
POD_GROUPS: Final = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True, PodGroup)
NODE_CLAIMS: Final = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", False, NodeClaim)
VPAS: Final = build_resource(registry.VPA, VerticalPodAutoscaler)
CHECKPOINTS: Final = build_resource(registry.CHECKPOINT, VerticalPodAutoscalerCheckpoint)
HVPAS: Final = build_resource(registry.HVPA, Hvpa)
BUFFERS: Final = build_resource(registry.BUFFER, Buffer)

# The same kinds, cut down to what is read to follow pods and find their owners.
OBSERVED_PODS: Final = PODS.read_as(ObservedPod)
OBSERVED_DEPLOYMENTS: Final = DEPLOYMENTS.read_as(ObservedWorkload)
OBSERVED_REPLICA_SETS: Final = REPLICA_SETS.read_as(ObservedWorkload)
OBSERVED_STATEFUL_SETS: Final = STATEFUL_SETS.read_as(ObservedWorkload)
OBSERVED_DAEMON_SETS: Final = DAEMON_SETS.read_as(ObservedWorkload)
OBSERVED_JOBS: Final = JOBS.read_as(ObservedWorkload)
OBSERVED_CRON_JOBS: Final = CRON_JOBS.read_as(ObservedCronJob)
OBSERVED_REPLICATION_CONTROLLERS: Final = REPLICATION_CONTROLLERS.read_as(ObservedReplicationController)

# The kinds whose selector is read from their own spec; any other must have a scale.
WORKLOADS: Final[tuple[Resource[Any], ...]] = (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    JOBS,
    CRON_JOBS,
    REPLICATION_CONTROLLERS,
)
OBSERVED_WORKLOADS: Final[tuple[Resource[Any], ...]] = (
    OBSERVED_DEPLOYMENTS,
    OBSERVED_REPLICA_SETS,
    OBSERVED_STATEFUL_SETS,
    OBSERVED_DAEMON_SETS,
    OBSERVED_JOBS,
    OBSERVED_CRON_JOBS,
    OBSERVED_REPLICATION_CONTROLLERS,
)
