"""The chart takes over from upstream's own chart and programs, and gives back, while pods are created all the time.

The steps are those of docs/guides/moving-from-upstream.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.admission import CONFIGURATION
from support.install import upstream_chart
from support.install.clusters import Kubectl, connect_helm
from support.install.helm import CHART, Helm
from support.node import upstream
from support.node.chart import REPOSITORY, provide_images, quickstart, remove_definitions
from support.node.service_levels import ServiceLevels, build_pod
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.node.real_node import RealNode
from testbed.programs.versions import HELM_4
from testbed.waiting import until

WHERE = ("--namespace", upstream.NAMESPACE)
WAIT = ("--wait", "--timeout", "3m")
TAKE = ("install", *WHERE, *WAIT, "--take-ownership", "--force-conflicts")
OURS = (
    *("trellis", CHART, "--set", "preset=drop-in", "--set", "admission.serviceName=trellis-webhook"),
    *("--set", f"image.repository={REPOSITORY}", "--set", "configuration.recommender.recommenderInterval=10s"),
)
# Of both webhooks.
TIMEOUT_SECONDS = 5
VPAS = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers"
CHECKPOINT = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalercheckpoints/quickstart-app"


@pytest.fixture
def helm(cluster: Cluster, node: RealNode, tmp_path: Path) -> Iterator[Helm]:
    """A Helm that has installed upstream's release."""
    provide_images(node)
    upstream.provide_images(node)
    helm = connect_helm(HELM_4, tmp_path, cluster)
    certificate = upstream.Certificate(cluster)
    certificate.create_secret()
    helm.run("install", *WHERE, *WAIT, *list_upstream()).check()
    certificate.trust()
    yield helm
    helm.run("uninstall", upstream_chart.RELEASE, *WHERE, "--wait", "--ignore-not-found").check()
    remove_definitions(cluster)


@pytest.mark.timeout(900)
def test_pods_are_sized_and_recommendations_kept_all_the_time(cluster: Cluster, helm: Helm, tmp_path: Path) -> None:
    kubectl = Kubectl(cluster, tmp_path)
    with quickstart(cluster) as deployment:
        levels = ServiceLevels(cluster, "default", build_pod(deployment))
        until("upstream's webhook", levels.is_sized)
        first = wait_for_samples(cluster, 0)
        levels.phase = "taking over"
        with cluster.api.watch(VPAS) as states, levels.measure():
            take_over(cluster, helm, kubectl)
            ours = wait_for_samples(cluster, first["totalSamplesCount"])
            levels.phase = "giving back"
            give_back(cluster, helm, kubectl)
            again = wait_for_samples(cluster, ours["totalSamplesCount"])
    sys.stdout.write(f"{json.dumps(levels.describe(), indent=2)}\n")
    assert [it.refusal for it in levels.creations if it.refusal] == []
    assert [it for it in levels.creations if not it.is_sized] == []
    assert max(it.seconds for it in levels.creations) < TIMEOUT_SECONDS + 1.0
    assert [state for state in states if not state.get("status", {}).get("recommendation")] == []
    assert first["firstSampleStart"] == ours["firstSampleStart"] == again["firstSampleStart"]


def take_over(cluster: Cluster, helm: Helm, kubectl: Kubectl) -> None:
    """Replace upstream's release by ours."""
    updater = upstream_chart.deployment_name("updater")
    kubectl.run("-n", upstream.NAMESPACE, "scale", "deployment", updater, "--replicas=0").check()
    helm.run(*TAKE, *OURS).check()
    until("the webhook to be registered", lambda: cluster.api.get(CONFIGURATION).get("webhooks"))
    helm.run("uninstall", upstream_chart.RELEASE, *WHERE, "--wait").check()


def give_back(cluster: Cluster, helm: Helm, kubectl: Kubectl) -> None:
    """Replace our release by upstream's."""
    kubectl.run("-n", upstream.NAMESPACE, "scale", "deployment", "vpa-updater", "--replicas=0").check()
    certificate = upstream.Certificate(cluster)
    certificate.create_secret()
    helm.run(*TAKE, *list_upstream()).check()
    certificate.trust()
    helm.run("uninstall", "trellis", *WHERE, "--wait").check()


def list_upstream() -> list[str | Path]:
    """Upstream's release, its chart and values."""
    interval = ["--set", "recommender.extraArgs={--recommender-interval=10s}"]
    return [upstream_chart.RELEASE, upstream_chart.find_chart(), upstream_chart.WITHOUT_JOBS, *interval]


def wait_for_samples(cluster: Cluster, more_than: int) -> Json:
    """The status of the checkpoint, once it has more samples."""

    def read() -> Json | None:
        status: Json = (cluster.api.find(CHECKPOINT) or {}).get("status", {})
        return status if status.get("totalSamplesCount", 0) > more_than else None

    return until("more samples in the checkpoint", read)
