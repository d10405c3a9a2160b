"""When is a certificate of our own renewed, and which authority signs it?

An authority of our own signs what the webhook shows. Both are P-256: a key takes microseconds to make, and every client
of the last decade takes it. At two thirds of its life each of them is followed by the next:

- A serving certificate is signed anew.
- An authority gets a successor beside it, and both are in the bundle that the API server trusts. Only after a while,
  when that bundle has reached every API server, does the successor sign. The old one stays in the bundle to its end,
  for replicas that still show what it signed. Its key is forgotten at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from trellis.base.errors import InvalidInput
from trellis.controllers.admission.pairs import (
    BACKDATED,
    Pair,
    Shown,
    examine,
    plain_host,
    validity_of,
    why_not_vouched,
)

# From when an authority is in the bundle until it signs: a bundle is written at once and watched by API servers, and a
# replica that is restarting meanwhile has had time to come back.
SETTLING: Final = 900.0
_DUE: Final = 2 / 3


class Kept(msgspec.Struct, frozen=True):
    """What replicas share: authorities as PEM, newest first, the key of the newest, and what is shown."""

    authorities: tuple[bytes, ...]
    authority_key: bytes
    serving: Pair

    @property
    def bundle(self) -> bytes:
        """Whom to trust."""
        return b"".join(self.authorities)

    @property
    def signer(self) -> Pair:
        """The authority that signs from now on."""
        return Pair(self.authorities[0], self.authority_key)


class Lifetimes(msgspec.Struct, frozen=True):
    """Seconds."""

    authority: float
    serving: float


def upkept(kept: Kept | None, hosts: Iterable[str], now: float, lifetimes: Lifetimes) -> tuple[Kept, tuple[str, ...]]:
    """What should be kept from now on, and a word for each thing that was made anew; none if nothing was."""
    wanted = frozenset(map(plain_host, hosts))
    newest = validity_of(kept.authorities[0]) if kept and kept.authorities else None
    if kept is None or newest is None or now >= newest.ends:
        # Nothing is left that a successor could stand beside.
        return _begun(wanted, now, lifetimes)
    kept = msgspec.structs.replace(kept, authorities=_living(kept.authorities, now))
    done: list[str] = []
    shown = _shown(kept.serving)
    if _is_due(kept, shown, wanted, now):
        from trellis.controllers.admission.signing import sign, why_not_signer  # noqa: PLC0415 - 10 MB

        if why_not_signer(kept.signer):
            return _begun(wanted, now, lifetimes)
        # For the names of before, too: a replica with other settings shall not want another one in turn.
        names = wanted | (shown.hosts if shown else frozenset())
        kept = msgspec.structs.replace(kept, serving=sign(kept.signer, names, now, lifetimes.serving))
        done.append("certificate")
    if newest.share_gone(now) >= _DUE:
        # Last of all: whatever had to be signed was signed by the one that is trusted already.
        kept = _with_successor(kept, now, lifetimes)
        done.append("authority")
    return kept, tuple(done)


def _begun(hosts: frozenset[str], now: float, lifetimes: Lifetimes) -> tuple[Kept, tuple[str, ...]]:
    from trellis.controllers.admission.signing import make_authority, sign  # noqa: PLC0415 - 10 MB

    authority = make_authority(now, lifetimes.authority)
    serving = sign(authority, hosts, now, lifetimes.serving)
    return Kept((authority.certificate,), authority.key, serving), ("authority", "certificate")


def _with_successor(kept: Kept, now: float, lifetimes: Lifetimes) -> Kept:
    from trellis.controllers.admission.signing import make_authority  # noqa: PLC0415 - 10 MB

    authority = make_authority(now, lifetimes.authority)
    return Kept((authority.certificate, *kept.authorities), authority.key, kept.serving)


def _living(authorities: tuple[bytes, ...], now: float) -> tuple[bytes, ...]:
    ends = ((each, validity_of(each)) for each in authorities[1:])
    return (authorities[0], *(each for each, validity in ends if validity and now < validity.ends))


def _shown(serving: Pair) -> Shown | None:
    try:
        return examine(serving)
    except InvalidInput:
        return None


def _is_due(kept: Kept, shown: Shown | None, wanted: frozenset[str], now: float) -> bool:
    if shown is None or not wanted <= shown.hosts or now >= shown.validity.ends:
        return True
    if why_not_vouched(kept.serving, kept.bundle) is not None:
        return True
    if not _is_settled(kept, now):
        return False
    return shown.validity.share_gone(now) >= _DUE or why_not_vouched(kept.serving, kept.authorities[0]) is not None


def _is_settled(kept: Kept, now: float) -> bool:
    """Whether every API server trusts the newest authority by now."""
    validity = validity_of(kept.authorities[0])
    return len(kept.authorities) == 1 or validity is None or now >= validity.begins + BACKDATED + SETTLING
