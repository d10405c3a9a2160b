"""Records of Leases: their content, the writer that updates them, and an observer of other components' Leases.

The fields and their changes are client-go's (`leaderelection`, `resourcelock`): taking a lease counts a transition
and sets `acquireTime`, renewing sets `renewTime` alone, releasing it empties the holder and shortens the duration to
a second.

Our roles grant `patch` on Leases and upstream's grant `update`, so the writer falls back: where the patch is
forbidden, it reads the Lease, replaces its record, leaves the rest as it is, and does so from then on.

The observer serves components that yield to another one while it runs. As in an election, no clock is compared with
the times in the record: a holder is gone once the record has been observed unchanged for its duration.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import msgspec

from trellis.api.kube.coordination import Lease, LeaseSpec
from trellis.base.errors import Conflict, Forbidden, KubeError, NotFound, UnreadableObject
from trellis.base.times import convert_to_utc, format_micro_time
from trellis.kube.client import Client
from trellis.kube.resources import LEASES
from trellis.kube.transport.requests import build_get
from trellis.kube.write.actions import PatchObject, ReplaceObject, Target
from trellis.kube.write.outcomes import Result, WriteOutcome, build_outcome
from trellis.kube.write.patches import merge_patch
from trellis.kube.write.writer import Writer


class LeaseObservation(msgspec.Struct, frozen=True):
    """A record as a candidate observed it; `since` is the first time it did, on its own clock."""

    spec: LeaseSpec
    resource_version: str
    since: float


def observe_lease(previous: LeaseObservation | None, lease: Lease, now: float) -> LeaseObservation:
    """The new observation: only a changed record restarts the wait, not another label on the Lease."""
    unchanged = previous is not None and previous.spec == lease.spec
    since = previous.since if previous is not None and unchanged else now
    return LeaseObservation(lease.spec, lease.metadata.resource_version, since)


def expires_at(observation: LeaseObservation, duration: float) -> float:
    """When the lease expires. The holder's own duration counts: it renews by that, not by ours."""
    if not observation.spec.holder_identity:
        return observation.since
    return observation.since + (observation.spec.lease_duration_seconds or duration)


def acquired_record(old: LeaseSpec | None, identity: str, duration: float, now: datetime) -> LeaseSpec:
    """The record of a new leader."""
    transitions = 0 if old is None else old.lease_transitions + 1
    return LeaseSpec(identity, math.ceil(duration), convert_to_utc(now), convert_to_utc(now), transitions)


def renewed_record(old: LeaseSpec, now: datetime) -> LeaseSpec:
    """The record of a renewal."""
    return msgspec.structs.replace(old, renew_time=convert_to_utc(now))


def released_record(old: LeaseSpec, now: datetime) -> LeaseSpec:
    """A record without a holder: the next candidate that reads it may take the lease."""
    return LeaseSpec("", 1, convert_to_utc(now), convert_to_utc(now), old.lease_transitions)


def record_document(spec: LeaseSpec) -> dict[str, Any]:
    """The record on the wire. Go requires all six places of a `MicroTime`; no holder is null, not empty."""
    return {
        "holderIdentity": spec.holder_identity or None,
        "leaseDurationSeconds": spec.lease_duration_seconds,
        "acquireTime": spec.acquire_time and format_micro_time(spec.acquire_time),
        "renewTime": spec.renew_time and format_micro_time(spec.renew_time),
        "leaseTransitions": spec.lease_transitions,
    }


class LeaseWriter:
    """Writes records into Leases, by patch or, where that is forbidden, by update."""

    def __init__(self, client: Client, writer: Writer) -> None:
        self._client = client
        self._writer = writer
        self._uses_replace = False

    async def write(
        self, target: Target, record: Mapping[str, Any], metadata: Mapping[str, Any] = MappingProxyType({})
    ) -> WriteOutcome:
        """Set these fields of the record, on condition that the Lease is the one that the target describes.

        Labels and annotations of `metadata` are added to those of the Lease.
        """
        outcome = await self._attempt(target, record, metadata)
        self._writer.record(outcome)
        return outcome

    async def _attempt(self, target: Target, record: Mapping[str, Any], metadata: Mapping[str, Any]) -> WriteOutcome:
        if not self._uses_replace:
            changes = {"spec": record} | ({"metadata": metadata} if metadata else {})
            outcome = await self._writer.write_unrecorded(PatchObject(target, merge_patch(changes)))
            if outcome.result is not Result.FORBIDDEN:
                return outcome
        outcome = await self._replace(target, record, metadata)
        # If both are forbidden, neither is preferred: a server that has just started forbids everything.
        self._uses_replace = outcome.result is not Result.FORBIDDEN
        return outcome

    async def _replace(self, target: Target, record: Mapping[str, Any], metadata: Mapping[str, Any]) -> WriteOutcome:
        action = ReplaceObject(target, {})
        try:
            response = await self._client.send(build_get(target.resource, target.name, target.namespace))
            document: dict[str, Any] = msgspec.json.decode(response.body, type=dict[str, Any])
        except KubeError as error:
            return build_outcome(action, error)
        version = document.get("metadata", {}).get("resourceVersion", "")
        if target.resource_version and version != target.resource_version:
            message = f"the resource version is {version}, no longer {target.resource_version}"
            return build_outcome(action, Conflict(409, "Conflict", message))
        document["spec"] = {**document.get("spec", {}), **record}
        for field, values in metadata.items():
            document["metadata"][field] = {**document["metadata"].get(field, {}), **values}
        return await self._writer.write_unrecorded(ReplaceObject(target, document))


# A record without a duration counts for as long as Kubernetes' own leases last.
_DURATION: Final = 15.0
# Candidates retry every 2 s, extended up to 2.2 times: a lease that is free for longer has no candidate.
_GRACE_SECONDS: Final = 5.0


class LeaseObserver:
    """Observes one Lease. `is_held` is None until the first response; `last_error` is the error of the last read."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.is_held: bool | None = None
        self.last_error = ""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._observed: LeaseObservation | None = None
        self._free_since: float | None = None

    async def poll(self) -> None:
        """Read the record. If the read fails, the last observation stands until its record expires."""
        clock = asyncio.get_running_loop().time
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            self._observed, self.last_error = None, ""
            self._update_held(is_free=True)
            return
        except Forbidden as error:
            # Without the right to read the Lease, the other writer may run: do not write beside it.
            self.last_error = str(error)
            self._update_held(is_free=False)
            return
        except (KubeError, UnreadableObject) as error:
            self.last_error = str(error)
            return
        self._observed = observe_lease(self._observed, lease, clock())
        self.last_error = ""
        self._update_held(is_free=clock() >= expires_at(self._observed, _DURATION))

    def _update_held(self, *, is_free: bool) -> None:
        """A lease that has just become free may be taken by the next candidate at any moment."""
        now = asyncio.get_running_loop().time()
        if not is_free:
            self._free_since, self.is_held = None, True
            return
        self._free_since = now if self._free_since is None else self._free_since
        if now - self._free_since >= _GRACE_SECONDS:
            self.is_held = False
