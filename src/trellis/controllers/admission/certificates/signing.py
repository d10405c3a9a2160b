"""Makes authorities and certificates with the package `cryptography`.

Import this module where a certificate is made and nowhere else: the package takes 10 MB, and a process that is given
its certificate never needs it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trellis.base.errors import InvalidInput
from trellis.controllers.admission.certificates.key_pairs import BACKDATED, KeyPair

# The longest common name that X.509 allows; clients do not read it any more.
_LONGEST_COMMON_NAME: Final = 64


def make_authority(now: float, lifetime: float) -> KeyPair:
    """An authority that vouches for itself. Its name says when it was made, so that two are never mixed up."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"trellis-admission-{datetime.fromtimestamp(now, UTC):%Y%m%d%H%M%S}")
    builder = _builder(name, name, key.public_key(), now, now + lifetime)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _pair(builder, key, key)


def sign(authority: KeyPair, hosts: Iterable[str], now: float, lifetime: float) -> KeyPair:
    """A certificate for a server of these names and addresses. It does not outlive its authority."""
    issuer, signer = _read(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    names = sorted(hosts)
    ends = min(now + lifetime, issuer.not_valid_after_utc.timestamp())
    subject = _name(min(names, key=len, default="")[:_LONGEST_COMMON_NAME])
    builder = _builder(subject, issuer.subject, key.public_key(), now, ends)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(identifier, critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([_host(name) for name in names]), critical=False)
    return _pair(builder, key, signer)


def find_signer_problem(authority: KeyPair) -> str | None:
    """The reason why this authority cannot sign; None if it can."""
    try:
        _read(authority)
    except InvalidInput as error:
        return error.rule
    return None


def _read(authority: KeyPair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(authority.certificate)
        key = serialization.load_pem_private_key(authority.key, password=None)
    except (ValueError, TypeError) as error:
        raise InvalidInput("authority", f"cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise InvalidInput("authority", "the key does not belong to the certificate")
    return certificate, key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: float, ends: float
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    begins = datetime.fromtimestamp(now - BACKDATED, UTC)
    return builder.not_valid_before(begins).not_valid_after(datetime.fromtimestamp(ends, UTC))


def _pair(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> KeyPair:
    key_format, encryption = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return KeyPair(certificate, key.private_bytes(serialization.Encoding.PEM, key_format, encryption))


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
