"""The Hvpa controller's account may do what it does, and nothing else."""

from __future__ import annotations

import pytest

from support.cluster.rights import Account, get_account
from testbed.cluster import Cluster

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
def account(cluster: Cluster) -> Account:
    return get_account(cluster, "hvpa", "trellis-hvpa")


@pytest.mark.parametrize("right", NEEDED)
def test_the_hvpa_controller_may_do_its_work(account: Account, right: str) -> None:
    assert account.may(right)


@pytest.mark.parametrize("right", DENIED)
def test_the_hvpa_controller_may_do_nothing_else(account: Account, right: str) -> None:
    assert not account.may(right)
