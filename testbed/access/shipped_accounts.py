"""The accounts of our components, with the rights that `deploy/` grants, and no more."""

from __future__ import annotations

from pathlib import Path

import yaml

from testbed.access.rights import ROLES, wait_until_granted
from testbed.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "kube-system"
# Everything but the Deployment: no container of ours runs in a simulated cluster.
_RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")

# What is in force already: which API server, and whose rights.
_granted: set[tuple[str, str]] = set()


def create_account(cluster: Cluster, component: str) -> Path:
    """A kubeconfig for the account of a component, which is made if it is not there, with its rights in force."""
    documents = yaml.safe_load_all((ROOT / "deploy" / f"{component}.yaml").read_text())
    rights = [document for document in documents if document and document["kind"] in _RIGHTS]
    for document in rights:
        cluster.api.apply(document)
    name = next(right["metadata"]["name"] for right in rights if right["kind"] == "ServiceAccount")
    if (cluster.url, component) not in _granted:
        user = f"system:serviceaccount:{NAMESPACE}:{name}"
        wait_until_granted(cluster.api, user, [right for right in rights if right["kind"] in ROLES])
        _granted.add((cluster.url, component))
    return cluster.kubeconfig_for(name, NAMESPACE)
