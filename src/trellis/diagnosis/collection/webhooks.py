"""Collects webhooks: that of the admission controller with its certificates, and those of other programs."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any, Final

from trellis.api.kube.webhooks import MutatingWebhook, MutatingWebhookConfiguration
from trellis.base.errors import KubeError
from trellis.diagnosis.checks.other_webhooks import ForeignWebhook
from trellis.diagnosis.checks.webhook import CONFIGURATION, ServiceBackend, WebhookCertificate, WebhookFacts
from trellis.diagnosis.collection.metrics_pages import parse_samples
from trellis.diagnosis.collection.reader import FactReader
from trellis.diagnosis.installation import ComponentState
from trellis.diagnosis.slices import ENDPOINT_SLICES, VALIDATING_WEBHOOKS, WEBHOOK_SECRETS
from trellis.diagnosis.unread import Unread
from trellis.kube.resources import MUTATING_WEBHOOKS, PODS, Resource
from trellis.kube.transport.requests import build_raw_get
from trellis.runtime.manager.settings import ADMISSION
from trellis.sources.survey.prometheus_discovery import SERVICES

# Secrets by name, with the key of the certificate that the webhook serves: Trellis', upstream's.
_SECRETS: Final = {"trellis-admission-certificates": "tls.crt", "vpa-tls-certs": "serverCert.pem"}
_OWN_WEBHOOK: Final = "vpa.k8s.io"
_FAIL_OPEN: Final = "apiserver_admission_webhook_fail_open_count"
_PROBE_IMAGE: Final = "registry.k8s.io/pause:3.10"


async def collect_webhook(
    reader: FactReader, admission: ComponentState, probe_namespace: str = ""
) -> WebhookFacts | Unread:
    """The admission controller's webhook; with a namespace for a probe, a pod is created there as a dry run."""
    configuration = await reader.get(MUTATING_WEBHOOKS, CONFIGURATION, what="webhook configuration")
    if isinstance(configuration, Unread):
        return configuration
    if configuration is None or not configuration.webhooks:
        return WebhookFacts(exists=configuration is not None)
    webhook = configuration.webhooks[0]
    config = webhook.client_config
    authorities = _decode(config.ca_bundle)
    return WebhookFacts(
        exists=True,
        is_registered=True,
        failure_policy=webhook.failure_policy,
        url=config.url,
        backend=await _read_backend(reader, webhook),
        authority_ends=_find_last_end(authorities),
        certificate=await _read_certificate(reader, admission, authorities),
        probe=await _probe(reader, probe_namespace) if probe_namespace else None,
    )


async def _read_backend(reader: FactReader, webhook: MutatingWebhook) -> ServiceBackend | None:
    service = webhook.client_config.service
    if service is None:
        return None
    stored = await reader.get(SERVICES, service.name, service.namespace)
    if stored is None or isinstance(stored, Unread):
        return ServiceBackend(service.namespace, service.name, stored)
    slices = await reader.list(
        ENDPOINT_SLICES,
        service.namespace,
        what=f"endpoints of {service.namespace}/{service.name}",
        label_selector=f"kubernetes.io/service-name={service.name}",
    )
    if isinstance(slices, Unread):
        return ServiceBackend(service.namespace, service.name, slices)
    addresses = {
        address
        for item in slices
        for endpoint in item.endpoints
        if endpoint.conditions.ready is not False
        for address in endpoint.addresses
    }
    return ServiceBackend(service.namespace, service.name, len(addresses))


async def _read_certificate(
    reader: FactReader, admission: ComponentState, authorities: bytes
) -> WebhookCertificate | Unread | None:
    """From the Secret, else from the metrics of a replica, which need no right to read Secrets."""
    unread: Unread | None = None
    for workload in admission.workloads:
        for name, key in _list_secrets(workload.find_flag("certificate-secret", ADMISSION)):
            secret = await reader.get(WEBHOOK_SECRETS, name, workload.namespace)
            if isinstance(secret, Unread):
                unread = secret
            elif secret is not None and secret.data.get(key):
                source = f"Secret {workload.namespace}/{name}"
                return _examine_certificate(_decode(secret.data[key]), authorities, source)
    ends = [page.certificate_ends["serving"] for page in admission.list_pages() if "serving" in page.certificate_ends]
    if ends:
        return WebhookCertificate(min(ends), "the admission controller")
    return unread


def _list_secrets(flag: str) -> Iterable[tuple[str, str]]:
    return [(flag, "tls.crt")] if flag else list(_SECRETS.items())


def _decode(text: str) -> bytes:
    try:
        return b64decode(text)
    except ValueError:
        return b""


