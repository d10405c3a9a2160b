"""An account with rights in a namespace has the same rights on its autoscalers and Buffers, and no more."""

from __future__ import annotations

import pytest

from support.cluster.buffers import buffer, buffer_path
from support.cluster.rights import Account
from testbed.access import shipped_accounts
from testbed.cluster import Cluster
from testbed.errors import Refused
from testbed.waiting import until

RBAC = "rbac.authorization.k8s.io"
READ = [
    "get verticalpodautoscalers.autoscaling.k8s.io",
    "watch verticalpodautoscalercheckpoints.autoscaling.k8s.io",
    "list hvpas.autoscaling.x-k8s.io",
    "watch buffers.autoscaling.x-k8s.io",
]
WRITE = [
    "create verticalpodautoscalers.autoscaling.k8s.io",
    "patch hvpas.autoscaling.x-k8s.io",
    "update hvpas.autoscaling.x-k8s.io/scale",
    "create buffers.autoscaling.x-k8s.io",
    "patch buffers.autoscaling.x-k8s.io/scale",
    "delete buffers.autoscaling.x-k8s.io",
]
# What controllers say, people cannot.
NEVER = [
    "patch buffers.autoscaling.x-k8s.io/status",
    "patch hvpas.autoscaling.x-k8s.io/status",
    "patch verticalpodautoscalers.autoscaling.k8s.io/status",
    "patch verticalpodautoscalercheckpoints.autoscaling.k8s.io",
]


def person(cluster: Cluster, namespace: str, role: str) -> Account:
    """An account that has one of Kubernetes' own roles in a namespace, with what `deploy/access.yaml` adds to it."""
    cluster.apply_files([shipped_accounts.ROOT / "deploy" / "access.yaml"])
    cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": role}}, namespace)
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": namespace}],
    }
    cluster.api.create(binding, namespace)
    account = Account(cluster, f"system:serviceaccount:{namespace}:{role}")
    last = READ if role == "view" else WRITE
    until("the roles to be taken in", lambda: all(account.may(f"{right} {namespace}/") for right in last))
    return account


@pytest.mark.parametrize(("role", "writes"), [("view", False), ("edit", True), ("admin", True)])
def test_kubernetes_own_roles_cover_our_kinds_in_their_namespace(
    cluster: Cluster, namespace: str, role: str, writes: bool
) -> None:
    result = person(cluster, namespace, role)
    may = {right: result.may(f"{right} {namespace}/") for right in (*READ, *WRITE, *NEVER)}
    assert may == dict.fromkeys(READ, True) | dict.fromkeys(WRITE, writes) | dict.fromkeys(NEVER, False)
    assert not any(result.may(f"{right} default/") for right in (*READ, *WRITE))


@pytest.mark.req("BF-04")
def test_the_edit_role_covers_buffers_of_its_namespace_only(cluster: Cluster, namespace: str) -> None:
    person(cluster, namespace, "edit")
    owner = cluster.api_for("edit", namespace)
    owner.create(buffer("web"), namespace)
    path = buffer_path(namespace, "web")
    owner.patch(path, {"spec": {"capacity": {"replicas": {"exactly": 3}}}})
    assert owner.get(path)["spec"]["capacity"]["replicas"]["exactly"] == 3
    with pytest.raises(Refused, match="forbidden"):
        owner.patch(f"{path}/status", {"status": {"podBasedBufferSpec": {"replicaNum": 1000}}})
    with pytest.raises(Refused, match="forbidden"):
        owner.create(buffer("web"), "default")
    owner.delete(path)
    assert cluster.api.find(path) is None
