"""Looks up scale subresources: the kind that a target reference means, and the scale of the target, cached.

Kind: the group and version as written come first, then the group in any version, the preferred one before others. If
the kind is not there, or no `apiVersion` is written, any group counts that has the kind with a scale, as long as it
is the only one; Trellis does not guess between two.

Scale: for targets of kinds that Trellis does not know, the scale has the selector of their pods. Well-known kinds are
watched and never looked up here. Only `get` of `*/scale` and discovery are needed, and nothing is written. An answer
is valid for five to ten minutes, spread so that targets looked up together do not expire together. A problem is valid
for one minute: a missing target may have been created, and a right granted. While the server does not answer, its
last answer stays valid.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from trellis.api.kube.scaling import Scale
from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.base.names import suggest_name
from trellis.core.cluster.owners import ScaleInfo, TargetRef, describe_missing
from trellis.core.cluster.target_problems import (
    TARGET_FORBIDDEN,
    TARGET_KIND_NOT_SERVED,
    TARGET_NOT_FOUND,
    TARGET_NOT_SCALABLE,
    TARGET_UNREACHABLE,
    TargetProblem,
    build_target_problem,
    classify_error,
)
from trellis.kube.client import Client
from trellis.kube.discovery import Served, ServedKind
from trellis.kube.flow_control import Draw
from trellis.kube.lru_map import LruMap
from trellis.kube.resources import Resource

_SCALE = "scale"


class LookupTimes(msgspec.Struct, frozen=True):
    """Seconds for which an answer is good at most, and a problem always."""

    fresh: float = 600.0
    retry: float = 60.0


class ScaleReading(msgspec.Struct, frozen=True):
    """What the scale of an object says, and the resource that the object is one of."""

    resource: Resource[Any]
    scale: Scale


class ScalableKinds:
    """The kinds that the server has; discovery runs again when a kind is missing that may just have been installed."""

    def __init__(self, client: Client, times: LookupTimes) -> None:
        self._client = client
        self._times = times
        self._lock = asyncio.Lock()
        self._served = Served()
        self._failure: TargetProblem | None = None
        self._discovered_at = -math.inf
        self._is_outdated = False

    async def find(self, target: TargetRef) -> ServedKind | TargetProblem:
        """The kind to ask for a scale, or why there is none. A kind found once stays while discovery fails."""
        async with self._lock:
            scalable = find_scalable(self._served, target)
            is_fresh = not self._is_outdated and not isinstance(scalable, TargetProblem)
            patience = self._times.fresh if is_fresh else self._times.retry
            if asyncio.get_running_loop().time() - self._discovered_at >= patience:
                await self._discover()
                scalable = find_scalable(self._served, target)
            return (self._failure or scalable) if isinstance(scalable, TargetProblem) else scalable

    async def read(self, target: TargetRef) -> ScaleReading | TargetProblem:
        """What the scale of a target says now. Raises what the API server says of a kind that has one."""
        kind = await self.find(target)
        if isinstance(kind, TargetProblem):
            return kind
        # By its metadata alone a scale would have neither count nor selector.
        resource = msgspec.structs.replace(kind.resource, metadata_only=False)
        try:
            return ScaleReading(resource, await self._client.get_scale(resource, target.name, target.namespace))
        except NotFound:
            # Its kind may be served in another version by now, or no longer.
            self._is_outdated = True
            raise

    async def _discover(self) -> None:
        self._failure = None
        self._is_outdated = False
        try:
            self._served = await self._client.discover()
        except (KubeError, UnreadableObject) as error:
            self._failure = build_target_problem(classify_error(error), f"discovery of the API server: {error}")
        # After the answer: one that took a minute to fail would else be asked for again by the next target in line.
        self._discovered_at = asyncio.get_running_loop().time()


def find_scalable(served: Served, target: TargetRef) -> ServedKind | TargetProblem:
    """The kind to ask for a scale, or why there is none."""
    group, _, version = target.api_version.rpartition("/")
    named = [served_kind for served_kind in served.kinds if served_kind.kind == target.kind]
    in_group = [served_kind for served_kind in named if served_kind.group == group] if target.api_version else []
    candidates = sorted(in_group, key=lambda served_kind: served_kind.version != version) or named
    scalable = [
        served_kind for served_kind in candidates if served_kind.namespaced and _SCALE in served_kind.subresources
    ]
    groups = sorted({served_kind.group for served_kind in scalable})
    if len(groups) > 1:
        why = f"{target.kind} is served by the groups {' and '.join(groups)}: set the apiVersion of the target"
        return build_target_problem(TARGET_KIND_NOT_SERVED, why)
    return scalable[0] if scalable else _describe_unscalable(served, target, candidates)


def _describe_unscalable(served: Served, target: TargetRef, candidates: Sequence[ServedKind]) -> TargetProblem:
    if candidates:
        names = ", ".join(sorted({served_kind.resource.full_name for served_kind in candidates}))
        return build_target_problem(
            TARGET_NOT_SCALABLE, f"{names} is neither a well-known controller nor has a scale subresource"
        )
    kind = f"{target.kind} in {target.api_version}" if target.api_version else target.kind
    if served.stale:
        why = f"the kind {kind} is unknown, and the API servers of {', '.join(served.stale)} do not answer"
        return build_target_problem(TARGET_UNREACHABLE, why)
    meant = suggest_name(
        target.kind, sorted({served_kind.kind for served_kind in served.kinds if _SCALE in served_kind.subresources})
    )
    hint = f" (did you mean {meant}?)" if meant else ""
    return build_target_problem(TARGET_KIND_NOT_SERVED, f"the cluster does not serve the kind {kind}{hint}")


# Targets remembered, at less than a kilobyte each.
_MAX_ENTRIES: Final = 50_000
# Concurrent requests: a small part of what an API server lets one client have in flight.
_MAX_CONCURRENT: Final = 16


class ScaleLookups:
    """Scales by target. Never raises for what the server says: a problem is an answer too."""

    def __init__(
        self,
        client: Client,
        *,
        draw: Draw,
        times: LookupTimes = LookupTimes(),  # noqa: B008 - frozen
        capacity: int = _MAX_ENTRIES,
    ) -> None:
        self._draw = draw
        self._times = times
        self._entries: LruMap[TargetRef, _Entry] = LruMap(capacity)
        self._kinds = ScalableKinds(client, times)
        self._requests = asyncio.Semaphore(_MAX_CONCURRENT)

    async def find_all(self, targets: Collection[TargetRef]) -> dict[TargetRef, ScaleInfo]:
        """The scales of several targets; cached ones cost no request."""
        now = _clock()
        cached = {target: self._entry(target).get_fresh(now) for target in targets}
        unknown = [target for target, info in cached.items() if info is None]
        found = dict(zip(unknown, await asyncio.gather(*map(self.find, unknown)), strict=True))
        return found | {target: info for target, info in cached.items() if info is not None}

    async def find(self, target: TargetRef) -> ScaleInfo:
        """The scale of one target. Concurrent calls for the same target share one request."""
        entry = self._entry(target)
        async with entry.lock:
            info = entry.get_fresh(_clock())
            if info is None:
                response = await self._request_scale(target)
                # Half of the time at least, so that a thousand answers of one second do not end in one second.
                fresh = self._times.fresh * (1 - self._draw() / 2)
                info = entry.update(response, _clock() + (self._times.retry if response.problem else fresh))
            return info

    def _entry(self, target: TargetRef) -> _Entry:
        return self._entries.get(target, _Entry)

    async def _request_scale(self, target: TargetRef) -> ScaleInfo:
        async with self._requests:
            try:
                target_scale = await self._kinds.read(target)
            except (KubeError, UnreadableObject) as error:
                return ScaleInfo(problem=_problem(target, error))
        if isinstance(target_scale, TargetProblem):
            return ScaleInfo(problem=target_scale)
        return ScaleInfo(target_scale.scale.status.selector, target_scale.scale.metadata.controller)


class _Entry:
    """What is known of one target, and the lock that makes one request of many."""

    __slots__ = ("_info", "_until", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self._info = ScaleInfo()
        self._until = -math.inf

    def get_fresh(self, now: float) -> ScaleInfo | None:
        """What is known, until it expires."""
        return self._info if now < self._until else None

    def update(self, info: ScaleInfo, until: float) -> ScaleInfo:
        """Store an answer. One that only says that the server is unreachable does not replace a good one."""
        was_good = math.isfinite(self._until) and self._info.problem is None
        if not (was_good and info.problem is not None and info.problem.reason is TARGET_UNREACHABLE):
            self._info = info
        self._until = until
        return self._info


def _problem(target: TargetRef, error: KubeError | UnreadableObject) -> TargetProblem:
    reason = classify_error(error)
    if reason is TARGET_NOT_FOUND:
        return build_target_problem(reason, describe_missing(target))
    refused = " is forbidden by RBAC" if reason is TARGET_FORBIDDEN else ""
    return build_target_problem(reason, f"the scale subresource of {target}{refused}: {error}")


def _clock() -> float:
    return asyncio.get_running_loop().time()
