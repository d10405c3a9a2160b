"""Renews certificates, and the authority that signs them.

An authority of our own signs the serving certificate. Both are P-256: a key takes microseconds to make, and every
client of the last decade supports it. At two thirds of its life each of them is replaced:

- A serving certificate is signed again.
- An authority gets a successor beside it, and both are in the bundle that the API server trusts. The successor signs
  only after a while, when that bundle has reached every API server. The old one stays in the bundle until it expires,
  for replicas that still serve what it signed. Its key is dropped at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from trellis.base.errors import InvalidInput
from trellis.controllers.admission.certificates.key_pairs import (
    BACKDATED,
    KeyPair,
    PresentedCertificate,
    examine_pair,
    find_trust_problem,
    normalize_host,
    read_validity,
)

# From when an authority is in the bundle until it signs: a bundle is written at once and watched by API servers, and a
# replica that is restarting meanwhile has had time to come back.
PROPAGATION_SECONDS: Final = 900.0
_RENEWAL_SHARE: Final = 2 / 3


class SharedCertificates(msgspec.Struct, frozen=True):
    """What replicas share: authorities as PEM, newest first, the key of the newest, and the serving certificate."""

    authorities: tuple[bytes, ...]
    authority_key: bytes
    serving: KeyPair

    @property
    def bundle(self) -> bytes:
        """All authorities, as the CA bundle of clients."""
        return b"".join(self.authorities)

    @property
    def signer(self) -> KeyPair:
        """The authority that signs from now on."""
        return KeyPair(self.authorities[0], self.authority_key)


class CertificateLifetimes(msgspec.Struct, frozen=True):
    """The lifetimes of new certificates, in seconds."""

    authority: float
    serving: float


def renew_certificates(
    shared: SharedCertificates | None, hosts: Iterable[str], now: float, lifetimes: CertificateLifetimes
) -> tuple[SharedCertificates, tuple[str, ...]]:
    """The certificates to use from now on, and which of them are new, each as a word."""
    host_names = frozenset(map(normalize_host, hosts))
    newest = read_validity(shared.authorities[0]) if shared and shared.authorities else None
    if shared is None or newest is None or now >= newest.ends:
        # Without a valid authority there is no overlap with a successor.
        return _create_certificates(host_names, now, lifetimes)
    shared = msgspec.structs.replace(shared, authorities=_drop_expired(shared.authorities, now))
    renewed: list[str] = []
    presented = _examine_serving(shared.serving)
    if _needs_renewal(shared, presented, host_names, now):
        from trellis.controllers.admission.certificates.signing import find_signer_problem, sign  # noqa: PLC0415 - 10 MB

        if find_signer_problem(shared.signer):
            return _create_certificates(host_names, now, lifetimes)
        # With the previous names, too, so that replicas with different settings do not renew it in turn.
        names = host_names | (presented.hosts if presented else frozenset())
        shared = msgspec.structs.replace(shared, serving=sign(shared.signer, names, now, lifetimes.serving))
        renewed.append("certificate")
    if newest.elapsed_share(now) >= _RENEWAL_SHARE:
        # Last: a certificate that is due is signed by the authority that is trusted already.
        shared = _add_successor(shared, now, lifetimes)
        renewed.append("authority")
    return shared, tuple(renewed)


def _create_certificates(
    hosts: frozenset[str], now: float, lifetimes: CertificateLifetimes
) -> tuple[SharedCertificates, tuple[str, ...]]:
    from trellis.controllers.admission.certificates.signing import make_authority, sign  # noqa: PLC0415 - 10 MB

    authority = make_authority(now, lifetimes.authority)
    serving = sign(authority, hosts, now, lifetimes.serving)
    return SharedCertificates((authority.certificate,), authority.key, serving), ("authority", "certificate")


def _add_successor(shared: SharedCertificates, now: float, lifetimes: CertificateLifetimes) -> SharedCertificates:
    from trellis.controllers.admission.certificates.signing import make_authority  # noqa: PLC0415 - 10 MB

    authority = make_authority(now, lifetimes.authority)
    return SharedCertificates((authority.certificate, *shared.authorities), authority.key, shared.serving)


def _drop_expired(authorities: tuple[bytes, ...], now: float) -> tuple[bytes, ...]:
    ends = ((authority, read_validity(authority)) for authority in authorities[1:])
    return (authorities[0], *(authority for authority, validity in ends if validity and now < validity.ends))


def _examine_serving(serving: KeyPair) -> PresentedCertificate | None:
    try:
        return examine_pair(serving)
    except InvalidInput:
        return None


def _needs_renewal(
    shared: SharedCertificates, presented: PresentedCertificate | None, host_names: frozenset[str], now: float
) -> bool:
    if presented is None or not host_names <= presented.hosts or now >= presented.validity.ends:
        return True
    if find_trust_problem(shared.serving, shared.bundle) is not None:
        return True
    if not _is_propagated(shared, now):
        return False
    return (
        presented.validity.elapsed_share(now) >= _RENEWAL_SHARE
        or find_trust_problem(shared.serving, shared.authorities[0]) is not None
    )


def _is_propagated(shared: SharedCertificates, now: float) -> bool:
    """Whether every API server trusts the newest authority by now."""
    validity = read_validity(shared.authorities[0])
    return len(shared.authorities) == 1 or validity is None or now >= validity.begins + BACKDATED + PROPAGATION_SECONDS
