"""Which resource is meant by an `apiVersion` and a `kind` that somebody wrote, and does it have a scale?

The group and version as written come first, then the group in any version, the preferred one before others. If the kind
is not there, or no `apiVersion` is written, any group will do that has the kind with a scale, as long as it is the only
one: which of two was meant is not for us to guess.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from trellis.api.kube.scaling import Scale
from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.base.names import nearest
from trellis.core.model.owners import TargetRef
from trellis.core.model.target_problems import (
    TARGET_KIND_NOT_SERVED,
    TARGET_NOT_SCALABLE,
    TARGET_UNREACHABLE,
    TargetProblem,
    reason_of,
    unread,
)
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.kube.served import Served, ServedKind

_SCALE = "scale"


class LookupTimes(msgspec.Struct, frozen=True):
    """Seconds for which an answer is good at most, and a problem always."""

    fresh: float = 600.0
    retry: float = 60.0


class FoundScale(msgspec.Struct, frozen=True):
    """What the scale of an object says, and the resource that the object is one of."""

    resource: Resource[Any]
    scale: Scale


class ScalableKinds:
    """What the server has, asked for again when a kind is missing that may just have been installed."""

    def __init__(self, client: Client, times: LookupTimes) -> None:
        self._client = client
        self._times = times
        self._lock = asyncio.Lock()
        self._served = Served()
        self._failure: TargetProblem | None = None
        self._asked_at = -math.inf
        self._doubted = False

    async def find(self, target: TargetRef) -> ServedKind | TargetProblem:
        """The kind to ask for a scale, or why there is none. A kind found once stays while discovery fails."""
        async with self._lock:
            found = find_scalable(self._served, target)
            is_fresh = not self._doubted and not isinstance(found, TargetProblem)
            patience = self._times.fresh if is_fresh else self._times.retry
            if asyncio.get_running_loop().time() - self._asked_at >= patience:
                await self._discover()
                found = find_scalable(self._served, target)
            return (self._failure or found) if isinstance(found, TargetProblem) else found

    async def read(self, target: TargetRef) -> FoundScale | TargetProblem:
        """What the scale of a target says now. Raises what the API server says of a kind that has one."""
        kind = await self.find(target)
        if isinstance(kind, TargetProblem):
            return kind
        # By its metadata alone a scale would have neither count nor selector.
        resource = msgspec.structs.replace(kind.resource, metadata_only=False)
        try:
            return FoundScale(resource, await self._client.get_scale(resource, target.name, target.namespace))
        except NotFound:
            # Its kind may be served in another version by now, or no longer.
            self._doubted = True
            raise

    async def _discover(self) -> None:
        self._failure = None
        self._doubted = False
        try:
            self._served = await self._client.discover()
        except (KubeError, UnreadableObject) as error:
            self._failure = unread(reason_of(error), f"the kinds that the cluster serves: {error}")
        # After the answer: one that took a minute to fail would else be asked for again by the next target in line.
        self._asked_at = asyncio.get_running_loop().time()


def find_scalable(served: Served, target: TargetRef) -> ServedKind | TargetProblem:
    """The kind to ask for a scale, or why there is none."""
    group, _, version = target.api_version.rpartition("/")
    named = [each for each in served.kinds if each.kind == target.kind]
    in_group = [each for each in named if each.group == group] if target.api_version else []
    candidates = sorted(in_group, key=lambda each: each.version != version) or named
    scalable = [each for each in candidates if each.namespaced and _SCALE in each.subresources]
    groups = sorted({each.group for each in scalable})
    if len(groups) > 1:
        why = f"{target.kind} is a kind of {' and of '.join(groups)}: write the apiVersion that is meant"
        return unread(TARGET_KIND_NOT_SERVED, why)
    return scalable[0] if scalable else _why_not(served, target, candidates)


def _why_not(served: Served, target: TargetRef, candidates: Sequence[ServedKind]) -> TargetProblem:
    if candidates:
        what = ", ".join(sorted({each.resource.full_name for each in candidates}))
        return unread(TARGET_NOT_SCALABLE, f"{what} is neither a well-known controller nor has a scale sub-resource")
    kind = f"{target.kind} in {target.api_version}" if target.api_version else target.kind
    if served.stale:
        why = f"no kind {kind} is known, and the servers of {', '.join(served.stale)} do not answer"
        return unread(TARGET_UNREACHABLE, why)
    meant = nearest(target.kind, sorted({each.kind for each in served.kinds if _SCALE in each.subresources}))
    hint = f" (did you mean {meant}?)" if meant else ""
    return unread(TARGET_KIND_NOT_SERVED, f"the cluster has no kind {kind}{hint}")
