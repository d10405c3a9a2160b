"""The Hvpa controller's account may do what it does, and nothing else."""

from __future__ import annotations

import pytest

from testbed import shipped
from testbed.cluster import Cluster
from testbed.waiting import until

USER = "system:serviceaccount:kube-system:trellis-hvpa"

# As in `kubectl auth can-i`: verb, resource.group/subresource, and where there is one namespace/name.
NEEDED = [
    "watch pods",
    "watch hvpas.autoscaling.x-k8s.io",
    "patch hvpas.autoscaling.x-k8s.io",
    "patch hvpas.autoscaling.x-k8s.io/status",
    "update hvpas.autoscaling.x-k8s.io/finalizers",
    "watch verticalpodautoscalers.autoscaling.k8s.io",
    "create verticalpodautoscalers.autoscaling.k8s.io",
    "patch verticalpodautoscalers.autoscaling.k8s.io",
    "delete verticalpodautoscalers.autoscaling.k8s.io",
    "watch horizontalpodautoscalers.autoscaling",
    "create horizontalpodautoscalers.autoscaling",
    "patch horizontalpodautoscalers.autoscaling",
    "delete horizontalpodautoscalers.autoscaling",
    "get flowers.example.com/scale",
    "patch flowers.example.com/scale",
    "create events",
    "patch events",
    "create leases.coordination.k8s.io kube-system/",
    "patch leases.coordination.k8s.io kube-system/trellis-hvpa",
]
DENIED = [
    "get secrets",
    "patch pods",
    "delete pods",
    "create pods/eviction",
    "patch pods/resize",
    "get deployments.apps",
    "patch deployments.apps",
    "delete hvpas.autoscaling.x-k8s.io",
    "patch verticalpodautoscalers.autoscaling.k8s.io/status",
    "patch horizontalpodautoscalers.autoscaling/status",
    "patch leases.coordination.k8s.io kube-system/kube-scheduler",
    "create leases.coordination.k8s.io default/",
]


@pytest.fixture(scope="module")
def rights(cluster: Cluster) -> Cluster:
    """The cluster, with the account and its roles."""
    shipped.account(cluster, "hvpa")
    # The API server decides by what it has seen of roles, a moment later.
    for right in ("watch pods", "create leases.coordination.k8s.io kube-system/"):
        until(f"the right to {right}", lambda right=right: allowed(cluster, right))  # type: ignore[misc]
    return cluster


@pytest.mark.parametrize("right", NEEDED)
def test_the_hvpa_controller_may_do_its_work(rights: Cluster, right: str) -> None:
    assert allowed(rights, right)


@pytest.mark.parametrize("right", DENIED)
def test_the_hvpa_controller_may_do_nothing_else(rights: Cluster, right: str) -> None:
    assert not allowed(rights, right)


def allowed(cluster: Cluster, right: str) -> bool:
    verb, what, *where = right.split()
    named, _, subresource = what.partition("/")
    resource, _, group = named.partition(".")
    namespace, _, name = "".join(where).partition("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": USER,
            "groups": ["system:authenticated"],
            "resourceAttributes": attributes | {"namespace": namespace, "name": name},
        },
    }
    answer: bool = cluster.api.create(review)["status"]["allowed"]
    return answer
