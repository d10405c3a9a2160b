"""Serves the newest valid certificate, without dropping connections.

The server has one TLS context for good. Each handshake takes a second one, which holds the newest key pair; open
connections keep theirs. Replacing the pair inside one context does not work: OpenSSL keeps one pair for each kind of
key, and goes on serving the old one where the new one is of another kind. Ciphers are set by the names that Go has for
them.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from typing import Final

from trellis.base.errors import InvalidInput
from trellis.controllers.admission.certificates.authority import CertificateLifetimes
from trellis.controllers.admission.certificates.files import CertificateFiles
from trellis.controllers.admission.certificates.key_pairs import (
    CertificateSource,
    PresentedCertificate,
    ServingCertificate,
    examine_pair,
    find_trust_problem,
    read_validity,
    split_authorities,
)
from trellis.controllers.admission.certificates.secret import CertificateSecret
from trellis.controllers.admission.metrics import AUTHORITY, EXPIRY, LOADED, LOADS, REFUSED_CERTIFICATE, SERVING
from trellis.controllers.admission.settings import TLS_1_3, CertificateSettings
from trellis.kube.client import Client
from trellis.kube.transport.tls import load_certificate_chain
from trellis.kube.write.writer import Writer
from trellis.runtime.passes import PassReport, Periodic
from trellis.runtime.tasks import run_all
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics

# What Go's `tls.CipherSuites()` has for TLS 1.2. Those of 1.3 cannot be chosen, there or here.
_CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}


def read_ciphers(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """OpenSSL's names of the ciphers that a flag lists, and the words in it that name none."""
    words = [word for word in re.split(r"[,:\s]+", text) if word]
    return tuple(_CIPHERS[word] for word in words if word in _CIPHERS), tuple(w for w in words if w not in _CIPHERS)


