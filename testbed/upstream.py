"""Under which account does upstream's recommender run, and what may it do?

A name of its own, so that its rights are never mistaken for those of the Role that Trellis ships.
"""

from __future__ import annotations

from pathlib import Path

from testbed.building import ensure
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.programs import UPSTREAM_RECOMMENDER

ACCOUNT, NAMESPACE = "upstream-vpa-recommender", "kube-system"

READ = ["get", "list", "watch"]

# As upstream's own manifests grant it, over several roles.
RIGHTS: list[tuple[list[str], list[str], list[str]]] = [
    (["metrics.k8s.io"], ["pods"], ["get", "list"]),
    (["external.metrics.k8s.io"], ["*"], ["get", "list"]),
    ([""], ["pods", "nodes", "limitranges", "replicationcontrollers"], READ),
    ([""], ["namespaces"], ["get", "list"]),
    (["", "events.k8s.io"], ["events"], [*READ, "create", "patch", "update"]),
    (["autoscaling.k8s.io"], ["verticalpodautoscalers"], READ),
    (["autoscaling.k8s.io"], ["verticalpodautoscalers/status"], ["get", "patch"]),
    (["autoscaling.k8s.io"], ["verticalpodautoscalercheckpoints"], [*READ, "create", "patch", "delete"]),
    (["*"], ["*/scale"], ["get", "watch"]),
    (["apps"], ["daemonsets", "deployments", "replicasets", "statefulsets"], READ),
    (["batch"], ["jobs", "cronjobs"], READ),
    (["coordination.k8s.io"], ["leases"], [*READ, "create", "update", "patch"]),
]


def recommender() -> Path:
    """The program, compiled first if it never was."""
    return ensure([UPSTREAM_RECOMMENDER])[UPSTREAM_RECOMMENDER.name]


def kubeconfig(cluster: Cluster) -> Path:
    """For its account, which is made if it is not there."""
    for manifest in _account():
        cluster.api.apply(manifest)
    return cluster.kubeconfig_for(ACCOUNT, NAMESPACE)


def _account() -> list[Json]:
    metadata = {"name": ACCOUNT}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    rules = [{"apiGroups": groups, "resources": resources, "verbs": verbs} for groups, resources, verbs in RIGHTS]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
    subjects = [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "namespace": NAMESPACE}},
        {**rbac, "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {**rbac, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": role, "subjects": subjects},
    ]
