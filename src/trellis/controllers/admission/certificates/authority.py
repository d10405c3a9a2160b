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
    """What replicas share: authorities as PEM, newest first, the key of the newest, and what is shown."""

    authorities: tuple[bytes, ...]
    authority_key: bytes
    serving: KeyPair

    @property
    def bundle(self) -> bytes:
        """Whom to trust."""
        return b"".join(self.authorities)

    @property
    def signer(self) -> KeyPair:
        """The authority that signs from now on."""
        return KeyPair(self.authorities[0], self.authority_key)


class CertificateLifetimes(msgspec.Struct, frozen=True):
    """Seconds."""

    authority: float
    serving: float


def renew_certificates(
    kept: SharedCertificates | None, hosts: Iterable[str], now: float, lifetimes: CertificateLifetimes
) -> tuple[SharedCertificates, tuple[str, ...]]:
    """What should be kept from now on, and a word for each thing that was made anew; none if nothing was."""
    wanted = frozenset(map(plain_host, hosts))
    newest = validity_of(kept.authorities[0]) if kept and kept.authorities else None
    if kept is None or newest is None or now >= newest.ends:
        # Nothing is left that a successor could stand beside.
        return _create_certificates(wanted, now, lifetimes)
    kept = msgspec.structs.replace(kept, authorities=_unexpired(kept.authorities, now))
    done: list[str] = []
    shown = _presented(kept.serving)
    if _is_due(kept, shown, wanted, now):
        from trellis.controllers.admission.certificates.signing import sign, why_not_signer  # noqa: PLC0415 - 10 MB

        if why_not_signer(kept.signer):
            return _create_certificates(wanted, now, lifetimes)
        # For the names of before, too: a replica with other settings shall not want another one in turn.
        names = wanted | (shown.hosts if shown else frozenset())
        kept = msgspec.structs.replace(kept, serving=sign(kept.signer, names, now, lifetimes.serving))
        done.append("certificate")
    if newest.share_gone(now) >= _RENEWAL_SHARE:
        # Last of all: whatever had to be signed was signed by the one that is trusted already.
        kept = _add_successor(kept, now, lifetimes)
        done.append("authority")
    return kept, tuple(done)


def _create_certificates(
    hosts: frozenset[str], now: float, lifetimes: CertificateLifetimes
) -> tuple[SharedCertificates, tuple[str, ...]]:
    from trellis.controllers.admission.certificates.signing import make_authority, sign  # noqa: PLC0415 - 10 MB

    authority = make_authority(now, lifetimes.authority)
    serving = sign(authority, hosts, now, lifetimes.serving)
    return SharedCertificates((authority.certificate,), authority.key, serving), ("authority", "certificate")


def _add_successor(kept: SharedCertificates, now: float, lifetimes: CertificateLifetimes) -> SharedCertificates:
    from trellis.controllers.admission.certificates.signing import make_authority  # noqa: PLC0415 - 10 MB

    authority = make_authority(now, lifetimes.authority)
    return SharedCertificates((authority.certificate, *kept.authorities), authority.key, kept.serving)


def _unexpired(authorities: tuple[bytes, ...], now: float) -> tuple[bytes, ...]:
    ends = ((each, validity_of(each)) for each in authorities[1:])
    return (authorities[0], *(each for each, validity in ends if validity and now < validity.ends))


def _presented(serving: KeyPair) -> PresentedCertificate | None:
    try:
        return examine_pair(serving)
    except InvalidInput:
        return None


def _is_due(kept: SharedCertificates, shown: PresentedCertificate | None, wanted: frozenset[str], now: float) -> bool:
    if shown is None or not wanted <= shown.hosts or now >= shown.validity.ends:
        return True
    if why_untrusted(kept.serving, kept.bundle) is not None:
        return True
    if not _is_propagated(kept, now):
        return False
    return (
        shown.validity.share_gone(now) >= _RENEWAL_SHARE or why_untrusted(kept.serving, kept.authorities[0]) is not None
    )


def _is_propagated(kept: SharedCertificates, now: float) -> bool:
    """Whether every API server trusts the newest authority by now."""
    validity = validity_of(kept.authorities[0])
    return len(kept.authorities) == 1 or validity is None or now >= validity.begins + BACKDATED + PROPAGATION_SECONDS