def server_context(settings: CertificateSettings) -> ssl.SSLContext:
    """A context of a server, without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.min_tls_version == TLS_1_3:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    ciphers, _ = read_ciphers(settings.tls_ciphers)
    if ciphers:
        context.set_ciphers(":".join(ciphers))
    # Requests to webhooks are HTTP/1.1. Go uses it without ALPN as well.
    context.set_alpn_protocols(["http/1.1"])
    return context


_log: Final = Logger("trellis.admission")

# A change wakes the check earlier.
_LONGEST_INTERVAL: Final = 3600.0


class CertificateKeeper:
    """Serves the newest valid certificate. `run` in a task of its own; `context` is for the server.

    `now` is in seconds since 1970. `on_bundle` is called with the authorities, as PEM, when they have changed.
    """

    def __init__(
        self,
        source: CertificateSource,
        settings: CertificateSettings,
        metrics: Metrics,
        *,
        now: Callable[[], float],
        on_bundle: Callable[[bytes], None] = lambda _bundle: None,
    ) -> None:
        self.context = server_context(settings)
        self.context.sni_callback = self._choose_context
        self._source = source
        self._settings = settings
        self._metrics = metrics
        self._now = now
        self._newest: ssl.SSLContext | None = None
        self._presented: PresentedCertificate | None = None
        self._bundle = b""
        self._logged_problem = ""
        self._ready = asyncio.Event()
        self._on_bundle = on_bundle
        for result in (LOADED, REFUSED_CERTIFICATE):
            metrics.add(LOADS, 0, result)

    def ca_bundle(self) -> bytes:
        """The CA bundle of the serving certificate, as PEM; empty if it is not known."""
        return self._bundle

    def find_readiness_problem(self) -> str | None:
        """What keeps handshakes from succeeding."""
        if self._presented is None:
            return f"no certificate loaded yet: {self._source.problem or 'still reading'}"
        ended = self._now() >= self._presented.validity.ends
        return "the certificate has expired" if ended else None

    async def wait_until_ready(self) -> None:
        """Return once there is a certificate."""
        await self._ready.wait()

    async def run(self) -> None:
        """Check for newer certificates until cancelled."""
        _log.info("certificate", source=self._source)
        _, unknown = read_ciphers(self._settings.tls_ciphers)
        if unknown:
            _log.warning("unknown or fixed cipher suites are ignored", ciphers=",".join(unknown))
        checking = Periodic("certificates", self.check, _LONGEST_INTERVAL, on_pass=_passed)
        await run_all(checking.run(), self._wake_on_change(checking))

    async def _wake_on_change(self, checking: Periodic) -> None:
        """A pass once a second would be a tenth of what an idle process does."""
        while True:
            await asyncio.sleep(self._source.interval)
            if self._source.may_have_changed(is_serving=self._newest is not None):
                checking.wake()

    async def check(self) -> None:
        """Check once, and serve a new certificate if it is valid."""
        certificate = await self._source.read_if_changed(is_serving=self._newest is not None)
        if certificate is not None:
            self._serve(certificate)
        if self._source.problem != self._logged_problem:
            self._logged_problem = self._source.problem
            if self._logged_problem:
                _log.warning("certificate", trouble=self._logged_problem)

    def _serve(self, certificate: ServingCertificate) -> None:
        problem = self._find_problem(certificate)
        if problem is not None:
            self._metrics.add(LOADS, 1, REFUSED_CERTIFICATE)
            _log.error("a new certificate is invalid; the previous one stays in use", why=problem)
            return
        if self._newest is not None:
            # Upstream's words, here and below: its users look for them after a rotation.
            _log.info("New certificate found, reloading")
        context = server_context(self._settings)
        load_certificate_chain(context, certificate.pair.certificate, certificate.pair.key)
        self._newest = context
        self._presented = presented = examine_pair(certificate.pair)
        self._metrics.add(LOADS, 1, LOADED)
        self._metrics.set(EXPIRY, presented.validity.ends, SERVING)
        _log.info("certificate loaded", ends=presented.validity.ends, hosts=",".join(sorted(presented.hosts)))
        self._ready.set()
        self._set_bundle(certificate.bundle)

    def _find_problem(self, certificate: ServingCertificate) -> str | None:
        """The problem with a certificate. The first one is served with any problem that OpenSSL accepts."""
        try:
            presented = examine_pair(certificate.pair)
        except InvalidInput as error:
            return error.rule
        problem = None
        if self._now() >= presented.validity.ends:
            problem = "the certificate has expired"
        elif certificate.bundle:
            problem = find_trust_problem(certificate.pair, certificate.bundle)
        if problem and self._newest is None:
            _log.error("the API server will refuse this certificate", why=problem)
            return None
        return problem

    def _set_bundle(self, bundle: bytes) -> None:
        ends = [validity.ends for validity in map(read_validity, split_authorities(bundle)) if validity]
        if ends:
            self._metrics.set(EXPIRY, min(ends), AUTHORITY)
        if bundle != self._bundle:
            if self._bundle:
                _log.info("New client CA found, reloading and patching webhook")
            self._bundle = bundle
            self._on_bundle(bundle)

    def _choose_context(self, connection: ssl.SSLObject, _host: str | None, _first: ssl.SSLContext) -> None:
        """Called in each handshake; without a certificate it fails, and the client learns that at once."""
        if self._newest is not None:
            connection.context = self._newest


def create_keeper(
    settings: CertificateSettings,
    client: Client,
    writer: Writer,
    metrics: Metrics,
    *,
    hosts: tuple[str, ...],
    namespace: str,
    now: Callable[[], float],
    on_bundle: Callable[[bytes], None] = lambda _bundle: None,
) -> CertificateKeeper:
    """A keeper of what the settings ask for: files, or a Secret in this namespace for these hosts."""
    source: CertificateSource
    if settings.from_files:
        source = CertificateFiles(settings)
    else:
        source = CertificateSecret(
            client,
            writer,
            name=settings.certificate_secret,
            namespace=namespace,
            hosts=hosts,
            lifetimes=CertificateLifetimes(
                settings.authority_lifetime.total_seconds(), settings.certificate_lifetime.total_seconds()
            ),
            now=now,
        )
    return CertificateKeeper(source, settings, metrics, now=now, on_bundle=on_bundle)


def _passed(report: PassReport) -> None:
    if report.error is not None and report.failures == 1:
        _log.error("reading the certificate failed", error=report.error)
