"""Which TLS is spoken with the API server? Its least version, and ciphers by the names that Go has for them."""

from __future__ import annotations

import re
import ssl
from typing import Final

from trellis.controllers.admission.certificate_settings import TLS_1_3, CertificateSettings

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
    known, _ = read_ciphers(settings.tls_ciphers)
    if known:
        context.set_ciphers(":".join(known))
    # Webhooks are asked over HTTP/1.1. Without a word of it Go asks for it all the same.
    context.set_alpn_protocols(["http/1.1"])
    return context
