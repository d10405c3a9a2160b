"""Components whose accounts have Roles in two namespaces and no ClusterRole: these are served, and no other is touched.

The installation has a namespace of its own, with its Leases, its webhook's Secret and its freeze ConfigMap. An
administrator writes the webhook configuration, which takes a right to the cluster.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.cluster.admission import forget, wait_for_webhook_calls
from support.cluster.hvpas import advise, get_published_size, hvpa, hvpa_path, workload
from support.cluster.rights import install_account
from support.cluster.updaters import create_vpa_with_advice, requests, running_pods, wait_for_two_passes
from support.cluster.vpas import (
    EVERY_SECOND,
    USAGE,
    get_vpa_status,
    metric_value,
    series,
    until_advised,
    until_value,
    vpa,
    vpa_path,
    wait_for_further_passes,
)
from testbed.access.certificates import Authority
from testbed.cluster import Cluster
from testbed.components import ADDRESS
from testbed.controllers import Controller, run_controller
from testbed.processes import reserve_ports
from testbed.programs.cache import hold_lock
from testbed.waiting import until
from testbed.workloads import deployment

Start = Callable[..., Controller]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REFUSED = "trellis_informer_refused_namespaces"
VPAS = "verticalpodautoscalers.autoscaling.k8s.io"


class Installation:
    """An installation for two namespaces, and a third one that it has no rights in."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        # Named after the test: sixty characters are the most.
        self.home, self.one, self.two, self.elsewhere = (
            cluster.create_namespace(f"{name[:30]}-{part}") for part in ("home", "one", "two", "elsewhere")
        )

    @property
    def scope(self) -> str:
        return f"--vpa-object-namespace={self.one},{self.two}"

    def delete(self) -> None:
        for namespace in (self.home, self.one, self.two, self.elsewhere):
            if self.cluster.api.find(f"/api/v1/namespaces/{namespace}"):
                self.cluster.delete_namespace(namespace)


@pytest.fixture
def installation(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Installation]:
    name = request.node.name.lower().removeprefix("test_").replace("_", "-")
    installed = Installation(cluster, name[:25].strip("-"))
    yield installed
    installed.delete()


@pytest.fixture
def start(cluster: Cluster, installation: Installation, tmp_path: Path) -> Iterator[Start]:
    """Start a component with Roles in the two namespaces. Its log is shown if the test fails."""
    started: list[Controller] = []
    with ExitStack() as controllers:

        def start_one(component: str, command: str, *flags: str, roles_in: str = "one two") -> Controller:
            watched = [getattr(installation, name) for name in roles_in.split()]
            kubeconfig = install_account(cluster, component, installation.home, watched)
            program = [str(Path(sys.executable).with_name("trellis")), command]
            log = tmp_path / f"{component}.log"
            own = [installation.scope, "-v=4", *flags]
            started.append(controllers.enter_context(run_controller(program, kubeconfig, log, own)))
            return started[-1]

        yield start_one
    for controller in started:
        sys.stdout.write(f"{controller.process.log.name}:\n{controller.read_logs()}\n")
        assert "Traceback" not in controller.read_logs()


def until_ready(controller: Controller) -> str:
    def ready() -> str | None:
        status, text = controller.get("/readyz?verbose")
        return text if status == 200 else None

    return until("it to be ready", ready)


def register(installation: Installation, authority: Authority, port: int) -> None:
    """What the administrator applies: docs/guides/security.md has it with a Service."""
    bundle = b64encode(authority.pair.certificate).decode()
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    objects = {"operations": ["CREATE", "UPDATE"], "apiGroups": ["autoscaling.k8s.io"], "apiVersions": ["*"]}
    watched = {
        "key": "kubernetes.io/metadata.name",
        "operator": "In",
        "values": [installation.one, installation.two],
    }
    installation.cluster.api.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "vpa-webhook-config"},
            "webhooks": [
                {
                    "name": "vpa.k8s.io",
                    "clientConfig": {"url": f"https://{ADDRESS}:{port}", "caBundle": bundle},
                    "rules": [rule, objects | {"resources": ["verticalpodautoscalers"]}],
                    "namespaceSelector": {"matchExpressions": [watched]},
                    "failurePolicy": "Ignore",
                    "sideEffects": "None",
                    "timeoutSeconds": 30,
                    "admissionReviewVersions": ["v1"],
                }
            ],
        }
    )


