"""Checks the admission webhook: its registration, whether the API server can reach it, and its certificates."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.diagnosis.findings import ClusterCheck, ClusterFinding, UnknownFact
from trellis.diagnosis.installation import ComponentState
from trellis.diagnosis.unread import Unread

WEBHOOK_NOT_REGISTERED = Reason(
    "WebhookNotRegistered", "No webhook configuration refers to the admission controller.", Severity.ERROR
)
WEBHOOK_WITHOUT_BACKEND = Reason(
    "WebhookWithoutBackend", "The Service of the webhook has no ready endpoint.", Severity.ERROR
)
WEBHOOK_LEFT_BEHIND = Reason(
    "WebhookLeftBehind", "A webhook configuration exists, but no admission controller runs.", Severity.ERROR
)
WEBHOOK_REFUSES = Reason("WebhookRefuses", "A dry run of a pod through the webhook failed.", Severity.ERROR)
CERTIFICATE_EXPIRED = Reason("CertificateExpired", "A certificate of the webhook has expired.", Severity.ERROR)
CERTIFICATE_EXPIRES = Reason("CertificateExpires", "A certificate of the webhook expires soon.", Severity.WARNING)
CERTIFICATE_NOT_TRUSTED = Reason(
    "CertificateNotTrusted",
    "The API server does not trust the webhook: the CA in its configuration did not sign its certificate.",
    Severity.ERROR,
)

CONFIGURATION = "vpa-webhook-config"
_DAY = 86_400.0
# A certificate is renewed long before. Upstream's and cert-manager's are renewed weeks before too.
SOON_DAYS = 7.0


class ServiceBackend(msgspec.Struct, frozen=True):
    """The Service of a webhook: how many endpoints are ready; None without a Service."""

    namespace: str
    name: str
    ready: int | Unread | None = 0

    @property
    def label(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


class WebhookCertificate(msgspec.Struct, frozen=True):
    """The certificate that the webhook presents: when it ends, and why its authority is not trusted, if it is not."""

    ends: float
    source: str
    distrust: str = ""


class WebhookFacts(msgspec.Struct, frozen=True):
    """The webhook configuration; `is_registered` is whether it exists and names a webhook.

    `authority_ends` is when the last of the trusted authorities ends. `certificate` is None if no place is known to
    read it from. `probe` is the error of a dry run, empty if it went well, None if there was none.
    """

    exists: bool = False
    is_registered: bool = False
    configuration: str = CONFIGURATION
    failure_policy: str = ""
    url: str = ""
    backend: ServiceBackend | None = None
    authority_ends: float | None = None
    certificate: WebhookCertificate | Unread | None = None
    probe: str | None = None


def check_webhook(facts: WebhookFacts | Unread, admission: ComponentState, now: float) -> ClusterCheck:
    """The webhook, if an admission controller is installed or a configuration is there."""
    name = "webhook"
    if isinstance(facts, Unread):
        return ClusterCheck(name, unknown=(facts.to_unknown(is_essential=admission.is_running),))
    if not facts.is_registered:
        if not admission.is_running:
            return ClusterCheck(name, "none registered, no admission controller")
        return ClusterCheck(name, "", (_describe_unregistered(facts, admission),))
    findings = [*_check_backend(facts, admission), *_check_certificates(facts, now)]
    if facts.probe:
        findings.append(
            ClusterFinding(
                WEBHOOK_REFUSES,
                facts.configuration,
                f"a dry run of a pod failed: {facts.probe}",
                f"{admission.log_command}; the network must let the API server reach it",
            )
        )
    return ClusterCheck(name, describe_webhook(facts, now), tuple(findings), tuple(_list_unknown(facts)))


def describe_webhook(facts: WebhookFacts, now: float) -> str:
    """The webhook in a line: registration, endpoints, policy and certificate."""
    parts = [f"failurePolicy {facts.failure_policy}" if facts.failure_policy else ""]
    match facts.backend:
        case ServiceBackend(ready=int(ready)):
            parts.insert(0, f"{ready} ready endpoint{'' if ready == 1 else 's'}")
        case ServiceBackend(ready=None):
            parts.insert(0, "no Service")
        case ServiceBackend():
            parts.insert(0, "endpoints unknown")
        case None:
            parts.insert(0, f"at {facts.url}" if facts.url else "")
    if facts.probe is not None:
        parts.append("dry run failed" if facts.probe else "dry run passed")
    ends = find_certificate_end(facts)
    if ends is not None:
        days = (ends - now) / _DAY
        parts.append(f"certificate ends in {days:.0f} d" if days >= 1 else "certificate ends today")
        if days < 0:
            parts[-1] = "certificate expired"
    return ", ".join(part for part in parts if part)


def find_certificate_end(facts: WebhookFacts) -> float | None:
    """When the first of serving certificate and authority ends."""
    ends = [facts.certificate.ends] if isinstance(facts.certificate, WebhookCertificate) else []
    ends += [facts.authority_ends] if facts.authority_ends is not None else []
    return min(ends, default=None)


def _describe_unregistered(facts: WebhookFacts, admission: ComponentState) -> ClusterFinding:
    where = admission.workloads[0].label if admission.workloads else "the admission controller"
    state = "names no webhook" if facts.exists else "does not exist"
    # The account of an installation may change this one configuration, and create none.
    remedy = "" if facts.exists else "apply the manifests again: trellis install, or helm upgrade; then: "
    return ClusterFinding(
        WEBHOOK_NOT_REGISTERED,
        where,
        f"webhook configuration {CONFIGURATION} {state}: new pods get the size of their template",
        f"{remedy}{admission.log_command}",
    )


def _check_backend(facts: WebhookFacts, admission: ComponentState) -> Iterator[ClusterFinding]:
    backend = facts.backend
    if backend is None or isinstance(backend.ready, Unread) or (backend.ready or 0) > 0:
        return
    refuses = facts.failure_policy == "Fail"
    effect = "no pod can be created" if refuses else "new pods get the size of their template"
    where = f"Service {backend.label}"
    what = "does not exist" if backend.ready is None else "has no ready endpoint"
    if admission.is_running:
        yield ClusterFinding(
            WEBHOOK_WITHOUT_BACKEND,
            facts.configuration,
            f"{where} {what}: {effect}",
            f"kubectl get pods,endpointslices -n {backend.namespace}; the Service must select the pods",
        )
    else:
        yield ClusterFinding(
            WEBHOOK_LEFT_BEHIND,
            facts.configuration,
            f"{where} {what}, and no admission controller runs: {effect}",
            f"kubectl delete mutatingwebhookconfiguration {facts.configuration}",
        )


def _check_certificates(facts: WebhookFacts, now: float) -> Iterator[ClusterFinding]:
    certificate = facts.certificate if isinstance(facts.certificate, WebhookCertificate) else None
    if certificate is not None:
        yield from _check_end("certificate", certificate.ends, certificate.source, now)
        if certificate.distrust:
            yield ClusterFinding(
                CERTIFICATE_NOT_TRUSTED,
                facts.configuration,
                f"its caBundle does not trust the certificate in {certificate.source}: {certificate.distrust}",
                "restart the admission controller, or set caBundle to the authority of that certificate",
            )
    if facts.authority_ends is not None:
        yield from _check_end("CA certificate", facts.authority_ends, facts.configuration, now)


def _check_end(what: str, ends: float, where: str, now: float) -> Iterator[ClusterFinding]:
    days = (ends - now) / _DAY
    renew = "restart the admission controller; where another tool makes certificates, renew it there"
    if days <= 0:
        yield ClusterFinding(CERTIFICATE_EXPIRED, where, f"the {what} expired {-days:.0f} days ago", renew)
    elif days < SOON_DAYS:
        yield ClusterFinding(CERTIFICATE_EXPIRES, where, f"the {what} expires in {days:.1f} days", renew)


def _list_unknown(facts: WebhookFacts) -> Iterator[UnknownFact]:
    if facts.backend is not None and isinstance(facts.backend.ready, Unread):
        yield facts.backend.ready.to_unknown()
    if isinstance(facts.certificate, Unread):
        yield facts.certificate.to_unknown()
