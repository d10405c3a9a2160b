"""The Buffer controller's account may do what it does, and nothing else."""

from __future__ import annotations

import pytest

from support.cluster.rights import Account, get_account
from testbed.cluster import Cluster

NEEDED = [
    "watch buffers.autoscaling.x-k8s.io",
    "patch buffers.autoscaling.x-k8s.io/status",
    "watch pods",
    "watch deployments.apps",
    "watch replicasets.apps",
    "watch statefulsets.apps",
    "watch jobs.batch",
    "watch cronjobs.batch",
    "watch replicationcontrollers",
    "get flowers.example.com/scale",
    "watch verticalpodautoscalers.autoscaling.k8s.io",
    "watch hvpas.autoscaling.x-k8s.io",
    "watch resourcequotas",
    "watch limitranges",
    "watch nodes",
    "watch namespaces",
    "watch persistentvolumeclaims",
    "watch persistentvolumes",
    "watch storageclasses.storage.k8s.io",
    "create events",
    "patch events",
    "create capacitybuffers.autoscaling.x-k8s.io",
    "delete capacitybuffers.autoscaling.x-k8s.io",
    "patch capacitybuffers.autoscaling.x-k8s.io/status",
    "create podtemplates",
    "delete podtemplates",
    "create leases.coordination.k8s.io kube-system/",
    "patch leases.coordination.k8s.io kube-system/trellis-buffers",
    "get leases.coordination.k8s.io kube-system/trellis-nodes",
]
DENIED = [
    "create pods",
    "get secrets",
    "patch pods",
    "delete pods",
    "create pods/eviction",
    "patch pods/resize",
    "patch deployments.apps",
    "patch flowers.example.com/scale",
    "patch buffers.autoscaling.x-k8s.io",
    "delete buffers.autoscaling.x-k8s.io",
    "patch resourcequotas/status",
    "patch nodes",
    "patch verticalpodautoscalers.autoscaling.k8s.io/status",
    "patch leases.coordination.k8s.io kube-system/kube-scheduler",
    "patch leases.coordination.k8s.io kube-system/trellis-nodes",
    "create leases.coordination.k8s.io default/",
]


@pytest.fixture(scope="module")
def account(cluster: Cluster) -> Account:
    return get_account(cluster, "buffers", "trellis-buffers")


@pytest.mark.parametrize("right", NEEDED)
def test_the_buffer_controller_has_the_permissions_it_needs(account: Account, right: str) -> None:
    assert account.may(right)


@pytest.mark.parametrize("right", DENIED)
def test_the_buffer_controller_has_no_other_permissions(account: Account, right: str) -> None:
    assert not account.may(right)
