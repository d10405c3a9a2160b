"""Which certificate does the webhook show at this moment?

The server is handed one TLS context for good. For each handshake that asks a second one, which holds the newest pair;
connections that are there already go on with theirs. Replacing the pair inside one context would not do: OpenSSL keeps
one pair for each kind of key, and goes on showing the old one where the new one has another.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from trellis.base.errors import InvalidInput
from trellis.controllers.admission.authority import Lifetimes
from trellis.controllers.admission.certificate_files import CertificateFiles
from trellis.controllers.admission.certificate_settings import CertificateSettings
from trellis.controllers.admission.material import Material, MaterialSource
from trellis.controllers.admission.pairs import Shown, authorities_in, examine, validity_of, why_not_vouched
from trellis.controllers.admission.secret import CertificateSecret
from trellis.controllers.admission.tls_options import read_ciphers, server_context
from trellis.controllers.admission.upkeep_metrics import AUTHORITY, EXPIRY, LOADS, SERVING
from trellis.kube.client import Client
from trellis.kube.tls import load_chain
from trellis.kube.writer import Writer
from trellis.runtime.logs import Logger
from trellis.runtime.loops import PassReport, Periodic
from trellis.runtime.metrics import Metrics

LOADED: Final = "loaded"
REFUSED: Final = "refused"

_log: Final = Logger("trellis.admission")


class CertificateKeeper:
    """Shows the newest certificate that can be shown. `run` in a task of its own; `context` is for the server.

    `now` is in seconds since 1970.
    """

    def __init__(
        self, source: MaterialSource, settings: CertificateSettings, metrics: Metrics, *, now: Callable[[], float]
    ) -> None:
        self.context = server_context(settings)
        self.context.sni_callback = self._choose
        self._source = source
        self._settings = settings
        self._metrics = metrics
        self._now = now
        self._newest: ssl.SSLContext | None = None
        self._shown: Shown | None = None
        self._bundle = b""
        self._said = ""
        self._ready = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        for result in (LOADED, REFUSED):
            metrics.add(LOADS, 0, result)

    def ca_bundle(self) -> bytes:
        """Who vouches for what is shown, as PEM; empty as long as nobody is known to."""
        return self._bundle

    def on_bundle(self, callback: Callable[[], None]) -> None:
        """Call when the bundle has changed."""
        self._listeners.append(callback)

    def why_not_ready(self) -> str | None:
        """What keeps handshakes from succeeding."""
        if self._shown is None:
            return f"there is no certificate yet: {self._source.trouble or 'nobody has looked'}"
        ended = self._now() >= self._shown.validity.ends
        return "the certificate has expired" if ended else None

    async def wait_until_ready(self) -> None:
        """Return once there is a certificate."""
        await self._ready.wait()

    async def run(self) -> None:
        """Look for newer ones until cancelled."""
        _log.info("certificate", source=self._source)
        _, unknown = read_ciphers(self._settings.tls_ciphers)
        if unknown:
            _log.warning("ciphers that are not known, or cannot be chosen, are left out", ciphers=",".join(unknown))
        await Periodic("certificates", self.look, self._source.interval, on_pass=_passed).run()

    async def look(self) -> None:
        """Look once, and show what is new if it is any good."""
        found = await self._source.look(shown=self._newest is not None)
        if found is not None:
            self._take(found)
        if self._source.trouble != self._said:
            self._said = self._source.trouble
            if self._said:
                _log.warning("certificate", trouble=self._said)

    def _take(self, found: Material) -> None:
        why = self._why_not(found)
        if why is not None:
            self._metrics.add(LOADS, 1, REFUSED)
            _log.error("a new certificate is refused, what was shown before still is", why=why)
            return
        if self._newest is not None:
            # Upstream's words, here and below: its users look for them after a rotation.
            _log.info("New certificate found, reloading")
        context = server_context(self._settings)
        load_chain(context, found.pair.certificate, found.pair.key)
        self._newest = context
        self._shown = shown = examine(found.pair)
        self._metrics.add(LOADS, 1, LOADED)
        self._metrics.set(EXPIRY, shown.validity.ends, SERVING)
        _log.info("certificate loaded", ends=shown.validity.ends, hosts=",".join(sorted(shown.hosts)))
        self._ready.set()
        self._set_bundle(found.bundle)

    def _why_not(self, found: Material) -> str | None:
        """What is wrong with it. Where nothing is shown yet anything is better that OpenSSL can show."""
        try:
            shown = examine(found.pair)
        except InvalidInput as error:
            return error.rule
        why = None
        if self._now() >= shown.validity.ends:
            why = "it has expired"
        elif found.bundle:
            why = why_not_vouched(found.pair, found.bundle)
        if why and self._newest is None:
            _log.error("the API server will refuse this certificate", why=why)
            return None
        return why

    def _set_bundle(self, bundle: bytes) -> None:
        ends = [validity.ends for validity in map(validity_of, authorities_in(bundle)) if validity]
        if ends:
            self._metrics.set(EXPIRY, min(ends), AUTHORITY)
        if bundle != self._bundle:
            if self._bundle:
                _log.info("New client CA found, reloading and patching webhook")
            self._bundle = bundle
            for listener in self._listeners:
                listener()

    def _choose(self, connection: ssl.SSLObject, _host: str | None, _first: ssl.SSLContext) -> None:
        """Called in each handshake; without a certificate it fails, and the client learns that at once."""
        if self._newest is not None:
            connection.context = self._newest


def keep_certificates(
    settings: CertificateSettings,
    client: Client,
    writer: Writer,
    metrics: Metrics,
    *,
    hosts: tuple[str, ...],
    namespace: str,
    now: Callable[[], float],
) -> CertificateKeeper:
    """A keeper of what the settings ask for: files, or a Secret in this namespace for these hosts."""
    source: MaterialSource
    if settings.from_files:
        source = CertificateFiles(settings)
    else:
        source = CertificateSecret(
            client,
            writer,
            name=settings.certificate_secret,
            namespace=namespace,
            hosts=hosts,
            lifetimes=Lifetimes(
                settings.authority_lifetime.total_seconds(), settings.certificate_lifetime.total_seconds()
            ),
            now=now,
        )
    return CertificateKeeper(source, settings, metrics, now=now)


def _passed(report: PassReport) -> None:
    if report.error is not None and report.failures == 1:
        _log.error("looking for a certificate failed", error=report.error)
