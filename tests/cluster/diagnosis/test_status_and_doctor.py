"""`trellis status` and `trellis doctor` on a real API server: what is wrong, and what to do.

No controllers run there: the statuses of Deployments and pods are written as a cluster would, so that each test can
have the trouble that it is about.
"""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from support.cluster.installations import (
    HOME,
    add_lease,
    add_workload,
    find_own_address,
    prepare_namespace,
    serve_text,
)
from support.cluster.updaters import updaters
from support.cluster.vpas import vpa
from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.keeper import list_definitions
from testbed.waiting import until
from trellis.cli.main import trellis
from trellis.controllers.admission.certificates.authority import CertificateLifetimes, renew_certificates
from trellis.controllers.admission.certificates.secret import to_secret_data
from trellis.diagnosis.collection.metrics_pages import parse_page

Run = Callable[..., Result]
DAY = 86_400.0
VIEWER = "viewer"


@pytest.fixture
def bare(own_api_server: ControlPlane) -> Cluster:
    """An API server with our definitions, and nothing else."""
    cluster = own_api_server.cluster
    until("kube-system to exist", lambda: cluster.api.find(f"/api/v1/namespaces/{HOME}"))
    prepare_namespace(cluster)
    cluster.install_definitions(list_definitions())
    return cluster


@pytest.fixture
def run(bare: Cluster) -> Run:
    """Runs a command as the administrator, or with another kubeconfig."""

    def invoke(*arguments: str, kubeconfig: Path | None = None) -> Result:
        access = ["--kubeconfig", str(kubeconfig or bare.kubeconfig)]
        return CliRunner().invoke(trellis, [*arguments, *access], env={"COLUMNS": "80"}, catch_exceptions=False)

    return invoke


def status(run: Run, **options: Any) -> Any:
    return json.loads(run("status", "-o", "json", **options).stdout)


def reasons(document: Any) -> set[str]:
    found = document.get("findings") or [item for check in document["checks"] for item in check["findings"]]
    return {finding["reason"] for finding in found}


def doctor(run: Run, **options: Any) -> Any:
    return json.loads(run("doctor", "-o", "json", **options).stdout)


def level(document: Any, check: str) -> str:
    return {item["check"]: str(item["level"]) for item in document["checks"]}[check]


def install(cluster: Cluster) -> None:
    """The three components of a VPA, with Leases."""
    for name, words in (
        ("vpa-recommender", ("trellis", "recommender", "--leader-elect")),
        ("vpa-updater", ("trellis", "updater", "--leader-elect")),
        ("vpa-admission-controller", ("trellis", "admission-controller")),
    ):
        pod = add_workload(cluster, name, *words)
        add_lease(cluster, {"vpa-recommender": "vpa-recommender-lease"}.get(name, name), f"{pod}_1")


def register_webhook(cluster: Cluster, *, expires_in_days: float, policy: str = "Ignore", ready: bool = True) -> None:
    """A webhook configuration, its Service with or without an endpoint, and the Secret with its certificates."""
    made = datetime.now(UTC) - timedelta(days=100)
    lifetimes = CertificateLifetimes(3650 * DAY, (100 + expires_in_days) * DAY)
    shared, _ = renew_certificates(None, ["vpa-webhook.kube-system.svc"], made.timestamp(), lifetimes)
    data = {name: b64encode(value).decode() for name, value in to_secret_data(shared).items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "trellis-admission-certificates"}}
    cluster.api.apply(secret | {"data": data}, HOME)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "vpa-webhook"}}
    cluster.api.apply(service | {"spec": {"ports": [{"port": 443}]}}, HOME)
    labels = {"kubernetes.io/service-name": "vpa-webhook"}
    slices = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "vpa-webhook-1", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": ready}}],
    }
    cluster.api.apply(slices, HOME)
    bundle = b64encode(shared.bundle).decode()
    rule = {"operations": ["CREATE"], "apiGroups": ["none.example"], "apiVersions": ["v1"], "resources": ["pods"]}
    hook = {
        "name": "vpa.k8s.io",
        "clientConfig": {"service": {"namespace": HOME, "name": "vpa-webhook"}, "caBundle": bundle},
        "failurePolicy": policy,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [rule],
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "vpa-webhook-config"},
        "webhooks": [hook],
    }
    cluster.api.apply(configuration)


def test_nothing_installed(run: Run) -> None:
    result = run("status")
    assert result.exit_code == 1
    assert result.stdout.startswith("not installed")
    assert "trellis install" in result.stdout
    found = doctor(run)
    assert level(found, "components") == "ok"
    assert level(found, "CRDs") == "ok"
    assert level(found, "your rights") == "ok"
    assert level(found, "clocks") == "ok"
    assert level(found, "feature gates") == "ok"


def test_a_missing_metrics_api(bare: Cluster, run: Run) -> None:
    install(bare)
    assert "MetricsApiMissing" in reasons(status(run))
    assert "metrics-server" in run("status").stdout
    assert reasons(doctor(run)) >= {"MetricsApiMissing"}
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "metrics-server", "namespace": HOME},
        },
    }
    bare.api.apply(service)
    until("the registration to be noticed", lambda: "MetricsApiDown" in reasons(status(run)))


