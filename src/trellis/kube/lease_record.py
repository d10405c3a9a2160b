"""What a Lease's record says, and what a candidate writes into it. Pure: times are arguments.

The fields and what becomes of them are client-go's (`leaderelection`, `resourcelock`): taking a lease counts a
transition and sets `acquireTime`, renewing sets `renewTime` alone, giving it back empties the holder and shortens the
duration to a second.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import msgspec

from trellis.api.kube.coordination import Lease, LeaseSpec
from trellis.base.times import format_micro_time, in_utc


class Seen(msgspec.Struct, frozen=True):
    """A record as a candidate saw it; `since` is when it first saw it so, on its own clock."""

    spec: LeaseSpec
    resource_version: str
    since: float


def look(seen: Seen | None, lease: Lease, now: float) -> Seen:
    """What was seen, brought up to date: only another record starts the wait anew, not another label on the Lease."""
    unchanged = seen is not None and seen.spec == lease.spec
    since = seen.since if seen is not None and unchanged else now
    return Seen(lease.spec, lease.metadata.resource_version, since)


def free_at(seen: Seen, duration: float) -> float:
    """From when on the lease may be taken. The holder's own duration counts: it renews by that, not by ours."""
    if not seen.spec.holder_identity:
        return seen.since
    return seen.since + (seen.spec.lease_duration_seconds or duration)


def taken(old: LeaseSpec | None, identity: str, duration: float, now: datetime) -> LeaseSpec:
    """The record of a new leader."""
    transitions = 0 if old is None else old.lease_transitions + 1
    return LeaseSpec(identity, math.ceil(duration), in_utc(now), in_utc(now), transitions)


def renewed(old: LeaseSpec, now: datetime) -> LeaseSpec:
    """The record of a leader that goes on."""
    return msgspec.structs.replace(old, renew_time=in_utc(now))


def released(old: LeaseSpec, now: datetime) -> LeaseSpec:
    """The record of nobody: the next candidate that looks may take it."""
    return LeaseSpec("", 1, in_utc(now), in_utc(now), old.lease_transitions)


def document(spec: LeaseSpec) -> dict[str, Any]:
    """The record on the wire. Go wants all six places of a `MicroTime`, and no holder is null, not empty."""
    return {
        "holderIdentity": spec.holder_identity or None,
        "leaseDurationSeconds": spec.lease_duration_seconds,
        "acquireTime": spec.acquire_time and format_micro_time(spec.acquire_time),
        "renewTime": spec.renew_time and format_micro_time(spec.renew_time),
        "leaseTransitions": spec.lease_transitions,
    }
