"""The chart, installed, upgraded, rolled back and removed by the real Helm on a real control plane."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from support.cluster.admission import CONFIGURATION
from support.cluster.vpas import vpa, vpa_path
from support.install.clusters import (
    connect_helm,
    empty_cluster,
    list_missing,
    wait_for_deployments,
    wait_for_rights,
)
from support.install.helm import CHART, Helm, Manifest, read_manifests
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.components import ADDRESS
from testbed.controllers import Controller, run_controller
from testbed.processes import reserve_ports
from testbed.programs.versions import HELM_3, HELM_4, Program
from testbed.waiting import until

NAMESPACE = "trellis-system"
RELEASE = ("trellis", "--namespace", NAMESPACE)
WAIT = ("--wait", "--timeout", "3m")
KEPT = "CustomResourceDefinition"
CHECKPOINTS = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalercheckpoints"


class Site(msgspec.Struct, frozen=True):
    """A Helm, and the cluster that it installs into."""

    helm: Helm
    cluster: Cluster

    def list_installed(self) -> list[Manifest]:
        """What the release consists of."""
        return read_manifests(self.helm.run("get", "manifest", *RELEASE).check())

    def find_webhooks(self) -> list[Json]:
        """The webhooks that the API server calls."""
        configuration = self.cluster.api.find(CONFIGURATION) or {}
        return configuration.get("webhooks") or []


@pytest.fixture(scope="module", params=[HELM_4, HELM_3], ids=lambda program: program.name)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """An empty cluster for the tests of one Helm, which follow one another."""
    program: Program = request.param
    with empty_cluster() as cluster:
        yield Site(connect_helm(program, tmp_path_factory.mktemp(program.name), cluster), cluster)


@pytest.fixture
def webhook(site: Site, tmp_path: Path) -> Iterator[Controller]:
    """The admission controller, under the account and the rights of the release. The pods of kwok run no program."""
    account = "vpa-admission-controller"
    wait_for_rights(site.cluster, account, NAMESPACE, site.list_installed())
    [port] = reserve_ports(1)
    command = [str(Path(sys.executable).with_name("trellis")), "admission-controller"]
    where = ["--register-by-url", f"--webhook-address=https://{ADDRESS}", f"--webhook-port={port}", f"--port={port}"]
    kubeconfig = site.cluster.kubeconfig_for(account, NAMESPACE)
    flags = [*where, f"--namespace={NAMESPACE}", "--certificates=secret"]
    with run_controller(command, kubeconfig, tmp_path / "webhook.log", flags) as controller:
        yield controller
    sys.stdout.write(controller.read_logs())


def vpa_with_history(cluster: Cluster) -> None:
    """What users and the recommender have stored."""
    cluster.api.create(vpa("web"), "default")
    checkpoint = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": "web-app"},
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": {"version": "v3", "totalSamplesCount": 24},
    }
    cluster.api.create(checkpoint, "default")


def assert_users_objects_are_there(cluster: Cluster) -> None:
    assert cluster.api.get(vpa_path("default", "web"))["spec"]["targetRef"]["name"] == "web"
    assert cluster.api.get(f"{CHECKPOINTS}/web-app")["status"]["totalSamplesCount"] == 24


def test_a_packaged_chart_is_installed_with_one_command(site: Site, tmp_path: Path) -> None:
    site.helm.run("package", CHART, "--destination", tmp_path).check()
    [package] = tmp_path.glob("trellis-*.tgz")
    site.helm.run("install", *RELEASE, package, "--create-namespace", *WAIT).check()
    wait_for_deployments(site.cluster, NAMESPACE, {"trellis": 2, "vpa-admission-controller": 2})
    assert list_missing(site.cluster, site.list_installed()) == []
    vpa_with_history(site.cluster)


def test_an_upgrade_and_a_rollback_leave_the_webhooks_as_they_are(site: Site, webhook: Controller) -> None:
    del webhook
    registered = until("the webhook to be registered", site.find_webhooks)
    assert registered[0]["clientConfig"]["caBundle"]
    site.helm.run("upgrade", *RELEASE, CHART, "--set", "replicas=3", "--set", "labels.team=a", *WAIT).check()
    wait_for_deployments(site.cluster, NAMESPACE, {"trellis": 3, "vpa-admission-controller": 3})
    assert site.cluster.api.get(CONFIGURATION)["metadata"]["labels"]["team"] == "a"
    assert site.find_webhooks() == registered
    site.helm.run("rollback", "trellis", "1", "--namespace", NAMESPACE, *WAIT).check()
    wait_for_deployments(site.cluster, NAMESPACE, {"trellis": 2, "vpa-admission-controller": 2})
    assert site.find_webhooks() == registered
    assert_users_objects_are_there(site.cluster)


def test_another_preset_removes_what_it_does_not_have(site: Site) -> None:
    site.helm.run("upgrade", *RELEASE, CHART, "--set", "preset=read-only", *WAIT).check()
    wait_for_deployments(site.cluster, NAMESPACE, {"trellis": 2})
    assert site.cluster.api.find(CONFIGURATION) is None
    site.helm.run("upgrade", *RELEASE, CHART, "--set", "preset=full", *WAIT).check()
    wait_for_deployments(site.cluster, NAMESPACE, {"trellis": 2, "vpa-admission-controller": 2})
    assert list_missing(site.cluster, site.list_installed()) == []


def test_the_webhook_is_removed_first_and_what_users_have_stays(site: Site, webhook: Controller) -> None:
    until("the webhook to be registered", site.find_webhooks)
    installed = site.list_installed()
    log = site.helm.run("uninstall", *RELEASE, "--debug", "--wait").check_all()
    deleted = re.findall(r"(?i)starting delete.*?(?:for |name=)\"?([\w-]+)", log)
    assert deleted[0] == "vpa-webhook-config"
    assert "vpa-webhook" in deleted
    definitions = [it for it in installed if it["kind"] == KEPT]
    others = [it for it in installed if it["kind"] != KEPT]
    until("the objects to be gone", lambda: len(list_missing(site.cluster, others)) == len(others))
    assert list_missing(site.cluster, definitions) == []
    assert_users_objects_are_there(site.cluster)
    # The webhook still runs here, and may not register itself anew.
    until("an attempt of the webhook", lambda: "the webhook is not registered" in webhook.read_logs())
    assert site.cluster.api.find(CONFIGURATION) is None


def test_a_release_of_the_same_name_takes_the_definitions_over_again(site: Site) -> None:
    site.helm.run("install", *RELEASE, CHART, "--set", "preset=drop-in", *WAIT).check()
    names = ("vpa-recommender", "vpa-updater", "vpa-admission-controller")
    wait_for_deployments(site.cluster, NAMESPACE, dict.fromkeys(names, 2))
    assert_users_objects_are_there(site.cluster)
    site.helm.run("uninstall", *RELEASE, "--wait").check()


def test_an_installation_for_some_namespaces_has_no_right_to_the_cluster(site: Site) -> None:
    chosen = ("--set", "preset=drop-in", "--set", "watchedNamespaces={default}", "--set", "rbac.userRoles=false")
    site.helm.run("install", *RELEASE, CHART, *chosen, "--set", "admission.registerWebhook=false", *WAIT).check()
    installed = site.list_installed()
    assert not [it for it in installed if it["kind"] in ("ClusterRole", "ClusterRoleBinding")]
    assert list_missing(site.cluster, installed) == []
    site.helm.run("uninstall", *RELEASE, "--wait").check()
