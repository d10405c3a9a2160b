"""What does kube-state-metrics call what it tells? Its metrics, and the labels by which they name objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

Labels: TypeAlias = Mapping[str, str]
# The labels of a series and its newest value.
Sample: TypeAlias = tuple[Labels, float]
# Namespace and name of an object.
Name: TypeAlias = tuple[str, str]

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
OWNERS: Final = {
    POD_OWNER: ("Pod", "pod"),
    REPLICA_SET_OWNER: ("ReplicaSet", "replicaset"),
    JOB_OWNER: ("Job", "job_name"),
}
AMOUNTS: Final = {
    "kube_pod_container_resource_requests": "requests",
    "kube_pod_container_resource_limits": "limits",
    "kube_pod_init_container_resource_requests": "requests",
    "kube_pod_init_container_resource_limits": "limits",
}
# What there is one series of for each object of a kind, and which label names that; the value is how many pods it has.
SETS: Final = {
    "kube_deployment_spec_replicas": ("Deployment", "deployment"),
    "kube_statefulset_replicas": ("StatefulSet", "statefulset"),
    "kube_daemonset_status_desired_number_scheduled": ("DaemonSet", "daemonset"),
    "kube_cronjob_info": ("CronJob", "cronjob"),
}
HPAS: Final = (HPA, HPA_LEAST, HPA_MOST, HPA_NOW, HPA_TARGET)
STATE: Final = (*OWNERS, CONTAINER, SIDECAR, *AMOUNTS, *SETS, *HPAS)


class Spelling(msgspec.Struct, frozen=True):
    """What labels are called. Prometheus renames those that it would overwrite, unless told to honor them."""

    prefix: str = ""

    def of(self, labels: Labels, name: str) -> str:
        """The value of a label of the object itself."""
        return labels.get(f"{self.prefix}{name}", "")

    def named(self, labels: Labels, name: str) -> Name:
        """Namespace and name of the object that a label of this kind names."""
        return self.of(labels, "namespace"), self.of(labels, name) or labels.get(name, "")
