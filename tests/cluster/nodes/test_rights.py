"""The node autoscaler's account may do what it does, and nothing else."""

from __future__ import annotations

import pytest

from support.cluster.rights import Account, get_account
from testbed.cluster import Cluster

NEEDED = [
    "watch nodes",
    "create nodes",
    "patch nodes",
    "delete nodes",
    "watch pods",
    "create pods/eviction",
    "watch poddisruptionbudgets.policy",
    "watch buffers.autoscaling.x-k8s.io",
    "patch buffers.autoscaling.x-k8s.io/status",
    "watch daemonsets.apps",
    "watch podgroups.scheduling.x-k8s.io",
    "watch deployments.apps",
    "watch replicasets.apps",
    "watch statefulsets.apps",
    "watch jobs.batch",
    "watch cronjobs.batch",
    "watch replicationcontrollers",
    "watch limitranges",
    "watch verticalpodautoscalers.autoscaling.k8s.io",
    "watch hvpas.autoscaling.x-k8s.io",
    "watch namespaces",
    "watch persistentvolumeclaims",
    "watch persistentvolumes",
    "watch storageclasses.storage.k8s.io",
    "watch resourceclaims.resource.k8s.io",
    "watch resourceclaimtemplates.resource.k8s.io",
    "watch resourceslices.resource.k8s.io",
    "watch configmaps kube-system/trellis-kwok-node-groups",
    "create events",
    "patch events",
    "create leases.coordination.k8s.io kube-system/",
    "patch leases.coordination.k8s.io kube-system/trellis-nodes",
]
DENIED = [
    "get secrets",
    "watch configmaps",
    "watch configmaps kube-system/other",
    "patch configmaps kube-system/trellis-kwok-node-groups",
    "create pods",
    "patch pods",
    "delete pods",
    "patch nodes/status",
    "patch buffers.autoscaling.x-k8s.io",
    "delete buffers.autoscaling.x-k8s.io",
    "patch daemonsets.apps",
    "watch provisioningrequests.autoscaling.x-k8s.io",
    "patch podgroups.scheduling.x-k8s.io",
    "patch deployments.apps",
    "patch verticalpodautoscalers.autoscaling.k8s.io",
    "patch persistentvolumeclaims",
    "patch resourceclaims.resource.k8s.io",
    "patch leases.coordination.k8s.io kube-system/kube-scheduler",
    "create leases.coordination.k8s.io default/",
]


@pytest.fixture(scope="module")
def account(cluster: Cluster) -> Account:
    return get_account(cluster, "nodes", "trellis-nodes")


@pytest.mark.parametrize("right", NEEDED)
def test_the_node_autoscaler_has_the_permissions_it_needs(account: Account, right: str) -> None:
    assert account.may(right)


@pytest.mark.parametrize("right", DENIED)
def test_the_node_autoscaler_has_no_other_permissions(account: Account, right: str) -> None:
    assert not account.may(right)
