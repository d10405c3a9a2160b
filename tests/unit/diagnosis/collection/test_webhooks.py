"""Certificates of the webhook, from its Secret or from the metrics of a replica."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

from support.installations.facts import NOW, page, pod, state, workload
from support.installations.installed_cluster import HOME, InstalledCluster
from support.virtual_time import run
from trellis.controllers.admission.certificates.authority import CertificateLifetimes, renew_certificates
from trellis.controllers.admission.certificates.secret import to_secret_data
from trellis.diagnosis.checks.webhook import WebhookCertificate, WebhookFacts
from trellis.diagnosis.collection.reader import FactReader
from trellis.diagnosis.collection.webhooks import collect_webhook
from trellis.diagnosis.installation import ComponentState
from trellis.diagnosis.unread import Unread

DAY = 86_400.0
ADMISSION = state("admission", workload("admission"))
SHARED, _ = renew_certificates(None, ["vpa-webhook.kube-system.svc"], NOW, CertificateLifetimes(3650 * DAY, 90 * DAY))
OTHER, _ = renew_certificates(None, ["vpa-webhook.kube-system.svc"], NOW, CertificateLifetimes(3650 * DAY, 90 * DAY))


def collect(cluster: InstalledCluster, admission: ComponentState = ADMISSION) -> WebhookFacts:
    facts = run(collect_webhook(FactReader(cluster.server.client), admission))
    assert isinstance(facts, WebhookFacts)
    return facts


def with_secret(bundle: bytes) -> InstalledCluster:
    cluster = InstalledCluster()
    cluster.add_webhook(bundle=bundle)
    data = {name: b64encode(value).decode() for name, value in to_secret_data(SHARED).items()}
    cluster.server.put(f"/api/v1/namespaces/{HOME}/secrets/trellis-admission-certificates", {"data": data})
    return cluster


def test_the_certificate_in_the_secret_is_examined() -> None:
    facts = collect(with_secret(SHARED.bundle))
    certificate = facts.certificate
    assert isinstance(certificate, WebhookCertificate)
    assert abs(certificate.ends - (NOW + 90 * DAY)) < DAY
    assert certificate.distrust == ""
    assert facts.authority_ends is not None
    assert abs(facts.authority_ends - (NOW + 3650 * DAY)) < DAY


def test_a_certificate_of_another_authority_is_not_trusted() -> None:
    certificate = collect(with_secret(OTHER.bundle)).certificate
    assert isinstance(certificate, WebhookCertificate)
    assert certificate.distrust.startswith("it is signed by")


def test_where_the_secret_may_not_be_read_the_metrics_of_a_replica_tell() -> None:
    cluster = with_secret(SHARED.bundle)
    cluster.forbidden.append("/secrets/")
    assert isinstance(collect(cluster).certificate, Unread)
    shown = page("admission", certificate_ends={"serving": NOW + 5.0})
    known = state("admission", workload("admission", pods=(pod("admission", page=shown),)))
    assert collect(cluster, known).certificate == WebhookCertificate(NOW + 5.0, "the admission controller")


def test_upstreams_secret_is_known_too() -> None:
    cluster = InstalledCluster()
    cluster.add_webhook(bundle=SHARED.bundle)
    data = {"serverCert.pem": b64encode(SHARED.serving.certificate).decode()}
    cluster.server.put(f"/api/v1/namespaces/{HOME}/secrets/vpa-tls-certs", {"data": data})
    assert isinstance(collect(cluster).certificate, WebhookCertificate)


def test_a_secret_without_a_certificate_and_a_bundle_without_one_end_nothing() -> None:
    cluster = InstalledCluster()
    cluster.add_webhook(bundle=b"no certificate")
    data = {"tls.crt": b64encode(b"nonsense").decode()}
    cluster.server.put(f"/api/v1/namespaces/{HOME}/secrets/trellis-admission-certificates", {"data": data})
    facts = collect(cluster)
    assert facts.authority_ends is None
    assert isinstance(facts.certificate, Unread)
    assert "no certificate that can be read" in facts.certificate.why


def test_calls_that_failed_open_are_counted_around_a_probe() -> None:
    cluster = with_secret(SHARED.bundle)
    original, counts = cluster.server.before, iter([3, 4])

    def answer(request: Any) -> Any:
        from trellis.kube.transport.responses import Response

        if request.path == "/metrics":
            name = "apiserver_admission_webhook_fail_open_count"
            text = f'{name}{{name="vpa.k8s.io",type="admit"}} {next(counts)}\n{name}{{name="other"}} 9\n'
            return Response(200, {"content-type": "text/plain"}, text.encode())
        if request.method == "POST" and request.path.endswith("/pods"):
            return Response(201, {"content-type": "application/json"}, msgspec.json.encode({"metadata": {}}))
        return original(request)

    cluster.server.before = answer
    facts = run(collect_webhook(FactReader(cluster.server.client), ADMISSION, "shop"))
    assert isinstance(facts, WebhookFacts)
    assert facts.probe is not None
    assert "could not call the webhook" in facts.probe
