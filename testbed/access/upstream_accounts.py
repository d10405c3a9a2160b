"""The accounts of upstream's programs, with their rights.

Names of their own, so that their rights are never mistaken for those of the Roles that Trellis ships.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import msgspec

from testbed.client import Json
from testbed.cluster import Cluster
from testbed.programs.building import ensure_programs
from testbed.programs.versions import UPSTREAM_ADMISSION, UPSTREAM_RECOMMENDER, UPSTREAM_UPDATER, Program

NAMESPACE = "kube-system"

READ = ["get", "list", "watch"]

Rights: TypeAlias = list[tuple[list[str], list[str], list[str]]]  # groups, resources and verbs

# What several of upstream's programs read to learn whose pods a VPA is about.
TARGETS: Rights = [
    ([""], ["replicationcontrollers"], READ),
    (["*"], ["*/scale"], ["get", "watch"]),
    (["apps"], ["daemonsets", "deployments", "replicasets", "statefulsets"], READ),
    (["batch"], ["jobs", "cronjobs"], READ),
]


class Peer(msgspec.Struct, frozen=True):
    """One of upstream's programs, with the rights that its own manifests grant it over several roles."""

    program: Program
    rights: Rights

    @property
    def account(self) -> str:
        """The name of its ServiceAccount, and of its ClusterRole."""
        return f"upstream-{self.program.name}"

    def path(self) -> Path:
        """The program, compiled first if it never was."""
        return ensure_programs([self.program])[self.program.name]

    def kubeconfig(self, cluster: Cluster) -> Path:
        """For its account, which is made if it is not there."""
        for manifest in self._account():
            cluster.api.apply(manifest)
        return cluster.kubeconfig_for(self.account, NAMESPACE)

    def _account(self) -> list[Json]:
        metadata = {"name": self.account}
        rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        rules = [{"apiGroups": groups, "resources": kinds, "verbs": verbs} for groups, kinds, verbs in self.rights]
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.account}
        subjects = [{"kind": "ServiceAccount", "name": self.account, "namespace": NAMESPACE}]
        return [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "namespace": NAMESPACE}},
            {**rbac, "kind": "ClusterRole", "metadata": metadata, "rules": rules},
            {**rbac, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": role, "subjects": subjects},
        ]


RECOMMENDER = Peer(
    UPSTREAM_RECOMMENDER,
    [
        *TARGETS,
        (["metrics.k8s.io"], ["pods"], ["get", "list"]),
        (["external.metrics.k8s.io"], ["*"], ["get", "list"]),
        ([""], ["pods", "nodes", "limitranges"], READ),
        ([""], ["namespaces"], ["get", "list"]),
        (["", "events.k8s.io"], ["events"], [*READ, "create", "patch", "update"]),
        (["autoscaling.k8s.io"], ["verticalpodautoscalers"], READ),
        (["autoscaling.k8s.io"], ["verticalpodautoscalers/status"], ["get", "patch"]),
        (["autoscaling.k8s.io"], ["verticalpodautoscalercheckpoints"], [*READ, "create", "patch", "delete"]),
        (["coordination.k8s.io"], ["leases"], [*READ, "create", "update", "patch"]),
    ],
)

ADMISSION = Peer(
    UPSTREAM_ADMISSION,
    [
        *TARGETS,
        ([""], ["pods", "configmaps", "nodes", "limitranges"], READ),
        (["autoscaling.k8s.io"], ["verticalpodautoscalers"], READ),
        (
            ["admissionregistration.k8s.io"],
            ["mutatingwebhookconfigurations"],
            ["create", "delete", "get", "list", "patch"],
        ),
        (["coordination.k8s.io"], ["leases"], [*READ, "create", "update"]),
    ],
)

UPDATER = Peer(
    UPSTREAM_UPDATER,
    [
        *TARGETS,
        ([""], ["pods", "nodes", "limitranges"], READ),
        ([""], ["namespaces"], ["get", "list"]),
        ([""], ["pods/eviction"], ["create"]),
        ([""], ["pods", "pods/resize"], ["patch"]),
        (["", "events.k8s.io"], ["events"], [*READ, "create", "patch", "update"]),
        (["autoscaling.k8s.io"], ["verticalpodautoscalers"], READ),
        (["coordination.k8s.io"], ["leases"], [*READ, "create", "update", "patch"]),
    ],
)
