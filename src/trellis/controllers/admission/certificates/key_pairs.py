"""Certificates with their keys: whether OpenSSL can serve them, for which names, until when, and who signed them.

OpenSSL answers by a handshake with itself, in memory. That needs the standard library alone: the package that makes
certificates takes 10 MB, and most processes never make one. The clock is compared here and not there, so that time
stays an argument.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from trellis.base.errors import InvalidInput
from trellis.kube.transport.tls import load_certificate_chain

# X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which Python has no name.
_NO_CHECK_TIME: Final = 0x200000
# New certificates are valid from a little earlier, for clients whose clocks are behind.
BACKDATED: Final = 3600.0
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate, perhaps followed by those between it and its authority, and its key, as PEM."""

    certificate: bytes
    key: bytes


class CertificateValidity(msgspec.Struct, frozen=True):
    """The time of validity, in seconds since 1970."""

    begins: float
    ends: float

    def elapsed_share(self, now: float) -> float:
        """The elapsed share of the validity: below 0 before it begins, 1 at its end."""
        return (now - self.begins) / max(1.0, self.ends - self.begins)


class PresentedCertificate(msgspec.Struct, frozen=True):
    """What a client learns of a certificate."""

    validity: CertificateValidity
    hosts: frozenset[str]


def split_authorities(bundle: bytes) -> tuple[bytes, ...]:
    """The certificates of a bundle, each once and each one PEM block; whatever stands between them is left out."""
    return tuple(dict.fromkeys(b"\n".join(block.splitlines()) + b"\n" for block in _BLOCK.findall(bundle)))


def examine_pair(pair: KeyPair) -> PresentedCertificate:
    """What a client sees of this pair, or `InvalidInput` if OpenSSL cannot serve it."""
    leaf = next(iter(split_authorities(pair.certificate)), b"")
    certificate = _handshake(pair, leaf)
    return PresentedCertificate(
        _validity(certificate), frozenset(normalize_host(name) for _, name in certificate.get("subjectAltName", ()))
    )


def normalize_host(name: str) -> str:
    """A host in the one spelling that is compared: OpenSSL writes IPv6 addresses in full."""
    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:
        return name.lower()


def find_trust_problem(pair: KeyPair, bundle: bytes) -> str | None:
    """The reason why a client that trusts this bundle would refuse the pair, names and times aside."""
    try:
        _handshake(pair, bundle)
    except InvalidInput as error:
        return error.rule
    return None


def read_validity(authority: bytes) -> CertificateValidity | None:
    """Read the validity of an authority; None if it cannot be read, or is no authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=authority.decode("ascii"))
    except (ssl.SSLError, ValueError):
        return None
    certificates = context.get_ca_certs()
    return _validity(certificates[0]) if certificates else None


def _validity(certificate: Any) -> CertificateValidity:
    return CertificateValidity(
        *(float(ssl.cert_time_to_seconds(certificate[name])) for name in ("notBefore", "notAfter"))
    )


def _handshake(pair: KeyPair, trusted: bytes) -> dict[str, Any]:
    """The certificate that a client with these trusted certificates gets from a server with the pair."""
    try:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = False
        # The leaf itself may be trusted, as a self-signed certificate is.
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
        client.load_verify_locations(cadata=trusted.decode("ascii"))
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_certificate_chain(server, pair.certificate, pair.key)
        return _run_handshake(client, server)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise InvalidInput("certificate", f"cannot be used: {error}") from error


def _run_handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, Any]:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_end = client.wrap_bio(to_client, to_server)
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    # TLS 1.3 takes two iterations; TLS 1.2 takes three.
    for _ in range(4):
        for side in (client_end, server_end):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    certificate: dict[str, Any] | None = client_end.getpeercert()
    if not certificate:
        raise ValueError("the TLS handshake did not complete")
    return certificate


class ServingCertificate(msgspec.Struct, frozen=True):
    """A certificate to serve, and its CA bundle as PEM, which is empty if it is not known."""

    pair: KeyPair
    bundle: bytes


class CertificateSource(Protocol):
    """Files, or a Secret, checked every `interval` seconds; `problem` is the present one."""

    problem: str

    @property
    def interval(self) -> float:
        """Seconds from one check to the next."""

    def may_have_changed(self, *, is_serving: bool) -> bool:
        """Whether it is worth while to read it again; this costs little."""

    async def read_if_changed(self, *, is_serving: bool) -> ServingCertificate | None:
        """The certificate, if it is new. Invalid content is a `problem`, and raises nothing."""