def test_a_wrong_image(bare: Cluster, run: Run) -> None:
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "trellis:0.1.O": not found'}
    add_workload(bare, "vpa-updater", "trellis", "updater", image="trellis:0.1.O", waiting=waiting)
    result = run("status")
    assert result.exit_code == 1
    text = " ".join(result.stdout.split())
    assert "image trellis:0.1.O cannot be pulled (ImagePullBackOff)" in text
    assert "kubectl set image -n kube-system deployment/vpa-updater main=IMAGE" in text
    assert "ImageNotPulled" in reasons(doctor(run))


def test_missing_rights_of_a_component(bare: Cluster, run: Run) -> None:
    add_workload(bare, "vpa-updater", "trellis", "updater", serviceAccountName="vpa-updater")
    found = doctor(run)
    missing = [
        item["message"] for check in found["checks"] for item in check["findings"] if check["check"] == "accounts"
    ]
    assert any("pods" in message for message in missing)
    assert level(found, "accounts") == "problem"
    manifests = Path(__file__).parents[3] / "deploy" / "updater.yaml"
    for document in yaml.safe_load_all(manifests.read_text()):
        if document and document["kind"] in (
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
        ):
            bare.api.apply(document)
    until("the roles to be in force", lambda: level(doctor(run), "accounts") == "ok")


def test_missing_rights_of_the_user(bare: Cluster, run: Run) -> None:
    install(bare)
    viewer = bare.kubeconfig_for_user(VIEWER)
    result = run("status", kubeconfig=viewer)
    assert result.exit_code == 2
    assert result.stdout.startswith("cannot tell")
    assert "--resource=deployments.apps" in result.stdout
    assert len(result.stdout.splitlines()) <= 40
    found = doctor(run, kubeconfig=viewer)
    assert "MayNotInstall" in reasons(found)
    assert level(found, "CRDs") == "unknown"


def test_upstream_beside_trellis(bare: Cluster, run: Run) -> None:
    install(bare)
    add_workload(bare, "old-updater", image="registry.k8s.io/autoscaling/vpa-updater:1.7.0")
    found = status(run)
    assert "RivalComponents" in reasons(found)
    updater = next(item for item in found["components"] if item["component"] == "updater")
    assert (updater["provider"], sorted(updater["versions"])) == ("both", ["0.1.0", "1.7.0"])
    assert "RivalComponents" in reasons(doctor(run))


def test_an_expired_certificate_and_one_that_is_valid(bare: Cluster, run: Run) -> None:
    install(bare)
    register_webhook(bare, expires_in_days=-3)
    assert "CertificateExpired" in reasons(status(run))
    assert "the certificate expired 3 days ago" in " ".join(run("status").stdout.split())
    register_webhook(bare, expires_in_days=80)
    assert not {reason for reason in reasons(status(run)) if reason.startswith("Certificate")}


def test_a_webhook_without_an_endpoint(bare: Cluster, run: Run) -> None:
    install(bare)
    register_webhook(bare, expires_in_days=80, ready=False, policy="Fail")
    found = status(run)
    assert "WebhookWithoutBackend" in reasons(found)


def test_a_frozen_cluster(bare: Cluster, run: Run) -> None:
    install(bare)
    freeze = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trellis-freeze"}}
    bare.api.apply(freeze | {"data": {"by": "alice", "why": "incident 17"}}, HOME)
    found = status(run)
    assert (found["frozen"], "ClusterFrozen" in reasons(found)) == (True, True)
    assert found["freeze"].startswith("cluster frozen by alice")
    bare.api.delete(f"/api/v1/namespaces/{HOME}/configmaps/trellis-freeze")
    assert status(run)["frozen"] is False


def test_objects_are_counted_by_condition(bare: Cluster, run: Run) -> None:
    install(bare)
    bare.api.create(vpa("web", updatePolicy={"updateMode": "Off"}), "default")
    path = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers/web/status"
    condition = {"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    bare.api.patch(path, {"status": {"conditions": [condition]}})
    rows = {row["kind"]: row for row in status(run)["objects"]}
    assert rows["VerticalPodAutoscaler"]["states"] == {"recommended": 1}
    assert rows["Buffer"]["total"] == 0


def test_an_api_server_that_is_down(own_api_server: ControlPlane, bare: Cluster, run: Run) -> None:
    own_api_server.kill("kube-apiserver")
    result = run("status")
    assert result.exit_code == 2
    assert result.stdout.startswith("cannot tell: the API server does not answer")
    assert run("doctor").exit_code == 2


def test_passes_are_read_from_the_metrics_of_a_real_updater_through_the_proxy(
    bare: Cluster, run: Run, tmp_path: Path
) -> None:
    address = find_own_address()
    if not address:
        pytest.skip("this machine has no address but its loopback, to which the API server proxies nothing")
    with updaters(bare, tmp_path, restarts=True) as start:
        updater = start("default", "--leader-elect", "--updater-interval=1s")
        until("a pass", lambda: parse_page(updater.read_metrics()).passes["updater"].last > 0)
        until("a Lease", lambda: bare.api.find(f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/vpa-updater"))
        with serve_text(address, updater.read_metrics()) as port:
            words = ("trellis", "updater", "--leader-elect")
            add_workload(bare, "vpa-updater", *words, pod=socket.gethostname(), address=address, port=port)
            found = status(run)
    row = next(item for item in found["components"] if item["component"] == "updater")
    assert row["leaders"][0].startswith(f"{socket.gethostname()}_")
    assert row["lastPassAgeSeconds"] is not None
    assert row["lastPassSeconds"] > 0
    assert row["versions"] == ["0.1.0"]
