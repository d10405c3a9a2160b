"""One process of several components has one account: the roles of these components are bound to it, and no others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.admission import cpu
from support.cluster.rights import Account, install_account
from support.cluster.updaters import create_vpa_with_advice, running_pods
from support.cluster.vpas import EVERY_SECOND, USAGE, until_advised, vpa
from testbed.cluster import Cluster
from testbed.controllers import Controller, run_controller
from testbed.waiting import until
from testbed.workloads import deployment

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAME = "trellis"

RECOMMENDS = "patch verticalpodautoscalers.autoscaling.k8s.io/status"
EVICTS = "create pods/eviction"
SCALES = "patch deployments.apps/scale"
BOTH = (RECOMMENDS, EVICTS)
OTHERS = (SCALES, "create nodes", "create mutatingwebhookconfigurations.admissionregistration.k8s.io", "create pods")


class OneAccount:
    """The account of a process in a namespace of its own; its ClusterRoles are named after the namespace."""

    def __init__(self, cluster: Cluster, home: str) -> None:
        self.cluster, self.home = cluster, home
        self.account = Account(cluster, f"system:serviceaccount:{home}:{NAME}")
        self._prefix = f"{home}-"

    def add(self, *components: str) -> Path:
        files = [
            install_account(self.cluster, component, self.home, name=NAME, prefix=self._prefix)
            for component in components
        ]
        return files[-1]

    def remove(self, component: str = "") -> None:
        """Delete the roles of a component and their bindings, as an installation without it does; or those of all."""
        for kind in ("clusterrolebindings", "clusterroles"):
            for found in self.cluster.api.list_items(f"{RBAC}/{kind}"):
                name = found["metadata"]["name"]
                if name.startswith(f"{self._prefix}trellis-{component}"):
                    self.cluster.api.delete(f"{RBAC}/{kind}/{name}")


@pytest.fixture
def process(cluster: Cluster, namespace: str) -> Iterator[OneAccount]:
    made = OneAccount(cluster, namespace)
    yield made
    made.remove()


def test_the_account_has_the_rights_of_its_components_and_loses_them_with_a_component(process: OneAccount) -> None:
    process.add("recommender", "updater", "hvpa")
    may = process.account.may
    assert {right: may(right) for right in (*BOTH, *OTHERS)} == dict.fromkeys((*BOTH, SCALES), True) | dict.fromkeys(
        OTHERS[1:], False
    )
    process.remove("hvpa")
    until("the rights to be gone", lambda: not may(SCALES))
    assert all(map(may, BOTH))


def test_components_of_one_process_work_with_the_union_of_their_rights(
    cluster: Cluster, namespace: str, process: OneAccount, tmp_path: Path
) -> None:
    kubeconfig = process.add("recommender", "updater")
    cluster.api.create(deployment("watched", annotations=USAGE), namespace)
    cluster.api.create(vpa("watched", updatePolicy={"updateMode": "Off"}), namespace)
    running_pods(cluster, namespace, "web")
    create_vpa_with_advice(cluster, namespace, "web", "InPlaceOrRecreate", recommenders=[{"name": "of-the-test"}])
    flags = [
        "--components=recommender,updater",
        f"--vpa-object-namespace={namespace}",
        f"--leader-elect-resource-namespace={namespace}",
        f"--updater.freeze-config-map={namespace}/trellis-freeze",
        f"--recommender.{EVERY_SECOND.removeprefix('--')}",
        "--updater.updater-interval=1s",
        "--updater.use-admission-controller-status=false",
    ]
    command = [str(Path(sys.executable).with_name("trellis")), "run"]
    with run_controller(command, kubeconfig, tmp_path / "run.log", flags) as controller:
        until_advised(cluster, namespace, "watched")
        until("the pods", lambda: [cpu(pod) for pod in cluster.list_pods(namespace, "web")] == ["250m"] * 2)
        until("it to be ready", lambda: controller.get("/readyz")[0] == 200)
        assert_no_refusal(controller)


def assert_no_refusal(controller: Controller) -> None:
    assert "forbidden" not in controller.read_logs().lower()
