"""What `kubectl apply -f deploy` would create: a real API server takes it, and it grants what is needed and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support.cluster.rights import Account, get_account
from testbed.access import shipped_accounts
from testbed.client import Json
from testbed.cluster import Cluster

MANIFESTS = sorted((shipped_accounts.ROOT / "deploy").glob("*.yaml"))


def documents(file: Path) -> list[Json]:
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


@pytest.fixture
def recommender(cluster: Cluster) -> Account:
    return get_account(cluster, "recommender", "vpa-recommender")


@pytest.fixture
def admission(cluster: Cluster) -> Account:
    return get_account(cluster, "admission", "vpa-admission-controller")


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_the_api_server_accepts_every_object_and_knows_every_field(cluster: Cluster, file: Path) -> None:
    for document in documents(file):
        applied = cluster.api.apply(document, dry_run=True)
        assert applied["metadata"]["name"] == document["metadata"]["name"]


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_pods_meet_the_strictest_pod_security_standard(cluster: Cluster, namespace: str, file: Path) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    for document in documents(file):
        if document["kind"] != "Deployment":
            continue
        spec = document["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
        created = cluster.api.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"}, "spec": spec}, namespace
        )
        assert all(
            container["securityContext"]["readOnlyRootFilesystem"] for container in created["spec"]["containers"]
        )


NEEDED = [
    "list pods.metrics.k8s.io",
    "list queue-length.external.metrics.k8s.io",
    "watch pods",
    "watch events",
    "watch replicationcontrollers",
    "watch deployments.apps",
    "watch replicasets.apps",
    "watch statefulsets.apps",
    "watch daemonsets.apps",
    "watch jobs.batch",
    "watch cronjobs.batch",
    "get flowers.example.com/scale",
    "watch verticalpodautoscalers.autoscaling.k8s.io",
    "patch verticalpodautoscalers.autoscaling.k8s.io/status",
    "watch hvpas.autoscaling.x-k8s.io",
    "patch hvpas.autoscaling.x-k8s.io/status",
    "create verticalpodautoscalercheckpoints.autoscaling.k8s.io",
    "patch verticalpodautoscalercheckpoints.autoscaling.k8s.io",
    "delete verticalpodautoscalercheckpoints.autoscaling.k8s.io",
    "create leases.coordination.k8s.io kube-system/",
    "patch leases.coordination.k8s.io kube-system/vpa-recommender-lease",
]

DENIED = [
    "get secrets",
    "list namespaces",
    "watch limitranges",
    "patch pods",
    "delete pods",
    "create pods/eviction",
    "patch pods/resize",
    "patch deployments.apps",
    "patch deployments.apps/scale",
    "patch verticalpodautoscalers.autoscaling.k8s.io",
    "delete verticalpodautoscalers.autoscaling.k8s.io",
    "patch hvpas.autoscaling.x-k8s.io",
    "patch leases.coordination.k8s.io kube-system/kube-scheduler",
    "create leases.coordination.k8s.io default/",
]


@pytest.mark.parametrize("right", NEEDED)
def test_the_recommender_may_do_its_work(recommender: Account, right: str) -> None:
    assert recommender.may(right)


@pytest.mark.parametrize("right", DENIED)
def test_the_recommender_may_do_nothing_else(recommender: Account, right: str) -> None:
    assert not recommender.may(right)


NEEDED_FOR_ADMISSION = [
    "watch verticalpodautoscalers.autoscaling.k8s.io",
    "watch hvpas.autoscaling.x-k8s.io",
    "watch limitranges",
    "watch nodes",
    "watch replicationcontrollers",
    "get replicasets.apps",
    "watch replicasets.apps",
    "watch deployments.apps",
    "watch statefulsets.apps",
    "watch daemonsets.apps",
    "watch jobs.batch",
    "watch cronjobs.batch",
    "get flowers.example.com/scale",
    "create mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "get mutatingwebhookconfigurations.admissionregistration.k8s.io /vpa-webhook-config",
    "patch mutatingwebhookconfigurations.admissionregistration.k8s.io /vpa-webhook-config",
    "create secrets kube-system/",
    "get secrets kube-system/trellis-admission-certificates",
    "patch secrets kube-system/trellis-admission-certificates",
    "create leases.coordination.k8s.io kube-system/",
    "patch leases.coordination.k8s.io kube-system/vpa-admission-controller",
]

DENIED_TO_ADMISSION = [
    "list pods",
    "watch pods",
    "patch pods",
    "delete pods",
    "create pods/eviction",
    "patch deployments.apps",
    "patch flowers.example.com/scale",
    "patch verticalpodautoscalers.autoscaling.k8s.io",
    "patch verticalpodautoscalers.autoscaling.k8s.io/status",
    "patch hvpas.autoscaling.x-k8s.io",
    "list secrets kube-system/",
    "get secrets kube-system/vpa-tls-certs",
    "create secrets default/",
    "get secrets default/trellis-admission-certificates",
    "patch mutatingwebhookconfigurations.admissionregistration.k8s.io /istio",
    "delete mutatingwebhookconfigurations.admissionregistration.k8s.io /vpa-webhook-config",
    "patch validatingwebhookconfigurations.admissionregistration.k8s.io /vpa-webhook-config",
    "patch leases.coordination.k8s.io kube-system/kube-scheduler",
]


@pytest.mark.parametrize("right", NEEDED_FOR_ADMISSION)
def test_the_webhook_may_do_its_work(admission: Account, right: str) -> None:
    assert admission.may(right)


@pytest.mark.parametrize("right", DENIED_TO_ADMISSION)
def test_the_webhook_may_do_nothing_else(admission: Account, right: str) -> None:
    assert not admission.may(right)
