"""Access on the testbed is what Kubernetes grants: RBAC, disruption budgets, flow of identities."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from testbed.client import Api
from testbed.cluster import Cluster
from testbed.errors import Refused
from testbed.waiting import until
from testbed.workloads import deployment, disruption_budget

Json = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"


def test_a_service_account_has_exactly_the_rights_of_its_role(cluster: Cluster, namespace: str) -> None:
    _create_reader(cluster, namespace)
    reader = cluster.api_for("reader", namespace)
    assert reader.list_items(f"/api/v1/namespaces/{namespace}/pods") == []
    with pytest.raises(Refused, match=r"cannot list resource .secrets.") as refusal:
        reader.list_items(f"/api/v1/namespaces/{namespace}/secrets")
    assert refusal.value.status == 403
    with pytest.raises(Refused, match=f"system:serviceaccount:{namespace}:reader") as refusal:
        reader.create(deployment("web"), namespace)
    assert refusal.value.status == 403


def test_the_kubeconfig_of_a_service_account_names_its_namespace_and_carries_a_token(
    cluster: Cluster, namespace: str
) -> None:
    _create_reader(cluster, namespace)
    document = json.loads(cluster.kubeconfig_for("reader", namespace).read_text())
    (context,) = document["contexts"]
    assert context["context"]["namespace"] == namespace
    (user,) = document["users"]
    assert list(user["user"]) == ["token"]
    assert document["clusters"][0]["cluster"]["server"] == cluster.url


def test_kubeconfigs_are_readable_by_their_owner_only(cluster: Cluster) -> None:
    files = [cluster.kubeconfig, cluster.kubeconfig_for_user("somebody", "developers")]
    assert [file.stat().st_mode & 0o077 for file in files] == [0, 0]


def test_a_user_certificate_names_user_and_groups(cluster: Cluster, tmp_path: Path) -> None:
    document = json.loads(cluster.kubeconfig_for_user("ada", "developers").read_text())
    who = _whoami(document, tmp_path)
    assert who["username"] == "ada"
    assert who["groups"] == ["developers", "system:authenticated"]


def test_a_disruption_budget_refuses_an_eviction_too_many(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(deployment("web", replicas=2), namespace)
    cluster.api.create(disruption_budget("web", minAvailable=2), namespace)
    victim = cluster.wait_for_ready_pods(namespace, "web", 2)[0]["metadata"]["name"]
    budget = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web"
    until("the budget to count", lambda: cluster.api.get(budget).get("status", {}).get("currentHealthy") == 2)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim}}
    with pytest.raises(Refused, match="violate the pod's disruption budget") as refusal:
        cluster.api.send("POST", f"/api/v1/namespaces/{namespace}/pods/{victim}/eviction", eviction)
    assert refusal.value.status == 429


def _create_reader(cluster: Cluster, namespace: str) -> None:
    name = {"metadata": {"name": "reader"}}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", **name}, namespace)
    cluster.api.create({"apiVersion": f"{RBAC}/v1", "kind": "Role", **name, "rules": rules}, namespace)
    reference = {"apiGroup": RBAC, "kind": "Role", "name": "reader"}
    binding = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", **name, "subjects": [subject], "roleRef": reference}
    cluster.api.create(binding, namespace)
    # The authorizer learns of roles by a watch, a moment later.
    until("RBAC to know the role", lambda: _allowed(cluster, namespace))


def _allowed(cluster: Cluster, namespace: str) -> bool:
    attributes = {"namespace": namespace, "verb": "list", "resource": "pods"}
    user = f"system:serviceaccount:{namespace}:reader"
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = cluster.api.send("POST", path, {**review, "spec": {"user": user, "resourceAttributes": attributes}})
    allowed: bool = answer["status"]["allowed"]
    return allowed


def _whoami(kubeconfig: Json, directory: Path) -> Json:
    credentials = kubeconfig["users"][0]["user"] | kubeconfig["clusters"][0]["cluster"]
    names = ("certificate-authority-data", "client-certificate-data", "client-key-data")
    for name in names:
        (directory / name).write_bytes(b64decode(credentials[name]))
    ca, certificate, key = (directory / name for name in names)
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    api = Api(credentials["server"], ca, (certificate, key))
    who: Json = api.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"]
    return who
