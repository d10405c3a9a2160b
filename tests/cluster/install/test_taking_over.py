"""The chart takes over from upstream's own chart, and gives back: no gap in admission, and nothing of users is lost.

The steps are those of docs/guides/moving-from-upstream.md. On a real node, with upstream's programs, the same steps are
tested by tests/node/installation/test_taking_over.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cluster.admission import CONFIGURATION
from support.install import upstream_chart
from support.install.clusters import Kubectl, connect_helm, empty_cluster, wait_for_deployments, wait_for_rights
from support.install.helm import CHART, Helm, read_manifests
from support.install.releases import RELEASES, assert_stored, read_objects, store
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import run_controller
from testbed.processes import reserve_ports
from testbed.programs.versions import HELM_3, HELM_4
from testbed.waiting import until

NAMESPACE = "kube-system"
WHERE = ("--namespace", NAMESPACE)
WAIT = ("--wait", "--timeout", "3m")
UPSTREAM = {upstream_chart.deployment_name(component): 2 for component in upstream_chart.COMPONENTS}
OURS = dict.fromkeys(("vpa-recommender", "vpa-updater", "vpa-admission-controller"), 2)
CONFIGURATIONS = CONFIGURATION.rpartition("/")[0]


@pytest.fixture(params=[HELM_4, HELM_3], ids=lambda program: program.name)
def helm(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Helm:
    return connect_helm(request.param, tmp_path, cluster)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with empty_cluster() as cluster:
        yield cluster


def find_webhooks(cluster: Cluster, configuration: str) -> list[Json]:
    """The webhooks of a configuration that the API server calls for pods."""
    found = cluster.api.find(f"{CONFIGURATIONS}/{configuration}") or {}
    return [it for it in found.get("webhooks") or () if it["name"] == "vpa.k8s.io"]


def find_service(cluster: Cluster) -> str:
    """The Service of ours that the API server sends reviews to; empty before there is a webhook."""
    webhooks = find_webhooks(cluster, "vpa-webhook-config")
    return webhooks[0]["clientConfig"]["service"]["name"] if webhooks else ""


@contextmanager
def admission(cluster: Cluster, helm: Helm, directory: Path) -> Iterator[None]:
    """The admission controller of the release, whose pods run no program here."""
    account = "vpa-admission-controller"
    manifests = read_manifests(helm.run("get", "manifest", "trellis", *WHERE).check())
    wait_for_rights(cluster, account, NAMESPACE, manifests)
    [port] = reserve_ports(1)
    # No request reaches it through its Service: the nodes are simulated.
    where = [f"--port={port}", "--webhook-service=trellis-webhook", "--webhook-timeout-seconds=1"]
    command = [str(Path(sys.executable).with_name("trellis")), "admission-controller"]
    kubeconfig = cluster.kubeconfig_for(account, NAMESPACE)
    with run_controller(command, kubeconfig, directory / "webhook.log", [*where, "--certificates=secret"]):
        yield


def list_objects_of_upstream() -> list[Json]:
    """What users and upstream's recommender have stored: nothing that only Trellis knows."""
    objects = [it for it in read_objects(RELEASES[-1]) if it["metadata"]["name"] in ("web", "web-app")]
    vpa, checkpoint = (it for it in objects if it["apiVersion"].startswith("autoscaling.k8s.io"))
    del vpa["spec"]["startupBoost"]
    vpa["status"].pop("observedGeneration")
    for condition in vpa["status"]["conditions"]:
        condition.pop("observedGeneration")
    checkpoint["status"].pop("peaks", None)
    return [vpa, checkpoint]


def test_a_release_of_upstreams_chart_is_replaced_and_comes_back(cluster: Cluster, helm: Helm, tmp_path: Path) -> None:
    kubectl = Kubectl(cluster, tmp_path)
    take = ["install", *WHERE, *WAIT, "--take-ownership"]
    if helm.program.name == HELM_4.name:
        take.append("--force-conflicts")
    upstream = (upstream_chart.RELEASE, upstream_chart.find_chart(), upstream_chart.WITHOUT_JOBS)
    helm.run("install", *WHERE, *WAIT, *upstream).check()
    stored = store(cluster, list_objects_of_upstream())

    updater = upstream_chart.deployment_name("updater")
    kubectl.run("-n", NAMESPACE, "scale", "deployment", updater, "--replicas=0").check()
    with cluster.api.watch(CONFIGURATIONS, fieldSelector="metadata.name=vpa-webhook-config") as states:
        chosen = ("--set", "preset=drop-in", "--set", "admission.serviceName=trellis-webhook")
        helm.run(*take, "trellis", CHART, *chosen).check()
        # The new webhook is there before the old one goes.
        with admission(cluster, helm, tmp_path):
            until("the new webhook to be called", lambda: find_service(cluster) == "trellis-webhook")
            assert find_webhooks(cluster, upstream_chart.CONFIGURATION)
        helm.run("uninstall", upstream_chart.RELEASE, *WHERE, "--wait", upstream_chart.WITHOUT_JOBS).check()
        wait_for_deployments(cluster, NAMESPACE, OURS)
        assert find_service(cluster) == "trellis-webhook"
        assert not find_webhooks(cluster, upstream_chart.CONFIGURATION)
    registered = [bool(state.get("webhooks")) for state in states]
    assert registered == sorted(registered)
    assert len({state["metadata"]["uid"] for state in states}) == 1
    assert_stored(cluster, stored)

    kubectl.run("-n", NAMESPACE, "scale", "deployment", "vpa-updater", "--replicas=0").check()
    helm.run(*take, *upstream).check()
    assert find_webhooks(cluster, upstream_chart.CONFIGURATION)
    assert find_service(cluster) == "trellis-webhook"
    helm.run("uninstall", "trellis", *WHERE, "--wait").check()
    wait_for_deployments(cluster, NAMESPACE, UPSTREAM)
    assert find_webhooks(cluster, upstream_chart.CONFIGURATION)
    assert cluster.api.find(CONFIGURATION) is None
    assert_stored(cluster, stored)