def start_webhook(start: Start, installation: Installation, directory: Path) -> Controller:
    [port] = reserve_ports(1)
    authority = Authority.new("webhook")
    certificate, key = authority.issue_server("webhook", ADDRESS).save(directory, "webhook")
    trusted, _ = authority.pair.save(directory, "authority")
    files = [f"--client-ca-file={trusted}", f"--tls-cert-file={certificate}", f"--tls-private-key={key}"]
    flags = ["--register-webhook=false", f"--namespace={installation.home}", f"--port={port}"]
    controller = start("admission", "admission-controller", *files, *flags)
    register(installation, authority, port)
    return controller


def start_updater(start: Start, installation: Installation, *flags: str, roles_in: str = "one two") -> Controller:
    home = installation.home
    lease = f"--admission-controller-status-lease-namespace={home}"
    own = [lease, f"--freeze-config-map={home}/trellis-freeze", "--updater-interval=1s"]
    return start("updater", "updater", *own, *flags, roles_in=roles_in)


def count_refused(controller: Controller) -> int:
    """How often the log has a list that RBAC refused."""
    return controller.read_logs().lower().count("cannot list resource")


def test_vpas_of_the_watched_namespaces_are_recommended_and_no_others(
    cluster: Cluster, installation: Installation, start: Start
) -> None:
    for namespace in (installation.one, installation.two, installation.elsewhere):
        cluster.api.create(deployment("web", annotations=USAGE), namespace)
        cluster.api.create(vpa("web"), namespace)
    lease = ["--leader-elect", f"--leader-elect-resource-namespace={installation.home}"]
    controller = start("recommender", "recommender", EVERY_SECOND, *lease)
    until_advised(cluster, installation.one, "web")
    until_advised(cluster, installation.two, "web")
    until_ready(controller)
    for namespace in (installation.one, installation.two):
        checkpoints = f"/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalercheckpoints"
        until("a checkpoint", lambda path=checkpoints: cluster.api.list_items(path))  # type: ignore[misc]
    wait_for_further_passes(controller)
    assert not get_vpa_status(cluster, installation.elsewhere, "web")
    assert count_refused(controller) == 0
    assert metric_value(controller, "vpa_recommender_metric_server_responses", is_error="true") == 0


def test_pods_of_the_watched_namespaces_are_admitted_evicted_and_resized_and_no_others(
    cluster: Cluster, installation: Installation, start: Start, tmp_path: Path
) -> None:
    places = (installation.one, installation.two, installation.elsewhere)
    before = {namespace: running_pods(cluster, namespace, "web") for namespace in places}
    for namespace in (installation.one, installation.elsewhere):
        create_vpa_with_advice(cluster, namespace, "web", "Recreate")
    create_vpa_with_advice(cluster, installation.two, "web", "InPlaceOrRecreate")
    with hold_lock(cluster.directory / "admission.lock"), ExitStack() as left:
        left.callback(forget, cluster)
        webhook = start_webhook(start, installation, tmp_path)
        wait_for_webhook_calls(cluster, installation.one)
        lacks = "[!]nodes not watched: startup boosts are not limited by the capacity of nodes\n"
        until("nodes to be given up", lambda: lacks in until_ready(webhook))
        updater = start_updater(start, installation)
        until("the pods of one", lambda: requests(cluster, installation.one, "web") == ["250m"] * 2)
        until("the pods of two", lambda: requests(cluster, installation.two, "web") == ["250m"] * 2)
        wait_for_two_passes(updater)
        shown = until_ready(updater)
    assert requests(cluster, installation.elsewhere, "web") == ["100m"] * 2
    uids = {pod["metadata"]["uid"] for pod in cluster.list_pods(installation.elsewhere, "web")}
    assert uids == before[installation.elsewhere].keys()
    assert {pod["metadata"]["uid"] for pod in cluster.list_pods(installation.two, "web")} == before[
        installation.two
    ].keys()
    for kind, consequence in (
        ("nodes", "whether the replacement of an evicted pod fits on a node is not checked"),
        ("namespaces", "the freeze annotation of namespaces has no effect"),
    ):
        assert f"[!]{kind} not watched: {consequence}\n" in shown
    assert "configmaps not watched" not in shown
    assert metric_value(updater, "vpa_updater_evicted_pods_total") == 2


