"""Certificate authorities, and the certificates that they sign.

One authority signs servers and clients. A second one signs only the aggregation layer's front proxy:
the holder of its certificate may impersonate any user, so the two must never be the same.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Self

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Backdated, so that a test which turns the clock back does not make them invalid.
BACKDATED = datetime.timedelta(days=1)
LIFETIME = datetime.timedelta(days=30)


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def save(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write both; only this user may read the key."""
        certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return certificate, key


class Authority:
    """A certificate authority with P-256 keys: they are made in microseconds, RSA's take a second."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def new(cls, name: str) -> Self:
        """A self-signed authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name, ())
        builder = _builder(subject, subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return cls(builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> Self:
        """The authority that was saved in these two."""
        private = serialization.load_pem_private_key(key, password=None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)  # noqa: S101 - we never make another kind
        return cls(x509.load_pem_x509_certificate(certificate), private)

    @property
    def pair(self) -> Pair:
        """The authority's own certificate and key."""
        return Pair(_encode_certificate(self._certificate), _encode_key(self._key))

    def issue_client(self, user: str, *groups: str) -> Pair:
        """Kubernetes reads the user from the common name and the groups from the organizations."""
        return self._sign(_subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def issue_server(self, name: str, *hosts: str) -> Pair:
        """A certificate for a server that is reached under these names and addresses."""
        return self._sign(_subject(name, ()), ExtendedKeyUsageOID.SERVER_AUTH, hosts)

    def _sign(self, subject: x509.Name, purpose: x509.ObjectIdentifier, hosts: tuple[str, ...]) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._certificate.subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(map(_encode_host, hosts)), critical=False)
        return Pair(_encode_certificate(builder.sign(self._key, hashes.SHA256())), _encode_key(key))


def signing_keys() -> tuple[bytes, bytes]:
    """The public and the private key that service account tokens are checked and signed with."""
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form), _encode_key(key)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - BACKDATED).not_valid_after(now + LIFETIME)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str, groups: tuple[str, ...]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _encode_host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _encode_certificate(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
