"""The updater's account may do what it does, and nothing else."""

from __future__ import annotations

import pytest

from support.cluster.rights import Account, get_account
from testbed.cluster import Cluster

NEEDED = [
    "watch pods",
    "watch nodes",
    "watch namespaces",
    "watch limitranges",
    "watch replicationcontrollers",
    "watch deployments.apps",
    "watch replicasets.apps",
    "watch statefulsets.apps",
    "watch daemonsets.apps",
    "watch jobs.batch",
    "watch cronjobs.batch",
    "watch horizontalpodautoscalers.autoscaling",
    "get flowers.example.com/scale",
    "watch verticalpodautoscalers.autoscaling.k8s.io",
    "watch hvpas.autoscaling.x-k8s.io",
    "create pods/eviction",
    "patch pods/resize",
    "patch pods",
    "create events",
    "patch events",
    "watch configmaps kube-system/trellis-freeze",
    "get leases.coordination.k8s.io kube-system/vpa-admission-controller",
    "create leases.coordination.k8s.io kube-system/",
    "patch leases.coordination.k8s.io kube-system/vpa-updater",
]
DENIED = [
    "get secrets",
    "delete pods",
    "create pods",
    "patch pods/status",
    "patch deployments.apps",
    "patch flowers.example.com/scale",
    "patch verticalpodautoscalers.autoscaling.k8s.io",
    "patch verticalpodautoscalers.autoscaling.k8s.io/status",
    "patch hvpas.autoscaling.x-k8s.io",
    "patch namespaces",
    "watch configmaps kube-system/",
    "get configmaps default/trellis-freeze",
    "patch leases.coordination.k8s.io kube-system/vpa-admission-controller",
    "patch leases.coordination.k8s.io kube-system/kube-scheduler",
    "create leases.coordination.k8s.io default/",
]


@pytest.fixture(scope="module")
def account(cluster: Cluster) -> Account:
    return get_account(cluster, "updater", "vpa-updater")


@pytest.mark.parametrize("right", NEEDED)
def test_the_updater_may_do_its_work(account: Account, right: str) -> None:
    assert account.may(right)


@pytest.mark.parametrize("right", DENIED)
def test_the_updater_may_do_nothing_else(account: Account, right: str) -> None:
    assert not account.may(right)