def test_hvpas_of_the_watched_namespaces_are_served_and_no_others(
    cluster: Cluster, installation: Installation, start: Start
) -> None:
    for namespace in (installation.one, installation.two, installation.elsewhere):
        cluster.api.create(workload("Deployment", "2", "2G", 2), namespace)
        cluster.wait_for_ready_pods(namespace, "web", 2)
        cluster.api.create(hvpa("web", vpa={"deploy": True}), namespace)
    lease = f"--leader-elect-resource-namespace={installation.home}"
    controller = start("hvpa", "hvpa", "--hvpa-interval=1s", lease)
    for namespace in (installation.one, installation.two):
        until("its VPA", lambda place=namespace: cluster.api.find(vpa_path(place, "web")))  # type: ignore[misc]
        advise(cluster, namespace, 3_000, 6_000)
        until("a size", lambda place=namespace: get_published_size(cluster, place, "web"))  # type: ignore[misc]
    until_ready(controller)
    assert cluster.api.find(vpa_path(installation.elsewhere, "web")) is None
    assert "status" not in cluster.api.get(hvpa_path(installation.elsewhere, "web"))
    assert count_refused(controller) == 0


def test_the_freeze_config_map_of_the_installation_stops_all_changes(
    cluster: Cluster, installation: Installation, start: Start
) -> None:
    metadata = {"name": "trellis-freeze", "namespace": installation.home}
    cluster.api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"by": "alice"}})
    running_pods(cluster, installation.one, "web")
    create_vpa_with_advice(cluster, installation.one, "web", "InPlaceOrRecreate")
    updater = start_updater(start, installation, "--use-admission-controller-status=false")
    until_value(updater, "trellis_updater_pods", 2, reason="Frozen")
    assert requests(cluster, installation.one, "web") == ["100m"] * 2


def test_a_namespace_that_is_gone_stops_no_other(cluster: Cluster, installation: Installation, start: Start) -> None:
    install_account(cluster, "updater", installation.home, (installation.one, installation.two))
    running_pods(cluster, installation.one, "web")
    cluster.delete_namespace(installation.two)
    path = f"{RBAC}/namespaces/{installation.two}/rolebindings/trellis-updater-watched"
    until("its Roles to be gone", lambda: cluster.api.find(path) is None)
    updater = start_updater(start, installation, "--use-admission-controller-status=false", roles_in="one")
    until("the namespace to be given up", lambda: metric_value(updater, REFUSED, resource=VPAS) == 1)
    create_vpa_with_advice(cluster, installation.one, "web", "InPlaceOrRecreate")
    until("the pods of one", lambda: requests(cluster, installation.one, "web") == ["250m"] * 2)
    assert f"{VPAS} not watched in namespaces: {installation.two}" in until_ready(updater)
    # A kind that is forbidden is asked for at ever longer intervals: 0.8 s, doubling up to half a minute.
    kinds = {labels["resource"] for labels, _ in series(updater, REFUSED)}
    assert count_refused(updater) <= 8 * len(kinds)


def test_roles_that_come_later_are_taken_up_without_a_restart(
    cluster: Cluster, installation: Installation, start: Start
) -> None:
    updater = start_updater(start, installation, "--use-admission-controller-status=false", roles_in="one")
    until("the namespace to be given up", lambda: metric_value(updater, REFUSED, resource=VPAS) == 1)
    until_ready(updater)
    running_pods(cluster, installation.two, "web")
    create_vpa_with_advice(cluster, installation.two, "web", "InPlaceOrRecreate")
    install_account(cluster, "updater", installation.home, (installation.one, installation.two))
    until("the namespace to be taken up", lambda: metric_value(updater, REFUSED, resource=VPAS) == 0)
    until("its pods", lambda: requests(cluster, installation.two, "web") == ["250m"] * 2)