def _find_last_end(authorities: bytes) -> float | None:
    ends = [certificate.not_valid_after_utc.timestamp() for certificate in _load_certificates(authorities)]
    return max(ends, default=None)


def _examine_certificate(certificate: bytes, authorities: bytes, source: str) -> WebhookCertificate | Unread:
    """When a certificate ends, and whether one of the authorities signed it."""
    loaded = _load_certificates(certificate)
    if not loaded:
        return Unread(source, "has no certificate that can be read")
    leaf = loaded[0]
    known = _load_certificates(authorities)
    distrust = ""
    # Without a caBundle the API server trusts the authorities of its own system.
    if known and not any(_is_signed_by(leaf, authority) for authority in (*loaded[1:], *known)):
        distrust = f"it is signed by {leaf.issuer.rfc4514_string() or 'an unnamed authority'}"
    return WebhookCertificate(leaf.not_valid_after_utc.timestamp(), source, distrust)


def _load_certificates(pem: bytes) -> Sequence[Any]:
    from cryptography import x509  # noqa: PLC0415 -- 10 MB, for clusters with a webhook

    if b"BEGIN CERTIFICATE" not in pem:
        return ()
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return ()


def _is_signed_by(certificate: Any, authority: Any) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 -- see above

    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


async def _probe(reader: FactReader, namespace: str) -> str:
    """Create a pod as a dry run; returns the error. With policy Ignore, the API server counts a failed call."""
    before = await _count_failed_calls(reader)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "trellis-probe-", "namespace": namespace},
        "spec": {"containers": [{"name": "probe", "image": _PROBE_IMAGE}]},
    }
    try:
        await reader.client.create(PODS, pod, namespace, dry_run=True)
    except KubeError as error:
        return error.message if "webhook" in error.message else ""
    after = await _count_failed_calls(reader)
    if before is not None and after is not None and after > before:
        return "the API server could not call the webhook, and went on without it (failurePolicy Ignore)"
    return ""


async def _count_failed_calls(reader: FactReader) -> float | None:
    """Calls of our webhook that failed and were ignored, since the API server started; None if that is unknown."""
    response = await reader.send(build_raw_get("/metrics", "text/plain"), "metrics of the API server")
    if isinstance(response, Unread):
        return None
    return sum(
        value
        for name, labels, value in parse_samples(response.body.decode("utf-8", "replace"))
        if name == _FAIL_OPEN and labels.get("name") == _OWN_WEBHOOK
    )


async def collect_other_webhooks(reader: FactReader) -> tuple[ForeignWebhook, ...] | Unread:
    """Webhooks of other programs that see pods."""
    webhooks: list[ForeignWebhook] = []
    kinds: tuple[tuple[Resource[MutatingWebhookConfiguration], bool], ...] = (
        (MUTATING_WEBHOOKS, True),
        (VALIDATING_WEBHOOKS, False),
    )
    for resource, mutates in kinds:
        listed = await reader.list(resource, what="webhook configurations")
        if isinstance(listed, Unread):
            return listed
        for configuration in listed:
            if configuration.metadata.name != CONFIGURATION:
                webhooks += [
                    await _read_foreign(reader, configuration.metadata.name, webhook, mutates=mutates)
                    for webhook in configuration.webhooks
                    if _sees(webhook, "pods", "CREATE") or _sees(webhook, "pods/resize", "UPDATE")
                ]
    return tuple(webhooks)


async def _read_foreign(
    reader: FactReader, configuration: str, webhook: MutatingWebhook, *, mutates: bool
) -> ForeignWebhook:
    selectors = (webhook.namespace_selector, webhook.object_selector)
    selective = any(item is not None and (item.match_labels or item.match_expressions) for item in selectors)
    return ForeignWebhook(
        configuration,
        webhook.name,
        mutates=mutates,
        sees_pods=_sees(webhook, "pods", "CREATE"),
        sees_resizes=_sees(webhook, "pods/resize", "UPDATE"),
        failure_policy=webhook.failure_policy or "Fail",
        is_selective=selective or bool(webhook.match_conditions),
        backend=await _read_backend(reader, webhook),
    )


def _sees(webhook: MutatingWebhook, resource: str, operation: str) -> bool:
    plural, _, subresource = resource.partition("/")
    wildcards = {resource, "*/*"} | ({f"{plural}/*", f"*/{subresource}"} if subresource else {"*"})
    return any(
        {"", "*"} & set(rule.api_groups) and {operation, "*"} & set(rule.operations) and wildcards & set(rule.resources)
        for rule in webhook.rules
    )
