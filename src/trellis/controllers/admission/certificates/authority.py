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
    plain_host,
    validity_of,
    why_untrusted,
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
    wanted_hosts = frozenset(map(plain_host, hosts))
    newest = validity_of(shared.authorities[0]) if shared and shared.authorities else None
    if shared is None or newest is None or now >= newest.ends:
        # Without a valid authority there is no overlap with a successor.
        return _create_certificates(wanted_hosts, now, lifetimes)
    shared = msgspec.structs.replace(shared, authorities=_unexpired(shared.authorities, now))
    done: list[str] = []
    shown = _presented(shared.serving)
    if _is_due(shared, shown, wanted_hosts, now):
        from trellis.controllers.admission.certificates.signing import sign, why_not_signer  # noqa: PLC0415 - 10 MB

        if why_not_signer(shared.signer):
            return _create_certificates(wanted_hosts, now, lifetimes)
        # With the previous names, too, so that replicas with different settings do not renew it in turn.
        names = wanted_hosts | (shown.hosts if shown else frozenset())
        shared = msgspec.structs.replace(shared, serving=sign(shared.signer, names, now, lifetimes.serving))
        done.append("certificate")
    if newest.share_gone(now) >= _RENEWAL_SHARE:
        # Last: a certificate that is due is signed by the authority that is trusted already.
        shared = _add_successor(shared, now, lifetimes)
        done.append("authority")
    return shared, tuple(done)


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


def _unexpired(authorities: tuple[bytes, ...], now: float) -> tuple[bytes, ...]:
    ends = ((authority, validity_of(authority)) for authority in authorities[1:])
    return (authorities[0], *(authority for authority, validity in ends if validity and now < validity.ends))


def _presented(serving: KeyPair) -> PresentedCertificate | None:
    try:
        return examine_pair(serving)
    except InvalidInput:
        return None


def _is_due(
    shared: SharedCertificates, shown: PresentedCertificate | None, wanted_hosts: frozenset[str], now: float
) -> bool:
    if shown is None or not wanted_hosts <= shown.hosts or now >= shown.validity.ends:
        return True
    if why_untrusted(shared.serving, shared.bundle) is not None:
        return True
    if not _is_propagated(shared, now):
        return False
    return (
        shown.validity.share_gone(now) >= _RENEWAL_SHARE
        or why_untrusted(shared.serving, shared.authorities[0]) is not None
    )


def _is_propagated(shared: SharedCertificates, now: float) -> bool:
    """Whether every API server trusts the newest authority by now."""
    validity = validity_of(shared.authorities[0])
    return len(shared.authorities) == 1 or validity is None or now >= validity.begins + BACKDATED + PROPAGATION_SECONDS
